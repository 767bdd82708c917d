"""Which of the many effects a short summary shows: few metrics over all load levels, the claim's by load level."""

from pgtrial.findings.findings import Effect, Findings
from pgtrial.report.text import LATENCIES
from pgtrial.report.words import ALL, latency_of, throughput_of


def overall_effects(findings: Findings) -> list[Effect]:
    """Those over all load levels and scenarios, the claim's metric first; before them those of the claim's scenario."""
    asked = findings.hypothesis
    every = (*findings.effects, *findings.placebo)
    latencies = (latency_of(findings, name) for name in LATENCIES)
    metrics = dict.fromkeys((asked.metric, throughput_of(findings), *latencies))
    wanted: list[tuple[str, str | None]] = [(metric, None) for metric in metrics]
    if asked.scenario is not None:
        wanted = [(asked.metric, asked.scenario), *wanted]
    return [
        effect
        for metric, scenario in wanted
        for effect in every
        if (effect.metric, effect.scenario, effect.load_level) == (metric, scenario, ALL)
    ]


def effects_by_level(findings: Findings) -> list[Effect]:
    """Those of the claim's metric at each load level, in the order of the levels."""
    asked = findings.hypothesis
    return [
        effect
        for level in findings.experiment.levels
        for effect in (*findings.effects, *findings.placebo)
        if (effect.metric, effect.scenario, effect.load_level) == (asked.metric, asked.scenario, level.index)
    ]
