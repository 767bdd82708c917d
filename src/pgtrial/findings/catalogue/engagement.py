"""Whether settings had something to act on: what it is that happens, what was seen of it, and what makes it happen.

Of each code of a knob's evidence (``Acts`` in knobs/declaration.py): "acts." is a noun for what the setting acts on,
"needs." a sentence that says how to have some of it.
"""

from pgtrial.findings.catalogue.base import Entry
from pgtrial.language import N_

_LESS_MEMORY = N_("Give the server less memory, by [target.cgroup] or [target.memory_pressure], or more data.")
_MORE_WRITES = N_("Let the load change more data, or measure longer.")

ACTS = {
    "acts.swap": Entry(text=N_("swapping")),
    "needs.swap": Entry(
        text=N_("Give the machine swap space, and less memory than the load wants, by [target.memory_pressure].")
    ),
    "acts.slabs": Entry(text=N_("reclaim of the kernel's caches")),
    "needs.slabs": Entry(text=_LESS_MEMORY),
    "acts.throttling": Entry(text=N_("dirty pages near the limit")),
    "needs.throttling": Entry(
        text=N_("Let the load dirty pages faster than the disk takes them, or lower the limits of all arms.")
    ),
    "acts.background-writing": Entry(text=N_("dirty pages near the limit for background writing")),
    "needs.background-writing": Entry(
        text=N_("Let the load dirty pages faster than they expire, or lower the limits of all arms.")
    ),
    "acts.write-back": Entry(text=N_("write-back of dirty pages")),
    "needs.write-back": Entry(text=_MORE_WRITES),
    "acts.reclaim": Entry(text=N_("reclaim of memory")),
    "needs.reclaim": Entry(text=_LESS_MEMORY),
    "acts.evictions": Entry(text=N_("blocks read into shared buffers for others")),
    "needs.evictions": Entry(text=N_("Take more data, or smaller caches in all arms.")),
    "acts.temporary-files": Entry(text=N_("temporary files")),
    "needs.temporary-files": Entry(
        text=N_("Take a load that sorts or hashes more than the least of the values holds.")
    ),
    "acts.timed-checkpoints": Entry(text=N_("checkpoints that were due")),
    "needs.timed-checkpoints": Entry(text=N_("Measure longer than the time between checkpoints.")),
    "acts.requested-checkpoints": Entry(text=N_("checkpoints because of much WAL")),
    "needs.requested-checkpoints": Entry(text=N_("Measure until the load has made as much WAL as the least value.")),
    "acts.checkpoints": Entry(text=N_("blocks written by checkpoints")),
    "needs.checkpoints": Entry(text=N_("Measure longer than the time between checkpoints.")),
    "acts.full-pages": Entry(text=N_("whole pages in the WAL")),
    "needs.full-pages": Entry(text=N_("Let the load write, with checkpoints while it is measured.")),
    "acts.wal-flushes": Entry(text=N_("flushes of the WAL")),
    "needs.wal-flushes": Entry(text=_MORE_WRITES),
    "acts.full-wal-buffers": Entry(text=N_("WAL buffers that were full")),
    "needs.full-wal-buffers": Entry(text=N_("Let transactions write more than the least value holds.")),
    "acts.background-writer": Entry(text=N_("blocks written before a checkpoint")),
    "needs.background-writer": Entry(text=N_("Let the load write more than shared buffers hold.")),
    "acts.autovacuum": Entry(text=N_("autovacuum")),
    "needs.autovacuum": Entry(text=_MORE_WRITES),
    "acts.requests": Entry(text=N_("requests to the disk")),
    "needs.requests": Entry(text=_LESS_MEMORY),
    "acts.quota": Entry(text=N_("throttling by the quota of CPUs")),
    "needs.quota": Entry(text=N_("Let the load want more CPUs than the limit gives.")),
    "acts.disk-limit": Entry(text=N_("reads or writes near the limit")),
    "needs.disk-limit": Entry(text=N_("Let the load read or write as much as the least of the limits.")),
    "acts.memory-limit": Entry(text=N_("memory at its limit")),
    "needs.memory-limit": Entry(text=N_("Take more data than the limit of memory.")),
    "acts.huge-pages": Entry(text=N_("huge pages in use")),
    "needs.huge-pages": Entry(text=N_("Let the kernel have a pool of huge pages for the server.")),
    "acts.transparent-pages": Entry(text=N_("transparent huge pages")),
    "needs.transparent-pages": Entry(text=N_("Let the server use memory that the kernel can give huge pages.")),
}

ENGAGEMENT = {
    "engagement.seen": Entry(text=N_("{setting} had something to act on, {acts}: {seen:and}.")),
    "engagement.always": Entry(text=N_("{setting} acts in every run: it is part of the load, the data or the server.")),
    "engagement.idle": Entry(text=N_("{setting} had nothing to act on, that is, no {acts}: {seen:and}. {needs}")),
    "engagement.not-governing": Entry(
        text=N_(
            "{setting} did not govern the server, whose control group has a value of its own: "
            "{metric} was {value:short} in both arms."
        )
    ),
    "engagement.unread": Entry(
        text=N_("Whether {setting} had something to act on, {acts}, is not known: {metrics:and} was not sampled.")
    ),
    "engagement.undeclared": Entry(
        text=N_("Whether {setting} had something to act on is not known: pgtrial has no evidence for it.")
    ),
    "seen.share": Entry(text=N_("{metric} was at most {value:percent}, and {least:percent} count as much")),
    "seen.bytes": Entry(text=N_("{metric} was at most {value:bytes}, and {least:bytes} count as much")),
    "seen.byte-rate": Entry(text=N_("{metric} was at most {value:byte_rate}, and {least:byte_rate} count as much")),
    "seen.number": Entry(text=N_("{metric} was at most {value:short}, and {least:short} counts as much")),
    "seen.any": Entry(text=N_("{metric} was at most {value:short}, and anything above 0 counts")),
    "seen.nothing": Entry(text=N_("{metric} was 0 in every second")),
    # A verdict that nothing could have reached.
    "verdict.not-tested": Entry(text=N_("Not tested: {why:sentences}")),
    "verdict.not-tested.no-effect": Entry(
        text=N_("Not tested: {why:sentences} That no effect was seen is no evidence then that there is none.")
    ),
    "needed.not-engaged": Entry(
        text=N_("a load in which the setting has something to act on would help, and not more blocks")
    ),
}
