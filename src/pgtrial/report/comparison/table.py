"""Aligned text for a terminal: tables whose first columns give way, and caveats."""

from collections.abc import Iterable, Sequence

from pgtrial.findings.caveat import CaveatFinding
from pgtrial.model.caveat import Severity
from pgtrial.report.text import wrap_lines
from pgtrial.report.words import SEVERITY_SYMBOLS, make_visible, sort_caveats

NARROWEST = 6


def align_table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: Iterable[str], width: int, indent: str = "  "
) -> list[str]:
    """Lines with two blanks between columns; where they are too long, the first column is cut.

    ``left`` are the heads of columns that are aligned to the left. Hidden characters are written out.
    """
    table = [tuple(make_visible(cell) for cell in row) for row in (heads, *rows)]
    wide = [max(len(row[column]) for row in table) for column in range(len(heads))]
    excess = len(indent) + sum(wide) + 2 * (len(heads) - 1) - width
    wide[0] = min(wide[0], max(NARROWEST, wide[0] - max(0, excess)))
    lefts = set(left)
    return [
        (indent + "  ".join(_align(cell, wide[k], left=heads[k] in lefts) for k, cell in enumerate(row))).rstrip()
        for row in table
    ]


def cut_text(text: str, length: int) -> str:
    """At most so many characters."""
    return text if len(text) <= length else text[: length - 1] + "…"


def _align(text: str, width: int, *, left: bool) -> str:
    cut = cut_text(text, width)
    return cut.ljust(width) if left else cut.rjust(width)


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
