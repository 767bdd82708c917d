"""pgtrial alarms: what has changed on a watched server, with at most one false alarm in 30 days."""

import json
import math
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pgtrial.cli import options
from pgtrial.cli.terminal import echo
from pgtrial.cli.text import render_table

if TYPE_CHECKING:
    from pgtrial.watch.alarms import Watched
    from pgtrial.watch.folder import Mark
    from pgtrial.watch.raised import ServerAlarm
    from pgtrial.watch.webhook import Webhook

_SCHEMA_VERSION = 1
_ALARM = 3  # exit code
_LAST = 3600  # s


def _webhook(url: str) -> "Webhook | None":
    from pgtrial.watch.webhook import parse_webhook

    return parse_webhook(url) if url else None


@click.command()
@options.folder
@click.option(
    "--calm",
    metavar="START/END",
    help="A time in which all was as usual, two weeks or more. Default: the first two weeks.",
)
@click.option(
    "--contract",
    "one_in",
    metavar="TIME",
    default="30d",
    show_default=True,
    callback=options.contract_days,
    help="At most one false alarm in this time, for all signals together.",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.option("--fail-on-alarm", is_flag=True, help="Exit with 3 after an alarm in the last hour that was read.")
@click.option(
    "--webhook",
    metavar="URL",
    envvar="PGTRIAL_WEBHOOK",
    show_envvar=True,
    callback=options.parsed(_webhook),
    help="Post alarms that it has not got yet to this address, as JSON; https only, or this machine.",
)
def command(
    *,
    folder: Path,
    calm: str | None,
    one_in: float,
    as_json: bool,
    fail_on_alarm: bool,
    webhook: "Webhook | None",
) -> None:
    """Find changes in FOLDER, which "pgtrial watch" writes, after a calm time.

    What is usual at each hour and weekday is learned from the calm time. Shown
    are the changes since then, with at most one false alarm in 30 days, or the
    time of --contract, for all signals together: throughput, sessions, time and
    work per commit, waits, statements, errors, CPU, memory and devices.
    START/END are in UTC. docs/alarms.md says where that fails.

    \b
    Examples:
      pgtrial alarms watch/shop
      pgtrial alarms watch/shop --calm 2026-11-02T00:00/2026-11-23T00:00
      pgtrial alarms watch/shop --webhook http://127.0.0.1:8065/hooks/alarms
    """
    from pgtrial.safe_text import escape_json
    from pgtrial.watch.alarms import find_alarms
    from pgtrial.watch.folder import read_mark
    from pgtrial.watch.windows import parse_window

    window = None if calm is None else parse_window(calm, now=time.time())
    mark = read_mark(folder)
    found = find_alarms(folder, window, one_in)
    if as_json:
        echo(escape_json(json.dumps(_document(mark.server, mark.database, folder, found), indent=2)))
    else:
        echo(f"database {mark.database} at {mark.server}")
        for line in _lines(folder, found):
            echo(line)
    if window is None:
        _keep(folder, found)
    if webhook is not None:
        _post(folder, webhook, mark, found)
    if fail_on_alarm and found.has_alarm_in_last(_LAST):
        sys.exit(_ALARM)


def _keep(folder: Path, found: "Watched") -> None:
    """Keep the alarms; who may not write to the folder has seen them all the same."""
    from pgtrial.errors import StoreError
    from pgtrial.watch.raised import keep

    if found.rest is None:
        return
    try:
        keep(folder, found.kept, found.one_in)
    except StoreError as err:
        echo(f"{err.message}: alarms are not kept longer than the minutes that they were found from", err=True)


def _post(folder: Path, webhook: "Webhook", mark: "Mark", found: "Watched") -> None:
    from pgtrial.watch.webhook import body, new_alarms, post, remember

    if alarms := new_alarms(folder, webhook, found):
        post(webhook, body(alarms, server=mark.server, database=mark.database, text=_summary(mark, alarms)))
        echo(f"posted {len(alarms)} alarm{'' if len(alarms) == 1 else 's'} to {webhook.place}", err=True)
    remember(folder, webhook, found)


def _summary(mark: "Mark", alarms: "Sequence[ServerAlarm]") -> str:
    """A line for each alarm, without texts of statements: chats have markup of their own."""
    from pgtrial.watch.alarm_words import moment, summary

    return "\n".join(
        f"{moment(alarm.at)} UTC, database {mark.database} at {mark.server}: {summary(alarm)}" for alarm in alarms
    )


def _document(server: str, database: str, folder: Path, found: "Watched") -> dict[str, Any]:
    from pgtrial.watch.alarm_words import OBSERVATION, contract_text

    known = asdict(found)
    known["since"] = known.pop("kept")["since"]
    high = found.audit.high
    return {
        "schema_version": _SCHEMA_VERSION,
        "server": server,
        "database": database,
        **known,
        "audit": {**known["audit"], "high": high if math.isfinite(high) else None},
        "contract": contract_text(found.audit, found.one_in),
        "compare": _compare(folder, found),
        "note": OBSERVATION,
    }


def _lines(folder: Path, found: "Watched") -> Iterator[str]:
    from pgtrial.watch.alarm_words import OBSERVATION, contract_text, moment, shift_cells

    width = shutil.get_terminal_size((100, 24)).columns
    yield f"calm: {found.calm} UTC"
    yield "watched: nothing after it yet" if found.rest is None else f"watched: {found.rest} UTC"
    if found.kept.since < found.calm.end:
        yield f"alarms are kept since {moment(found.kept.since)} UTC"
    signals = dict.fromkeys(column.signal for column in found.columns)
    yield f"signals: {', '.join(signals)}"
    yield ""
    if found.alarms:
        rows = [
            (str(number) if place == 0 else "", moment(alarm.at) if place == 0 else "", *shift_cells(shift))
            for number, alarm in enumerate(found.alarms, start=1)
            for place, shift in enumerate(alarm.shifts)
        ]
        head = ("", "alarm (UTC)", "signal", "", "by", "95 % interval", "since")
        yield from render_table(head, rows, width=max(width, 140))
    else:
        yield "no alarm"
    yield ""
    yield contract_text(found.audit, found.one_in)
    yield OBSERVATION
    if compare := _compare(folder, found):
        yield f"The time of the last alarm beside the hour before it: {compare}"


def _compare(folder: Path, found: "Watched") -> str | None:
    """The command that shows the last alarm's time beside the hour before it."""
    if (windows := found.around_last) is None:
        return None
    return shlex.join(["pgtrial", "compare-times", str(folder), *(str(each) for each in windows)])
