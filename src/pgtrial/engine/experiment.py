"""An experiment from beginning to end: prepare, do what the schedule still lacks, leave nothing behind."""

import asyncio
import contextlib
import os
import shutil
import signal
import time
from pathlib import Path

from pgtrial.engine.events import Observer, Stopping
from pgtrial.engine.fingerprint import read_environment
from pgtrial.engine.folder import load_stored, lock_folder
from pgtrial.engine.plan import Plan
from pgtrial.engine.schedule import Schedule
from pgtrial.engine.sweep import OWN_ROLE, mark_of, sweep
from pgtrial.engine.target import prepare_target
from pgtrial.engine.trial import try_arms
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.processes import ProcessId, identify
from pgtrial.model.run import RunState
from pgtrial.postgres.connect import forget_caller
from pgtrial.postgres.work_directory import remove_directories
from pgtrial.spec.load import LoadedExperiment
from pgtrial.store import layout
from pgtrial.store.state import State
from pgtrial.workloads.scenarios import scenarios_of


def run_experiment(folder: Path, *, work_base: Path | None, tell: Observer) -> None:
    """Do every run of the schedule that has not been done, in the folder's order. Ends in one of four ways:

    it returns: all runs are done; PgTrialError: something is wrong, finished runs are kept; KeyboardInterrupt: SIGINT,
    SIGTERM or SIGHUP came, finished runs are kept; or it is killed: then ``sweep`` cleans up.
    A new folder in which no run was begun is removed on an error: it would hold nothing.
    """
    forget_caller()
    loaded = load_stored(folder)
    with lock_folder(folder):
        is_new = _is_new(folder)
        try:
            sweep(folder)
            asyncio.run(_run_until_signalled(loaded, folder, work_base, tell))
        except BaseException:
            if is_new and not _has_runs(folder):
                shutil.rmtree(folder, ignore_errors=True)
            raise


def _is_new(folder: Path) -> bool:
    """Whether no pgtrial has been at work in the folder; what an earlier one left elsewhere must stay known."""
    with contextlib.closing(State.open(folder)) as state:
        return not state.processes()


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
            task.cancel()
            tell(Stopping())

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # as after nohup
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
        own = identify(os.getpid())
        assert own is not None  # it is this process
        remember(own, OWN_ROLE)
        host = LocalHost(mark=mark_of(folder), on_start=remember)
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
                restore=experiment.design.restore,
            )
            schedule = Schedule(
                loaded=loaded,
                folder=folder,
                state=state,
                target=target,
                plan=plan,
                arms={arm.name: arm for arm in arms},
                slots=len(slots),
                tell=tell,
            )
            await schedule.run(pending)
        finally:
            await target.remove()
