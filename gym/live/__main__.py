"""Run experiments with a known answer on real servers, beside a neighbour that comes and goes, and score the verdicts.

    python -m gym.live                                    # 60 of equal arms, 40 with 3 % more work; about 2 hours
    python -m gym.live --limit 30min                      # as many as there is time for; the same again goes on
    python -m gym.live --null 6 --planted 4 --results /tmp/few
    python -m gym.live --load sysbench --results results/gym-live-sysbench
    python -m gym.live --method blocks --results results/gym-live-blocks    # which other graders judge, too

Each is a `pgtrial run` of its own on throw-away servers. The plan is drawn once and kept with what came out of each, so
that who interrupts the series, in whatever way, goes on with the same command. When all have been run, the results
become gym/live/results.json, and their tables docs/gym-live.md; --page does that with what is there.
Exit status 1 if an experiment failed, 75 if there was no time for all of them.
"""

import argparse
import contextlib
import os
import platform
import secrets
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

from gym.live.disturber import disturbed, disturbed_share, read_bursts
from gym.live.graders import METHOD
from gym.live.page import publish
from gym.live.plan import LOADS, PGBENCH
from gym.live.record import Record, Series, read_series, write_series
from gym.live.runs import BusyError, run_all
from pgtrial.units import format_duration, parse_duration

RESULTS = "results.json"
_BURSTS = "bursts.jsonl"
_TERMINATED = 143  # as a shell reports a program that SIGTERM ended
_NOT_ALL = 75  # EX_TEMPFAIL: try again
_SLACK = 1.5  # times the mean of those that have been run, which one more may take


def begin_or_go_on(
    path: Path, *, seed: int | None, null: int, planted: int, jobs: int | None, load: str, method: str = ""
) -> Series:
    """The series that is there, or a new one. ValueError where the one that is there has another plan."""
    if method and method not in LOADS[load]:
        raise ValueError(f"{load} does not load experiments by {method}")
    if not path.exists():
        drawn = secrets.randbelow(2**31) if seed is None else seed
        machine = describe_machine()
        return Series(seed=drawn, null=null, planted=planted, jobs=jobs or 1, machine=machine, load=load, method=method)
    series = read_series(path)
    wanted = (null, planted, load, method)
    if (series.null, series.planted, series.load, series.method) != wanted or seed not in (None, series.seed):
        alone = f" and {series.method} alone" if series.method else ""
        raise ValueError(
            f"{path} has a series of {series.null} and {series.planted} by {series.load}{alone} with the seed "
            f"{series.seed}; go on with these, or name another directory with --results"
        )
    return replace(series, jobs=jobs or series.jobs)


def describe_machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} CPUs, {memory:.0f} GB of memory, Linux {platform.release()}"


def has_time(series: Series, started: float, limit: float) -> Callable[[], bool]:
    """Whether one more is likely to be over before the limit."""
    known = [record.seconds for record in series.records]
    longest = _SLACK * sum(known) / len(known) if known else 0.0
    return lambda: time.monotonic() - started + longest < limit


def run_series(series: Series, results: Path, *, limit: float) -> Series:
    """Run what remains, and keep each record at once."""
    path, log = results / RESULTS, results / _BURSTS
    write_series(series, path)
    if not series.remaining:
        return series
    started = time.monotonic()
    with (
        disturbed(seed=series.seed + len(series.records), log=log),
        contextlib.closing(
            run_all(
                series.remaining,
                results,
                load=series.load,
                jobs=series.jobs,
                may_begin=has_time(series, started, limit),
            )
        ) as records,
    ):
        for record in records:
            share = disturbed_share(read_bursts(log), record.started, record.ended)
            series = series.with_record(replace(record, disturbed=share))
            write_series(series, path)
            show(series.records[-1], len(series.plan))
    return series


def show(record: Record, count: int) -> None:
    found = record.reason
    if record.ratio is not None and record.low is not None and record.high is not None:
        found = f"{record.ratio - 1:+.1%} ({record.low - 1:+.1%} to {record.high - 1:+.1%}), {record.verdict}"
    name = f"{record.number:>3} of {count}: {record.kind}, {record.method}"
    print(f"{name}: {found} ({format_duration(record.seconds)})", flush=True)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(_TERMINATED)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gym.live", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--null", type=int, default=60, metavar="N", help="experiments with equal arms; default: 60")
    parser.add_argument("--planted", type=int, default=40, metavar="N", help="with more work; default: 40")
    parser.add_argument("--load", choices=LOADS, default=PGBENCH, help="what loads the servers; default: pgbench")
    parser.add_argument(
        "--method", choices=[METHOD], default="", help="by this alone, for other graders, too; default: by all"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the plan; default: drawn, and recorded")
    parser.add_argument("--jobs", type=int, metavar="N", help="experiments at a time; default: as before, at first 1")
    parser.add_argument("--limit", default="12h", metavar="TIME", help="begin none that is not over then; default: 12h")
    parser.add_argument("--results", type=Path, default=Path("results/gym-live"), metavar="DIR")
    parser.add_argument("--page", action="store_true", help="no runs: publish what is there")
    options = parser.parse_args(arguments)
    try:
        limit = parse_duration(options.limit)
        series = begin_or_go_on(
            options.results / RESULTS,
            seed=options.seed,
            null=options.null,
            planted=options.planted,
            jobs=options.jobs,
            load=options.load,
            method=options.method,
        )
    except ValueError as err:
        parser.error(str(err))
    if options.page:
        publish(series)
        return 0
    options.results.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, _end)
    try:
        series = run_series(series, options.results, limit=limit)
    except BusyError as err:
        print(f"error: {err}", file=sys.stderr)
        return 1
    if series.remaining:
        print(f"{len(series.records)} of {len(series.plan)} have been run; the same command goes on")
        return _NOT_ALL
    publish(series)
    return 0 if all(record.is_judged for record in series.records) else 1


if __name__ == "__main__":
    sys.exit(main())
