"""pgtrial compare-times: two windows of a watched server's time, side by side."""

import json
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pgtrial.cli import options
from pgtrial.cli.terminal import echo
from pgtrial.cli.text import render_table
from pgtrial.units import format_share

if TYPE_CHECKING:
    from pgtrial.watch.compare import Comparison
    from pgtrial.watch.promise import Promise
    from pgtrial.watch.rows import Row
    from pgtrial.watch.windows import Window

_SCHEMA_VERSION = 1
_SMALL = 0.005  # sessions; a wait event below that in both windows is not shown
_MOST_WAITS = 12
_LESS, _OPEN = 3, 4  # exit codes, as of a claim that is refuted, and of one that is not decided


@click.command()
@options.folder
@click.argument("windows", nargs=-1, metavar="[A] [B]")
@options.alarm
@click.option(
    "--promised",
    default=None,
    metavar="RESULT",
    type=options.FolderPath(),
    help="Say whether B brought what this experiment promised; exit code 3 if not, 4 if that is not known.",
)
@click.option(
    "-o",
    "--output",
    default=None,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write a page with charts to this file, such as incident.html.",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON, with all waits.")
def command(
    *,
    folder: Path,
    windows: tuple[str, ...],
    alarm: options.WhichAlarm | None,
    promised: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Compare the windows A and B of FOLDER, which "pgtrial watch" writes.

    A window is START/END: times in UTC, or "now-2h"; without END it ends now.
    Without A, B is compared with the same hour and weekday before, or what
    comes nearest to it. Shown is what differed, with intervals: throughput,
    waits, statements, who blocked whom, the server and its machine.

    \b
    Examples:
      pgtrial compare-times watch/shop 2026-11-28T04:00/05:00 -o incident.html
      pgtrial compare-times watch/shop now-25h/now-24h now-1h
      pgtrial compare-times watch/shop now-3h/now-2h now-1h --promised results/work-mem-20261128T093000Z
    """
    from pgtrial.safe_text import escape_json
    from pgtrial.watch.compare import compare
    from pgtrial.watch.folder import read_mark
    from pgtrial.watch.words import windows_lines

    mark = read_mark(folder)
    a, b, remark = choose_windows(folder, windows, alarm)
    found = compare(folder, a, b)
    promise, said, code = (None, (), 0) if promised is None else _judge(promised, found)
    remarks = [remark] if remark else []
    if output is not None:
        from pgtrial.watch.page import write_times

        write_times(mark, found, remarks, output, promise=promise)
    remarks += said
    if as_json:
        echo(escape_json(json.dumps(_document(mark.server, mark.database, found, remarks), indent=2)))
    else:
        echo(f"database {mark.database} at {mark.server}")
        for line in (*windows_lines(found), *remarks, *_lines(found)):
            echo(line)
        if output is not None:
            echo(f"\npage: {output}")
    if code:
        sys.exit(code)


def _judge(promised: Path, found: "Comparison") -> "tuple[Promise, tuple[str, ...], int]":
    """The promise, what is said of it, and the exit code."""
    from pgtrial.watch.promise import Outcome, judge, promise_lines, read_promise

    promise = read_promise(promised)
    code = {Outcome.LESS: _LESS, Outcome.OPEN: _OPEN}.get(judge(promise, found.time), 0)
    return promise, promise_lines(promise, found.time), code


def choose_windows(
    folder: Path, texts: Sequence[str], alarm: options.WhichAlarm | None
) -> "tuple[Window, Window, str]":
    """The windows that are meant, and what is to be said of A where nobody has named it."""
    from pgtrial.watch.compare import comparable_window
    from pgtrial.watch.windows import parse_window

    if len(texts) not in ((0, 1) if alarm is not None else (1, 2)):
        raise click.UsageError("give B, or A and B, or --alarm N and at most A")
    now = time.time()
    windows = [parse_window(each, now=now) for each in texts]
    if alarm is not None:
        from pgtrial.stats.alarms.audit import CONTRACT_DAYS
        from pgtrial.watch.alarms import find_alarms

        calm = None if alarm.calm is None else parse_window(alarm.calm, now=now)
        windows.append(find_alarms(folder, calm, alarm.one_in or CONTRACT_DAYS).time_of(alarm.number))
    if len(windows) == 2:
        return windows[0], windows[1], ""
    a, words = comparable_window(folder, windows[0])
    return a, windows[0], words


def _document(server: str, database: str, found: "Comparison", remarks: Sequence[str]) -> dict[str, Any]:
    from pgtrial.watch.words import METHOD, OBSERVATION, pointers, sentences

    return {
        "schema_version": _SCHEMA_VERSION,
        "server": server,
        "database": database,
        **asdict(found),
        "differences": list(sentences(found)),
        "points_to": [asdict(each) for each in pointers(found)],
        "remarks": list(remarks),
        "method": METHOD,
        "note": OBSERVATION,
    }


def _lines(found: "Comparison") -> Iterator[str]:
    from pgtrial.collectors.sessions import shown_query
    from pgtrial.watch.words import LEAST_SHARE, METHOD, OBSERVATION, cells, pointers, sentences, shown

    width = shutil.get_terminal_size((100, 24)).columns
    yield ""
    yield "what was different in B"
    yield from (f"  {each}" for each in sentences(found))
    if points := pointers(found):
        yield "what it points to"
        yield from (f"  {each.text}" for each in points)
    waits = [row for row in found.waits if max(row.a or 0.0, row.b or 0.0) >= _SMALL][:_MOST_WAITS]
    for title, rows in (
        ("throughput", found.throughput),
        ("time at work per commit, by wait", found.latency),
        ("waits of client sessions at work (average sessions)", waits),
        ("autovacuum and idle transactions (average sessions)", found.background),
        ("server and machine", found.machine),
    ):
        yield from _table(title, [(row.name, row) for row in rows], width)
    wide = max(width, 140)
    yield from _table(
        "sessions at work on a statement", [(shown(each.query), each.sessions) for each in found.work], wide
    )
    yield from _table(
        "who blocked whom (average sessions that waited)",
        [
            (f"{shown(each.waiting)} ← {each.state or 'gone by then'}: {shown(each.holder)}", each.sessions)
            for each in found.blocking
        ],
        wide,
    )
    if statements := [each for each in found.statements if max(each.share_a, each.share_b) >= LEAST_SHARE]:
        yield ""
        yield "statements"
        yield from render_table(
            ("calls A", "B", "", "time A", "B", "", "blocks A", "B", "", "share A", "B", "statement"),
            [
                (
                    *cells(each.calls),
                    *cells(each.time),
                    *cells(each.blocks),
                    format_share(round(each.share_a, 3)),
                    format_share(round(each.share_b, 3)),
                    shown_query(each.query) or each.queryid,
                )
                for each in statements
            ],
            width=max(width, 160),
        )
    yield ""
    yield METHOD
    yield OBSERVATION


def _table(title: str, rows: "Iterable[tuple[str, Row]]", width: int) -> Iterator[str]:
    from pgtrial.watch.words import cells, interval

    lines = [(name, *cells(row), interval(row)) for name, row in rows]
    if lines:
        yield ""
        yield title
        yield from render_table(("", "A", "B", "A → B", "interval"), lines, width=width)
