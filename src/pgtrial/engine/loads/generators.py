"""Run the processes of a load generator at the same time, and end them."""

import asyncio
import contextlib
import math
import os
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pgtrial.engine.loads.listening import End, listen
from pgtrial.engine.loads.machines import (
    LoadMachine,
    MachineLoad,
    end_all,
    forget_logs,
    span,
    start_together,
    waiting_argv,
)
from pgtrial.engine.loads.pgbench import put_scripts
from pgtrial.engine.loads.results import Channel, Listener, work
from pgtrial.hosts.base import Account, Host, HostProcess
from pgtrial.hosts.operations import LOAD
from pgtrial.hosts.processes import end_process
from pgtrial.workloads.base import Generator, Output, Progress, Results, Summary, Work
from pgtrial.workloads.pgbench_output import OUTPUT as PGBENCH

OnSecond = Callable[[float, float | None], bool]  # of tps and mean latency: whether that is enough
Conduct = Callable[[Sequence[HostProcess]], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOutcome:
    """How the generators ended. ``started`` is just before the first one was started, ``all_started`` after the last.

    ``first_ended`` is when the first of them had ended; ``silences`` are the times in which one of them said nothing,
    although it tells of each second. All are in seconds since the epoch.
    """

    started: float
    all_started: float
    first_ended: float
    silences: tuple[tuple[float, float], ...] = ()
    summaries: tuple[Summary, ...]
    errors: tuple[str, ...]  # in the generators' and the server's own words; empty if all went well
    machines: tuple[MachineLoad, ...] = ()  # from which the load came, if not from this one

    @property
    def work(self) -> Work | None:
        """What was to be done once, whatever time it took; there is one generator then."""
        return self.summaries[0].work if self.summaries else None


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


async def _look_at_none(_processes: Sequence[HostProcess]) -> None:
    pass


async def run_generators(
    host: Host,
    generators: Sequence[Generator],
    *,
    environment: Mapping[str, str],
    account: Account | None = None,
    machines: Sequence[LoadMachine] = (),
    output: Output = PGBENCH,
    on_second: OnSecond = lambda _tps, _latency: False,
    on_started: Conduct = _look_at_none,
    conduct: Conduct | None = None,
) -> LoadOutcome:
    """Run all generators until they end, one fails, or ``on_second(tps, latency)`` returns True; then all are ended.

    ``output`` says how their program speaks, ``account`` whom it runs as; it owns the generators' directories. Those of
    ``machines`` start at one time by the clocks of all of them.

    With ``conduct`` they are told to come to their end when that has ended; it is cancelled if they end before. Those
    that tell of their results are told so when they have worked for their time, or a little after ``conduct`` has
    ended. Raises HostCommandError if one cannot be started, and what ``on_started`` and ``conduct`` raise. However this
    function ends, none of them is left running.
    """
    seconds = _Seconds(processes=len(generators))
    enough = asyncio.Event()

    def tell(process: int, progress: Progress) -> None:
        second = seconds.add(process, progress)
        if second is not None and on_second(*second):
            enough.set()

    async with contextlib.AsyncExitStack() as stack:
        loads = [MachineLoad.of(machine) for machine in machines]
        processes: list[HostProcess] = []
        tellers: list[Listener] = []
        tasks: list[asyncio.Task[End]] = []
        local = () if machines else generators
        _put_all_scripts(host, local, account)
        started = time.time()
        for index, generator in enumerate(local):
            start = partial(_start, host, [], generator, environment=environment, account=account)
            on_progress = partial(tell, index)
            if generator.results is None:
                process = await start(stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
                stack.push_async_callback(end_process, process)
                listening = listen(process, output, on_progress, enough, ops=host.ops)
            else:
                process, teller = await _start_teller(start, generator.results)
                stack.push_async_callback(_end_session, process)
                tellers.append(teller)
                listening = teller.listen(on_progress, enough)
            processes.append(process)
            tasks.append(asyncio.create_task(listening))
        all_started = time.time()
        if machines:
            processes = await _start_on_machines(stack, loads, generators, environment=environment)
            started, all_started = span(loads)
            tasks += [
                asyncio.create_task(_listen_to(loads[each.machine or 0], process, output, partial(tell, index), enough))
                for index, (each, process) in enumerate(zip(generators, processes, strict=True))
            ]
        waiting = [asyncio.create_task(asyncio.wait(tasks)), asyncio.create_task(enough.wait())]
        stack.push_async_callback(_cancel, [*waiting, *tasks])
        await on_started(processes)
        conducted = None if conduct is None else partial(conduct, processes)
        conducting = work(tellers, conducted) if tellers else conducted() if conducted is not None else None
        if conducting is not None:
            conductor = asyncio.ensure_future(conducting)
            stack.push_async_callback(_cancel, [conductor])
            await asyncio.wait([conductor, *waiting], return_when=asyncio.FIRST_COMPLETED)
            if conductor.done():
                conductor.result()
                _finish([] if tellers else processes)
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        ended = [(generator, task.result()) for generator, task in zip(generators, tasks, strict=True) if task.done()]
    end_all(loads)
    if tellers:
        started = all_started = max(each.ready or all_started for each in tellers)
    return LoadOutcome(
        started=started,
        all_started=all_started,
        first_ended=min((end.time for _, end in ended), default=time.time()),
        silences=tuple(silence for _, end in ended for silence in end.silences),
        summaries=tuple(end.summary for _, end in ended),
        errors=tuple(f"{_name(generator, machines)}: {line}" for generator, end in ended for line in end.errors),
        machines=tuple(loads),
    )


def _name(generator: Generator, machines: Sequence[LoadMachine]) -> str:
    where = "" if generator.machine is None else f' on "{machines[generator.machine].host.name}"'
    return f"{', '.join(generator.scenario_names)}{where}"


def _put_all_scripts(host: Host, generators: Sequence[Generator], account: Account | None) -> None:
    for generator in generators:
        mode = 0o600 if generator.results is None else 0o700  # a program's files may be programs
        put_scripts(host, Path(generator.directory), generator.scripts, account=account, mode=mode)


async def _start_on_machines(
    stack: contextlib.AsyncExitStack,
    loads: Sequence[MachineLoad],
    generators: Sequence[Generator],
    *,
    environment: Mapping[str, str],
) -> list[HostProcess]:
    """Start the generators of all machines at one time; ``stack`` ends them. Raises HostCommandError."""
    processes: list[tuple[int, HostProcess]] = []
    pipe = asyncio.subprocess.PIPE
    for generator in generators:
        number = generator.machine or 0
        machine = loads[number].machine
        forget_logs(machine, generator)
        put_scripts(machine.host, machine.directory, generator.scripts, account=machine.account)
        before = waiting_argv(machine)
        start = partial(_start, machine.host, before, generator, environment=environment, account=machine.account)
        process = await start(stdin=pipe, stdout=pipe, stderr=pipe)
        stack.push_async_callback(end_process, process)
        processes.append((number, process))
    await start_together(loads, processes)
    return [process for _, process in processes]


def _listen_to(
    load: MachineLoad,
    process: HostProcess,
    output: Output,
    on_progress: Callable[[Progress], None],
    enough: asyncio.Event,
) -> Coroutine[Any, Any, End]:
    """Listen to a generator on another machine, whose clock it tells."""
    return listen(process, output, on_progress, enough, ops=load.machine.host.ops, ahead=load.before.offset)


async def _start(
    host: Host,
    before: Sequence[str | Path],
    generator: Generator,
    *,
    environment: Mapping[str, str],
    account: Account | None,
    stdin: int = asyncio.subprocess.DEVNULL,
    stdout: int,
    stderr: int,
) -> HostProcess:
    return await host.start(
        [*before, generator.program, *generator.argv_tail],
        role=LOAD,
        account=account,
        directory=Path(generator.directory),
        environment={**environment, **generator.environment},
        groups=generator.groups,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
    )


async def _start_teller(start: Callable[..., Awaitable[HostProcess]], results: Results) -> tuple[HostProcess, Listener]:
    output, errors = Channel.open(), Channel.open()
    try:
        process = await start(stdout=output.writer, stderr=errors.writer)
    except BaseException:
        os.close(output.reader)
        os.close(errors.reader)
        raise
    finally:
        os.close(output.writer)
        os.close(errors.writer)
    return process, Listener(process=process, results=results, output=output.reader, errors=errors.reader)


async def _end_session(process: HostProcess) -> None:
    """End a program, and what it has started in its session."""
    await end_process(process)
    with contextlib.suppress(ProcessLookupError):
        process.kill_session()


def _finish(processes: Iterable[HostProcess]) -> None:
    """Have pgbench end as at the end of its time: each client ends its transaction, and the log is written to its end.

    Its own alarm clock (pgbench.c, handle_sig_alarm) does the same.
    """
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGALRM)


async def _cancel(tasks: Sequence["asyncio.Task[Any]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
