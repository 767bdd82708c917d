"""Caveats about a single effect, and why there is no curve through the load levels."""

from pgtrial.findings.catalogue.base import Entry, plural
from pgtrial.language import N_
from pgtrial.model.caveat import Severity

EFFECT_CAVEATS = {
    "no-interval": Entry(
        severity=Severity.WARNING,
        text=N_("Complete blocks: {blocks}. At least two are needed to know the noise between blocks."),
        hint=N_("Run more blocks."),
        when="fewer than two complete blocks",
    ),
    "untold-by-slices": Entry(
        severity=Severity.INFO,
        text=N_(
            "The arms took turns, and their slices tell of throughput and latencies alone what an arm leaves for the "
            "turns of others: this ratio describes the slices, and has no interval."
        ),
        hint=N_('To compare it, use method = "blocks".'),
        when="arms took turns, and the effect is on neither throughput nor a latency: no interval, and no verdict",
    ),
    "zero-variance.hosts": Entry(
        text=N_("All {count} hosts have the same ratio to the last digit, so the noise is unknown."),
        when="… or all hosts",
    ),
    "few-blocks": Entry(
        severity=Severity.WARNING,
        text=plural(
            "Only {count} blocks: the interval relies on block log ratios that are normally distributed, and the "
            "exact test cannot get below p = {p:significant3}.",
            "Only {count} blocks: the interval relies on block log ratios that are normally distributed, and the "
            "exact test cannot get below p = {p:significant3}.",
        ),
        hint=plural("Run at least {fewest} blocks.", "Run at least {fewest} blocks.", by="fewest"),
        when="fewer than 6: the interval relies on normally distributed log ratios, and the exact test cannot reach "
        "0.05 with 5",
    ),
    "at-floor": Entry(
        severity=Severity.WARNING,
        text=N_(
            "In {count} of {blocks} blocks one of the two arms has next to nothing of this, which counts as the least "
            "that is told apart from nothing: the ratio may lie any further from 1."
        ),
        hint=N_("Look at the values themselves, or compare another metric."),
        when="of a metric of which more is better, one of the two arms had next to nothing; the interval is open there",
    ),
    "zero-variance": Entry(
        severity=Severity.WARNING,
        text=plural(
            "All {count} block ratios are the same, so the noise between blocks is not known and there is no interval.",
            "All {count} block ratios are the same, so the noise between blocks is not known and there is no interval.",
        ),
        hint=N_("The metric is coarser than its noise; look at a mean instead of a quantile, or at raw values."),
        when="all block ratios are equal; the noise is unknown and there is no interval",
    ),
    "missing-blocks": Entry(
        severity=Severity.WARNING,
        text=N_("Blocks in which a run has no observation: {blocks}."),
        hint=N_("Find out why: where a run has none because it is slow, leaving its block out favours its arm."),
        when="blocks in which a run of the two arms has no observation; by rules 14 they were left out of the effect",
    ),
    "no-log-ratio": Entry(
        severity=Severity.WARNING,
        text=plural(
            "In {bad} of {count} blocks an observation is zero, negative or infinite, so a ratio does not exist.",
            "In {bad} of {count} blocks an observation is zero, negative or infinite, so a ratio does not exist.",
        ),
        hint=N_("Look at the differences instead of ratios, or find out why nothing was processed."),
        when="an observation is zero, negative or infinite; nothing is dropped, so there is no ratio",
    ),
    "methods-disagree": Entry(
        severity=Severity.WARNING,
        text=N_(
            "The t test (p = {p:significant3}) and the exact sign-flip test (p = {flip:significant3}) lie on different "
            "sides of {alpha:significant3}."
        ),
        hint=N_("Look at the block ratios for outliers; more blocks settle it."),
        when="t and sign-flip lie on different sides of α, although the number of blocks lets both decide",
    ),
    "drift": Entry(
        severity=Severity.WARNING,
        text=N_(
            "The effect itself moves by {change:change} per block (p = {p:significant2}), so one number for all blocks "
            "is an average over time."
        ),
        hint=N_("Look at the block ratios in order; restore the data for each run, or warm up longer."),
        when="the effect moves over the blocks (p ≤ 0.01)",
    ),
    "no-look-yet": Entry(
        severity=Severity.INFO,
        text=N_(
            "Complete blocks: {blocks}. The rule for stopping looks for the first time after {first}, or later if next "
            "to no error may be spent there, so there is no interval yet."
        ),
        hint=N_("Wait for more blocks."),
        when="there is a rule for stopping, and no error may be spent after so few blocks: no interval",
    ),
    "left-for-next-run": Entry(
        severity=Severity.INFO,
        text=N_(
            "A run that follows one of {arm} differs by {change:change} from one that follows the control. The "
            "interval reaches as far as if each arm followed its own runs only, as it does in use."
        ),
        hint=N_(
            "Warm up longer, or let a hook wait before each run, until nothing is left of the run before; more blocks "
            "tell it from chance."
        ),
        when="what a run leaves for the next one is seen (at 80 %, so by chance in a fifth of experiments); the "
        "interval has what would be missing",
    ),
    "coarse-latencies": Entry(
        severity=Severity.WARNING,
        text=N_(
            "The load tells latencies in steps, and the runs of an arm differ by less than one: rounding may have "
            "moved this percentile by up to {step:percent} in every block alike. The interval reaches as much further."
        ),
        hint=N_("Have the load tell latencies in microseconds, or claim their mean or the throughput."),
        when="latencies are whole multiples of a step (1 ms, say) that is wider than the runs of an arm differ by; the "
        "interval of a percentile is wider by it",
    ),
    "autocorrelated-blocks": Entry(
        severity=Severity.WARNING,
        text=N_(
            "The ratios of neighbouring blocks resemble each other (lag-1 autocorrelation {correlation:decimal2}, "
            "p = {p:significant2}), so the interval is too narrow."
        ),
        hint=N_("Something carries over between blocks: restore the data for each run, or warm up longer."),
        when="ratios of neighbouring blocks resemble each other (p ≤ 0.01, from 8 blocks on): interval too narrow",
    ),
}

NO_CURVE = {
    "no-curve.open-loop": Entry(
        text=N_("Transactions arrive at given rates, so throughput says nothing about the number of clients.")
    ),
    "no-curve.zero": Entry(text=N_("A throughput of zero has no logarithm.")),
    "no-curve.few-levels": Entry(
        text=plural(
            "{count} load levels are too few for three parameters; at least {fewest} are needed.",
            "{count} load levels are too few for three parameters; at least {fewest} are needed.",
        ),
    ),
    "no-curve.grows-faster": Entry(
        text=N_(
            "Throughput grows faster than the number of clients ({share:whole_percent} more per client), or again "
            "after it had bent, which the law excludes."
        ),
    ),
    "no-curve.off": Entry(
        text=N_(
            "The curve is {error:whole_percent} off at {clients:significant6} clients, more than "
            "{largest:whole_percent}."
        ),
    ),
}


# Caveats of a calibration, which compares a server with itself.


CALIBRATION_CAVEATS = {
    "calibration-effect": Entry(
        severity=Severity.WARNING,
        text=N_(
            "{method}: the control differs from itself, by {change:change} (between {low:change} and {high:change})."
        ),
        hint=N_("Something favours one of two servers that are the same; look at the report of its folders."),
        when="a method's interval of the control against itself excludes 1",
    ),
    "calibration-carry-over": Entry(
        severity=Severity.WARNING,
        text=N_(
            "{method}: the ratio changes inside the slices, by the factor {factor:decimal3} (between {low:change} and "
            "{high:change}), although both arms are the same."
        ),
        hint=N_("It may be chance; if it comes again, use longer slices."),
        when="that of the change inside its slices does",
    ),
    "calibration-portions": Entry(
        severity=Severity.INFO,
        text=N_("Each method had all its blocks in one go, so a quiet quarter of an hour may have favoured one."),
        hint=N_("A larger budget divides them into two portions, in opposite order."),
        when="each method had all its blocks in one go",
    ),
}
