"""How comparisons are put into words; the terminal and the page use the same ones."""

from collections.abc import Mapping
from datetime import UTC, datetime

from pgtrial.analysis.compare.pooling import FEW_EXPERIMENTS, HETEROGENEOUS
from pgtrial.findings.caveat import CaveatFinding
from pgtrial.findings.comparison import (
    ClaimUnderLoads,
    ComparedExperiment,
    Contrast,
    ExperimentComparison,
    Indirect,
    PooledEffect,
    Value,
    WorldDifference,
)
from pgtrial.model.verdict import Verdict
from pgtrial.report.terms import verdict_word
from pgtrial.report.words import change_text, format_metric, format_p, interval_text, metric_label, plural
from pgtrial.units import format_percent, format_share

RULE_TITLE = "What is combined and what is not"


def when_text(t: float | None) -> str:
    """ "2026-01-20 10:15 UTC"."""
    return "–" if t is None else datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%d %H:%M UTC")


def values_text(values: Mapping[str, str]) -> str:
    """ "A, B: 2; C: 4": each value with all that have it."""
    found: dict[str, list[str]] = {}
    for key, value in values.items():
        found.setdefault(value, []).append(key)
    return "; ".join(f"{', '.join(keys)}: {value}" for value, keys in found.items())


def difference_name(difference: WorldDifference) -> str:
    return difference.name if difference.group == "design" else f"{difference.group}: {difference.name}"


def subject_text(contrast: Contrast | Indirect) -> str:
    """ "throughput, of read"."""
    scenario = f" of {contrast.scenario}" if contrast.scenario else ""
    return f"{metric_label(contrast.metric)}{scenario}"


def definition_text(contrast: Contrast) -> str:
    """ "synchronous_commit off, not on; work_mem 64MB, not set in the control"."""
    parts = [
        f"{name} {contrast.arm.get(name, 'not set')} against {contrast.control.get(name, 'not set')}"
        for name in sorted({*contrast.arm, *contrast.control})
    ]
    return "; ".join(parts)


def these_interval(pooled: PooledEffect) -> str:
    """The interval of these experiments' own mean, where they are so few that it is what there is to read; else ""."""
    if pooled.experiments >= FEW_EXPERIMENTS or pooled.these_low is None or pooled.these_high is None:
        return ""
    return interval_text(pooled.these_low, pooled.these_high, *_read_together(pooled))


def pooled_interval(pooled: PooledEffect) -> str:
    return interval_text(pooled.low, pooled.high, *_read_together(pooled))


def pooled_change(pooled: PooledEffect) -> str:
    return change_text(pooled.ratio, *_read_together(pooled))


def _read_together(pooled: PooledEffect) -> tuple[float | None, ...]:
    """Its ratios, which stand beside each other and have one form."""
    return (pooled.ratio, pooled.low, pooled.high, pooled.these_low, pooled.these_high)


def pooled_text(pooled: PooledEffect) -> str:
    """Of few experiments the interval for others like them is wider than each of theirs, so it does not stand alone."""
    confidence = format_share(pooled.confidence)
    if these := these_interval(pooled):
        return (
            f"{pooled_change(pooled)} in these {pooled.experiments} experiments ({confidence} interval {these}). "
            f"Experiments like these, of which {pooled.experiments} tell little: "
            f"{pooled_interval(pooled)} on average"
        )
    return (
        f"{pooled_change(pooled)} ({confidence} interval {pooled_interval(pooled)}) over "
        f"{plural(pooled.experiments, 'experiment')}"
    )


def decision_text(pooled: PooledEffect) -> str:
    """ "better, provisional"; "" where the experiments have different margins."""
    decision = str(pooled.decision or "")
    return f"{decision}, provisional" if decision and pooled.provisional else decision


def spread_text(log_sd: float) -> str:
    """An SD of log ratios as a relative change; exact for small ones."""
    return format_percent(log_sd)


def heterogeneity_text(pooled: PooledEffect) -> str:
    """How much the experiments differ, and what that leaves of them, in a few sentences."""
    text = (
        f"Heterogeneity: F = {pooled.f:.3g} (p = {format_p(pooled.f_p)}), "
        f"I² = {format_share(round(pooled.i2, 2))}; effects differ between experiments by {spread_text(pooled.tau)} "
        f"(standard deviation; {format_share(pooled.confidence)} interval {spread_text(pooled.tau_low)} to "
        f"{spread_text(pooled.tau_high)})."
    )
    if pooled.these_low is not None and pooled.these_high is not None and not these_interval(pooled):
        these = interval_text(pooled.these_low, pooled.these_high, *_read_together(pooled))
        text += (
            f" The mean of these experiments alone: {these} "
            f"({format_share(pooled.confidence)} interval); that of experiments like these is less well known."
        )
    if pooled.prediction_low is not None and pooled.prediction_high is not None:
        predicted = interval_text(pooled.prediction_low, pooled.prediction_high, *_read_together(pooled))
        text += f" Another experiment like these: {predicted} ({format_share(pooled.confidence)} prediction interval)."
    return text


def answer_text(found: ExperimentComparison) -> str:
    """What came out, in a few sentences: what is combined, and whether a claim holds under all loads."""
    loads = " ".join(map(under_loads_text, found.under_loads))
    return " ".join(filter(None, (_combined_text(found, has_loads=bool(loads)), loads)))


def under_loads_text(one: ClaimUnderLoads) -> str:
    """ "off against on: whether the claim is true depends on the load: supported in A, B; refuted in C." """
    by_verdict: dict[Verdict, list[str]] = {}
    for key, verdict in one.verdicts.items():
        by_verdict.setdefault(verdict, []).append(key)
    parts = [
        f"{verdict_word(verdict, provisional=one.provisional)} in {', '.join(keys)}"
        for verdict, keys in by_verdict.items()
    ]
    if len(by_verdict) == 1:
        (verdict,) = by_verdict
        word = verdict_word(verdict, provisional=one.provisional)
        all_of_them = f"{word} under each of {one.loads} loads ({', '.join(one.verdicts)})"
        return f"{one.title}: the claim is {all_of_them}."
    if {Verdict.SUPPORTED, Verdict.REFUTED} <= by_verdict.keys():
        return f"{one.title}: whether the claim is true depends on the load: {'; '.join(parts)}."
    return f"{one.title}: the claim is not decided under all loads: {'; '.join(parts)}."


def _combined_text(found: ExperimentComparison, *, has_loads: bool) -> str:
    pooled = [one for one in found.contrasts if one.pooled and one.is_claimed and one.is_overall]
    if pooled:
        contrast = pooled[0]
        assert contrast.pooled is not None
        decision = f": {decision_text(contrast.pooled)}" if contrast.pooled.decision else ""
        text = f"{contrast.title}, {subject_text(contrast)}: {pooled_text(contrast.pooled)}{decision}."
        if contrast.pooled.f_p < HETEROGENEOUS:
            text += (
                " The experiments differ by more than their own noise explains: this is a mean of different effects."
            )
        rest = len({one.title for one in pooled}) - 1
        return f"{text} {plural(rest, 'further comparison')} below." if rest else text
    if found.indirect:
        return f"Nothing repeats, so nothing is combined. Indirectly, {indirect_text(found.indirect[0])}."
    if has_loads:
        return ""
    return "No two experiments asked the same, so nothing is combined; they are shown side by side."


def indirect_text(one: Indirect) -> str:
    """ "c against b, throughput: +12 % (95 % interval …), by way of a control that both have"."""
    interval = interval_text(one.low, one.high, one.ratio)
    return (
        f"{one.title}, {subject_text(one)}: {change_text(one.ratio, one.low, one.high)} "
        f"({format_share(one.confidence)} interval {interval}; experiments {indirect_experiments(one)})"
    )


def indirect_experiments(one: Indirect) -> str:
    """ "C against A, B": in the order of the arms in the title."""
    return " against ".join(", ".join(keys) for keys in reversed(one.experiments))


def verdict_text(one: ComparedExperiment) -> str:
    verdict = verdict_word(one.verdict, provisional=one.provisional)
    return f"{verdict}: {one.reason}" if one.reason else verdict


def all_caveats(found: ExperimentComparison) -> list[CaveatFinding]:
    """Of the comparison, then of what its claims' combined effects rest on."""
    return [
        *found.caveats,
        *(caveat for one in found.contrasts if one.is_claimed and one.is_overall for caveat in one.caveats),
    ]


def value_text(value: Value | None) -> str:
    return "–" if value is None else format_metric(value.metric, value.value)


def value_interval(value: Value | None) -> str:
    """ "1.41 ms to 1.44 ms"; a dash where there is no interval."""
    if value is None or value.low is None or value.high is None:
        return "–"
    return f"{format_metric(value.metric, value.low)} to {format_metric(value.metric, value.high)}"


def find_value(values: tuple[Value, ...], metric: str) -> Value | None:
    return next((value for value in values if value.metric == metric), None)
