"""pgtrial compare-times: two windows of a watched server's time, side by side."""

import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pgtrial.cli import options
from pgtrial.cli.terminal import echo
from pgtrial.cli.text import render_table
from pgtrial.units import format_bytes, format_change, format_count, format_duration, format_share

if TYPE_CHECKING:
    from pgtrial.watch.compare import Comparison, Row

_SCHEMA_VERSION = 1
_MOST_WAITS = 12
_SMALL = 0.005  # sessions; a wait event below that in both windows is not shown
OBSERVATION = (
    "This is observation, not proof: the windows differ in all that was different between them, and not in one cause. "
    "What a change does, an experiment shows (pgtrial run)."
)
METHOD = (
    "Intervals: of minute means, whose dependence is told by their slow cosine waves (Lazarus et al. 2018), the two "
    'windows by Welch; those of a table hold together in 95 % of comparisons. "*": the interval excludes no difference.'
)


@click.command()
@options.folder
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON, with all waits.")
def command(*, folder: Path, a: str, b: str, as_json: bool) -> None:
    """Compare the windows A and B of FOLDER, which "pgtrial watch" writes.

    A window is START/END: times in UTC, or "now-2h"; without END it ends now.
    Shown are throughput, waits as average sessions, statements and the machine
    with the difference from A to B and its interval.

    \b
    Examples:
      pgtrial compare-times watch/shop 2026-11-21T04:00/05:00 2026-11-28T04:00/05:00
      pgtrial compare-times watch/shop now-25h/now-24h now-1h
    """
    from pgtrial.safe_text import escape_json
    from pgtrial.watch.compare import compare
    from pgtrial.watch.folder import read_mark
    from pgtrial.watch.windows import parse_window

    now = time.time()
    windows = parse_window(a, now=now), parse_window(b, now=now)
    mark = read_mark(folder)
    found = compare(folder, *windows)
    if as_json:
        echo(escape_json(json.dumps(_document(mark.server, mark.database, found), indent=2)))
        return
    echo(f"database {mark.database} at {mark.server}")
    for line in _lines(found):
        echo(line)


def _document(server: str, database: str, found: "Comparison") -> dict[str, Any]:
    return {
        "schema_version": _SCHEMA_VERSION,
        "server": server,
        "database": database,
        **asdict(found),
        "method": METHOD,
        "note": OBSERVATION,
    }


def _lines(found: "Comparison") -> Iterator[str]:
    width = shutil.get_terminal_size((100, 24)).columns
    for name, window, covered in (("A", found.a, found.covered_a), ("B", found.b, found.covered_b)):
        gaps = "" if covered >= 1 else f", {format_share(covered)} of it read"
        yield f"{name}: {window} UTC, {format_duration(window.end - window.start)}{gaps}"
    shown = [row for row in found.waits if max(row.a or 0.0, row.b or 0.0) >= _SMALL][:_MOST_WAITS]
    for title, rows in (
        ("throughput", found.throughput),
        ("waits of client sessions at work (average sessions)", shown),
        ("server and machine", found.machine),
    ):
        yield from _table(title, rows, width)
    if found.statements:
        yield ""
        yield "statements"
        yield from render_table(
            ("calls A", "B", "", "time A", "B", "", "share A", "B", "statement"),
            [
                (
                    *_cells(each.calls),
                    *_cells(each.time),
                    format_share(round(each.share_a, 3)),
                    format_share(round(each.share_b, 3)),
                    " ".join(each.query.split())[:80] or each.queryid,
                )
                for each in found.statements
            ],
            width=max(width, 140),
        )
    yield ""
    yield METHOD
    yield OBSERVATION


def _table(title: str, rows: Iterable["Row"], width: int) -> Iterator[str]:
    cells = [(row.name, *_cells(row), _interval(row)) for row in rows]
    if cells:
        yield ""
        yield title
        yield from render_table(("", "A", "B", "A → B", "interval"), cells, width=width)


def _cells(row: "Row") -> tuple[str, str, str]:
    """Both values and the change between them."""
    form = _form(row.unit)
    change = "–" if row.change is None else format_change(row.change) if row.is_ratio else _signed(row.change, form)
    values = ["–" if value is None else form(value) for value in (row.a, row.b)]
    return values[0], values[1], f"{change} *" if row.is_sure else change


def _interval(row: "Row") -> str:
    if row.low is None or row.high is None:
        return "not known"
    if row.is_ratio:
        return f"{format_change(row.low)} to {format_change(row.high)}"
    form = _form(row.unit)
    return f"{_signed(row.low, form)} to {_signed(row.high, form)}"


def _form(unit: str) -> Callable[[float], str]:
    forms: dict[str, Callable[[float], str]] = {
        "s": lambda value: format_duration(value) if value else "0 s",
        "B": format_bytes,
        "B/s": lambda value: f"{format_bytes(value)}/s",
        "1/s": lambda value: f"{format_count(value)}/s",
        "share": lambda value: format_share(round(value, 4)),
    }
    return forms.get(unit, lambda value: f"{value:.3g}")


def _signed(value: float, form: Callable[[float], str]) -> str:
    return f"−{form(-value)}" if value < 0 else f"+{form(value)}"
