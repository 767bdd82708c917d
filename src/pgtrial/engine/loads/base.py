"""The interface of a load, and running its generator processes concurrently."""

import asyncio
import contextlib
import math
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pgtrial.design.data_size import arm_scales
from pgtrial.design.plan import Plan
from pgtrial.engine.loads.fio import FioLoad
from pgtrial.engine.loads.pgbench import PgbenchLoad, put_scripts
from pgtrial.engine.target.base import RunningServer, Target, executable_client
from pgtrial.engine.target.host import HostTarget
from pgtrial.hosts.base import Account, Host, HostProcess
from pgtrial.hosts.local import server_account
from pgtrial.hosts.operations import LOAD
from pgtrial.hosts.processes import end_process
from pgtrial.model.arm import Arm
from pgtrial.model.run import LoadLevel, Slice
from pgtrial.store.belongings import Belongings
from pgtrial.store.transactions import LoadLog
from pgtrial.workloads.base import Generator, Output, Progress, Summary
from pgtrial.workloads.pgbench_output import OUTPUT as PGBENCH
from pgtrial.workloads.scenarios import scenarios_of

_LINES_KEPT = 1000  # of a generator's messages, from their beginning and once more from their end
_LONGEST_LINE = 4000  # characters of one of them
_LONGEST_SILENCE = 2.0  # s between two lines of progress, of which there is one each second


class Load(Protocol):
    """The load of an experiment. ``program`` generates it; ``output`` parses what that prints."""

    @property
    def program(self) -> Path: ...
    @property
    def output(self) -> Output: ...
    @property
    def account(self) -> Account | None:
        """Whom the generators run as, None: as pgtrial."""

    @property
    def scripts(self) -> Mapping[str, str]:
        """The text of each scenario that has one, by its name."""

    def facts(self) -> Mapping[str, str]:
        """Facts of the load for the fingerprint of the experiment, "group/name" to value."""

    async def try_out(self, arm: Arm, server: RunningServer) -> None:
        """Do a little of it with an arm that is up. Raises SettingError or WorkloadError that names what fails."""

    async def make_cold(self, arm: Arm) -> None:
        """Empty the page cache of the arm's data, before the arm is started. Raises SettingError, HostCommandError."""

    async def make_warm(self, arm: Arm, server: RunningServer) -> None:
        """Fill the cache with the arm's data, as far as they fit. Raises TargetError."""

    def generators(
        self,
        arm: Arm,
        server: RunningServer,
        level: LoadLevel,
        *,
        block: int,
        seconds: int,
        directory: Path,
        logged: bool,
    ) -> tuple[Generator, ...]:
        """The load generators of an arm at a level, in a ``directory`` of their own; what is measured is ``logged``.

        The arms of a block see the same random numbers, other blocks see others; and so does what is not measured, the
        warm-up: it must not touch the very data that are measured next, and so put them into the cache.
        """

    def logs(
        self,
        level: LoadLevel,
        generators: Sequence[Generator],
        *,
        window: tuple[float, float],
        slices: tuple[Slice, ...] = (),
    ) -> list[LoadLog]:
        """What generators have written down, of which the ``window`` or the counted part of the ``slices`` counts."""


async def make_load(plan: Plan, target: Target, belongings: Belongings, *, here: Host, scripts: Path) -> Load:
    """``here`` is where pgbench runs, ``scripts`` the folder with its scenarios' scripts.

    Where its account may not execute it, a copy is made, which ``belongings`` know of. Raises PreflightError.
    """
    experiment = plan.experiment
    if isinstance(target, HostTarget):
        return FioLoad(fio=target.fio, seed=plan.seed, target=target)
    assert target.client is not None  # every target with a server has one
    account = server_account(here.ops)
    client = await executable_client(target.client, account, belongings, here=here)
    scenarios = scenarios_of(experiment, scripts)
    constant = sum(scenario.sessions or 0 for scenario in scenarios)
    return PgbenchLoad(
        program=client.path("pgbench"),
        account=account,
        workload=experiment.workload,
        scenarios=scenarios,
        seed=plan.seed,
        clients=max(level.clients for level in plan.levels) + constant,
        here=here,
        there=target.host,
        scales={arm.name: arm.scale for arm in plan.arms if arm.scale is not None}
        if len(arm_scales(plan.arms)) > 1
        else {},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOutcome:
    """How the generators ended. ``started`` is just before the first one was started, ``all_started`` after the last.

    From ``started`` on, each runs at least as long as it was told to. ``first_ended`` is when the first of them had
    ended, its slack added; ``silences`` are the times in which one of them said nothing, although it tells of each
    second. All are in seconds since the epoch.
    """

    started: float
    all_started: float
    first_ended: float
    silences: tuple[tuple[float, float], ...] = ()
    summaries: tuple[Summary, ...]
    errors: tuple[str, ...]  # in the generators' and the server's own words; empty if all went well


@dataclass(slots=True, kw_only=True)
class _Seconds:
    """Adds up the progress of several processes, second by second."""

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
        weighted = [one.tps * one.latency for one in told if one.tps > 0 and one.latency is not None]
        return tps, math.fsum(weighted) / tps if weighted else None


@dataclass(slots=True)
class _Silences:
    """Finds the times in which a generator said nothing; ``last`` is when it was heard last, if ever."""

    last: float | None
    found: list[tuple[float, float]] = field(default_factory=list)

    def heard(self, t: float) -> None:
        if self.last is not None and t - self.last > _LONGEST_SILENCE:
            self.found.append((self.last, t))
        self.last = t if self.last is None else max(self.last, t)


async def run_generators(
    host: Host,
    program: Path,
    generators: Sequence[Generator],
    *,
    environment: Mapping[str, str],
    account: Account | None = None,
    output: Output = PGBENCH,
    on_second: Callable[[float, float | None], bool] = lambda _tps, _latency: False,
    conduct: Callable[[Sequence[HostProcess]], Awaitable[None]] | None = None,
) -> LoadOutcome:
    """Run all generators until they end, one fails, or ``on_second(tps, latency)`` returns True; then all are ended.

    ``output`` says how the program speaks, ``account`` whom it runs as; it owns the generators' directories.

    With ``conduct`` they are told to come to their end when that has ended; it is cancelled if they end before. Raises
    HostCommandError if one cannot be started, and what ``conduct`` raises. However this function ends, none of them is
    left running.
    """
    seconds = _Seconds(processes=len(generators))
    enough = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        processes = []
        for generator in generators:
            put_scripts(host, Path(generator.directory), generator.scripts, account=account)
        started = time.time()
        for generator in generators:
            process = await host.start(
                [program, *generator.argv_tail],
                role=LOAD,
                account=account,
                directory=Path(generator.directory),
                environment={**environment, **generator.environment},
                groups=generator.groups,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            stack.push_async_callback(end_process, process)
            processes.append(process)
        all_started = time.time()
        listeners = [
            asyncio.create_task(_listen(process, index, seconds, on_second, enough, output=output))
            for index, process in enumerate(processes)
        ]
        waiting = [asyncio.create_task(asyncio.wait(listeners)), asyncio.create_task(enough.wait())]
        stack.push_async_callback(_cancel, [*waiting, *listeners])
        if conduct is not None:
            conductor = asyncio.ensure_future(conduct(processes))
            stack.push_async_callback(_cancel, [conductor])
            await asyncio.wait([conductor, *waiting], return_when=asyncio.FIRST_COMPLETED)
            if conductor.done():
                conductor.result()
                for process in processes:
                    _finish(process)
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        ended = [
            (generator, listener.result())
            for generator, listener in zip(generators, listeners, strict=True)
            if listener.done()
        ]
    errors = [
        f"{', '.join(generator.scenario_names)}: {line}"
        for generator, end in ended
        for line in _complaints(output, end)
    ]
    return LoadOutcome(
        started=started,
        all_started=all_started,
        first_ended=min((end.time + generator.slack for generator, end in ended), default=time.time()),
        silences=tuple(silence for _, end in ended for silence in end.silences),
        summaries=tuple(output.parse_summary(end.stdout, end.stderr) for _, end in ended),
        errors=tuple(errors),
    )


def _finish(process: HostProcess) -> None:
    """Have pgbench end as at the end of its time: each client ends its transaction, and the log is written to its end.

    Its own alarm clock (pgbench.c, handle_sig_alarm) does the same.
    """
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGALRM)


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """How and when a generator ended, both its outputs without progress lines, and when it was silent until then."""

    status: int
    time: float
    stdout: str
    stderr: str
    silences: tuple[tuple[float, float], ...]


def _complaints(output: Output, end: _End) -> Sequence[str]:
    found = output.find_errors(end.stdout, end.stderr)
    if found or end.status == 0:
        return found
    said = end.stderr.strip().splitlines()[-3:]
    return said or [f"{output.program} ended with status {end.status} and printed nothing"]


async def _listen(
    process: HostProcess,
    index: int,
    seconds: _Seconds,
    on_second: Callable[[float, float | None], bool],
    enough: asyncio.Event,
    *,
    output: Output,
) -> _End:
    """Read both outputs of a generator to their ends.

    One that fails is enough to end the others: their run cannot count any more.
    """
    assert process.stdout is not None  # both were asked for as pipes
    assert process.stderr is not None
    first: list[str] = []
    last: deque[str] = deque(maxlen=_LINES_KEPT)
    told, rest = process.stdout, process.stderr
    if output.progress == "stderr":
        told, rest = rest, told
    reading = asyncio.create_task(rest.read())
    silences = _Silences(last=time.time() if output.is_prompt else None)
    try:
        async for line in _read_lines(told):
            progress = output.parse_progress(line)
            # Its own time where it tells that: we may be the ones who come late.
            silences.heard(time.time() if progress is None or progress.t is None else progress.t)
            if progress is None:
                (first if len(first) < _LINES_KEPT else last).append(line[:_LONGEST_LINE])
                continue
            second = seconds.add(index, progress)
            if second is not None and on_second(*second):
                enough.set()
        status = await process.wait()
        end = time.time()
        silences.heard(end)
        if status != 0:
            enough.set()
        others, text = "\n".join((*first, *last)), (await reading).decode("utf-8", "replace")
        stdout, stderr = (others, text) if output.progress == "stdout" else (text, others)
        return _End(status=status, time=end, stdout=stdout, stderr=stderr, silences=tuple(silences.found))
    finally:
        reading.cancel()


async def _read_lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """Lines without their ends; one that is longer than the reader's buffer comes in pieces."""
    while not stream.at_eof():
        try:
            raw = await stream.readuntil(b"\n")
        except asyncio.LimitOverrunError as err:
            raw = await stream.readexactly(err.consumed)
        except asyncio.IncompleteReadError as err:
            raw = err.partial
        yield raw.decode("utf-8", "replace").rstrip("\n")


async def _cancel(tasks: Sequence["asyncio.Task[Any]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
