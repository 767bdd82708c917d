"""Run the load generator's processes side by side and listen to them."""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgtrial.hosts.local import LocalHost, end_process
from pgtrial.workloads.pgbench import Generator, Progress, Summary, find_errors, parse_progress, parse_summary

_STDERR_LINES_KEPT = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOutcome:
    """How the generators ended. ``started`` is when the last one was started (epoch s)."""

    started: float
    summaries: tuple[Summary, ...]
    errors: tuple[str, ...]  # in the generators' and the server's own words; empty if all went well


@dataclass(slots=True, kw_only=True)
class _Seconds:
    """Adds up the progress lines of several processes, second by second."""

    processes: int
    seen: dict[int, list[Progress]] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)

    def add(self, process: int, progress: Progress) -> tuple[float, float | None] | None:
        """(tps, mean latency or None) when every process has told of this second, else None."""
        second = self.counts[process] = self.counts.get(process, 0) + 1
        told = self.seen.setdefault(second, [])
        told.append(progress)
        if len(told) < self.processes:
            return None
        del self.seen[second]
        tps = math.fsum(one.tps for one in told)
        weighted = math.fsum(one.tps * one.latency for one in told if one.tps > 0 and one.latency is not None)
        return tps, weighted / tps if tps > 0 else None


async def run_generators(
    host: LocalHost,
    program: Path,
    generators: Sequence[Generator],
    *,
    environment: Mapping[str, str],
    on_second: Callable[[float, float | None], bool],
) -> LoadOutcome:
    """Run all generators until they end, or until ``on_second(tps, latency)`` returns True (then they are ended).

    Raises HostCommandError if one cannot be started. However this function ends, none of them is left running.
    """
    seconds = _Seconds(processes=len(generators))
    enough = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        processes = []
        for generator in generators:
            process = await host.start(
                [program, *generator.argv_tail],
                role="load",
                environment={**environment, **generator.environment},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            stack.push_async_callback(end_process, process)
            processes.append(process)
        started = time.time()
        listeners = [
            asyncio.create_task(_listen(process, index, seconds, on_second, enough))
            for index, process in enumerate(processes)
        ]
        stack.push_async_callback(_cancel, listeners)
        ended = asyncio.gather(*listeners)
        stop = asyncio.create_task(enough.wait())
        stack.push_async_callback(_cancel, [stop])
        await asyncio.wait([ended, stop], return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            ended.cancel()
            return LoadOutcome(started=started, summaries=(), errors=())
        outputs = ended.result()
        statuses = [await process.wait() for process in processes]
    errors: list[str] = []
    for generator, status, (_, stderr) in zip(generators, statuses, outputs, strict=True):
        found = list(find_errors(stderr))
        if status != 0 and not found:
            found = stderr.strip().splitlines()[-3:] or [f"pgbench ended with status {status} and printed nothing"]
        errors += [f"{', '.join(generator.scenario_names)}: {line}" for line in found]
    return LoadOutcome(
        started=started, summaries=tuple(parse_summary(stdout) for stdout, _ in outputs), errors=tuple(errors)
    )


async def _listen(
    process: asyncio.subprocess.Process,
    index: int,
    seconds: _Seconds,
    on_second: Callable[[float, float | None], bool],
    enough: asyncio.Event,
) -> tuple[str, str]:
    """Read both outputs of a generator to their ends; (stdout, stderr without progress lines)."""
    assert process.stdout is not None  # both were asked for as pipes
    assert process.stderr is not None
    other: list[str] = []
    stdout = asyncio.create_task(process.stdout.read())
    try:
        async for raw in process.stderr:
            line = raw.decode("utf-8", "replace")
            progress = parse_progress(line)
            if progress is None:
                if len(other) < _STDERR_LINES_KEPT:
                    other.append(line)
                continue
            second = seconds.add(index, progress)
            if second is not None and on_second(*second):
                enough.set()
        return (await stdout).decode("utf-8", "replace"), "".join(other)
    finally:
        stdout.cancel()


async def _cancel(tasks: "Sequence[asyncio.Task[object]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
