"""Findings to a summary for a terminal: plain text, without colours; control characters in names are made visible.

It is in the language in use.
"""

import textwrap
from collections.abc import Iterator, Sequence

from pgtrial.findings.caveat import CaveatFinding
from pgtrial.findings.findings import Effect, Findings
from pgtrial.findings.message import say
from pgtrial.findings.questions import Ledger, Soak
from pgtrial.language import N_, ntr, tr
from pgtrial.model.caveat import Severity
from pgtrial.model.verdict import Verdict
from pgtrial.report.cause_words import causes_of
from pgtrial.report.charts.tornado import elasticity_text, interval_of, ledger_rows
from pgtrial.report.narrative.worst import worst_text
from pgtrial.report.question_words import (
    acceptance_rows,
    acceptance_text,
    drift_cells,
    host_rows,
    hosts_text,
    prediction_text,
    soak_head,
    soak_texts,
    too_short_text,
)
from pgtrial.report.summary_words import effects_by_level, overall_effects, placebo_text, single_runs_text
from pgtrial.report.terms import hypothesis_word, phase_word, severity_word
from pgtrial.report.words import (
    SEVERITY_SYMBOLS,
    VERDICT_SYMBOLS,
    arm_label,
    build_text,
    change_cells,
    claim_text,
    detectable_text,
    effect_text,
    effect_word,
    format_p,
    goes_on,
    level_label,
    metric_label,
    needed_text,
    p_of,
    placebo_arm,
    placebo_effect,
    scenario_latencies,
    sort_caveats,
)
from pgtrial.safe_text import make_visible
from pgtrial.units import format_duration, format_percent, format_share, tie_units

HEADS = (N_("change"), N_("interval"), N_("p"), N_("decision"))
LEFT = {N_("arm"), N_("metric"), N_("load"), N_("scenario"), "decision"}
NARROWEST_ARM = 8
TIED = "\u00a0"  # while lines are broken; printed as a space


def render_text(findings: Findings, *, width: int = 80) -> str:
    """The summary, lines of at most ``width`` characters where words allow it, without a newline at the end."""
    if findings.soak is not None:
        parts = [_soak(findings, findings.soak, width), _time(findings, width), _caveats(findings, width)]
        return "\n\n".join("\n".join(lines) for lines in parts if lines)
    parts = [
        _own_ledger(findings, width),
        _verdict(findings, width),
        _hosts(findings, width),
        _acceptance(findings, width),
        _effects(findings, width),
        _why(findings, width),
        *(_ledger(each, width, tr("What limits {arm}, by experiment:", arm=each.of)) for each in findings.proofs),
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
        f"{VERDICT_SYMBOLS[asked.verdict]} {hypothesis_word(asked).upper()}",
        *wrap_lines(say(asked.reason), width, indent="  "),
        *wrap_lines(worst_text(findings), width, indent="  "),
        *wrap_lines(build_text(findings), width, indent="  "),
        *wrap_lines(tr("Claim: {claim}", claim=claim_text(findings)), width, indent="  "),
    ]
    if goes_on(findings):
        text = ntr(
            'Not finished: {complete} of {count} block complete; "pgtrial resume" goes on.',
            'Not finished: {complete} of {count} blocks complete; "pgtrial resume" goes on.',
            experiment.blocks_planned,
            complete=experiment.blocks_complete,
        )
        lines += wrap_lines(text, width, indent="  ")
    return lines


def _effects(findings: Findings, width: int) -> list[str]:
    """All metrics over all load levels; then the metric of the hypothesis by scenario and by load level."""
    asked = findings.hypothesis
    overall = [(effect, metric_label(effect.metric, effect.scenario)) for effect in overall_effects(findings)]
    by_level = [(effect, level_label(findings, effect.load_level)) for effect in effects_by_level(findings)]
    if not overall:
        return wrap_lines(tr("No effect could be estimated."), width)
    by_scenario = [(effect, effect.scenario or "") for effect in scenario_latencies(findings)]
    head = tr(
        "Effects against {control} ({confidence} intervals, margin ±{margin})",
        control=asked.control,
        confidence=format_share(asked.confidence),
        margin=format_share(asked.margin),
    )
    lines = wrap_lines(head, width)
    if by_scenario:
        title = tr("Mean latency by scenario (throughput is the same of all, because their shares are fixed)")
        lines += [*wrap_lines(title, width), *_table(findings, "scenario", by_scenario, width), ""]
    lines += _table(findings, "metric", overall, width)
    if len(findings.experiment.levels) > 1 and by_level:
        lines += [
            "",
            *wrap_lines(tr("By load level: {metric}", metric=metric_label(asked.metric, asked.scenario)), width),
            *_table(findings, "load", by_level, width),
        ]
    return lines


def _table(findings: Findings, what: str, effects: Sequence[tuple[Effect, str]], width: int) -> list[str]:
    """Columns under their heads."""
    columns = ("arm", what, *HEADS)
    heads = tuple(tr(column) for column in columns)
    rows = [
        (
            make_visible(arm_label(findings, effect.arm)),
            make_visible(label),
            *change_cells(effect.ratio, effect.low, effect.high),
            format_p(p_of(effect)),
            effect_word(findings, effect),
        )
        for effect, label in effects
    ]
    left = [column in LEFT for column in columns]
    return align_columns((heads, *rows), left=left, width=width, narrowest=NARROWEST_ARM)


def align_columns(
    table: Sequence[Sequence[str]], *, left: Sequence[bool], width: int, narrowest: int, indent: str = "  "
) -> list[str]:
    """Lines with two blanks between columns, of which those of ``left`` are aligned to the left.

    Where they are too long, the first column is cut, but not below ``narrowest``. If two names in it would then be the
    same, those that are too long stand above their rows.
    """
    wide = [max(len(row[k]) for row in table) for k in range(len(left))]
    excess = len(indent) + sum(wide) + 2 * (len(wide) - 1) - width
    wide[0] = min(wide[0], max(narrowest, wide[0] - max(0, excess)))
    names = {row[0] for row in table}
    are_alike = len({cut_text(name, wide[0]) for name in names}) < len(names)
    lines, above = list[str](), ""
    for row in table:
        cells = list(row)
        if are_alike and len(row[0]) > wide[0]:
            if row[0] != above:
                lines += wrap_lines(row[0], width, indent=f"{indent}  ", first=indent)
            cells[0] = ""
        above = row[0]
        aligned = (_align(cell, size, left=is_left) for cell, size, is_left in zip(cells, wide, left, strict=True))
        lines.append(f"{indent}{'  '.join(aligned)}".rstrip())
    return lines


def cut_text(text: str, length: int) -> str:
    """At most so many characters."""
    return text if len(text) <= length else text[: length - 1] + "…"


def _align(text: str, width: int, *, left: bool) -> str:
    cut = cut_text(text, width)
    return cut.ljust(width) if left else cut.rjust(width)


def _why(findings: Findings, width: int) -> list[str]:
    text = causes_of(findings).text
    return wrap_lines(tr("Why: {causes}", causes=say(text)), width, indent="  ", first="") if text else []


def _own_ledger(findings: Findings, width: int) -> list[str]:
    ledger = findings.ledger
    return [] if ledger is None else _ledger(ledger, width, tr("Limits: {ledger}", ledger=say(ledger.text)))


def _ledger(ledger: Ledger, width: int, text: str) -> list[str]:
    rows = [(name, elasticity_text(value), interval_of(value)) for name, value in ledger_rows(ledger)]
    lines = wrap_lines(text, width, indent="  ", first="")
    return [*lines, *align_columns(rows, left=(True, False, False), width=width, narrowest=width)]


def _hosts(findings: Findings, width: int) -> list[str]:
    if findings.hosts is None:
        return []
    lines = wrap_lines(tr("Hosts: {hosts}", hosts=hosts_text(findings)), width, indent="  ", first="")
    for host, blocks, change, interval, word, *_ in host_rows(findings):
        row = tr("{host} ({blocks}): {change}, {interval}", host=host, blocks=blocks, change=change, interval=interval)
        lines += wrap_lines(f"{word}: {row}", width, indent="    ", first="  ")
    return [*lines, *wrap_lines(prediction_text(findings.hosts), width, indent="  ")]


def _acceptance(findings: Findings, width: int) -> list[str]:
    if not findings.acceptance:
        return []
    lines = wrap_lines(acceptance_text(findings), width)
    for arm, load, metric, required, value, word in acceptance_rows(findings):
        place = arm if len(findings.experiment.levels) == 1 else f"{arm}, {load}"
        lines += wrap_lines(f"{word}: {place}, {metric} {required}: {value}", width, indent="    ", first="  ")
    return lines


def _soak(findings: Findings, soak: Soak, width: int) -> list[str]:
    lines = wrap_lines(f"{soak_head(soak)}.", width)
    if not soak.arms:
        return [*lines, "", *wrap_lines(" ".join(map(make_visible, soak_texts(findings))), width)]
    for arm in soak.arms:
        rows = [(drift.metric, *drift_cells(drift)[1:]) for drift in arm.drifts]
        wide = [max(len(row[column]) for row in rows) for column in range(5)] if rows else []
        lines += ["", *wrap_lines(say(arm.text), width, indent="  ", first="")]
        lines += [
            f"  {'  '.join(cell.ljust(size) for cell, size in zip(row, wide, strict=True))}".rstrip() for row in rows
        ]
    slope = tr(
        "Columns: first and last window, change over the soak (along its slope; of a size from the first window to "
        "the last), slope per hour with its {confidence} interval.",
        confidence=format_share(soak.confidence),
    )
    return [*lines, "", *wrap_lines(f"{slope} {too_short_text(soak)}".rstrip(), width)]


def _trust(findings: Findings, width: int) -> list[str]:
    return [line for text in _trust_texts(findings) for line in wrap_lines(text, width, indent="  ", first="")]


def _trust_texts(findings: Findings) -> Iterator[str]:
    if placebo_arm(findings) is None:
        yield tr("Placebo: {judgement}", judgement=placebo_text(findings))
    else:
        effect = effect_text(placebo_effect(findings))
        yield tr("Placebo: {effect}. {judgement}", effect=effect, judgement=placebo_text(findings))
    if findings.noise.detectable is not None:
        yield tr(
            "Noise: with these blocks a change of {detectable} is found with {power} probability.",
            detectable=detectable_text(findings),
            power=format_share(0.8),
        )
    if findings.adjusted is not None:
        yield tr("Covariate: {adjustment}", adjustment=say(findings.adjusted.text))
    if single_runs_text(findings):
        yield tr("One run of each arm: {outcomes}", outcomes=single_runs_text(findings))
    if findings.stopping is not None:
        yield tr("Stopping: {rule}", rule=say(findings.stopping.text))
    if findings.hypothesis.verdict in {Verdict.INCONCLUSIVE, Verdict.INVALID} and needed_text(findings):
        yield tr("Needed: {needed}", needed=needed_text(findings))


def _time(findings: Findings, width: int) -> list[str]:
    spent = {name: seconds for name, seconds in findings.overhead.by_phase.items() if seconds >= 0.05}
    if not spent:
        return []
    phases = ", ".join(
        f"{phase_word(name)} {format_duration(seconds)}".replace(" ", TIED) for name, seconds in spent.items()
    )
    share = findings.overhead.share
    if share is None:
        text = tr("Time: {phases}.", phases=phases)
    else:
        text = tr("Time ({share} of it not measured load): {phases}.", share=format_percent(share), phases=phases)
    return wrap_lines(text, width, indent="  ", first="")


def _caveats(findings: Findings, width: int) -> list[str]:
    lines = []
    for caveat in sort_caveats(findings.caveats):
        severity = Severity(caveat.severity)
        first = f"  {SEVERITY_SYMBOLS[severity]} {severity_word(severity)}: "
        lines += wrap_lines(_caveat(caveat), width, indent="    ", first=first)
        if caveat.hint:
            lines += wrap_lines(caveat.hint, width, indent="      ", first="    → ")
    return [tr("Caveats"), *lines] if lines else []


def _caveat(caveat: CaveatFinding) -> str:
    if not caveat.runs:
        return caveat.text
    runs = ", ".join(map(str, caveat.runs))
    return ntr("{text} (run {runs})", "{text} (runs {runs})", len(caveat.runs), text=caveat.text, runs=runs)
