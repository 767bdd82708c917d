"""What only some experiments are asked: factors, what drifts in a soak, what limits an arm, huge pages."""

from pgtrial.findings.catalogue.base import Entry
from pgtrial.language import N_

QUESTIONS = {
    "factor.main.clear": Entry(
        text=N_("{factor}: {level} against {base} makes {change:change} ({low:change} to {high:change}).")
    ),
    "factor.main.unclear": Entry(
        text=N_(
            "{factor}: {level} against {base} has no clear effect ({change:change}, {low:change} to {high:change})."
        )
    ),
    "factor.main.no-interval": Entry(
        text=N_("{factor}: {level} against {base}: {change:change}, without an interval.")
    ),
    "factor.interaction.clear": Entry(
        text=N_(
            "With {other} = {other_level} the effect of {factor} = {level} is another one: its ratio is changed by "
            "{change:change} ({low:change} to {high:change}). Do not add the two up."
        )
    ),
    "factor.interaction.unclear": Entry(
        text=N_(
            "Whether {other} = {other_level} changes the effect of {factor} = {level} is not clear "
            "({change:change}, {low:change} to {high:change})."
        )
    ),
    "factor.interaction.no-interval": Entry(
        text=N_(
            "With {other} = {other_level} the ratio of {factor} = {level} is changed by {change:change}, without an "
            "interval."
        )
    ),
    "factor.lost": Entry(
        text=N_(
            "In {count} of {of} blocks the metric of an arm is zero or does not exist, so there is no ratio. The other "
            "blocks may not represent the arm, so no effect of a factor has an interval."
        )
    ),
    "factor.few-blocks": Entry(
        text=N_("Effects of factors have an interval from {fewest} blocks on, and {count} have all arms.")
    ),
    "factor.fails": Entry(
        text=N_(
            "So many runs of {arms:and}, or of the control, failed or were interrupted that those that count may not "
            "represent them: what they are part of has no interval."
        )
    ),
    "factor.best": Entry(
        text=N_("{factor} is best at {level}: every other level is worse, with {confidence:share} confidence for all.")
    ),
    "factor.best-among": Entry(
        text=N_(
            "{factor} has its best mean at {level}; with {confidence:share} confidence the best level is one of "
            "{among:list}."
        )
    ),
    # What drifts in a soak.
    "soak.drifts": Entry(text=N_("{arm} does not stay as it is: {parts:and}.")),
    "soak.grew": Entry(text=N_("{metric} grew by {change:percent}")),
    "soak.shrank": Entry(text=N_("{metric} shrank by {change:percent}")),
    "soak.stays": Entry(text=N_("Of {arm} no drift was shown.")),
    "soak.rises": Entry(text=N_("{metric} rises by {change:percent} over the soak")),
    "soak.falls": Entry(text=N_("{metric} falls by {change:percent} over the soak")),
    "verdict.soak": Entry(
        text=N_(
            "A soak tells whether each arm stays as it is. Windows of one run depend on each other, so it decides no "
            "claim about the difference of arms: that takes blocks."
        )
    ),
    # What limits an arm, by experiment: what was slowed.
    "slowed.slowdown.cpu": Entry(text=N_("the CPU time of the server")),
    "slowed.slowdown.flush": Entry(text=N_("the flush of the WAL and of files")),
    "slowed.slowdown.files": Entry(text=N_("reads and writes of files")),
    "slowed.slowdown.generator": Entry(text=N_("the CPU time of the load generator")),
    "slowed.cgroup.read_iops": Entry(text=N_("waits for the limit of reads per second")),
    "slowed.cgroup.write_iops": Entry(text=N_("waits for the limit of writes per second")),
    "slowed.cgroup.read_bytes": Entry(text=N_("waits for the limit of bytes read per second")),
    "slowed.cgroup.write_bytes": Entry(text=N_("waits for the limit of bytes written per second")),
    "slowed.workload.pauses": Entry(text=N_("pauses of the scripts")),
    "slowed.postgresql.shared_buffers": Entry(text="shared_buffers"),
    "slowed.cgroup.memory": Entry(text=N_("the memory of the control group")),
    # What was not.
    "not-slowed.left-out": Entry(text=N_("{name} (left out)")),
    "not-slowed.network": Entry(text=N_("the network: the load reaches the server by a socket")),
    "not-slowed.pauses": Entry(text=N_("pauses of scripts and statements that sleep")),
    "not-slowed.sleeping": Entry(text=N_("statements that sleep")),
    "not-slowed.wake-ups": Entry(text=N_("the time from waking a process until it is in the queue for a CPU")),
    "not-slowed.locks": Entry(text=N_("locks, a wait for which is as long as what their holders do")),
    "not-slowed.whole-pages": Entry(text=N_("whole pages after checkpoints, which runs this short have too many of")),
    "not-slowed.autovacuum": Entry(text=N_("autovacuum, which does too little in runs this short")),
    "not-slowed.memory": Entry(text=N_("memory, which is no time")),
    # What came of it.
    "ledger.leads": Entry(
        text=N_(
            "What limits “{arm}” most is {name}: 1 % less of that time makes throughput {elasticity:decimal2} % "
            "higher, in the middle of the step."
        )
    ),
    "ledger.leads-of-varied": Entry(
        text=N_(
            "Of the times that were made longer, {name} limits “{arm}” most: 1 % less of it makes throughput "
            "{elasticity:decimal2} % higher, in the middle of the step. It may owe more to what was not varied."
        )
    ),
    "proof.found": Entry(text=N_("By experiment: {text}")),
    "ledger.fails": Entry(
        text=N_(
            "So many runs of an arm failed or were interrupted that those that count may not represent it: nothing of "
            "this is sure."
        )
    ),
    "ledger.undecided": Entry(
        text=N_(
            "What limits “{arm}” most is not decided: {name} ({elasticity:decimal2}) or {second} ({other:decimal2})."
        )
    ),
    "ledger.nothing": Entry(text=N_("None of the times that were made longer is shown to limit “{arm}”.")),
    "ledger.memory": Entry(text=N_("With 1 % more of {name}, throughput would be {elasticity:decimal2} % higher.")),
    "ledger.no-memory": Entry(text=N_("Less of {name} is not shown to change anything.")),
    "ledger.too-much": Entry(
        text=N_("With 1 % more of {name}, throughput would change by {elasticity:decimal2} %: there is too much of it.")
    ),
    "ledger.next": Entry(text=N_("Next is {name} ({elasticity:decimal2}).")),
    "ledger.buys": Entry(text=N_("With 10 % less of it, throughput would change by about {ratio:change}.")),
    "ledger.whole": Entry(
        text=N_(
            "All of them add up to {total:decimal2} ({low:decimal2} to {high:decimal2}), which may be 1: nothing is "
            "known to be missing."
        )
    ),
    "ledger.less": Entry(
        text=N_(
            "They add up to {total:decimal2} ({low:decimal2} to {high:decimal2}) and not to 1: {rest:decimal2} is owed "
            "to what was not varied."
        )
    ),
    "ledger.more": Entry(
        text=N_(
            "They add up to {total:decimal2} ({low:decimal2} to {high:decimal2}), more than 1: a time became longer by "
            "more than its factor, or counts in two of them. Each may be as much too large."
        )
    ),
    "ledger.no-interval": Entry(text=N_("They add up to {total:decimal2}; one block tells no interval.")),
    "ledger.kink": Entry(
        text=N_(
            "The elasticities change within the step: one time hides behind another, and a smaller step would say "
            "something else."
        )
    ),
    # What huge pages gain.
    "gain.unknown": Entry(text="–"),
    "gain.change": Entry(text="{change:change}"),
    "gain.interval": Entry(text=N_("{change:change} ({low:change} to {high:change})")),
    "gain.at-scale": Entry(text=N_("{gain} at scale {scale}")),
    "page-gain.none": Entry(text=N_("In no cell is a gain from huge pages shown.")),
    "page-gain.most": Entry(text=N_("The largest gain that is shown is that of pages of {page}: {gain}")),
    "page-gain.most-with-level": Entry(
        text=N_("The largest gain that is shown is that of pages of {page} with {level}: {gain}")
    ),
    "page-gain.most-at-scale": Entry(
        text=N_("The largest gain that is shown is that of pages of {page} at scale {scale}: {gain}")
    ),
    "page-gain.most-at-both": Entry(
        text=N_("The largest gain that is shown is that of pages of {page} at scale {scale} with {level}: {gain}")
    ),
    "page-gain.matters": Entry(text="{gain}."),
    "page-gain.is-small": Entry(text=N_("{gain}, which is less than matters here.")),
    "page-gain.by-fit": Entry(
        text=N_(
            "Over all load levels pages of {page} change throughput by {inside:and}, where the data fit in "
            "shared_buffers, and by {outside:and}, where they do not."
        )
    ),
    # Where the data stop fitting in shared buffers.
    "page-data.unknown": Entry(text=N_("the data")),
    "page-data.scale": Entry(text=N_("scale {scale}")),
    "page-data.size": Entry(text=N_("scale {scale}, about {bytes:bytes}")),
    "page-data.boundary": Entry(
        text=N_(
            "The data stop fitting in shared_buffers ({buffers:and bytes}) between {inside}, and {outside}.",
        )
    ),
    # Misses of the translation caches.
    "translations.not-counted": Entry(text=N_("The misses were not counted in these runs.")),
}
