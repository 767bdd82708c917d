"""How findings are put into words and numbers for people; the terminal summary and the page use the same ones.

All of it is in the language in use.
"""

import math

from pgtrial.experiment_file.hypothesis_table import Expect
from pgtrial.findings.caveat import CaveatFinding, is_untold
from pgtrial.findings.findings import Effect, Findings
from pgtrial.findings.message import say
from pgtrial.findings.naming import name_metric, name_part
from pgtrial.findings.record import ALL
from pgtrial.language import N_, decimal_sign, ptr, tr
from pgtrial.model.caveat import STOPPED_FOR_HARM, Severity
from pgtrial.model.observable import find_observable
from pgtrial.model.run import RunState
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.report.terms import claim_word, decision_word
from pgtrial.report.values import format_value
from pgtrial.units import (
    format_bytes,
    format_change,
    format_count,
    format_decimal,
    format_duration,
    format_percent,
    format_share,
)

EMULATED = N_("emulated disk")  # behind the name of an arm, in all tables

# Texts of catalogues, as are those of the next tables: metric_label has them in the language in use.
METRIC_LABELS = {
    "pgbench.tps": N_("throughput"),
    "pgbench.latency_mean": N_("latency mean"),
    "pgbench.latency_p50": N_("latency p50"),
    "pgbench.latency_p95": N_("latency p95"),
    "pgbench.latency_p99": N_("latency p99"),
    "pgbench.latency_p999": N_("latency p99.9"),
    "pgbench.failures": N_("failures"),
    "fio.bandwidth": N_("bandwidth"),
    "fio.iops": N_("file requests per second"),
    "fio.latency_mean": N_("latency mean"),
    "fio.latency_p50": N_("latency p50"),
    "fio.latency_p95": N_("latency p95"),
    "fio.latency_p99": N_("latency p99"),
    "fio.latency_p999": N_("latency p99.9"),
}
# By the kind of load.
_THROUGHPUTS = {"pgbench": "pgbench.tps", "fio": "fio.iops"}
RATES = ("pgbench.tps", "fio.iops", "fio.bandwidth")  # more is faster
REQUESTS = {"pgbench.tps": N_("transactions per second"), "fio.iops": N_("file requests per second")}
COST_LABELS = {
    "cost.cpu_seconds": N_("CPU time"),
    "cost.context_switches": N_("context switches"),
    "cost.blocks_hit": N_("blocks found in shared buffers"),
    "cost.blocks_read": N_("blocks read into shared buffers"),
    "cost.temp_bytes": N_("bytes of temporary files"),
    "cost.wal_bytes": N_("bytes of WAL"),
    "cost.device_reads": N_("reads of the devices"),
    "cost.device_read_bytes": N_("bytes read from the devices"),
    "cost.device_writes": N_("writes to the devices"),
    "cost.device_write_bytes": N_("bytes written to the devices"),
}
LATENCY = "pgbench.latency_mean"
SHARED_BY_TRANSACTIONS = "share.by-transactions"  # of the message on how scenarios share the load
LATENCIES = ("p50", "p95", "p99")  # that a short summary shows
LATENCY_METRICS = tuple(name for name in METRIC_LABELS if ".latency_" in name)

VERDICT_SYMBOLS = {
    Verdict.SUPPORTED: "✔",
    Verdict.REFUTED: "✘",
    Verdict.INCONCLUSIVE: "?",
    Verdict.INVALID: "!",
}
SEVERITY_SYMBOLS = {Severity.INFO: "i", Severity.WARNING: "!", Severity.INVALID: "✘"}
_MOST_DETECTABLE = 10.0  # share; a larger change is no figure to plan with
LEAST_P = 1e-4  # of a smaller one is only said that it is
_TESTED: dict[str, str] = {
    Expect.BETTER: N_("{arm} is better than {control}"),
    Expect.WORSE: N_("{arm} is worse than {control}"),
    Expect.NOT_WORSE: N_("{arm} is not worse than {control}"),
    Expect.EQUIVALENT: N_("{arm} is equivalent to {control}"),
    Expect.DIFFERENT: N_("{arm} is different from {control}"),
    Expect.LOWER: N_("{arm} is lower than {control}"),
    Expect.HIGHER: N_("{arm} is higher than {control}"),
}


# Control and format characters (terminal escapes, direction marks), lone surrogates, unassigned, line separators.


def metric_label(metric: str, scenario: str | None = None) -> str:
    """ "throughput", "throughput of read-only"."""
    if scenario is not None:
        return tr("{metric} of {scenario}", metric=metric_label(metric), scenario=scenario)
    if metric in COST_LABELS:
        return tr("{cost} per transaction", cost=tr(COST_LABELS[metric]))
    return tr(METRIC_LABELS[metric]) if metric in METRIC_LABELS else say(name_metric(metric))


def throughput_of(findings: Findings) -> str:
    """The metric that counts what the load gets done."""
    return _THROUGHPUTS.get(say(findings.experiment.workload.get("kind")), "pgbench.tps")


def latency_of(findings: Findings, name: str) -> str:
    """A latency of the load by its last part: "p95" is "pgbench.latency_p95"."""
    return f"{throughput_of(findings).partition('.')[0]}.latency_{name}"


def format_metric(metric: str, value: float | None) -> str:
    """A value of a metric with its unit: "2.37 k tps", "1.42 ms", "0.1 %"; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    if metric == "pgbench.tps":
        return ptr("unit", "{count} tps", count=format_count(value))
    if metric == "fio.iops":
        return ptr("unit", "{count} IOPS", count=format_count(value))
    if metric == "fio.bandwidth":
        return ptr("unit", "{size}/s", size=format_bytes(value))
    if metric in LATENCY_METRICS:
        return format_duration(value)
    if metric == "pgbench.failures":
        return format_percent(value)
    known = find_observable(metric)
    return format_value(value, known.metric.unit if known else "")


def told_effects(findings: Findings) -> tuple[Effect, ...]:
    """Those of the candidates and of the placebo; where there is one load level, it is all of them, and told once."""
    every = (*findings.effects, *findings.placebo)
    return every if len(findings.experiment.levels) > 1 else tuple(each for each in every if each.load_level == ALL)


def level_label(findings: Findings, level: int | str) -> str:
    """The level's own label ("8 clients"); "all load levels" for all of them, where there are several."""
    levels = findings.experiment.levels
    if level == ALL:
        return say(levels[0].label) if len(levels) == 1 else tr("all load levels")
    for known in levels:
        if known.index == level:
            return say(known.label)
    return tr("load level {level}", level=level)


def arm_label(findings: Findings, name: str) -> str:
    """An arm's name, with its server's version where the arms have several: "new (18.4)".

    An arm whose disk is emulated says so wherever it is named: "slow (emulated disk)".
    """
    arms = {arm.name: arm for arm in findings.experiment.arms}
    remarks = []
    if name in arms and arms[name].version and len({arm.version for arm in arms.values()}) > 1:
        remarks.append(arms[name].version)
    if name in arms and arms[name].is_emulated:
        remarks.append(tr(EMULATED))
    return f"{name} ({', '.join(remarks)})" if remarks else name


def control_of(findings: Findings) -> str:
    return findings.hypothesis.control


def placebo_arm(findings: Findings) -> str | None:
    return next((arm.name for arm in findings.experiment.arms if arm.role == "placebo"), None)


def find_effect(
    effects: tuple[Effect, ...], *, arm: str, metric: str, scenario: str | None, level: int | str = ALL
) -> Effect | None:
    """The effect with exactly these coordinates, or None."""
    return next((effect for effect in effects if effect.key == (arm, metric, scenario, level)), None)


def effects_on(findings: Findings, metric: str, *, scenario: str | None = None, level: int | str = ALL) -> list[Effect]:
    """Those of all arms, the placebo's last."""
    wanted = (metric, scenario, level)
    every = (*findings.effects, *findings.placebo)
    return [effect for effect in every if (effect.metric, effect.scenario, effect.load_level) == wanted]


def effect_word(findings: Findings, effect: Effect) -> str:
    """What the interval says against the margin; of the claim's own effects nothing else than the verdict on them does.

    A verdict waits for blocks, failures and looks that are still to come, which an interval alone knows nothing of.
    """
    judged = judged_of(findings, effect)
    if judged is None:
        return decision_word(effect.decision)
    expect, verdict = judged
    if verdict is Verdict.INCONCLUSIVE:
        return decision_word(Decision.INCONCLUSIVE)
    word = claim_word(expect, verdict) if effect.decision is Decision.INCONCLUSIVE else ""
    return word or decision_word(effect.decision)


def judged_of(findings: Findings, effect: Effect) -> tuple[str, Verdict] | None:
    """What is claimed of an effect, and the verdict on that; None where nothing is."""
    asked = findings.hypothesis
    for part in asked.parts:
        same = find_effect(findings.effects, arm=asked.arm, metric=part.metric, scenario=part.scenario)
        if effect == same:
            return part.expect, part.verdict
    return (asked.expect, asked.verdict) if effect == primary_effect(findings) else None


def scenario_latencies(findings: Findings) -> list[Effect]:
    """Mean latency of each scenario over all load levels, where all have the same throughput by construction: one pool
    of clients draws them with fixed weights, so what makes one slower makes all of them fewer.
    """
    shares = findings.experiment.workload.get("shares")
    if len(findings.experiment.scenarios) < 2 or getattr(shares, "code", "") != SHARED_BY_TRANSACTIONS:
        return []
    return effects_by_scenario(findings, LATENCY)


def effects_by_scenario(findings: Findings, metric: str) -> list[Effect]:
    """Those of each scenario over all load levels."""
    return [
        effect
        for scenario in findings.experiment.scenarios
        for effect in effects_on(findings, metric, scenario=scenario)
    ]


def primary_effect(findings: Findings) -> Effect | None:
    """The effect that the hypothesis is about, over all load levels."""
    asked = findings.hypothesis
    return find_effect(findings.effects, arm=asked.arm, metric=asked.metric, scenario=asked.scenario)


def placebo_effect(findings: Findings) -> Effect | None:
    """The placebo's effect on the metric of the hypothesis, over all load levels."""
    asked = findings.hypothesis
    arm = placebo_arm(findings)
    if arm is None:
        return None
    return find_effect(findings.placebo, arm=arm, metric=asked.metric, scenario=asked.scenario)


def change_text(ratio: float | None, *beside: float | None) -> str:
    """ "+6.8 %" of 1.068, in one form with the ratios beside it; a dash where there is no ratio."""
    return "–" if ratio is None else format_change(ratio, *beside)


def interval_text(low: float | None, high: float | None, *beside: float | None) -> str:
    """ "+3.1 % to +10.6 %", in one form with the ratios beside it; a dash where there is no interval."""
    if low is None or high is None:
        return "–"
    return tr("{low} to {high}", low=change_text(low, high, *beside), high=change_text(high, low, *beside))


def change_cells(ratio: float | None, low: float | None, high: float | None) -> tuple[str, str]:
    """A change and its interval, all in one form."""
    return change_text(ratio, low, high), interval_text(low, high, ratio)


def change_and_interval(ratio: float | None, low: float | None, high: float | None) -> str:
    """ "+6.8 % (+3.1 % to +10.6 %)"; the change alone where there is no interval."""
    change, interval = change_cells(ratio, low, high)
    return change if low is None else f"{change} ({interval})"


def why_no_interval(effect: Effect) -> str:
    """In a clause, of an effect that has none."""
    if is_untold(effect.caveats):
        return tr("slices do not tell what an arm leaves of this for the turns of others")
    return tr("there are too few blocks")


def effect_text(effect: Effect | None) -> str:
    """Change and interval in one phrase."""
    if effect is None or effect.ratio is None:
        return tr("not measured")
    change = change_text(effect.ratio, effect.low, effect.high)
    if effect.low is None or effect.high is None:
        return tr("{change}, without an interval", change=change)
    return tr(
        "{change} ({confidence} interval {interval})",
        change=change,
        confidence=format_share(effect.confidence),
        interval=interval_text(effect.low, effect.high, effect.ratio),
    )


def format_p(p: float | None) -> str:
    """Two significant digits; what is below 0.0001 is only said to be so."""
    if p is None:
        return "–"
    if p < LEAST_P:
        return f"<{format_decimal(LEAST_P, 4)}"
    return f"{p:.2g}".replace(".", decimal_sign()) if p >= 0.001 else format_decimal(p, 4)


def p_of(effect: Effect) -> float | None:
    """The p-value to show: adjusted for the number of arms where that was done."""
    return effect.p_value if effect.p_adjusted is None else effect.p_adjusted


def detectable_text(findings: Findings) -> str:
    """The smallest change that these blocks find with 80 % probability; a dash where that is not known."""
    detectable = findings.noise.detectable
    if detectable is None:
        return "–"
    if detectable > _MOST_DETECTABLE:
        return tr("more than {change}", change=format_percent(_MOST_DETECTABLE))
    return format_percent(detectable)


def is_sliced(findings: Findings) -> bool:
    """Whether the arms of a block shared its time."""
    return findings.experiment.method in {"interleaved", "duet", "switchback"}


def is_finished(findings: Findings) -> bool:
    """Whether no run is due any more: the schedule is done, or its rule for stopping ended it."""
    ended = findings.stopping is not None and findings.stopping.ended is not None
    return not findings.hypothesis.provisional and (findings.experiment.complete or ended)


def goes_on(findings: Findings) -> bool:
    """Whether who resumes the experiment does the runs that are still due: not where a guardrail has ended it."""
    return not is_finished(findings) and all(caveat.code != STOPPED_FOR_HARM for caveat in findings.caveats)


def block_numbers(findings: Findings, effect: Effect) -> tuple[int, ...]:
    """The blocks of an effect's ratios as its runs are numbered; a block without a valid run of both has no ratio.

    Counted from 1 where the runs do not tell.
    """
    done = {(run.arm, run.block) for run in findings.runs if run.state == RunState.DONE}
    control = control_of(findings)
    blocks = sorted(block for arm, block in done if arm == effect.arm and (control, block) in done)
    count = len(effect.block_ratios)
    return tuple(blocks) if len(blocks) == count else tuple(range(1, count + 1))


def sort_caveats(caveats: tuple[CaveatFinding, ...]) -> list[CaveatFinding]:
    """The gravest first, otherwise in the order of the analysis."""
    order = (Severity.INVALID, Severity.WARNING, Severity.INFO)
    return sorted(caveats, key=lambda caveat: order.index(caveat.severity))


def build_text(findings: Findings) -> str:
    """What the servers of the arms differ in beside what was asked; it stands beside the verdict, which is of both."""
    return " ".join(caveat.text for caveat in findings.caveats if caveat.code == "server-build")


def plural(count: int, noun: str) -> str:
    """ "1 block", "6 blocks", for what is always in English; other texts have their plurals in catalogues."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def part_name(kind: str, event: str = "") -> str:
    """A part of a transaction's time: "IO WALSync", "CPU"."""
    return say(name_part(kind, event))


def workload_facts(findings: Findings) -> dict[str, str]:
    """Facts of the load by their English names."""
    return {name: say(value) for name, value in findings.experiment.workload.items()}


def needed_text(findings: Findings) -> str:
    """What is still needed, as a sentence."""
    text = say(findings.needed.text).rstrip(".")
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def claim_text(findings: Findings) -> str:
    """The claim as the user wrote it, or as the file's figures state it."""
    return findings.hypothesis.claim or tested_text(findings)


def tested_text(findings: Findings) -> str:
    """ "large is better than small": the relation that was tested."""
    asked = findings.hypothesis
    if asked.expect not in _TESTED:
        return f"{asked.arm} is {asked.expect} {asked.control}"  # what only a newer version knows
    return tr(_TESTED[asked.expect], arm=asked.arm, control=asked.control)
