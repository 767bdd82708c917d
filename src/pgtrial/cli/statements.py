"""pgtrial statements: the statements of a watched server, and the history of one of them."""

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgtrial.cli import options
from pgtrial.cli.terminal import echo
from pgtrial.cli.text import render_table
from pgtrial.units import format_count, format_duration, format_share, parse_duration

if TYPE_CHECKING:
    from pgtrial.watch.statements import History, Statement, Step
    from pgtrial.watch.windows import Window

_SCHEMA_VERSION = 1
_MOST_LISTED = 30
_MOST_WAITS = 5
_LEAST = 0.01  # share of a statement's sessions that a wait has to have for a column of its own
_MOST_STEPS = 60
_STEPS = (60, 300, 600, 1800, 3600, 6 * 3600, 86400)  # s
_WIDE = 160
_NOTE = (
    "Sessions: their average number at work on it, as they were polled; behind it what they waited for, which adds up "
    'to it. "–": nothing was read then. Whether two times differ by more than chance, "pgtrial compare-times" says.'
)


def _read_step(text: str) -> int:
    """Seconds of a step."""
    seconds = parse_duration(text)
    if seconds < _STEPS[0] or seconds % _STEPS[0]:
        raise ValueError(f'"{text}" is not a whole number of minutes')
    return int(seconds)


@click.command()
@options.folder
@click.argument("text", required=False)
@click.option(
    "--window", "window_text", default="now-24h", show_default=True, metavar="W", help="START/END, as in compare-times."
)
@click.option(
    "--by",
    default=None,
    metavar="TIME",
    callback=options.parsed(_read_step),
    help="Length of a step of the history, such as 10min. Default: so that there are at most 60.",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON, with all statements or waits.")
def command(*, folder: Path, text: str | None, window_text: str, by: int | None, as_json: bool) -> None:
    """List the statements of FOLDER, which "pgtrial watch" writes, or show one over time.

    TEXT is a part of a statement, or its queryid. Shown are calls, time and
    blocks per call, the sessions at work on it, and what they waited for.

    \b
    Examples:
      pgtrial statements watch/shop
      pgtrial statements watch/shop "UPDATE product" --window now-7d --by 6h
    """
    from pgtrial.watch.folder import read_mark
    from pgtrial.watch.statements import read_history, read_window
    from pgtrial.watch.windows import parse_window

    mark = read_mark(folder)
    window = parse_window(window_text, now=time.time())
    if by is not None and text is None:
        raise click.UsageError("--by is for the history of a statement: give a part of its TEXT")
    head = {"schema_version": _SCHEMA_VERSION, "server": mark.server, "database": mark.database}
    if text is None:
        statements = read_window(folder, window)
        if as_json:
            echo(json.dumps({**head, **asdict(window), "statements": [asdict(each) for each in statements]}, indent=2))
            return
        lines = _listed(statements)
    else:
        history = read_history(folder, window, text, by=by or _fitting(window))
        if as_json:
            echo(json.dumps({**head, **asdict(history)}, indent=2))
            return
        lines = _shown(history)
    echo(f"database {mark.database} at {mark.server}")
    echo(f"{window} UTC")
    for line in lines:
        echo(line)


def _fitting(window: "Window") -> int:
    length = window.end - window.start
    return next((step for step in _STEPS if length <= step * _MOST_STEPS), _STEPS[-1])


def _listed(statements: "tuple[Statement, ...]") -> Iterator[str]:
    yield ""
    rows = [
        (
            _count(each.sessions),
            _rate(each.calls),
            _time(each.time),
            _count(each.blocks),
            _parts(each),
            each.query or "statements that are not shown",
        )
        for each in statements[:_MOST_LISTED]
    ]
    heads = ("sessions", "calls", "time", "blocks", "at work on", "statement")
    yield from render_table(heads, rows, width=max(shutil.get_terminal_size((100, 24)).columns, _WIDE))
    if len(statements) > _MOST_LISTED:
        yield f"and {len(statements) - _MOST_LISTED} more, with --json"


def _parts(statement: "Statement") -> str:
    """The two waits with most of its sessions, and their shares."""
    from pgtrial.watch.words import wait_name

    total = sum(statement.waits.values())
    largest = list(statement.waits.items())[:2]
    return ", ".join(f"{wait_name(event)} {format_share(round(value / total, 2))}" for event, value in largest if total)


def _shown(history: "History") -> Iterator[str]:
    from pgtrial.watch.words import shown, wait_name

    total = sum(sum(value or 0.0 for value in step.waits) for step in history.steps)
    sums = [sum(step.waits[place] or 0.0 for step in history.steps) for place in range(len(history.waits))]
    named = [place for place, value in enumerate(sums) if value >= _LEAST * total][:_MOST_WAITS]
    rest = [place for place in range(len(history.waits)) if place not in named]
    heads = ["", "calls", "time", "blocks", "sessions", *(wait_name(history.waits[place]) for place in named)]
    if rest:
        heads.append("other waits")
    yield shown(history.query)
    yield ""
    yield from render_table(
        heads,
        [_row(step, named, rest) for step in history.steps],
        width=max(shutil.get_terminal_size((100, 24)).columns, _WIDE),
    )
    yield ""
    yield _NOTE


def _row(step: "Step", named: list[int], rest: list[int]) -> list[str]:
    cells = [
        datetime.fromtimestamp(step.start, UTC).strftime("%Y-%m-%d %H:%M"),
        _rate(step.calls),
        _time(step.time),
        _count(step.blocks),
        _count(step.sessions),
        *(_count(step.waits[place]) for place in named),
    ]
    if rest:
        cells.append(_count(None if step.sessions is None else sum(step.waits[place] or 0.0 for place in rest)))
    return cells


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{format_count(value)}/s"


def _time(value: float | None) -> str:
    return "–" if value is None else format_duration(value) if value else "0 s"


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"
