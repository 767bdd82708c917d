"""pgtrial replay: send the statements of a server's log again, at their times and in their sessions."""

import asyncio
import json
import math
import signal
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from pgtrial.cli import options
from pgtrial.cli.terminal import echo

_CHANCE = 4.0  # standard deviations of a count
_CODES = 5  # SQLSTATEs that are named
_OF_NAMES = {"26000", "42P05"}  # a prepared statement is not there, or is there already
_OF_POOLER = (
    "A pooler that gives a connection to several sessions has to know prepared statements, as PgBouncer does from 1.21 "
    "on with max_prepared_statements."
)
_TELL_EVERY = 0.1  # s, before the first statement is due after the word that all is ready
_QUICK = 0.99  # of the statements are to be sent in time


@click.command()
@click.argument("log", metavar="LOG", type=click.Path(path_type=Path))
@click.option("--speed", default=1.0, show_default=True, type=options.Number(0.01, 100), help="Times as fast.")
@click.option("--database", default=None, metavar="NAME", help="Only the sessions of this database of the log.")
@click.option("--dsn", default="", metavar="DSN", help="The server, where libpq's variables do not say so.")
@click.option(
    "--most-lag",
    default=100,
    show_default=True,
    metavar="MS",
    type=click.IntRange(1, 60_000),
    help="Fail if the replay itself makes more than 1 % of the statements so many milliseconds late.",
)
@click.option(
    "--most-differ",
    default=1.0,
    show_default=True,
    metavar="PERCENT",
    type=options.Number(0, 100),
    help="Fail if more of the statements end otherwise than in the log, by more than chance. What a server cannot do "
    "in time, or at all, is a failure, and not one of them.",
)
@click.option("--allow-code", is_flag=True, help="Also send what executes code, or reaches files or other hosts.")
def command(
    *, log: Path, speed: float, database: str | None, dsn: str, most_lag: int, most_differ: float, allow_code: bool
) -> None:
    """Replay LOG, the csvlog of a server, for "kind = command".

    Each session of the log becomes one, and sends its statements when they are
    due. A line of JSON on standard output tells of each; the last line, on
    standard error, says how well the replay kept its times.

    \b
    Examples:
      pgtrial replay app.csv
      pgtrial replay app.csv --speed 2 --database shop
    """
    from pgtrial.errors import SpecError, WorkloadError
    from pgtrial.experiment_file.connection import read_connection
    from pgtrial.workloads.replay.arrivals import Arrivals
    from pgtrial.workloads.replay.log import read_log
    from pgtrial.workloads.replay.play import Played, play
    from pgtrial.workloads.replay.types import MOST_SECONDS

    try:
        read_connection(dsn)
    except ValueError as err:
        raise SpecError(f"--dsn: {err}") from err
    found = read_log(log, database=database, allow_code=allow_code)
    if found.left_out:
        reasons = "; ".join(f"{count} of the statements: {reason}" for reason, count in found.left_out.items())
        echo(f"left out {reasons}", err=True)

    arrivals, stop = Arrivals(len(found.sessions)), asyncio.Event()
    results = _Results(stop)

    async def run() -> Played:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        return await play(found.sessions, conninfo=dsn, speed=speed, tell=results.tell, stop=stop, arrivals=arrivals)

    try:
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(arrivals)) as runner:
            played = runner.run(run())
    finally:
        results.write()
    late, behind = _most(played.lags), _most(played.behind)
    differ, share = played.differ.total(), most_differ / 100
    failed = f", {played.failed.total()} of which the server failed{_codes(played.failed)}" if played.failed else ""
    largest = max(played.lags, default=0.0)
    echo(
        f"replayed {played.statements} statements{failed}, "
        f"{differ} with another outcome than in the log{_codes(played.differ)}; "
        f"99 % were sent within {behind * 1000:.1f} ms of when they were due; the replay itself, at work for "
        f"{played.busy:.0%} of the time, made 99 % at most {late * 1000:.1f} ms late, and all at most "
        f"{largest * 1000:.1f} ms; {played.waits} waited for another session, {played.given_up} of them in vain",
        err=True,
    )
    if played.cancelled:
        echo(
            f"{played.cancelled} were cancelled after as long as in the log; their latencies are not counted", err=True
        )
    if played.unprepared:
        echo(
            f"types of parameters were not looked for in {played.unprepared} texts of statements: there were "
            f"{MOST_SECONDS:g} s for that",
            err=True,
        )
    chance = _CHANCE * math.sqrt(played.statements * share * (1 - share))
    if differ > max(played.statements * share + chance, 1 if share else 0):
        raise WorkloadError(
            f"{differ} of {played.statements} statements ended otherwise than in the log{_codes(played.differ)}",
            hint=_OF_POOLER
            if played.differ.keys() & _OF_NAMES
            else "Replay it to the data that there were when it began, or raise --most-differ.",
        )
    if late > most_lag / 1000:
        raise WorkloadError(
            f"the replay itself made 1 % of the statements {late * 1000:.0f} ms late or more: their times are its own, "
            "and not the server's",
            detail=f"It was at work, or waited for a CPU, for {played.busy:.0%} of the time.",
            hint="Give it a CPU of its own, replay fewer sessions or more slowly, or raise --most-lag.",
        )


def _codes(counts: Counter[str]) -> str:
    """Of the statements that ended otherwise than in the log: they have values, and codes have none."""
    if not counts:
        return ""
    told = [f"{count} {code or 'without an error'}" for code, count in counts.most_common(_CODES)]
    return f" ({', '.join(told)}{', …' if len(counts) > _CODES else ''})"


def _most(times: Sequence[float]) -> float:
    """What 99 % do not exceed."""
    return sorted(times)[int(_QUICK * (len(times) - 1))] if times else 0.0


class _Results:
    """Lines on standard output, a few at a time: a session that waits for its line sends its next statement late.

    ``stop`` is set when nobody reads them any more.
    """

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self._lines: list[Mapping[str, object]] = []

    def tell(self, line: Mapping[str, object]) -> None:
        if not self._lines:
            asyncio.get_running_loop().call_later(_TELL_EVERY, self._write_some)
        self._lines.append(line)

    def _write_some(self) -> None:
        try:
            self.write()
        except OSError:  # told by the next one that writes, at the end
            self._stop.set()

    def write(self) -> None:
        sys.stdout.write("".join(json.dumps(line) + "\n" for line in self._lines))
        sys.stdout.flush()
        self._lines.clear()
