"""The loop over the schedule: begin, repeat what was invalid, resume what was interrupted, leave nothing behind."""

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pgtrial import __version__
from pgtrial.design.arms import resolve_arms
from pgtrial.design.duration import blocks_of, estimate_run
from pgtrial.design.levels import load_levels
from pgtrial.design.schedule import plan_schedule
from pgtrial.engine.events import Observer, RunEnded, RunStarted, Stopping
from pgtrial.engine.fingerprint import read_environment
from pgtrial.engine.run import InvalidRunError, Plan, RunExecution, measured_time
from pgtrial.engine.target import Target, prepare_target, try_arms
from pgtrial.errors import PgTrialError, StoreError, TargetError, WorkloadError
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.processes import ProcessId, end, find_marked, identify
from pgtrial.model.arm import Arm
from pgtrial.model.run import RunState, Slot
from pgtrial.postgres.throwaway import remove_directories
from pgtrial.spec.load import LoadedExperiment, load_experiment
from pgtrial.store import layout
from pgtrial.store.state import State
from pgtrial.workloads.scenarios import scenarios_of


def create_folder(loaded: LoadedExperiment, results: Path) -> Path:
    """Make a new result folder with the schedule in it; never an existing one. Raises StoreError."""
    name = loaded.experiment.experiment.name
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    for number in range(1, 1000):
        folder = results / (f"{name}-{stamp}" if number == 1 else f"{name}-{stamp}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as err:
            raise StoreError(
                f'cannot make a result folder in "{results}": {err.strerror}',
                hint="Choose another place with --results.",
            ) from err
        break
    try:
        _fill_folder(folder, loaded)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def _fill_folder(folder: Path, loaded: LoadedExperiment) -> None:
    experiment = loaded.experiment
    try:
        (folder / layout.EXPERIMENT).write_text(loaded.text, encoding="utf-8")
        scripts = folder / layout.FILES
        scripts.mkdir()
        for scenario in scenarios_of(experiment, loaded.folder):
            if scenario.script is not None:
                (scripts / f"{scenario.name}.sql").write_text(scenario.script, encoding="utf-8")
        if experiment.dataset.setup is not None:
            shutil.copyfile(loaded.folder / experiment.dataset.setup, scripts / layout.SETUP)
    except OSError as err:
        raise StoreError(f'cannot write to the result folder "{folder}": {err.strerror}') from err
    arms = resolve_arms(experiment)
    state = State.create(folder)
    with contextlib.closing(state):
        state.set_plan(
            arms,
            load_levels(experiment.workload),
            plan_schedule(arms, blocks=blocks_of(experiment), seed=experiment.design.seed),
        )
        state.set_meta(pgtrial_version=__version__, created=str(time.time()))


def load_stored(folder: Path) -> LoadedExperiment:
    """Read the experiment of a result folder, with the scripts as they were then. Raises StoreError, SpecError."""
    State.open(folder).close()  # says so if this is no result folder
    loaded = load_experiment(folder / layout.EXPERIMENT, check_files=False)
    experiment = loaded.experiment
    scenarios = tuple(
        scenario.model_copy(update={"file": f"{scenario.name}.sql"}) if scenario.file else scenario
        for scenario in experiment.workload.scenario
    )
    dataset = experiment.dataset
    if dataset.setup is not None:
        dataset = dataset.model_copy(update={"setup": layout.SETUP})
    stored = experiment.model_copy(
        update={
            "workload": experiment.workload.model_copy(update={"scenario": scenarios}),
            "dataset": dataset,
        }
    )
    return replace(loaded, experiment=stored, folder=folder / layout.FILES)


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep a second pgtrial off the folder. The kernel gives the lock back whatever happens to this process."""
    try:
        file = (folder / layout.LOCK).open("a+b")
    except OSError as err:
        raise StoreError(f'cannot lock the result folder "{folder}": {err.strerror}') from err
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(
                f'result folder "{folder}" is in use by another pgtrial',
                hint=f'See how far it is with "pgtrial status {folder}".',
            ) from None
        yield


def is_locked(folder: Path) -> bool:
    """Whether a pgtrial is at work in the folder."""
    try:
        with lock_folder(folder):
            return False
    except StoreError:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What an ended pgtrial had left behind and is gone now."""

    processes: int
    runs: int


def sweep(folder: Path, *, keep_data: bool) -> Swept:
    """End what a killed pgtrial left running for this folder, and mark its unfinished run. Needs the lock.

    ``keep_data`` leaves a prepared snapshot for a resume; else everything outside the folder is removed.
    """
    with contextlib.closing(State.open(folder, write=True)) as state:
        recorded = [ProcessId(pid=pid, start_ticks=ticks, boot_id=boot) for pid, ticks, boot, _ in state.processes()]
        ended = end({*recorded, *find_marked(_mark(folder))} - {identify(os.getpid())})
        interrupted = state.interrupt_running()
        if not keep_data:
            remove_directories(*state.work_directories())
    return Swept(processes=len(ended), runs=interrupted)


def _mark(folder: Path) -> str:
    return str(folder.resolve())


def run_experiment(folder: Path, *, work_base: Path | None, tell: Observer) -> None:
    """Do every run of the schedule that has not been done, in the folder's order. Ends in one of four ways:

    it returns: all runs are done; PgTrialError: something is wrong, finished runs are kept; KeyboardInterrupt: SIGINT
    or SIGTERM came, finished runs are kept; or it is killed: then ``sweep`` cleans up.
    A folder in which no run was begun is removed on an error: it would hold nothing.
    """
    loaded = load_stored(folder)
    with lock_folder(folder):
        sweep(folder, keep_data=True)
        try:
            asyncio.run(_run_until_signalled(loaded, folder, work_base, tell))
        except BaseException:
            if not _has_runs(folder):
                shutil.rmtree(folder, ignore_errors=True)
            raise


def _has_runs(folder: Path) -> bool:
    with contextlib.closing(State.open(folder)) as state:
        return bool(state.runs())


async def _run_until_signalled(loaded: LoadedExperiment, folder: Path, work_base: Path | None, tell: Observer) -> None:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None  # this is a coroutine that runs
    signalled = False

    def stop() -> None:
        nonlocal signalled
        if not signalled:  # a second Ctrl-C must not break the orderly stop
            signalled = True
            tell(Stopping())
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        await _run_schedule(loaded, folder, work_base, tell)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _run_schedule(loaded: LoadedExperiment, folder: Path, work_base: Path | None, tell: Observer) -> None:
    experiment = loaded.experiment
    with contextlib.closing(State.open(folder, write=True)) as state:

        def remember(process: ProcessId, role: str) -> None:
            state.add_process(
                pid=process.pid,
                start_ticks=process.start_ticks,
                boot_id=process.boot_id,
                role=role,
                t=time.time(),
            )

        slots = state.slots()
        done = {run.slot.number for run in state.runs() if run.state is RunState.DONE}
        pending = [slot for slot in slots if slot.number not in done]
        if not pending:
            remove_directories(*state.work_directories())
            return
        host = LocalHost(mark=_mark(folder), on_start=remember)
        target = await prepare_target(loaded, state, host=host, base=work_base, tell=tell)
        try:
            arms, levels = state.arms(), state.levels()
            scenarios = scenarios_of(experiment, loaded.folder)
            scripts = folder / layout.FILES
            constant = sum(scenario.sessions or 0 for scenario in scenarios)
            baseline = await try_arms(
                target,
                arms,
                scenarios,
                clients=max(level.clients for level in levels) + constant,
                scripts=scripts,
                tell=tell,
            )
            state.add_fingerprint(read_environment(programs=target.programs, data_directory=target.cluster.directory))
            plan = Plan(
                workload=experiment.workload,
                scenarios=scenarios,
                levels=levels,
                scripts=scripts,
                seed=experiment.design.seed,
                baseline=baseline,
            )
            await _Loop(
                loaded=loaded,
                folder=folder,
                state=state,
                target=target,
                plan=plan,
                arms={arm.name: arm for arm in arms},
                slots=slots,
                tell=tell,
            ).run(pending)
        finally:
            await target.remove()


@dataclass(slots=True, kw_only=True)
class _Loop:
    """The pending slots, one after the other."""

    loaded: LoadedExperiment
    folder: Path
    state: State
    target: Target
    plan: Plan
    arms: dict[str, Arm]
    slots: tuple[Slot, ...]
    tell: Observer
    restored_block: int | None = None

    async def run(self, pending: list[Slot]) -> None:
        for position, slot in enumerate(pending):
            await self._run_slot(slot, left=len(pending) - position)

    async def _run_slot(self, slot: Slot, *, left: int) -> None:
        """Try a slot until a run is valid. Raises PgTrialError when the allowed repeats are used up."""
        attempts = 1 + self.loaded.experiment.design.repeats
        reason = ""
        for _ in range(attempts):
            reason = await self._attempt(slot, left=left)
            if not reason:
                return
        where = f'run {slot.number} (arm "{slot.arm}", block {slot.block})'
        raise WorkloadError(
            f"{where} was invalid {attempts} times: {reason}" if attempts > 1 else f"{where} was invalid: {reason}",
            hint=f'Finished runs are kept. When the cause is mended, go on with "pgtrial resume {self.folder}".',
        )

    async def _attempt(self, slot: Slot, *, left: int) -> str:
        """One run; the reason why it is invalid, "" if it is not."""
        started = time.time()
        row = self.state.begin_run(slot, started)
        self.tell(
            RunStarted(slot=slot, slots=len(self.slots), attempt=row.attempt, remaining=left * self._seconds_per_run())
        )
        execution = RunExecution(
            plan=self.plan,
            target=self.target,
            state=self.state,
            folder=layout.run_folder(self.folder, row.folder),
            arm=self.arms[slot.arm],
            run=row,
            restore=self._needs_restore(slot),
            tell=self.tell,
        )
        outcome, reason, tps = RunState.INTERRUPTED, "stopped on request", None
        try:
            tps = await execution.execute()
            outcome, reason = RunState.DONE, ""
        except InvalidRunError as err:
            outcome, reason = RunState.INVALID, str(err)
        except (TargetError, WorkloadError) as err:
            died = "the server died: " if self.target.cluster.has_died() else ""
            outcome, reason = RunState.INVALID, f"{died}{err.message}"
        except PgTrialError as err:
            outcome, reason = RunState.INVALID, err.message
            raise
        finally:
            ended = time.time()
            if outcome is not RunState.DONE:
                self.restored_block = None  # whatever state the data are in, the next run does not inherit it
            self.state.end_run(row.id, outcome, ended, reason)
            self.tell(
                RunEnded(
                    slot=slot,
                    state=outcome,
                    reason=reason,
                    seconds=ended - started,
                    not_load=ended - started - measured_time(self.plan.levels, self.plan.workload),
                    tps=tps,
                )
            )
        return reason

    def _needs_restore(self, slot: Slot) -> bool:
        """By the file's rule; the first run after a start, a failure or a resume always starts from the snapshot."""
        first = self.restored_block is None
        match self.loaded.experiment.design.restore:
            case "each-run":
                needed = True
            case "each-block":
                needed = first or self.restored_block != slot.block
            case "never":
                needed = first
        self.restored_block = slot.block
        return needed

    def _seconds_per_run(self) -> float:
        """From the runs so far, else from the plan."""
        lengths = [
            run.ended - run.started
            for run in self.state.runs()
            if run.state is RunState.DONE and run.started is not None and run.ended is not None
        ]
        if lengths:
            return sum(lengths) / len(lengths)
        return estimate_run(self.loaded.experiment).total
