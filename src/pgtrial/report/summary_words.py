"""What a short summary says: which effects, what the placebo and single runs tell, how far a running experiment is."""

from pgtrial.findings.findings import Effect, Findings, SingleRuns
from pgtrial.language import ntr, tr
from pgtrial.model.verdict import Decision
from pgtrial.report.words import (
    LATENCIES,
    RATES,
    change_text,
    effects_on,
    interval_text,
    latency_of,
    metric_label,
    placebo_arm,
    placebo_effect,
    plural,
    throughput_of,
    why_no_interval,
)
from pgtrial.units import format_share


def find_single_runs(findings: Findings, arm: str | None) -> SingleRuns | None:
    return next((found for found in findings.single_runs if found.arm == arm), None)


def single_runs_text(findings: Findings) -> str:
    """What one run per arm would have said, in one or two sentences; "" where it could not have said anything else."""
    asked = findings.hypothesis
    found = find_single_runs(findings, asked.arm)
    if found is None or found.blocks < 2:
        return ""
    numbers = {
        "above": found.above,
        "below": found.below,
        "within": found.blocks - found.above - found.below,
        "lowest": change_text(found.lowest, found.highest),
        "highest": change_text(found.highest, found.lowest),
    }
    if asked.metric in RATES:
        text = ntr(
            "Of {count} block, each taken alone, {above} would have said faster by more than the margin, {below} "
            "slower, {within} neither; their ratios lie between {lowest} and {highest}.",
            "Of {count} blocks, each taken alone, {above} would have said faster by more than the margin, {below} "
            "slower, {within} neither; their ratios lie between {lowest} and {highest}.",
            found.blocks,
            **numbers,
        )
    else:
        text = ntr(
            "Of {count} block, each taken alone, {above} would have said higher by more than the margin, {below} "
            "lower, {within} neither; their ratios lie between {lowest} and {highest}.",
            "Of {count} blocks, each taken alone, {above} would have said higher by more than the margin, {below} "
            "lower, {within} neither; their ratios lie between {lowest} and {highest}.",
            found.blocks,
            **numbers,
        )
    placebo = find_single_runs(findings, placebo_arm(findings))
    if placebo is None or asked.arm == placebo.arm:
        return text
    alarms = ntr(
        "Of the placebo's, {count} would have been a false alarm (between {lowest} and {highest}).",
        "Of the placebo's, {count} would have been a false alarm (between {lowest} and {highest}).",
        placebo.above + placebo.below,
        lowest=change_text(placebo.lowest, placebo.highest),
        highest=change_text(placebo.highest, placebo.lowest),
    )
    return f"{text} {alarms}"


def placebo_text(findings: Findings) -> str:
    """What the placebo says about the experiment itself, in one sentence."""
    arm = placebo_arm(findings)
    if arm is None:
        return tr("This experiment has no placebo, so false alarms of the set-up would go unnoticed.")
    effect = placebo_effect(findings)
    if effect is None or effect.ratio is None:
        return tr("The placebo was not measured.")
    if effect.low is None or effect.high is None:
        return tr("The placebo has no interval: {why}.", why=why_no_interval(effect))
    if effect.decision in {Decision.BETTER, Decision.WORSE}:
        return tr(
            "A difference was found where there is none: do not trust the other effects before this is explained."
        )
    if effect.low <= 1 <= effect.high and effect.decision is Decision.EQUIVALENT:
        return tr("No difference was found where there is none, as it should be.")
    if effect.low <= 1 <= effect.high:
        return tr("No difference was found where there is none, but the interval reaches beyond the margin.")
    if effect.decision is Decision.EQUIVALENT:
        return tr("A small difference was found where there is none; it is not beyond the margin.")
    return tr(
        "A difference was found where there is none, and it may be beyond the margin: other effects may be off by it."
    )


def overall_effects(findings: Findings) -> list[Effect]:
    """Those over all load levels and scenarios, the claim's metric first; before them those of the claim's scenario."""
    asked = findings.hypothesis
    latencies = (latency_of(findings, name) for name in LATENCIES)
    metrics = dict.fromkeys((asked.metric, throughput_of(findings), *latencies))
    wanted: list[tuple[str, str | None]] = [(metric, None) for metric in metrics]
    if asked.scenario is not None:
        wanted = [(asked.metric, asked.scenario), *wanted]
    return [effect for metric, scenario in wanted for effect in effects_on(findings, metric, scenario=scenario)]


def effects_by_level(findings: Findings) -> list[Effect]:
    """Those of the claim's metric at each load level, in the order of the levels."""
    asked = findings.hypothesis
    return [
        effect
        for level in findings.experiment.levels
        for effect in effects_on(findings, asked.metric, scenario=asked.scenario, level=level.index)
    ]


def running_effect_text(
    *,
    arm: str,
    control: str,
    metric: str,
    ratio: float | None,
    low: float | None,
    high: float | None,
    confidence: float,
    margin: float,
    blocks: int,
) -> str:
    """The effect that the claim is about as far as it is known, in one phrase without a judgement.

    A word such as "better" would invite to stop there, and an experiment that ends when it looks good finds too much.
    """
    if low is None or high is None:
        interval = "without an interval yet"
    else:
        interval = f"{format_share(confidence)} interval {interval_text(low, high, ratio)}"
    return (
        f"{arm} against {control}, {metric_label(metric)}: {change_text(ratio, low, high)} ({interval}) after "
        f"{plural(blocks, 'block')}; margin ±{format_share(margin)}"
    )
