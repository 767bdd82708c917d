"""The load on a server by a program of the user's choice."""

import asyncio
import errno
import os
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from pgtrial.design.levels import level_of
from pgtrial.design.slices import Step
from pgtrial.engine.folder import RECORDED
from pgtrial.engine.leftovers import end_load
from pgtrial.engine.loads.generators import Conduct, LoadOutcome, run_generators
from pgtrial.engine.loads.pgbench import check_connections, drop_page_cache, pooling, prewarm
from pgtrial.engine.slicer.task import Task, Twin, take_turns
from pgtrial.engine.target.base import RunningServer
from pgtrial.errors import HostCommandError, PreflightError, WorkloadError
from pgtrial.experiment_file.workload_table import COMMAND, WorkloadTable
from pgtrial.hosts.base import Account, Host, HostProcess
from pgtrial.hosts.local import server_account
from pgtrial.hosts.operations import LOAD
from pgtrial.hosts.processes import find_of_role
from pgtrial.knobs.slowdown import library_of, require_generator_loaded
from pgtrial.knobs.workload import CLIENTS, WORKLOAD, own_clients, read_command
from pgtrial.knobs.workload import COMMAND as COMMAND_KEY
from pgtrial.model.arm import Arm
from pgtrial.model.run import LoadLevel, Slice
from pgtrial.postgres.work_directory import make_own, remove_directories
from pgtrial.store.command_line import parse_line
from pgtrial.store.transactions import CommandLog, LoadLog
from pgtrial.units import format_bytes, format_duration
from pgtrial.workloads.base import Generator, Output
from pgtrial.workloads.command import OUTPUT, plan_command
from pgtrial.workloads.standstill import FIRST, Standstill, StandstillFinding, judge_standstill, plan_stops

_TRIAL = 1.0  # s
_MOST_TOLD = 256 << 20  # bytes of what a program tells while it is stopped now and then
_HINT = "docs/command.md says what the program has to print. Nothing has been measured."

# What env would find, and its first line if that names an interpreter. env says "Permission denied" if there is
# nothing, and a directory of PATH is closed to its user.
_FIND = """
look() {
    test -f "$1" && test -x "$1" || return 1
    first=
    IFS= read -r first < "$1"
    case $first in '#!'*) printf '%s\\n' "$first"; esac
    exit 0
}
case $1 in */*) look "$1"; exit 1; esac
set -f
IFS=:
for directory in $PATH; do look "$directory/$1"; done
exit 1
"""
_MOST_INTERPRETERS = 5  # of one another, as the kernel has it


async def refuse_missing(workload: WorkloadTable, arms: Sequence[Arm], here: Host, files: Mapping[str, str]) -> None:
    """Raise PreflightError if the account of the load finds no program of the name that the command has, or that of an
    arm: in its PATH, or where a path leads from the directory in which the ``files`` of the load are put, by their
    names. Neither may a script's interpreter be missing.
    """
    account = server_account(here.ops)
    missing, hints = list[str](), list[str]()
    for program in dict.fromkeys(command_of(workload, arm).command[0] for arm in arms):
        text = files.get(os.path.normpath(program)) if "/" in program else None
        if text is None and "/" in program and not Path(program).is_absolute():
            missing.append(program)
            hints.append(
                "A path begins in the directory where the program starts: nothing but files of [workload] is there."
            )
            continue
        first = await _find(program, here, account) if text is None else text.partition("\n")[0]
        if first is None:
            missing.append(program)
            hints.append(
                "Correct the path, install what it names, and make that executable."
                if "/" in program
                else "Correct its name, install it, or name it with its whole path: it is looked for in PATH."
            )
        elif interpreter := await _missing_interpreter(first, here, account):
            raise PreflightError(
                f"the program {program} cannot be started: its interpreter {repr(interpreter)[1:-1]} is not found",
                hint=f'Correct its first line, which begins with "#!", or install the interpreter.{_who(account)}',
            )
    if missing:
        names = f"program {missing[0]} is" if len(missing) == 1 else f"programs {', '.join(missing)} are"
        raise PreflightError(f"the {names} not found", hint=" ".join(dict.fromkeys(hints)) + _who(account))


def _who(account: Account | None) -> str:
    if account is None:
        return ""
    return f" It runs as {account.name}, who has to be able to read and execute it: not below /root."


async def _find(program: str, here: Host, account: Account | None) -> str | None:
    """The first line of a program that is a script, "" of another one, None where there is none."""
    found = await here.run(["sh", "-c", _FIND, "sh", program], account=account, directory=Path("/"), check=False)
    return found.stdout.removesuffix("\n") if found.status == 0 else None


async def _missing_interpreter(first: str, here: Host, account: Account | None) -> str:
    """What a script with this ``first`` line would not find, "" if it does."""
    for _ in range(_MOST_INTERPRETERS):
        wanted = _interpreters(first)
        for program in wanted:
            found = await _find(program, here, account)
            if found is None:
                return program
            first = found
        if not wanted:
            break
    return ""


def _interpreters(first: str) -> tuple[str, ...]:
    """What a script is started with by its ``first`` line, and what that starts, if it is env."""
    if not first.startswith("#!"):
        return ()
    interpreter, *others = re.split(r"[ \t]+", first.removeprefix("#!").strip(" \t"))
    if Path(interpreter).name == "env":
        named = next((word for word in others if not word.startswith("-") and "=" not in word), None)
        return (interpreter,) if named is None else (interpreter, named)
    return (interpreter,) if interpreter else ()


def command_of(workload: WorkloadTable, arm: Arm) -> WorkloadTable:
    """The load as the arm has it."""
    words = arm.knobs.get(WORKLOAD, {}).get(COMMAND_KEY)
    return workload if words is None else workload.model_copy(update={"command": read_command(words)})


@dataclass(slots=True, kw_only=True)
class CommandLoad:
    """``files`` are put where the program is started, by name; ``clients`` is the largest number of them.

    ``here`` is where it runs, as ``account``, ``there`` the host of the server. In ``work`` it gets an empty directory
    for each start: it may look for its files from the root, and does not get through the result folder. All that it
    starts has the ``mark``. Where it is to ``stands_still``, for others to have their turns of up to ``longest_stop``
    seconds, ``try_out`` finds out whether it counts that as latency; where it ``counts_standstill``, all of it, that is
    taken out of its latencies.
    """

    account: Account | None
    workload: WorkloadTable
    files: Mapping[str, str]
    seed: int
    clients: int
    here: Host
    there: Host
    work: Path
    mark: str
    stands_still: bool = False
    longest_stop: float = 0.0
    counts_standstill: bool = False
    standstills: list[StandstillFinding] = field(default_factory=list, init=False)
    places: dict[str, int] = field(default_factory=dict, init=False)  # of arms, whose loads may run at the same time
    tried: set[tuple[object, ...]] = field(default_factory=set, init=False)  # server versions, and what was tried there

    @property
    def output(self) -> Output:
        return OUTPUT

    def scripts(self, arm: Arm) -> Mapping[str, str]:
        return {}  # none that is known to be SQL

    def does(self, arm: Arm) -> frozenset[tuple[str, str]]:
        return frozenset((WORKLOAD, key) for key in arm.knobs.get(WORKLOAD, {}) if key in (COMMAND_KEY, CLIENTS))

    def facts(self) -> Mapping[str, str]:
        return {"load generator/program": self.workload.command[0]}

    async def try_out(self, arm: Arm, server: RunningServer) -> None:
        """Let the program work for a second on each server version, as the arm has it."""
        own = own_clients(arm.knobs.get(WORKLOAD, {}))
        check_connections(arm, server.settings, clients=self.clients if own is None else own)
        library = library_of(server.environment)
        what = (server.version, pooling(arm), command_of(self.workload, arm).command, own, library is None)
        if what in self.tried:
            return
        self.tried.add(what)
        level = LoadLevel(index=0, clients=1, rate=self.workload.rate_levels[0])
        generator = self._plan(arm, server, level, block=0, seconds=_TRIAL)
        if generator.results is not None:  # what has work for longer is ended all the same
            generator = replace(generator, results=replace(generator.results, ends_itself=False))

        async def look(_processes: Sequence[HostProcess]) -> None:
            await asyncio.sleep(_TRIAL)  # it may start others first, which do the work
            assert library is not None  # else nobody looks
            await require_generator_loaded(self.here, library, self._find_pids)

        try:
            outcome = await self._run(generator, server, None if library is None else look)
        except HostCommandError as err:
            raise WorkloadError(f"the command cannot be started: {err.message}", hint=_HINT) from err
        left = await end_load(self.mark, self.here)
        leaves = f"leaves {left} of its processes running"
        if outcome.errors:
            said = outcome.errors[0].removeprefix(f"{COMMAND}: ") + (f"; it {leaves}" if left else "")
            hint = _HINT
            if self.account is not None and said.startswith("env: ") and said.endswith(os.strerror(errno.EACCES)):
                hint = f"It runs as {self.account.name}, who has to be able to read and execute it: not below /root."
            raise WorkloadError(f"the command fails: {said}", hint=hint)
        if left:
            raise WorkloadError(f"the command {leaves}", hint=_HINT)
        if outcome.first_ended < outcome.started + _TRIAL:
            raise WorkloadError("the command ends by itself before it is told to", hint=_HINT)
        (summary,) = outcome.summaries
        if summary.failed:
            asked = summary.failed + (summary.processed or 0)
            raise WorkloadError(
                f"{summary.failed} of {asked} requests of the command failed", detail=summary.said, hint=_HINT
            )
        if self.stands_still:
            self.standstills.append(
                await self._stop_and_look(arm, server, clients=self.clients if own is None else own)
            )

    def _find_pids(self) -> list[int]:
        return [process.pid for process in find_of_role(self.mark, LOAD, self.here.ops)]

    async def _stop_and_look(self, arm: Arm, server: RunningServer, *, clients: int) -> StandstillFinding:
        """Stop the program some times while it works, and see what it tells of that."""
        stops = plan_stops(self.longest_stop, random.Random(f"{self.seed}/standstill"))
        seconds = sum(work + length for work, length in stops) + FIRST
        record = self.work / "standstill"
        record.unlink(missing_ok=True)
        level = LoadLevel(index=0, clients=clients)
        generator = self._plan(arm, server, level, block=0, seconds=seconds, record=record)
        work: list[Slice] = []

        async def conduct(processes: Sequence[HostProcess]) -> None:
            # By the slicer, which has them go on also if pgtrial is killed meanwhile.
            twin = Twin(server=None, others=(), programs=tuple(process.pid for process in processes))
            steps = []
            for before, length in stops:
                steps += [_at_work(before), Step(arms=(), length=length, guard=0.0)]
            steps.append(_at_work(FIRST))
            task = Task(twins={COMMAND: twin}, steps=tuple(steps))
            work.extend((await take_turns(self.here, task, level=0))[COMMAND])

        outcome = await self._run(generator, server, conduct)
        await end_load(self.mark, self.here)
        if outcome.errors:
            text = outcome.errors[0].removeprefix(f"{COMMAND}: ").removesuffix(".")
            return StandstillFinding(found=Standstill.UNKNOWN, longest=None, usual=None, text=text)
        if record.stat().st_size > _MOST_TOLD:
            text = f"it tells of more than {format_bytes(_MOST_TOLD)} in {format_duration(seconds)}"
            return StandstillFinding(found=Standstill.UNKNOWN, longest=None, usual=None, text=text)
        told = [parse_line(line) for line in record.read_text(encoding="utf-8").splitlines()]
        stood = [(before.ended, after.started) for before, after in pairwise(work)]
        return judge_standstill(told, stood, clients=clients, ready=outcome.started)

    async def _run(self, generator: Generator, server: RunningServer, conduct: Conduct | None = None) -> LoadOutcome:
        return await run_generators(
            self.here,
            [generator],
            environment=server.environment,
            account=self.account,
            output=OUTPUT,
            conduct=conduct,
        )

    async def make_cold(self, arm: Arm) -> None:
        await drop_page_cache(self.there)

    async def make_warm(self, arm: Arm, server: RunningServer) -> None:
        await prewarm(server)

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
        record = directory.with_name(RECORDED) / f"level{level.index}" if logged else None
        sign = 1 if logged else -1
        return (self._plan(arm, server, level_of(arm, level), block=sign * block, seconds=seconds, record=record),)

    def _plan(
        self,
        arm: Arm,
        server: RunningServer,
        level: LoadLevel,
        *,
        block: int,
        seconds: float,
        record: Path | None = None,
    ) -> Generator:
        place = self.places.setdefault(arm.name, len(self.places))
        directory = self.work / f"load{place or ''}"
        remove_directories(self.here, directory)
        try:
            make_own(self.here, directory, self.account)
        except OSError as err:
            raise HostCommandError(f'cannot make "{directory}": {err.strerror}') from err
        return plan_command(
            command_of(self.workload, arm),
            level,
            files=self.files,
            environment=server.environment,
            seconds=seconds,
            directory=str(directory),
            record=record,
            seed=f"{self.seed}/{block}",
        )

    def logs(
        self,
        level: LoadLevel,
        generators: Sequence[Generator],
        *,
        window: tuple[float, float],
        slices: tuple[Slice, ...] = (),
    ) -> list[LoadLog]:
        return [
            CommandLog(
                level=level.index,
                scenario=COMMAND,
                files=(Path(each.results.record),),
                window=window,
                rate=level.rate,
                longest=each.results.longest,
                slices=slices,
                counts_standstill=self.counts_standstill,
                clients=each.clients if self.workload.bounds_latencies else None,
            )
            for each in generators
            if each.results is not None and each.results.record is not None
        ]


def _at_work(seconds: float) -> Step:
    return Step(arms=(COMMAND,), length=seconds, guard=0.0)
