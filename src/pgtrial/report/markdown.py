"""Text to Markdown that shows it as it is: escapes, code, tables and lists, for whatever renders GitHub's Markdown.

Names and texts of an experiment are somebody's input. In what is made here they start no markup and no HTML, link to
nothing, mention nobody, and leave no cell of a table. Source: CommonMark 0.31.2, sections 2.4 and 2.5 (escapes and
entities); GitHub Flavored Markdown 0.29, sections 4.10 (tables) and 6.9 (addresses that become links by themselves).
"""

import re
from collections.abc import Collection, Sequence

from pgtrial.report.words import make_visible

# Entities where a backslash would not do everywhere: it does not hide a bar inside code from a table.
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;"}
_SPECIAL = re.compile(r"[\\`*{}\[\]#~$]|(?<![^\W_])_|_(?![^\W_])")
_ENTITY = re.compile(r"[&<>|]")
# What makes a list, a rule or a heading at the beginning of a line.
_FIRST = re.compile(r"^(\d{1,9}(?=[.)])|[-+=]*(?=[-+=]))(.)(?=\s|$)")
# Where mentions and addresses are cut. They are looked for in the finished text, where a backslash is gone.
_LINKED = re.compile(r"(?<=@)(?=\w)|(?<=[A-Za-z]:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
_JOINER = "&#8288;"  # of no width


def escape(text: str) -> str:
    """Inline Markdown that shows ``text`` on one line; hidden characters are written out, line breaks are blanks."""
    line = make_visible(" ".join(text.split()))
    line = _SPECIAL.sub(lambda found: f"\\{found[0]}", line)
    line = _ENTITY.sub(lambda found: _ENTITIES[found[0]], line)
    line = _FIRST.sub(r"\1\\\2", line)
    return _LINKED.sub(_JOINER, line)


def code(text: str) -> str:
    """``text`` in the type of code, on one line."""
    line = make_visible(" ".join(text.split()))
    if not line or re.search(r"[`|]", line):  # a bar would end a cell of a table, a grave accent the code
        return f"<code>{escape(line)}</code>"
    return f"`{line}`"


def heading(level: int, text: str) -> str:
    """A heading of a level from 1 to 6."""
    return f"{'#' * level} {escape(text)}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> list[str]:
    """Lines of a table; cells are Markdown already. The columns whose numbers are in ``right`` are set to the right."""
    widths = [max(3, *(len(row[column]) for row in (heads, *rows))) for column in range(len(heads))]
    rule = ["-" * (width - 1) + ":" if column in right else "-" * width for column, width in enumerate(widths)]
    return [_row(heads, widths, right), _row(rule, widths, right), *(_row(row, widths, right) for row in rows)]


def _row(cells: Sequence[str], widths: Sequence[int], right: Collection[int]) -> str:
    padded = (
        cell.rjust(width) if column in right else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return f"| {' | '.join(padded)} |"


def bullets(items: Sequence[str]) -> list[str]:
    """Lines of a list; items are Markdown already."""
    return [f"- {item}" for item in items]
