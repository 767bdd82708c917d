"""What was planned: why a method was chosen where the file left it open, and the load, its warm-up and its data."""

from pgtrial.findings.catalogue.base import Entry
from pgtrial.language import N_

METHOD_REASONS = {
    "method.blocks": Entry(text=N_("Blocks are always valid: one server at a time has the whole machine.")),
    "method.soak": Entry(text=N_("In a soak each arm has one server, and the whole machine, from beginning to end.")),
    "method.asked-for": Entry(text=N_("The file asks for it.")),
    "method.cheapest": Entry(text=N_("It is the cheapest method without objection here.")),
}


# Plain facts of the load. Their names stay English in findings.json.


# As findings have them, and translated where they are shown.
FACT_NAMES = (
    N_("postgres version"),
    N_("programs"),
    N_("found by"),
    N_("data directory"),
    N_("fio version"),
    N_("kind"),
    N_("scenarios"),
    N_("shares"),
    N_("clients"),
    N_("duration"),
    N_("warm-up"),
    N_("protocol"),
    N_("data"),
    N_("rate"),
    N_("latency limit"),
    N_("tries"),
    N_("command"),
    N_("unit of work"),
)

WORKLOAD = {
    "share.by-transactions": Entry(text=N_("by transactions")),
    "share.by-sessions": Entry(text=N_("by sessions")),
    "duration.per-level": Entry(text=N_("{time:duration} per load level")),
    "duration.plain": Entry(text="{time:duration}"),
    "warm-up.steady": Entry(text=N_("until steady")),
    "warm-up.capped": Entry(text=N_("until steady, at most {time:duration}")),
    "warm-up.none": Entry(text=N_("no warm-up")),
    "data.scale": Entry(text=N_("scale {scale:list}")),
    "data.warehouses": Entry(text=N_("tables like TPC-C's, warehouses: {scale:list}")),
    "data.set-up": Entry(text=N_("set-up SQL only")),
    "data.files": Entry(text=N_("files of {bytes:bytes}")),
    "rate.transactions": Entry(text=N_("{rates:list significant6} transactions per second")),
    "tries.at-most": Entry(text=N_("at most {number}")),
}
