"""Let a pipeline's gate judge migrations of which it is known what they do, beside a neighbour that comes and goes.

    python -m gym.gate                                  # 10 that drop an index, 10 that add a column; an hour
    python -m gym.gate --limit 30min                    # as many as there is time for; the same again goes on
    python -m gym.gate --each 2 --results /tmp/few      # a few, whose table is printed

Each is a call of ci/gate.sh, as a pipeline makes it. The order is drawn in pairs and kept with what was said of each,
so that who interrupts the series goes on with the same command. When all of ten or more have been judged, the results
become gym/gate/results.json, and their table a part of docs/ci.md; --page does that with what is there. --published
goes on with that file, on whatever machine.
Exit status 1 if a verdict was wrong, 75 if there was no time for all of them.
"""

import argparse
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

from gym.gate.page import RESULTS as PUBLISHED
from gym.gate.page import publish, render
from gym.gate.trials import Judged, Series, judge, read_series, write_series
from gym.live.__main__ import describe_machine
from gym.live.disturber import disturbed, disturbed_share, read_bursts
from gym.live.runs import BusyError, alone, state_directory
from pgtrial.store.journal_file import VARIABLE
from pgtrial.units import format_duration, parse_duration

RESULTS = "results.json"
_BURSTS = "bursts.jsonl"
_EACH = 10  # migrations of either kind that are published; fewer take the place of no more
_TERMINATED = 143  # as a shell reports a program that SIGTERM ended
_NOT_ALL = 75  # EX_TEMPFAIL: try again


def begin_or_go_on(path: Path, *, seed: int | None, each: int, published: Path | None = None) -> Series:
    """The series that is there, else the one that is ``published``, else a new one.

    ValueError where the one that is there has another plan.
    """
    here, source = describe_machine(), path
    if published is not None and not path.exists():
        source = published
    if not source.exists():
        drawn = secrets.randbelow(2**31) if seed is None else seed
        return Series(seed=drawn, each=each, machine=here)
    series = read_series(source)
    if source is published and here != series.machine:
        series = replace(series, machine=f"{series.machine}, then {here}")
    if series.each != each or seed not in (None, series.seed):
        raise ValueError(
            f"{path} has a series of {series.each} with the seed {series.seed}; "
            "go on with these, or name another directory with --results"
        )
    return series


def run_series(series: Series, results: Path, *, limit: float) -> Series:
    """Judge what remains, and keep each verdict at once; begin none that would not be over by the limit."""
    path, log = results / RESULTS, results / _BURSTS
    started = time.monotonic()
    with alone(results) as lock:
        write_series(series, path)
        _clear_up(results)
        with disturbed(seed=series.seed + len(series.judged), log=log):
            for number, migration in series.remaining:
                longest = max((one.seconds for one in series.judged), default=0.0)
                if time.monotonic() - started + longest > limit:
                    break
                one = judge(number, migration, results, lock=lock)
                share = disturbed_share(read_bursts(log), one.started, one.ended)
                series = replace(series, judged=(*series.judged, replace(one, disturbed=share)))
                write_series(series, path)
                show(series.judged[-1], len(series.plan))
    return series


def _clear_up(results: Path) -> None:
    """Remove what a killed gate of this series has left: servers, and their data."""
    command = [sys.executable, "-m", "pgtrial", "restore"]
    environment = {**os.environ, VARIABLE: str(state_directory(results))}
    subprocess.run(command, env=environment, check=False, stdout=subprocess.DEVNULL)


def show(one: Judged, count: int) -> None:
    found = f"exit status {one.status}, {'right' if one.is_right else 'WRONG'}"
    if one.ratio is not None and one.low is not None and one.high is not None:
        found += f": {one.ratio - 1:+.1%} ({one.low - 1:+.1%} to {one.high - 1:+.1%}), {one.blocks} blocks"
    print(f"{one.number:>3} of {count}: {one.migration}: {found} ({format_duration(one.seconds)})", flush=True)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(_TERMINATED)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gym.gate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--each", type=int, default=_EACH, metavar="N", help=f"migrations of either kind; default: {_EACH}"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the order; default: drawn, and recorded")
    parser.add_argument("--limit", default="12h", metavar="TIME", help="begin none that is not over then; default: 12h")
    parser.add_argument("--results", type=Path, default=Path("results/gym-gate"), metavar="DIR")
    parser.add_argument("--page", action="store_true", help="no runs: publish what is there")
    parser.add_argument("--published", action="store_true", help=f"go on with what {PUBLISHED.name} has")
    options = parser.parse_args(arguments)
    try:
        limit = parse_duration(options.limit)
        series = begin_or_go_on(
            options.results / RESULTS,
            seed=options.seed,
            each=options.each,
            published=PUBLISHED if options.published else None,
        )
    except ValueError as err:
        parser.error(str(err))
    if options.page:
        publish(series)
        return 0
    options.results.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, _end)
    try:
        series = run_series(series, options.results.absolute(), limit=limit)
    except BusyError as err:
        print(f"error: {err}", file=sys.stderr)
        return 1
    if series.remaining:
        print(f"{len(series.judged)} of {len(series.plan)} have been judged; the same command goes on")
        return _NOT_ALL
    if series.each < _EACH:
        print(render(series))
    else:
        publish(series)
    return 0 if all(one.is_right for one in series.judged) else 1


if __name__ == "__main__":
    sys.exit(main())
