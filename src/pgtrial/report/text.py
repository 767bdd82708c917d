"""Findings to a summary for a terminal: plain text, without colours; control characters in names are made visible."""

import textwrap
from collections.abc import Sequence

from pgtrial.analysis.findings import Effect, Findings
from pgtrial.model.caveat import Severity
from pgtrial.report.cause_words import causes_of
from pgtrial.report.words import (
    ALL,
    SEVERITY_SYMBOLS,
    VERDICT_SYMBOLS,
    arm_label,
    change_text,
    claim_text,
    detectable_text,
    effect_text,
    format_p,
    interval_text,
    is_finished,
    latency_of,
    make_visible,
    metric_label,
    needed_text,
    p_of,
    placebo_arm,
    placebo_effect,
    placebo_text,
    plural,
    single_runs_text,
    sort_caveats,
    throughput_of,
)
from pgtrial.units import format_duration, format_percent, format_share, tie_units

LATENCIES = ("p50", "p95", "p99")
HEADS = ("change", "interval", "p", "decision")
LEFT = {"arm", "metric", "load", "decision"}
NARROWEST_ARM = 8
TIED = "\u00a0"  # while lines are broken; printed as a space


def render_text(findings: Findings, *, width: int = 80) -> str:
    """The summary, lines of at most ``width`` characters where words allow it, without a newline at the end."""
    parts = [
        _verdict(findings, width),
        _effects(findings, width),
        _why(findings, width),
        _trust(findings, width),
        _time(findings, width),
        _caveats(findings, width),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def wrap_lines(text: str, width: int, *, indent: str = "", first: str | None = None) -> list[str]:
    """Lines of at most ``width`` characters; a number stays with its unit, hidden characters are written out."""
    lines = textwrap.wrap(
        tie_units(text),
        width,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [make_visible(line.replace(TIED, " ")) for line in lines]


def _verdict(findings: Findings, width: int) -> list[str]:
    asked, experiment = findings.hypothesis, findings.experiment
    lines = [
        f"{VERDICT_SYMBOLS[asked.verdict]} {asked.verdict.upper()}",
        *wrap_lines(asked.reason, width, indent="  "),
        *wrap_lines(f"Claim: {claim_text(findings)}", width, indent="  "),
    ]
    if not is_finished(findings):
        done = f"{experiment.blocks_complete} of {plural(experiment.blocks_planned, 'block')}"
        lines += wrap_lines(f'Not finished: {done} complete; "pgtrial resume" goes on.', width, indent="  ")
    return lines


def _effects(findings: Findings, width: int) -> list[str]:
    """All metrics over all load levels; then the metric of the hypothesis by scenario and by load level."""
    asked = findings.hypothesis
    effects = (*findings.effects, *findings.placebo)
    latencies = (latency_of(findings, name) for name in LATENCIES)
    metrics = list(dict.fromkeys((asked.metric, throughput_of(findings), *latencies)))
    overall = [
        (effect, metric_label(metric))
        for metric in metrics
        for effect in effects
        if (effect.metric, effect.scenario, effect.load_level) == (metric, None, ALL)
    ]
    if asked.scenario is not None:
        named = f"{metric_label(asked.metric)} of {asked.scenario}"
        overall = [
            *(
                (e, named)
                for e in effects
                if (e.metric, e.scenario, e.load_level) == (asked.metric, asked.scenario, ALL)
            ),
            *overall,
        ]
    by_level = [
        (effect, level.label)
        for level in findings.experiment.levels
        for effect in effects
        if (effect.metric, effect.scenario, effect.load_level) == (asked.metric, asked.scenario, level.index)
    ]
    if not overall:
        return ["No effect could be estimated."]
    head = f"Effects against {asked.control} ({format_share(asked.confidence)} intervals, margin ±"
    lines = [*wrap_lines(f"{head}{format_share(asked.margin)})", width), *_table(findings, "metric", overall, width)]
    if len(findings.experiment.levels) > 1 and by_level:
        lines += [
            "",
            *wrap_lines(f"By load level: {metric_label(asked.metric)}", width),
            *_table(findings, "load", by_level, width),
        ]
    return lines


def _table(findings: Findings, what: str, effects: Sequence[tuple[Effect, str]], width: int) -> list[str]:
    """Aligned columns under their heads; where they do not fit, the arm's name is cut."""
    heads = ("arm", what, *HEADS)
    rows = [
        (
            make_visible(arm_label(findings, effect.arm)),
            make_visible(label),
            change_text(effect.ratio),
            interval_text(effect.low, effect.high),
            format_p(p_of(effect)),
            str(effect.decision),
        )
        for effect, label in effects
    ]
    wide = [max(len(head), *(len(row[k]) for row in rows)) for k, head in enumerate(heads)]
    excess = 2 + sum(wide) + 2 * (len(heads) - 1) - width
    wide[0] = min(wide[0], max(NARROWEST_ARM, wide[0] - max(0, excess)))
    return [
        ("  " + "  ".join(_align(cell, wide[k], left=heads[k] in LEFT) for k, cell in enumerate(row))).rstrip()
        for row in (heads, *rows)
    ]


def _align(text: str, width: int, *, left: bool) -> str:
    cut = text if len(text) <= width else text[: width - 1] + "…"
    return cut.ljust(width) if left else cut.rjust(width)


def _why(findings: Findings, width: int) -> list[str]:
    text = causes_of(findings).text
    return wrap_lines(f"Why: {text}", width, indent="  ", first="") if text else []


def _trust(findings: Findings, width: int) -> list[str]:
    lines = []
    arm = placebo_arm(findings)
    found = f" {effect_text(placebo_effect(findings))}." if arm is not None else ""
    lines += wrap_lines(f"Placebo:{found} {placebo_text(findings)}", width, indent="  ", first="")
    if findings.noise.detectable is not None:
        lines += wrap_lines(
            f"Noise: with these blocks a change of {detectable_text(findings)} is found with 80 % probability.",
            width,
            indent="  ",
            first="",
        )
    if findings.adjusted is not None:
        lines += wrap_lines(f"Covariate: {findings.adjusted.text}", width, indent="  ", first="")
    if single_runs_text(findings):
        lines += wrap_lines(f"One run of each arm: {single_runs_text(findings)}", width, indent="  ", first="")
    if findings.stopping is not None:
        lines += wrap_lines(f"Stopping: {findings.stopping.text}", width, indent="  ", first="")
    if findings.hypothesis.verdict in {"inconclusive", "invalid"} and needed_text(findings):
        lines += wrap_lines(f"Needed: {needed_text(findings)}", width, indent="  ", first="")
    return lines


def _time(findings: Findings, width: int) -> list[str]:
    spent = {name: seconds for name, seconds in findings.overhead.by_phase.items() if seconds >= 0.05}
    if not spent:
        return []
    phases = ", ".join(f"{name} {format_duration(seconds)}".replace(" ", TIED) for name, seconds in spent.items())
    share = findings.overhead.share
    rest = "" if share is None else f" ({format_percent(share)} of it not measured load)"
    return wrap_lines(f"Time{rest}: {phases}.", width, indent="  ", first="")


def _caveats(findings: Findings, width: int) -> list[str]:
    lines = []
    for caveat in sort_caveats(findings.caveats):
        mark = f"{SEVERITY_SYMBOLS[Severity(caveat.severity)]} {caveat.severity}: "
        runs = "run" if len(caveat.runs) == 1 else "runs"
        about = f" ({runs} {', '.join(map(str, caveat.runs))})" if caveat.runs else ""
        lines += wrap_lines(f"{caveat.text}{about}", width, indent="    ", first=f"  {mark}")
        if caveat.hint:
            lines += wrap_lines(caveat.hint, width, indent="      ", first="    → ")
    return ["Caveats", *lines] if lines else []
