"""Twelve incidents planted on a watched server, with calm times between: what the incident's page names of them.

    PYTHONPATH=src:tests:. python benchmarks/incidents.py FOLDER --limit 105min    # half of them; again: the others
    PYTHONPATH=src:tests:. python benchmarks/incidents.py FOLDER --try "lock convoy" --seconds 60
    PYTHONPATH=src:tests:. python benchmarks/incidents.py FOLDER --page            # no runs: the table of what is there

A server of one's own has a load whose rate swings by 40 %, and `pgtrial watch` reads it. The order of the incidents and
the lengths of the calm times are drawn once, from a seed, and kept. Each call is a part: a new server with the same
data, a calm time, then the next incidents, each undone and followed by a calm time, as many as are over before the
limit. Then each time is compared with the calm one before it, as `pgtrial compare-times` does (``incident_report``).
Ctrl-C and SIGTERM undo what is planted; what had been watched until then is kept. It runs as root, with control groups
version 1 for the limit of the disk. FOLDER/results.json and FOLDER/part-N.json are small; FOLDER/part-N is the watch's
folder, which may go once its part is judged. A new FOLDER goes on with what --page has kept, while that is unfinished.
Exit status 75: there was no time for all of them.
"""

import argparse
import asyncio
import math
import secrets
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from incident_plants import INCIDENTS, Look
from incident_report import (
    KEPT,
    PAGE,
    RESULTS,
    Part,
    Series,
    Stretch,
    judge,
    publish,
    read_kept,
    read_series,
    render,
    write,
)
from incident_server import SETTLE, WatchedServer, draw_swing, watched_server

from pgtrial.units import parse_duration
from pgtrial.watch.layout import MINUTE

FIRST_CALM = 9  # min, at the beginning of a part
INCIDENT = 5  # min
CALMS = (7, 7, 8, 8, 9, 9)  # min, after six incidents, in an order that is drawn
_BEFORE = 3.0  # s before a whole minute in which a time begins, so that it has all of that minute
_AFTER = 5.0  # s after its last whole minute, until that is on the disk
_AROUND = 45.0  # s that beginning and undoing one take at most
JUDGING = 180.0  # s
_LOOK_EVERY = 1.0  # s
_NOT_ALL = 75  # EX_TEMPFAIL: try again
_ENDED = 130  # by a signal


def draw_plan(seed: int) -> tuple[tuple[str, int], ...]:
    """The incidents in the order in which they come, and how many minutes of calm come after each."""
    rng = np.random.default_rng(seed)
    order = [str(each) for each in rng.permutation(list(INCIDENTS))]
    calms = [int(each) for _ in range(0, len(order), len(CALMS)) for each in rng.permutation(CALMS)]
    return tuple(zip(order, calms, strict=True))


def seconds_of(calm: int) -> float:
    """What an incident and the calm time after it take at most."""
    return (INCIDENT + calm) * MINUTE + 2 * _AROUND


async def run_part(series: Series, number: int, root: Path, *, limit: float, postgres: str | None) -> None:
    """Calm, incident, calm, … as long as there is time; each stretch is kept as soon as it is over."""
    started = time.monotonic()
    swing = draw_swing(np.random.default_rng([series.seed, number]))
    seed = (series.seed, number, 1)
    folder = root / f"part-{number}"
    async with watched_server("shop", folder, postgres, swing=swing, seed=seed, settle=SETTLE) as server:
        part = Part(number=number, version=await server.ask("SHOW server_version"), period=swing.period)

        def keep(stretch: Stretch) -> None:
            nonlocal part
            part = part.with_stretch(stretch)
            write(part, root)
            print(f"{stretch.planted or 'calm'}: {stretch.window}, {stretch.rate:.1f}/s {stretch.evidence}", flush=True)

        keep(await _calm(server, FIRST_CALM))
        for name, calm in series.remaining(draw_plan(series.seed)):
            if time.monotonic() - started + seconds_of(calm) + JUDGING > limit:
                break
            keep(await plant(server, name, INCIDENT * MINUTE))
            keep(await _calm(server, calm))
        await asyncio.sleep(_AFTER)


async def _calm(server: WatchedServer, minutes: int) -> Stretch:
    await _until_minute()
    start = time.time()
    await asyncio.sleep(_BEFORE + minutes * MINUTE)
    return _stretch(server, "", start)


async def plant(server: WatchedServer, name: str, seconds: float) -> Stretch:
    """What is known of a planted incident when it is undone."""
    await _until_minute()
    start = time.time()
    async with INCIDENTS[name].plant(server) as look:
        evidence = await see(look, start + _BEFORE + seconds)
        await asyncio.sleep(start + _BEFORE + seconds - time.time())
        stretch = _stretch(server, name, start)
    await server.warm()  # an incident that is over leaves the calm time after it nothing to read again
    return replace(stretch, evidence=evidence)


async def see(look: Look, until: float) -> str:
    """How the incident was first seen; "" where it never was."""
    while time.time() < until:
        if seen := await look():
            return seen
        await asyncio.sleep(_LOOK_EVERY)
    return ""


async def _until_minute() -> None:
    now = time.time() + _AFTER + _BEFORE
    await asyncio.sleep(math.ceil(now / MINUTE) * MINUTE - _BEFORE - time.time())


def _stretch(server: WatchedServer, planted: str, start: float) -> Stretch:
    """A time that is over. Raises RuntimeError where it was not watched: it is planted anew by the next call."""
    server.check_watch()
    end = time.time()
    rate, median, late = server.load.between(start, end)
    return Stretch(planted=planted, start=start, end=end, rate=rate, median=median, late=late)


async def try_out(names: Sequence[str], *, seconds: float, postgres: str | None) -> None:
    """Plant incidents one after the other, without a watch, and print how each was seen."""
    async with watched_server("try", None, postgres, settle=0.0) as server:
        for name in names:
            async with INCIDENTS[name].plant(server) as look:
                print(f"{name}: {await see(look, time.time() + seconds) or 'not seen'}", flush=True)


async def _guarded(root: Path, series: Series, options: argparse.Namespace) -> None:
    """Ctrl-C and SIGTERM end it once, and nothing keeps it from undoing what is planted."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def end() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    if options.try_one:
        await try_out(options.try_one, seconds=options.seconds, postgres=options.postgres)
        return
    part = 1 + max((each.number for each in series.parts), default=0)
    await run_part(series, part, root, limit=parse_duration(options.limit), postgres=options.postgres)


def begin_or_go_on(root: Path, seed: int | None, *, kept: Path = KEPT) -> Series:
    """The series of a folder; a new folder goes on with the one beside the code while that is unfinished."""
    if not (root / RESULTS).exists():
        root.mkdir(parents=True, exist_ok=True)
        series = read_kept(kept)
        if not series.parts or not series.remaining(draw_plan(series.seed)) or seed not in (None, series.seed):
            series = Series(seed=secrets.randbelow(2**31) if seed is None else seed)
        for part in series.parts:
            write(part, root)
        write(series, root)
    return read_series(root)


def judge_all(root: Path) -> Series:
    """Judge the parts that are not judged yet, and keep what was found in the results."""
    for part in read_series(root).parts:
        if not part.is_judged and (root / f"part-{part.number}").is_dir():
            write(judge(part, root / f"part-{part.number}"), root)
    series = read_series(root)
    write(series, root)
    return series


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", default="4h", metavar="TIME", help="begin none that is not over then; default: 4h")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the plan; default: drawn, and recorded")
    parser.add_argument("--try", dest="try_one", action="append", choices=INCIDENTS, help="plant this one alone")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="--try: how long to wait until one is seen; default: 60"
    )
    parser.add_argument("--again", action="store_true", help="judge all parts again whose watch's folder is there")
    parser.add_argument("--page", action="store_true", help=f"no runs: keep the results, and write {PAGE.name}")
    parser.add_argument("--postgres")
    options = parser.parse_args(arguments)
    root = options.folder
    series = begin_or_go_on(root, options.seed)
    if options.seed not in (None, series.seed):
        parser.error(f"{root} has a plan with the seed {series.seed}; name another folder")
    if options.again:
        for part in series.parts:
            write(part.unjudged(), root)
    if not (options.page or options.again):
        try:
            asyncio.run(_guarded(root, series, options))
        except asyncio.CancelledError:
            print("ended; what is planted is undone, and the same command goes on", file=sys.stderr)
            return _ENDED
        if options.try_one:
            return 0
    series = judge_all(root)
    print(render(series))
    if options.page:
        publish(series)
    return _NOT_ALL if series.remaining(draw_plan(series.seed)) else 0


if __name__ == "__main__":
    sys.exit(main())
