"""What limits an arm by experiment, as data: an elasticity for each of its resources, and what is missing from one."""

from pgtrial.findings.message import Message
from pgtrial.findings.record import Estimate, Record


class LedgerEntry(Record):
    """``elasticity``: per cent of throughput for 1 % of the time that the resource takes, or that its limit makes wait.

    ``step``: how many times as long its time was made.
    """

    resource: str  # knob and key: "slowdown.cpu", "cgroup.write_iops"
    name: Message
    step: float
    elasticity: Estimate  # intervals of all resources hold together


class Ledger(Record):
    """Elasticities to all times of a closed system add up to 1; ``rest`` is what is missing, and has not been found."""

    of: str  # the arm that the file of the user has
    metric: str
    blocks: int
    confidence: float
    entries: tuple[LedgerEntry, ...]  # largest first
    memory: tuple[LedgerEntry, ...] = ()  # for 1 % more of it; no time, and so no part of the sum
    total: Estimate
    rest: Estimate
    leads: bool  # the first is surely larger than the second
    fits: bool  # throughput is a product of powers of the times, as far as the runs tell
    not_varied: tuple[Message, ...]
    text: Message
