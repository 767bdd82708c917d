"""Facts of what was found and how sure it is: effects, placebo, noise, levels, caveats."""

from collections.abc import Iterator

from pgtrial.findings.findings import Effect, Findings
from pgtrial.findings.message import say
from pgtrial.findings.record import Estimate
from pgtrial.model.caveat import Severity
from pgtrial.narrate.facts import Fact, effect_fact, share_fact, text_fact, value_fact
from pgtrial.report.narrative.base import find_primary
from pgtrial.report.trust_words import placebo_text, single_runs_text
from pgtrial.report.words import (
    ALL,
    METRIC_LABELS,
    detectable_text,
    level_label,
    metric_label,
)

# Metrics of the load curve that have a unit people know.
_CURVES = {
    "pgbench.tps": "1/s",
    "fio.iops": "1/s",
    "fio.bandwidth": "B/s",
    **{f"{kind}.latency_{name}": "s" for kind in ("pgbench", "fio") for name in ("mean", "p95", "p99")},
}


def tell_results(findings: Findings) -> Iterator[Fact]:
    """The effect of the claim first."""
    yield from _effects(findings)
    yield from _trust(findings)
    yield from _curve(findings)
    for number, caveat in enumerate(findings.caveats):
        if caveat.severity is not Severity.INFO:
            yield text_fact(f"caveat ({caveat.severity})", caveat.text, f"caveats[{number}].text")
            if caveat.hint:
                yield text_fact("what that caveat advises", caveat.hint, f"caveats[{number}].hint")


def _effects(findings: Findings) -> Iterator[Fact]:
    primary = find_primary(findings)
    first = "" if primary is None else primary.path
    if primary is not None:
        yield effect_fact(_name(findings, primary.effect, "the claim: "), primary.effect, primary.path)
    for field, effects in (("effects", findings.effects), ("placebo", findings.placebo)):
        for number, effect in enumerate(effects):
            if effect.ratio is not None and _is_told(findings, effect) and f"{field}[{number}]" != first:
                what = "placebo, true change zero: " if field == "placebo" else ""
                clients = clients_of(findings, effect.load_level)
                yield effect_fact(_name(findings, effect, what), effect, f"{field}[{number}]", clients=clients)


def clients_of(findings: Findings, level: int | str) -> int:
    """Clients of a load level; 0 of all levels, and of the only one."""
    levels = findings.experiment.levels
    return next((each.clients for each in levels if each.index == level), 0) if len(levels) > 1 else 0


def _is_told(findings: Findings, effect: Effect) -> bool:
    """All metrics over everything, and the claim's metric at each level and in each scenario."""
    if effect.metric == findings.hypothesis.metric:
        return effect.scenario is None or effect.load_level == ALL
    return effect.metric in METRIC_LABELS and effect.scenario is None and effect.load_level == ALL


def _name(findings: Findings, effect: Effect, what: str) -> str:
    scenario = f", scenario “{effect.scenario}”" if effect.scenario else ""
    level = level_label(findings, effect.load_level)
    control = findings.hypothesis.control
    return f"{what}change of {metric_label(effect.metric)} of “{effect.arm}” against “{control}”{scenario}, {level}"


def _trust(findings: Findings) -> Iterator[Fact]:
    noise = findings.noise
    if noise.detectable is not None:
        told = share_fact("", noise.detectable, "noise.detectable", is_bound=True)
        yield Fact(
            text="smallest change that these blocks find with 80 % probability",
            value=detectable_text(findings),
            path="noise.detectable",
            numbers=(
                *told.numbers,
                *text_fact("", detectable_text(findings), "").numbers,
                *text_fact("", "80 %", "").numbers,
            ),
        )
    for text, sd, path in (
        ("SD between blocks of the log ratio", noise.sd_log_ratio, "noise.sd_log_ratio"),
        ("the same of the placebo", noise.sd_log_ratio_placebo, "noise.sd_log_ratio_placebo"),
    ):
        if sd is not None:
            yield value_fact(text, Estimate(value=sd), "", path)
    yield Fact(text="what the placebo says", value=placebo_text(findings), path="placebo", numbers=())
    if single_runs_text(findings):
        yield text_fact("what one run of each arm would have said", single_runs_text(findings), "single_runs")
    if findings.adjusted is not None:
        yield text_fact("adjusted for a covariate", say(findings.adjusted.text), "adjusted.text.text")
    if findings.stopping is not None:
        yield text_fact("rule for stopping", say(findings.stopping.text), "stopping.text.text")


def _curve(findings: Findings) -> Iterator[Fact]:
    """Throughput and latency themselves, by arm and load level."""
    for number, point in enumerate(findings.curve):
        unit = _CURVES.get(point.metric)
        if unit is not None and point.value is not None:
            estimate = Estimate(value=point.value, low=point.low, high=point.high)
            metric = metric_label(point.metric)
            text = f"{metric} of “{point.arm}”, {level_label(findings, point.load_level)}"
            clients = clients_of(findings, point.load_level)
            yield value_fact(text, estimate, unit, f"curve[{number}]", arm=point.arm, metric=metric, clients=clients)
