"""Why an arm is faster or slower: where its time goes, how evenly it runs, what load it has, and which arm to take."""

from pgtrial.findings.catalogue.base import Entry, plural
from pgtrial.language import N_

# Parts of a transaction's time that PostgreSQL has no name for; its own names are the same in all languages.
CAUSES = {
    "part.cpu": Entry(text=N_("CPU")),
    "part.cpu-queue": Entry(text=N_("CPU queue")),
    "part.blocked": Entry(text=N_("blocked in the kernel")),
    "part.idle-in-transaction": Entry(text=N_("idle in transaction")),
    "part.outside": Entry(text=N_("outside the server")),
    "part.schedule-lag": Entry(text=N_("outside the server schedule lag")),
    "part.pool": Entry(text=N_("the wait for a session of PgBouncer's pool")),
    # Differences of the mean latency.
    "latency.unclear": Entry(text=N_("The mean latency of {arm} does not differ clearly from that of {control}.")),
    "latency.less-somehow": Entry(
        text=N_(
            "A transaction of {arm} takes less time than one of {control}; how much less differs so much from block to "
            "block that it cannot be split into parts."
        )
    ),
    "latency.more-somehow": Entry(
        text=N_(
            "A transaction of {arm} takes more time than one of {control}; how much more differs so much from block to "
            "block that it cannot be split into parts."
        )
    ),
    "latency.less": Entry(
        text=N_("A transaction of {arm} takes {time:duration} less than one of {control}: {parts:and}.")
    ),
    "latency.less-unexplained": Entry(
        text=N_(
            "A transaction of {arm} takes {time:duration} less than one of {control}; no part of that stands out from "
            "chance."
        )
    ),
    "latency.more": Entry(
        text=N_("A transaction of {arm} takes {time:duration} more than one of {control}: {parts:and}.")
    ),
    "latency.more-unexplained": Entry(
        text=N_(
            "A transaction of {arm} takes {time:duration} more than one of {control}; no part of that stands out from "
            "chance."
        )
    ),
    "plan.changed": Entry(text=N_("{arm} has another plan than {control} for “{statement}”: {change}.")),
    "plan.changed-timed": Entry(
        text=N_(
            "{arm} has another plan than {control} for “{statement}”: {change}; a transaction spends {time:duration} "
            "in it instead of {of_control:duration}."
        )
    ),
    "latency.part-in": Entry(text=N_("{part} (mostly in “{statement}”)")),
    "latency.part-alone": Entry(text=N_("{part} alone {time:duration}, for which other parts partly make up")),
    "latency.part": Entry(text=N_("{share:short_percent} of it {part}")),
    # Statements.
    "statements.rose": Entry(text=N_("A transaction spends {more:duration} more in “{rose}”.")),
    "statements.rose-and-fell": Entry(
        text=N_(
            "A transaction spends {less:duration} less in “{fell}”, where most is saved, but {more:duration} more in "
            "“{rose}”."
        )
    ),
    "statement.unknown": Entry(text=N_("(text not known)")),
    "statement.events": Entry(text="{events:and}"),
    "statement.event": Entry(text="{event} {share:short_percent}"),
    # Stability, and what comes with dips.
    "dips.together": Entry(
        text=N_(
            "Of {total:duration} in dips {overlap:duration} lie beside a {kind}; by chance it would be "
            "{expected:duration} (probability {chance:significant2})."
        )
    ),
    "dips.by-chance": Entry(
        text=N_(
            "The dips do not follow the log: of {total:duration} in dips {overlap:duration} lie beside a {kind}, and "
            "by chance it would be {expected:duration} (probability {chance:significant2})."
        )
    ),
    "dips.more": Entry(text=N_("{part}, by {sessions:count}")),
    "dips.locks": Entry(text=N_("Locks are held longer when all is slow, so lock waits may be what a dip has caused.")),
    "log-event.checkpoint-begins": Entry(text=N_("checkpoint's beginning")),
    "log-event.of-table": Entry(text=N_("{event} of {table}")),
    "log-event.about": Entry(text="{event} {object}"),
    # Kinds of load.
    "load-kind.unknown": Entry(text=N_("Too little is known to say: {known} of {all} features.")),
    "load-kind.mixed": Entry(text=N_("mixed, by {features:list}.")),
    "load-kind.clear": Entry(text=N_("{kind}, by {features:list}.")),
    "load-kind.hits": Entry(text=N_("{share:percent} of the blocks were in shared buffers.")),
    "feature.transaction-time": Entry(text=N_("time of a transaction {value:duration} ({vote})")),
    "feature.rows": Entry(text=N_("rows read per transaction {value:count} ({vote})")),
    "feature.blocks": Entry(text=N_("blocks per transaction {value:count} ({vote})")),
    "feature.bytes-per-read": Entry(text=N_("bytes per read {value:bytes} ({vote})")),
    "feature.read-per-dirtied": Entry(text=N_("blocks read per block dirtied {value:count} ({vote})")),
    "vote.neither": Entry(text=N_("neither")),
    # The scorecard.
    "recommended.gains": Entry(text=N_("{arm}: {gains:list}, against {control}.")),
    "recommended.control": Entry(text=N_("{arm}: no other arm is better than the control.")),
    "recommended.ahead": Entry(text=N_("Undecided. {arm} is ahead: {gains:list}, against {control}.")),
    "recommended.control-ahead": Entry(text=N_("Undecided. {arm}, the control, is ahead.")),
    "recommended.few-blocks": Entry(
        text=plural(
            "How sure that is, {count} block cannot tell: it takes {fewest}.",
            "How sure that is, {count} blocks cannot tell: it takes {fewest}.",
        )
    ),
    "recommended.partly-known": Entry(
        text=N_("How sure that is, nobody can tell: in {blocks} of {count} blocks a run has no value of it.")
    ),
    "recommended.sure": Entry(
        text=plural(
            "This is sure: with {count} blocks it is the best with a probability of {chance:percent}.",
            "This is sure: with {count} blocks it is the best with a probability of {chance:percent}.",
        )
    ),
    "recommended.unsure": Entry(
        text=plural(
            "This is not sure: with {count} blocks it is the best with a probability of {chance:percent}, so the data "
            "do not tell the arms apart.",
            "This is not sure: with {count} blocks it is the best with a probability of {chance:percent}, so the data "
            "do not tell the arms apart.",
        )
    ),
    "criterion.change": Entry(text="{criterion:name} {change:change}"),
    "criterion.change-in-brackets": Entry(text="{criterion:name} ({change:change})"),
    "criterion.change-interval": Entry(text=N_("{gain} ({confidence:share} interval {low:change} to {high:change})")),
    "trade-off": Entry(text=N_("{arm} against {control} is better in {gains:list}, and worse in {losses:list}.")),
}
