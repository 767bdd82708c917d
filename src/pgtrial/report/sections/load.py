"""The load curve, the law fitted to it, and the distributions of latency."""

from pgtrial.findings.causes import Crossing, CurveModel
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.language import N_, tr
from pgtrial.report.cause_words import by_arm, causes_of, estimate_text
from pgtrial.report.charts.curve import curve_charts, fitted_models
from pgtrial.report.charts.distribution import distribution_charts, heat_maps
from pgtrial.report.charts.time_axis import is_long, widest_times
from pgtrial.report.sections.base import Section, always
from pgtrial.report.values import format_value
from pgtrial.report.words import arm_label, level_label
from pgtrial.units import format_percent, format_share


def _build_curve(findings: Findings) -> dict[str, object]:
    causes = causes_of(findings)
    models = by_arm(findings, causes.curve_models)
    return {
        "charts": curve_charts(findings),
        "confidence": format_share(findings.hypothesis.confidence),
        "models": [_model(findings, model) for model in models],
        "is_fitted": bool(fitted_models(findings)),
        "crossings": [_crossing(findings, crossing) for crossing in causes.crossings],
    }


def _model(findings: Findings, model: CurveModel) -> dict[str, object]:
    return {
        "arm": arm_label(findings, model.arm),
        "one": estimate_text(model.throughput_of_one, "1/s"),
        "contention": estimate_text(model.contention, ""),
        "coherency": estimate_text(model.coherency, ""),
        "peak": estimate_text(model.peak, ""),
        "knee": format_value(model.knee, ""),
        "error": "–" if model.error is None else format_percent(model.error),
        "reason": say(model.reason),
    }


def _crossing(findings: Findings, crossing: Crossing) -> str:
    """Where two arms change places, in a sentence that says how sure it is."""
    below, above = arm_label(findings, crossing.below), arm_label(findings, crossing.above)
    values = {"clients": format_value(crossing.clients, ""), "below": below, "above": above}
    if crossing.is_certain:
        return tr("Below about {clients} clients “{below}” has the larger throughput, above it “{above}”.", **values)
    return tr(
        "Below about {clients} clients “{below}” has the larger throughput, above it “{above}”; "
        "the intervals beside it do not exclude that they are alike.",
        **values,
    )


CURVE = Section(
    name="curve",
    title=N_("Load curve"),
    build=_build_curve,
    is_open=always,
    is_shown=lambda findings: len(findings.experiment.levels) > 1,
)


def _build_latency(findings: Findings) -> dict[str, object]:
    maps = heat_maps(findings) if is_long(findings) else []
    levels = findings.experiment.levels
    only_level = level_label(findings, levels[0].index) if len(levels) == 1 else ""
    return {
        "only_level": only_level,
        "charts": distribution_charts(findings),
        "maps": maps,
        "times": widest_times(maps),
    }


LATENCY = Section(
    name="latency",
    title=N_("Latency"),
    build=_build_latency,
    is_open=always,
    is_shown=lambda findings: bool(distribution_charts(findings)),
)
