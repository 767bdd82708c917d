"""True verdicts on a noisy machine: eight ways to compare two configurations, each given the same wall time of load.

    python benchmarks/efficiency --minutes 100              # 20 repetitions of each case; the least is 2, in 10 minutes
    python benchmarks/efficiency --table results/efficiency.jsonl

Five twin clusters from one snapshot: the control, a copy of it, two whose transactions do extra work (every 19th, or
every 9th, does its work twice, which is 5 % and 10 % of throughput) and one with synchronous_commit off. A repetition
is six sessions; in each all twins are put back and started anew, and a session has a piece of the data of every
contender, in random order. ../README.md and docs/statistics.md have the rest.

Every session is a line of the file --raw as soon as it is over; the same command again goes on from there, with the
minutes, slices and seed that the file was begun with.
"""

import argparse
import asyncio
import math
import os
import platform
import random
import sys
import time
from contextlib import nullcontext
from pathlib import Path

from laboratory import CLIENTS, SCALE, Arm, Laboratory, open_laboratory
from neighbour import bursty_neighbour, neighbour_argv
from records import append, read, session_record
from segments import (
    ASYNC,
    CONTROL,
    COPY,
    LONG,
    QUIET_CASES,
    RUN_GUARD,
    SESSIONS,
    TWICE,
    Segment,
    duet,
    fitting_slice,
    interleaved,
    long_runs,
    session_segments,
)
from tables import PARTS_OF_TEST, render

from pgtrial.design.slices import GUARD
from pgtrial.errors import PgTrialError

FULL = 100.0  # minutes of the full size
REPETITIONS = 20
LEAST_SECONDS = 6.0  # of load for a contender in a repetition: one ABBA of quarter seconds in each session
OVERHEAD = 9.0  # s of a session: putting back, starting, warming up, counting
TRUTH_SHARE, LONG_SHARE = 0.08, 0.04  # of the whole time; the latter in each part
RUN_SECONDS = 30  # of a long run
TRUTH_SESSIONS = 6

ARMS = {
    CONTROL: Arm(),
    COPY: Arm(),
    **{name: Arm(twice=twice) for name, twice in TWICE.items()},
    ASYNC: Arm(settings={"synchronous_commit": "off"}),
}


def plan(minutes: float) -> tuple[int, float]:
    """Repetitions, and seconds of load for each contender in one: 20 of them if that leaves enough for each."""
    left = minutes * 60 * (1 - TRUTH_SHARE - len(PARTS_OF_TEST) * LONG_SHARE) - 40
    # Of a repetition: what grows with the load, and what does not. A control's run serves two cases.
    load, fixed = 0.0, 0.0
    for cases in PARTS_OF_TEST.values():
        runs = len(cases) + math.ceil(len(cases) / 2)
        load += 2 * runs / 2 + 2 * len(cases)
        fixed += SESSIONS * (OVERHEAD + runs * RUN_GUARD)
    repetitions = max(2, min(REPETITIONS, int(left / (load * LEAST_SECONDS + fixed))))
    return repetitions, max(LEAST_SECONDS, round((left / repetitions - fixed) / load, 1))


class Benchmark:
    """Plays what is missing in the file of raw results."""

    def __init__(self, laboratory: Laboratory, options: argparse.Namespace) -> None:
        self._laboratory = laboratory
        self._raw: Path = options.raw
        records = read(self._raw) if self._raw.exists() else None
        self._done = set(records.sessions) if records else set()
        self._header = records.header if records else {}
        self._options = options
        self._started = time.monotonic()

    async def run(self) -> None:
        if not self._header:
            self._begin()
        header = self._header
        seconds, seed = header["seconds"], header["seed"]
        share = header["minutes"] * 60 * TRUTH_SHARE / TRUTH_SESSIONS - OVERHEAD
        each = max(2.0, share / (2 * len(QUIET_CASES[1:])))
        for session in range(TRUTH_SESSIONS):
            turns = {"slice_length": header["slice"], "guard": GUARD}
            await self._session(
                ("truth", 0, session),
                [
                    duet(QUIET_CASES[1:], seconds=each, seed=f"{seed}/truth/{session}"),
                    interleaved(QUIET_CASES[1:], seconds=each, seed=f"{seed}/truth/{session}", **turns),
                ],
            )
        runs = max(2, round(header["minutes"] * 60 * LONG_SHARE / RUN_SECONDS))
        for part in PARTS_OF_TEST:
            await self._session((f"{LONG}, {part}", 0, 0), [long_runs(runs=runs, seconds=RUN_SECONDS)])
        for repetition in range(header["repetitions"]):
            # The parts alternate, so that what is over when somebody loses patience has both.
            for part, cases in PARTS_OF_TEST.items():
                with_runs = random.Random(f"{seed}/{part}/{repetition}").randrange(SESSIONS)
                for session in range(SESSIONS):
                    segments = session_segments(
                        cases,
                        seconds=seconds,
                        slice_length=header["slice"],
                        guard=GUARD,
                        contiguous=session == with_runs,
                        seed=f"{seed}/{part}/{repetition}/{session}",
                    )
                    await self._session((part, repetition, session), segments)

    def _begin(self) -> None:
        repetitions, seconds = plan(self._options.minutes)
        self._header = {
            "minutes": self._options.minutes,
            "seed": self._options.seed,
            "repetitions": repetitions,
            "seconds": seconds,
            "slice": fitting_slice(seconds / SESSIONS, self._options.slice),
            "guard": GUARD,
            "scale": SCALE,
            "clients": CLIENTS,
            "postgres": self._laboratory.programs.version,
            "kernel": platform.release(),
            "cpus": os.cpu_count(),
            "neighbour": neighbour_argv(os.cpu_count() or 1)[0],
        }
        self._raw.parent.mkdir(parents=True, exist_ok=True)
        append(self._raw, {"kind": "header", **self._header})

    async def _session(self, key: tuple[str, int, int], segments: list[Segment]) -> None:
        if key in self._done:
            return
        part, repetition, session = key
        name = f"{self._header['seed']}/{part}/{repetition}/{session}"
        cpus = os.cpu_count() or 1
        is_bursty = part.endswith("bursty")
        async with bursty_neighbour(self._laboratory.host, cpus=cpus, seed=name) if is_bursty else nullcontext():
            rows = await self._laboratory.session(segments, seed=random.Random(name).getrandbits(31))
        append(self._raw, session_record(*key, rows))
        minutes = (time.monotonic() - self._started) / 60
        print(f"{minutes:6.1f} min  {part}, repetition {repetition + 1}, session {session + 1}", file=sys.stderr)


async def measure(options: argparse.Namespace) -> None:
    async with open_laboratory(options.directory, options.postgres, ARMS) as laboratory:
        await Benchmark(laboratory, options).run()


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare ways to compare, with the same time of load for each.")
    parser.add_argument("--minutes", type=float, default=FULL, help=f"about as long as this ({FULL:g})")
    parser.add_argument("--raw", type=Path, default=Path("results/efficiency.jsonl"), help="file of raw results")
    parser.add_argument("--table", type=Path, metavar="RAW", help="only print the tables of such a file")
    parser.add_argument("--slice", type=float, default=0.25, help="seconds of a slice at least, guard included (0.25)")
    parser.add_argument("--seed", type=int, default=20260120, help="of all orders and bursts")
    parser.add_argument("--postgres", default=None, help="major version or directory of programs (the first found)")
    parser.add_argument("--directory", type=Path, default=Path("/var/tmp"), help="where the clusters lie (/var/tmp)")
    options = parser.parse_args()
    try:
        if options.table is None:
            asyncio.run(measure(options))
        print(render(read(options.table or options.raw)))
    except KeyboardInterrupt:
        print(f"interrupted; the same command goes on from {options.raw}", file=sys.stderr)
        return 130
    except PgTrialError as err:
        print(f"error: {err}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
