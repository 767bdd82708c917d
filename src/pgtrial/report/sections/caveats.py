"""All caveats, the gravest first, including those of single effects."""

from pgtrial.findings.caveat import CaveatFinding
from pgtrial.findings.findings import Effect, Findings
from pgtrial.language import N_, tr
from pgtrial.report.sections.base import Section
from pgtrial.report.words import level_label, metric_label, sort_caveats


def _build(findings: Findings) -> dict[str, object]:
    return {
        "caveats": sort_caveats(findings.caveats),
        "of_effects": _group(findings),
    }


def _group(findings: Findings) -> list[dict[str, object]]:
    """Caveats of effects by code and text, with the effects they are about: the same one often holds for many."""
    about: dict[tuple[str, str], tuple[CaveatFinding, list[str]]] = {}
    for effect in (*findings.effects, *findings.placebo):
        for caveat in effect.caveats:
            about.setdefault((caveat.code, caveat.text), (caveat, []))[1].append(_name(findings, effect))
    return [{"caveat": caveat, "effects": names} for caveat, names in about.values()]


def _name(findings: Findings, effect: Effect) -> str:
    values = {
        "metric": metric_label(effect.metric),
        "arm": effect.arm,
        "level": level_label(findings, effect.load_level),
    }
    if effect.scenario:
        return tr("{metric} of {arm}, {scenario}, {level}", **values, scenario=effect.scenario)
    return tr("{metric} of {arm}, {level}", **values)


CAVEATS = Section(name="caveats", title=N_("Caveats"), build=_build)
