"""The verdict: how large the effect is, what that means for the claim, and what is still needed."""

from pgtrial.findings.catalogue.base import Entry, plural
from pgtrial.language import N_

_BEYOND = N_("{size}, which is beyond the margin of {margin:share}.")
_WITHIN = N_("{size}, which is within the margin of {margin:share} by two one-sided tests.")

# What the interval says of the margin; {size} is "off is 5 % faster than on".
VERDICTS = {
    "verdict.better.supported": Entry(text=_BEYOND),
    "verdict.better.refuted": Entry(text=N_("{size}, which does not reach the margin of {margin:share}.")),
    "verdict.worse.supported": Entry(text=_BEYOND),
    "verdict.worse.refuted": Entry(text=N_("{size}, which is not worse by the margin of {margin:share}.")),
    "verdict.not-worse.supported": Entry(
        text=N_("{size}, which is not worse by more than the margin of {margin:share}.")
    ),
    "verdict.not-worse.refuted": Entry(text=N_("{size}, which is worse by more than the margin of {margin:share}.")),
    "verdict.equivalent.supported": Entry(text=_WITHIN),
    "verdict.equivalent.refuted": Entry(text=_BEYOND),
    "verdict.different.supported": Entry(text=_BEYOND),
    "verdict.different.refuted": Entry(text=_WITHIN),
    "verdict.inconclusive": Entry(
        text=N_("{size}, which does not settle the claim at the margin of {margin:share}: {needed}.")
    ),
    "verdict.few-blocks": Entry(
        text=N_("{size}, but a claim is decided by {fewest} blocks or more, and {blocks} have both arms.")
    ),
    "verdict.failures": Entry(
        text=N_(
            "{size}, but one arm failed more often, and what its failed runs would have shown may turn the verdict."
        )
    ),
    "verdict.interrupted": Entry(
        text=N_(
            "{size}, but pgtrial was ended in the middle of runs, and what these would have shown may turn the verdict."
        )
    ),
    "verdict.provisional": Entry(
        text=plural(
            "{reason} Provisional: {blocks} of {count} block.", "{reason} Provisional: {blocks} of {count} blocks."
        )
    ),
    "verdict.all.supported": Entry(
        text=N_("All {count} metrics of the claim hold, each at the full level of confidence. {reasons}")
    ),
    "verdict.all.refuted": Entry(
        text=N_("Of the {count} metrics of the claim not all hold ({metrics:and}). {reasons}")
    ),
    "verdict.all.inconclusive": Entry(
        text=N_("Of the {count} metrics of the claim not all are decided ({metrics:and}). {reasons}")
    ),
    "verdict.invalid": Entry(text=N_("The runs cannot answer the claim: {why:lowered}")),
    "verdict.partly-known": Entry(
        text=N_("In {blocks} of {count} blocks a run has no value of {metric}, and it may be the worst one.")
    ),
    "verdict.no-ratio": Entry(text=N_("There is no ratio of {metric} between the arms.")),
    # Sizes of effects.
    "size.in-scenario": Entry(text=N_("{size} in scenario {scenario}")),
    "size.without-interval": Entry(text=N_("{size} ({change:change}, without an interval)")),
    "size.with-interval": Entry(text=N_("{size} ({change:change}, between {low:change} and {high:change})")),
    "speed.times": Entry(text=N_("{arm} is {times:times} as fast as {control}")),
    "speed.same": Entry(text=N_("{arm} is as fast as {control}")),
    "speed.faster": Entry(text=N_("{arm} is {change:percent} faster than {control}")),
    "speed.slower": Entry(text=N_("{arm} is {change:percent} slower than {control}")),
    "value.times": Entry(text=N_("the {metric} of {arm} is {times:times} that of {control}")),
    "value.same": Entry(text=N_("the {metric} of {arm} is the same as that of {control}")),
    "value.higher": Entry(text=N_("the {metric} of {arm} is {change:percent} higher than that of {control}")),
    "value.lower": Entry(text=N_("the {metric} of {arm} is {change:percent} lower than that of {control}")),
    # Of an effect whose interval does not exclude that there is none, only what these runs have shown.
    "speed.came-times": Entry(text=N_("{arm} came out {times:times} as fast as {control}")),
    "speed.came-same": Entry(text=N_("{arm} came out as fast as {control}")),
    "speed.came-faster": Entry(text=N_("{arm} came out {change:percent} faster than {control}")),
    "speed.came-slower": Entry(text=N_("{arm} came out {change:percent} slower than {control}")),
    "value.came-times": Entry(text=N_("the {metric} of {arm} came out {times:times} that of {control}")),
    "value.came-same": Entry(text=N_("the {metric} of {arm} came out the same as that of {control}")),
    "value.came-higher": Entry(
        text=N_("the {metric} of {arm} came out {change:percent} higher than that of {control}")
    ),
    "value.came-lower": Entry(text=N_("the {metric} of {arm} came out {change:percent} lower than that of {control}")),
    # What is still needed.
    "needed.unknown": Entry(text=N_("unknown, because the runs cannot answer the claim")),
    "needed.none": Entry(text=N_("none, the claim is decided")),
    "needed.no-look": Entry(text=N_("no look of the rule for stopping is likely to decide the claim")),
    "needed.infeasible": Entry(text=N_("no feasible number of blocks would decide the claim at this noise")),
    "needed.failures": Entry(text=N_("fewer failures would help, and not more blocks")),
    "needed.interrupted": Entry(text=N_("fewer interruptions would help, and not more blocks")),
    "needed.left-behind": Entry(
        text=N_(
            'longer slices, or method = "blocks", would help, and not more blocks: what an arm does to later turns '
            "may still be missing"
        )
    ),
    "needed.untold": Entry(
        text=N_(
            'method = "blocks" would help, and not more blocks: slices do not tell what an arm leaves of this for the '
            "turns of others"
        )
    ),
    "needed.floor": Entry(
        text=N_("another metric would help, and not more blocks: in some of them there is next to nothing of this one")
    ),
    "needed.steps": Entry(
        text=N_("none, but latencies that are told in finer steps: each percentile may be off by as much as a step")
    ),
    "needed.next-run": Entry(
        text=N_("more blocks, or a longer warm-up: what a run leaves for the next one may still be missing")
    ),
    "needed.range": Entry(
        text=plural(
            "about {count} more block would decide the claim ({low} to {high}, as the noise and the effect may be)",
            "about {count} more blocks would decide the claim ({low} to {high}, as the noise and the effect may be)",
        )
    ),
    "needed.at-least": Entry(
        text=plural(
            "about {count} more block would decide the claim ({low} at least, and perhaps no feasible number)",
            "about {count} more blocks would decide the claim ({low} at least, and perhaps no feasible number)",
        )
    ),
    "needed.hosts": Entry(
        text=plural(
            "about {count} more host with as many blocks would decide the claim",
            "about {count} more hosts with as many blocks each would decide the claim",
        )
    ),
    "needed.blocks": Entry(
        text=plural(
            "about {count} more block would decide the claim", "about {count} more blocks would decide the claim"
        )
    ),
    # The rule for stopping.
    "stopping.after": Entry(
        text=plural("After {done} of {count} blocks: {reason}.", "After {done} of {count} blocks: {reason}.")
    ),
    "stopping.no-rule": Entry(text=N_("there is no rule for stopping")),
    "stopping.no-schedule": Entry(text=N_("there is no schedule")),
    "stopping.no-block": Entry(text=N_("no block is complete")),
    "stopping.all-run": Entry(text=N_("{found}, and all blocks are run")),
    "stopping.outlook": Entry(text="{found}; {forecast}"),
    "stopping.no-interval": Entry(text=N_("there is no interval yet")),
    "stopping.narrow": Entry(text=N_("half the interval is {width:percent}, within the wished {wished:share}")),
    "stopping.wide": Entry(text=N_("half the interval is {width:percent}, more than the wished {wished:share}")),
    "stopping.undecided": Entry(text=N_("the claim is not decided")),
    "stopping.supported": Entry(text=N_("the claim is supported")),
    "stopping.refuted": Entry(text=N_("the claim is refuted")),
    # Of arms that end one by one.
    "stopping.arms": Entry(text="{parts:items}"),
    "stopping.settled": Entry(
        text=plural("{arm} was settled after {count} block", "{arm} was settled after {count} blocks")
    ),
    "stopping.open": Entry(text=plural("{arms:and} is not settled yet", "{arms:and} are not settled yet")),
    "stopping.to-the-end": Entry(text=plural("{arms:and} ran to the last block", "{arms:and} ran to the last block")),
    "stopping.no-more-looks": Entry(text=N_("no look is planned any more")),
    "stopping.next-look": Entry(text=N_("the next look is after block {block}")),
    "stopping.too-early": Entry(text=N_("it is too early for a forecast")),
    "stopping.unlikely": Entry(text=N_("no look is likely to end it before the last block")),
    "stopping.blocks": Entry(
        text=plural(
            "about {count} more block if the effect and the noise are what they look like",
            "about {count} more blocks if the effect and the noise are what they look like",
        )
    ),
    # The effect at equal values of a covariate.
    "covariate.steal": Entry(text=N_("stolen CPU time")),
    "covariate.pressure": Entry(text=N_("CPU pressure")),
    "adjustment.none": Entry(text=N_("The effect is not adjusted for {covariate}: {why}.")),
    "adjustment.shared-time": Entry(
        text=N_("the arms shared the time of each block, so they shared it too, and it cancels")
    ),
    "adjustment.hosts": Entry(text=N_("blocks ran on several hosts, and what adjusts blocks says nothing of these")),
    "adjustment.no-ratio": Entry(text=N_("no block has a ratio")),
    "adjustment.not-read": Entry(text=N_("it was not read")),
    "adjustment.few-blocks": Entry(text=N_("it takes {needed} blocks, and {blocks} have it in both arms")),
    "adjustment.same": Entry(text=N_("its difference between the arms was the same in all blocks, or nearly so")),
    "adjustment.interval": Entry(text=N_("{confidence:share} interval {low:change} to {high:change}")),
    "adjustment.no-interval": Entry(text=N_("without an interval yet")),
    "adjustment.change": Entry(
        text=plural(
            "At equal {covariate} the change would be {change:change} ({interval}; from {count} blocks) instead of "
            "{unadjusted:change}.",
            "At equal {covariate} the change would be {change:change} ({interval}; from {count} blocks) instead of "
            "{unadjusted:change}.",
        )
    ),
    "adjustment.change-alone": Entry(
        text=plural(
            "At equal {covariate} the change would be {change:change} ({interval}; from {count} blocks).",
            "At equal {covariate} the change would be {change:change} ({interval}; from {count} blocks).",
        )
    ),
    "adjustment.slope": Entry(
        text=N_(
            "One percentage point more of it goes with {change:change}; the standard deviation between blocks is "
            "{after:percent} with the adjustment and {before:percent} without."
        )
    ),
    "adjustment.slope-between": Entry(
        text=N_(
            "One percentage point more of it goes with {change:change} ({low:change} to {high:change}); the standard "
            "deviation between blocks is {after:percent} with the adjustment and {before:percent} without."
        )
    ),
    "adjustment.verdict": Entry(text=N_("The verdict is about the unadjusted effect.")),
    "adjustment.more": Entry(
        text=N_(
            "The arm's runs have {share:percent} more {covariate} than the control's: if the arm itself is the cause, "
            "the adjustment takes away part of its effect."
        )
    ),
    "adjustment.less": Entry(
        text=N_(
            "The arm's runs have {share:percent} less {covariate} than the control's: if the arm itself is the cause, "
            "the adjustment takes away part of its effect."
        )
    ),
}

METRICS = {
    "metric.latency-mean": Entry(text=N_("mean latency")),
    "metric.latency-p50": Entry(text=N_("median latency")),
    "metric.latency-p95": Entry(text=N_("95th percentile of latency")),
    "metric.latency-p99": Entry(text=N_("99th percentile of latency")),
    "metric.latency-p999": Entry(text=N_("99.9th percentile of latency")),
    "metric.pgbench.tps": Entry(text=N_("throughput")),
    "metric.pgbench.failures": Entry(text=N_("share of failed transactions")),
    "metric.pgbench.late": Entry(text=N_("share of late transactions")),
    "metric.pgbench.skipped": Entry(text=N_("share of skipped transactions")),
    "metric.fio.iops": Entry(text=N_("requests to files per second")),
    "metric.fio.bandwidth": Entry(text=N_("bandwidth")),
    "metric.cost.cpu_seconds": Entry(text=N_("CPU time per transaction")),
    "metric.cost.context_switches": Entry(text=N_("context switches per transaction")),
    "metric.cost.blocks_hit": Entry(text=N_("blocks hit per transaction")),
    "metric.cost.blocks_read": Entry(text=N_("blocks read per transaction")),
    "metric.cost.temp_bytes": Entry(text=N_("temporary bytes per transaction")),
    "metric.cost.wal_bytes": Entry(text=N_("WAL per transaction")),
    "metric.cost.device_reads": Entry(text=N_("device reads per transaction")),
    "metric.cost.device_read_bytes": Entry(text=N_("bytes read per transaction")),
    "metric.cost.device_writes": Entry(text=N_("device writes per transaction")),
    "metric.cost.device_write_bytes": Entry(text=N_("bytes written per transaction")),
    "metric.stability.lowest": Entry(text=N_("lowest 1 % of throughput")),
    "metric.stability.highest": Entry(text=N_("highest 1 % of throughput")),
    "metric.stability.variation": Entry(text=N_("variation of throughput")),
    "metric.stability.dip_share": Entry(text=N_("share of the time in dips")),
    "metric.stability.dip_depth": Entry(text=N_("depth of the deepest dip")),
    "metric.stability.dip_length": Entry(text=N_("length of the longest dip")),
    "metric.stability.recovery": Entry(text=N_("longest time from the bottom of a dip to 90 % of what was usual")),
    "metric.stability.stalled": Entry(text=N_("share of seconds without a commit")),
    "metric.memory.swap_growth": Entry(text=N_("growth of swap")),
    "metric.waits": Entry(text=N_("number of sessions in {part}")),
    "metric.series": Entry(text="{name} ({words})"),
}
