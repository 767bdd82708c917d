"""Comparisons as plain text for a terminal: what differs first, then effects, then what limits them."""

from collections.abc import Iterable, Sequence

from pgtrial.findings.caveat import CaveatFinding
from pgtrial.findings.comparison import (
    Contrast,
    ExperimentComparison,
    WorldDifference,
)
from pgtrial.model.caveat import Severity
from pgtrial.report.comparison.words import (
    RULE_TITLE,
    all_caveats,
    answer_text,
    decision_text,
    definition_text,
    difference_name,
    find_value,
    heterogeneity_text,
    indirect_text,
    pooled_change,
    pooled_interval,
    subject_text,
    these_interval,
    value_text,
    values_text,
    verdict_text,
    when_text,
)
from pgtrial.report.text import align_columns, cut_text, wrap_lines
from pgtrial.report.words import (
    SEVERITY_SYMBOLS,
    change_cells,
    metric_label,
    plural,
    sort_caveats,
)
from pgtrial.safe_text import make_visible
from pgtrial.units import format_share

MOST_DIFFERENCES = 15
_LONGEST_VALUE = 60
NARROWEST = 6


def render_experiments(found: ExperimentComparison, *, width: int = 80) -> str:
    """Lines of at most ``width`` characters where words allow it, without a newline at the end."""
    parts = [
        wrap_lines(answer_text(found), width),
        _experiments(found, width),
        _differences(found.differences, width),
        *(_contrast(one, width) for one in found.contrasts if one.is_claimed and one.is_overall),
        _others(found, width),
        _not_comparable(found, width),
        _indirect(found, width),
        _controls(found, width),
        caveat_lines(all_caveats(found), width),
        _rule(found, width),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _experiments(found: ExperimentComparison, width: int) -> list[str]:
    lines = []
    for one in found.experiments:
        head = f"{one.name}, {when_text(one.started)}, {plural(one.blocks, 'block')}"
        lines += wrap_lines(head, width, indent="     ", first=f"  {one.key}  ")
        lines += wrap_lines(one.folder, width, indent="     ")
        lines += wrap_lines(verdict_text(one), width, indent="     ")
    return [plural(len(found.experiments), "experiment"), *lines]


def _differences(differences: Sequence[WorldDifference], width: int) -> list[str]:
    if not differences:
        return ["No difference is known between them, beside what was measured."]
    # What matters more is shown first where there is no room for all; among the shown the order stays.
    weighty = sorted(differences, key=lambda one: one.severity is Severity.INFO)[:MOST_DIFFERENCES]
    lines = [f"Different between them ({len(differences)})"]
    for one in differences:
        if any(one is other for other in weighty):
            shown = {key: cut_text(value, _LONGEST_VALUE) for key, value in one.values.items()}
            text = f"{difference_name(one)}: {values_text(shown)}"
            lines += wrap_lines(text, width, indent="      ", first=f"  {SEVERITY_SYMBOLS[one.severity]} ")
    rest = len(differences) - len(weighty)
    return [*lines, f"  … and {rest} more; the page and --json have all."] if rest else lines


def _contrast(contrast: Contrast, width: int) -> list[str]:
    lines = wrap_lines(f"{contrast.title}: {subject_text(contrast)}, {contrast.load_level}", width)
    definition = definition_text(contrast)
    if definition:
        lines += wrap_lines(definition, width, indent="  ")
    rows = [
        (
            study.experiment,
            *change_cells(study.ratio, study.low, study.high),
            str(study.blocks),
            str(study.decision),
        )
        for study in contrast.studies
    ]
    pooled = contrast.pooled
    if pooled is not None:
        decision = decision_text(pooled) or "–"
        interval = pooled_interval(pooled)
        if these := these_interval(pooled):
            rows.append((f"these {pooled.experiments}", pooled_change(pooled), these, "", ""))
        rows.append(("combined", pooled_change(pooled), interval, "", decision))
    heads = ("", "change", "interval", "blocks", "decision")
    lines += align_table(heads, rows, left=("", "decision"), width=width)
    if pooled is not None:
        lines += wrap_lines(heterogeneity_text(pooled), width, indent="  ")
    for study in contrast.studies:
        if study.left_out:
            lines += wrap_lines(f"{study.experiment} is not in it: {study.left_out}.", width, indent="  ")
    return lines


def _others(found: ExperimentComparison, width: int) -> list[str]:
    """Combined effects that no claim is about, and those at single load levels, a line each."""
    others = [one for one in found.contrasts if one.pooled and not (one.is_claimed and one.is_overall)]
    rows = [
        (
            f"{subject_text(one)}, {one.load_level}",
            *change_cells(one.pooled.ratio, one.pooled.low, one.pooled.high),
            format_share(round(one.pooled.i2, 2)),
            decision_text(one.pooled) or "–",
        )
        for one in others
        if one.pooled is not None
    ]
    heads = ("", "change", "interval", "I²", "decision")
    return ["Combined as well", *align_table(heads, rows, left=("", "decision"), width=width)] if rows else []


def _not_comparable(found: ExperimentComparison, width: int) -> list[str]:
    lines = []
    for one in found.not_combined:
        text = f"{one.first} and {one.second}: {'; '.join(one.reasons)}"
        lines += wrap_lines(text, width, indent="    ", first="  ")
    return ["Claims that are not about the same, and are not combined", *lines] if lines else []


def _indirect(found: ExperimentComparison, width: int) -> list[str]:
    lines = []
    for one in found.indirect:
        lines += wrap_lines(f"{indirect_text(one)}.", width, indent="    ", first="  ")
    return ["Indirect, by way of the same control", *lines] if lines else []


def _controls(found: ExperimentComparison, width: int) -> list[str]:
    metrics = list(dict.fromkeys(value.metric for one in found.experiments for value in one.control_values))[:4]
    rows = [
        (f"{one.key} {one.control}", *(value_text(find_value(one.control_values, metric)) for metric in metrics))
        for one in found.experiments
    ]
    heads = ("", *(metric_label(metric) for metric in metrics))
    head = "The controls themselves; such values depend on machine and hour, and are never combined"
    return [*wrap_lines(head, width), *align_table(heads, rows, left=("",), width=width)] if metrics else []


def _rule(found: ExperimentComparison, width: int) -> list[str]:
    return [RULE_TITLE, *(line for text in found.rule for line in wrap_lines(text, width, indent="    ", first="  - "))]


def align_table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: Iterable[str], width: int, indent: str = "  "
) -> list[str]:
    """Columns as ``align_columns`` has them; ``left`` are the heads of those that are aligned to the left.

    Hidden characters are written out.
    """
    table = [tuple(make_visible(cell) for cell in row) for row in (heads, *rows)]
    lefts = set(left)
    return align_columns(table, left=[head in lefts for head in heads], width=width, narrowest=NARROWEST, indent=indent)


def caveat_lines(caveats: Iterable[CaveatFinding], width: int) -> list[str]:
    """Under their head, the gravest first, each code and text once."""
    once = {(caveat.code, caveat.text): caveat for caveat in caveats}
    lines = []
    for caveat in sort_caveats(tuple(once.values())):
        mark = f"  {SEVERITY_SYMBOLS[Severity(caveat.severity)]} {caveat.severity}: "
        lines += wrap_lines(caveat.text, width, indent="    ", first=mark)
        if caveat.hint:
            lines += wrap_lines(caveat.hint, width, indent="      ", first="    → ")
    return ["Caveats", *lines] if lines else []
