"""Plain tables for standard output: aligned, no frames, ready for a pipe."""

import textwrap
from collections.abc import Sequence


def render_table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, width: int) -> list[str]:
    """Lines with two blanks before each column; the last column is wrapped, so that lines fit into ``width``."""
    table = [heads, *rows] if any(heads) else list(rows)
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    lines: list[str] = []
    for row in table:
        start = "".join(f"  {cell:<{size}}" for cell, size in zip(row[:-1], widths, strict=False)) + "  "
        wrapped = textwrap.wrap(row[-1], max(width - len(start), 20), break_long_words=False, break_on_hyphens=False)
        lines += [(start if not number else " " * len(start)) + part for number, part in enumerate(wrapped or [""])]
    return [line.rstrip() for line in lines]
