"""Machines from which the load comes: made ready, started together, and what they have written brought home.

Their clocks need not show the same: how far each is ahead of ours is measured just before the load and just after, and
all times become ours.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from pgtrial.engine.leftovers import mark_of
from pgtrial.engine.target.base import DATABASE, make_work_directory, run_concurrently
from pgtrial.errors import HostCommandError, PreflightError, WorkloadError
from pgtrial.experiment_file.experiment import LoadTable
from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.hosts.base import Account, Completed, Host, HostProcess
from pgtrial.hosts.certificate import draw_key_pair, require_cryptography
from pgtrial.hosts.clock import ClockOffset, measure_offset
from pgtrial.hosts.connect import open_host
from pgtrial.hosts.local import server_account
from pgtrial.postgres.entrance import Entrance, are_addresses
from pgtrial.postgres.programs import Programs, find_programs, reachable_programs
from pgtrial.postgres.throwaway import SUPERUSER
from pgtrial.postgres.work_directory import make_own, remove_directories
from pgtrial.safe_files import make_directory
from pgtrial.safe_text import parse_json
from pgtrial.store import log_reduction
from pgtrial.store.belongings import Belongings
from pgtrial.store.log_reduction import BAD_LINE, CUT_OFF
from pgtrial.store.pgbench_log import LevelLog, reduction_of
from pgtrial.workloads.base import Generator

SATURATED = 0.95  # of a machine's CPU time
TOGETHER = 0.010  # s between the first start and the last
_AHEAD = 0.3  # s from when all are ready until they start: more than it takes to tell them
_ROUNDS = 40  # of which the quickest tells the offset of a clock: on a busy machine few of them are quick
_NO_ERROR = 1e-18  # s²
_PATIENCE = 60.0  # s for one to be ready
_ADDRESS_THERE = 2  # of the words of SSH_CONNECTION
_REDUCE, _SUMS = Path(log_reduction.__file__), ".sums"
# In place of pgbench until the time to start has come; then this process becomes pgbench.
_WAIT = """
import os, sys, time
print("ready", flush=True)
at = float(sys.stdin.readline())
while (left := at - time.time()) > 0:
    time.sleep(left)
print(time.time(), flush=True)
os.execv(sys.argv[1], sys.argv[1:])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMachine:
    """``directory`` is one of the ``account`` there, whom pgbench runs as (None: as pgtrial does), ``python`` what it
    can execute, ``address`` that at which it reaches the server, and ``source`` its own on the way there.
    """

    host: Host
    programs: Programs
    python: str
    account: Account | None
    directory: Path
    address: str
    source: str
    cpus: int

    @property
    def pgbench(self) -> Path:
        return self.programs.path("pgbench")


@asynccontextmanager
async def open_machines(
    table: LoadTable | None, *, server: Host, belongings: Belongings
) -> AsyncIterator[tuple[LoadMachine, ...]]:
    """Connect to the machines of the file and make them ready, () without; ``server`` is the machine of the server.

    Raises ConnectError and PreflightError that name the machine.
    """
    if table is not None and table.tls:
        require_cryptography()
    mark = mark_of(belongings.folder)
    async with AsyncExitStack() as stack:
        machines = []
        for address in () if table is None else table.hosts:
            host = await stack.enter_async_context(open_host(address, mark=mark, on_start=belongings.add_process))
            _clear(host, belongings)  # what a pgtrial that was killed has left
            stack.callback(_clear, host, belongings)
            machines.append(await _ready(host, None if table is None else table.server, server, belongings))
        yield tuple(machines)


def _clear(host: Host, belongings: Belongings) -> None:
    remove_directories(host, *belongings.paths(host.name))


async def _ready(host: Host, address: str | None, server: Host, belongings: Belongings) -> LoadMachine:
    account = server_account(host.ops)
    programs = find_programs(host=host)
    work = make_work_directory(belongings, here=host, account=account)
    try:
        make_own(host, work / "load", account)
        own = (host.ops.variable("SSH_CONNECTION") or "").split()
        address = address or server.ops.address_towards(own[_ADDRESS_THERE])
        source = host.ops.address_towards(address)
    except (OSError, IndexError) as err:
        raise _no_way(host, str(err)) from err
    if not are_addresses((address, source)):
        raise _no_way(host, f'It says "{address}" and "{source}".')
    return LoadMachine(
        host=host,
        programs=await reachable_programs(host, programs, work=work, account=account),
        python=await _find_python(host, account),
        account=account,
        directory=work / "load",
        address=address,
        source=source,
        cpus=host.ops.cpus()[1],
    )


def _no_way(host: Host, detail: str) -> PreflightError:
    return PreflightError(
        f'cannot find out how "{host.name}" reaches the server by TCP',
        detail=detail,
        hint="Name the address of the server's machine: server in [load].",
    )


async def _find_python(host: Host, account: Account | None) -> str:
    found = dict.fromkeys(filter(None, (host.ops.python(), host.ops.which("python3"), "/usr/bin/python3")))
    for program in found:
        if account is None:
            return program
        access = await host.run(["test", "-x", program], account=account, directory=Path("/"), check=False)
        if access.status == 0:
            return program
    raise PreflightError(
        f'user "{account.name if account else ""}", as whom the load runs on "{host.name}", may execute no python3',
        detail=f"pgtrial tried {', '.join(found)}.",
        hint="Install the system's python3 there.",
    )


def make_entrance(table: LoadTable | None, machines: Sequence[LoadMachine], server: Host) -> Entrance | None:
    """How the machines of the file get to the server; None where there are none. Raises PreflightError where they are
    to use TLS, and nobody here can make a certificate.
    """
    if table is None:
        return None
    entrance = Entrance(
        port=server.ops.free_port(),
        addresses=tuple(dict.fromkeys(machine.address for machine in machines)),
        sources=tuple(dict.fromkeys(machine.source for machine in machines)),
        database=DATABASE,
        user=SUPERUSER,
        pair=draw_key_pair("pgtrial load", now=datetime.now(UTC)) if table.tls else None,
    )
    for machine in machines:
        entrance.write_trust(machine.host, machine.directory)
    return entrance


# -- start ---------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class MachineLoad:
    """The load of one machine: when its generators ``begun``, by our clock, its clock before and after, and the share
    of its CPU time that was used meanwhile, by whomever.
    """

    machine: LoadMachine
    before: ClockOffset
    begun: list[float] = field(default_factory=list)
    after: ClockOffset | None = None
    busy: float | None = None
    _times: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, machine: LoadMachine) -> "MachineLoad":
        before = measure_offset(machine.host, rounds=_ROUNDS)
        return cls(machine=machine, before=before, _times=_cpu_times(machine.host))

    def end(self) -> None:
        """Look at the machine once more, when its load has ended."""
        idle, whole = (now - then for now, then in zip(_cpu_times(self.machine.host), self._times, strict=True))
        self.busy = 1 - idle / whole if whole > 0 else None
        self.after = measure_offset(self.machine.host, rounds=_ROUNDS)

    @property
    def ahead(self) -> float:
        """Seconds that its clock was ahead of ours during the load: of both measurements, the surer the more."""
        offsets = (self.before, self.after or self.before)
        weights = [1 / (offset.error**2 or _NO_ERROR) for offset in offsets]
        return sum(weight * offset.offset for weight, offset in zip(weights, offsets, strict=True)) / sum(weights)

    def facts(self) -> dict[str, object]:
        """For the record of a run."""
        offsets = [self.before, *([self.after] if self.after else [])]
        return {
            "host": self.machine.host.name,
            "begun": self.begun,
            "ahead": [each.offset for each in offsets],
            "error": [each.error for each in offsets],
            "busy": self.busy,
        }


def waiting_argv(machine: LoadMachine) -> list[str | Path]:
    """What waits until it is told when to start, and then becomes the command that follows it."""
    return [machine.python, "-I", "-c", _WAIT]


async def start_together(loads: Sequence[MachineLoad], processes: Sequence[tuple[int, HostProcess]]) -> None:
    """Start what waits on the machines at one time, by the clock of each; ``processes`` come with their machine's
    number. Raises HostCommandError.
    """
    for number, process in processes:
        await _line(loads[number].machine, process)
    at = time.time() + _AHEAD
    for number, process in processes:
        assert process.stdin is not None  # it was asked for as a pipe
        process.stdin.write(f"{at + loads[number].before.offset!r}\n".encode())
        await process.stdin.drain()
    for number, process in processes:
        load = loads[number]
        load.begun.append(float(await _line(load.machine, process)) - load.before.offset)


async def _line(machine: LoadMachine, process: HostProcess) -> str:
    assert process.stdout is not None  # it was asked for as a pipe
    try:
        async with asyncio.timeout(_PATIENCE):
            line = (await process.stdout.readline()).decode("utf-8", "replace").strip()
    except TimeoutError:
        line = ""
    if not line:
        assert process.stderr is not None
        said = (await process.stderr.read(4096)).decode("utf-8", "replace") if process.returncode is not None else ""
        raise HostCommandError(f'the load does not start on "{machine.host.name}"', detail=said.strip())
    return line


def _cpu_times(host: Host) -> tuple[float, float]:
    """(idle, all) of the machine so far, in ticks."""
    ticks = [float(number) for number in host.ops.read("/proc/stat", 4096).partition("\n")[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


# -- afterwards ----------------------------------------------------------------------------------------------


def forget_logs(machine: LoadMachine, generator: Generator) -> None:
    """Remove what an earlier attempt at the same load has written there, which failed before its logs were fetched."""
    for path in _logs(machine, generator):
        machine.host.ops.remove(path)


def _logs(machine: LoadMachine, generator: Generator) -> Sequence[str]:
    if generator.log_prefix is None:
        return ()
    return tuple(machine.host.ops.glob(f"{generator.directory}/{generator.log_prefix}.*"))


async def fetch_sums(
    generators: Sequence[Generator], logs: Sequence[LevelLog], loads: Sequence[MachineLoad], folder: Path
) -> tuple[Generator, ...]:
    """Have what generators have logged reduced where it is, and bring the sums home; nothing of it stays there. The
    generators as if they had run in ``folder``; ``logs`` are what is to be known of theirs. Raises WorkloadError.
    """
    found, logged = [], []
    for generator, log in zip(generators, logs, strict=True):
        assert generator.machine is not None  # all of them run on machines
        load, place = loads[generator.machine], folder / f"machine{generator.machine}"
        with suppress(FileExistsError):  # of a generator of the same machine
            make_directory(folder, place.name)
        by_clock = replace(log, ahead=load.ahead)
        logged += [(load.machine, by_clock, path, place) for path in _logs(load.machine, generator)]
        found.append(replace(generator, directory=str(place), reduced=True))
    await run_concurrently(*(_fetch(*each) for each in logged))
    return tuple(found)


async def _fetch(machine: LoadMachine, log: LevelLog, path: str, place: Path) -> None:
    host, sums = machine.host, f"{path}{_SUMS}"
    argv = [machine.python, "-I", "-c", _REDUCE.read_text(encoding="utf-8"), reduction_of(log), path, sums]
    done = await host.run(argv, account=machine.account, directory=machine.directory, check=False)
    if done.status != 0:
        raise _unreduced(log, f'"{path}" on "{host.name}"', done)
    await host.copy_from(Path(sums), place / Path(sums).name)
    for each in (path, sums):
        host.ops.remove(each)


def _unreduced(log: LevelLog, what: str, done: Completed) -> WorkloadError:
    level = f"pgbench's log of load level {log.level}"
    with suppress(ValueError, LookupError, TypeError):
        if done.status == BAD_LINE:
            said = parse_json(done.stderr.strip())
            line = f'Line {said["number"]} of {what} is "{said["line"]}".'
            if said["why"] == CUT_OFF:
                return WorkloadError(f"{level} ends in the middle of a line", detail=line)
            return WorkloadError(f"{level} has a line that is not a log line", detail=line)
    said = "\n".join(done.stderr.strip().splitlines()[-1:])
    return WorkloadError(f"{level} cannot be read: {what}", detail=said)


def end_all(loads: Sequence[MachineLoad]) -> None:
    """Look at the machines once more."""
    for load in loads:
        load.end()


def span(loads: Sequence[MachineLoad]) -> tuple[float, float]:
    """The first start and the last, by our clock."""
    begun = [t for load in loads for t in load.begun]
    return min(begun), max(begun)


def find_apart(loads: Sequence[MachineLoad], *, level: str) -> Iterator[CaveatFinding]:
    """Starts that were further apart than what is together, by more than is not known of the clocks."""
    first, last = span(loads)
    errors = [load.before.error for load in loads if {first, last} & {*load.begun}]
    doubt = sum(errors) if len(errors) > 1 else 0.0  # else both are by one clock
    if last - first > TOGETHER + doubt:
        yield caveat("load-machines-apart", level=level, apart=last - first, together=TOGETHER, doubt=doubt)


def find_saturated(loads: Sequence[MachineLoad]) -> Iterator[CaveatFinding]:
    """Machines whose CPUs had no time left: what was measured may be theirs, and not the server's."""
    for load in loads:
        if load.busy is not None and load.busy >= SATURATED:
            yield caveat("load-machine-saturated", host=load.machine.host.name, share=load.busy)
