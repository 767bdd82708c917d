"""Run an experiment from start to finish: prepare, run the slots still missing, leave nothing behind."""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgtrial.design.levels import over_arms
from pgtrial.design.plan import Plan
from pgtrial.design.variants import stays_as_prepared
from pgtrial.engine.changes import HostChanges
from pgtrial.engine.consent import refuse_code, refuse_host_changes, refuse_writes, uses_of, writes_of
from pgtrial.engine.events import Observer, Preparing, StopRequested, Waiting
from pgtrial.engine.fingerprint.read import read_environment
from pgtrial.engine.folder import forget_attempt, load_stored, lock_folder, named_files, refuse_older_copy
from pgtrial.engine.guardrails import Guard, asking, refuse_harm
from pgtrial.engine.hooks import Hooks
from pgtrial.engine.keeper import is_wanted, keeper
from pgtrial.engine.leftovers import OWN_ROLE, WORKER, end_all_strays, mark_of, sweep, worker_text
from pgtrial.engine.loads.base import Load, make_load
from pgtrial.engine.loads.command import refuse_missing
from pgtrial.engine.loads.machines import LoadMachine, make_entrance, open_machines
from pgtrial.engine.pages import are_about_pages
from pgtrial.engine.record import RunContext
from pgtrial.engine.restore import refuse_unrestored, undo_own
from pgtrial.engine.schedule import Schedule
from pgtrial.engine.signals import until_signalled
from pgtrial.engine.slicer.control import SlicePlan, plan_slices
from pgtrial.engine.target.base import Board, Preparation, Target, TurnTaking
from pgtrial.engine.target.existing import ServerTarget, prepare_server
from pgtrial.engine.target.host import prepare_host
from pgtrial.engine.target.preparation import prepare_throwaway
from pgtrial.engine.target.server_survey import refuse_shared_settings
from pgtrial.engine.target.session_twins import SessionTwins, refuse_unpinnable
from pgtrial.engine.target.switchboard import ServerBoard, Switchboard
from pgtrial.engine.target.throwaway import ThrowawayTarget, pooler_of
from pgtrial.engine.target.twins import make_twins
from pgtrial.engine.turns import ask_for_check, decide_turns
from pgtrial.errors import ConnectError, PgTrialError, SpecError, StoreError, TargetError
from pgtrial.experiment_file.code_uses import CodeUse
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.reach import find_outside
from pgtrial.experiment_file.workload_table import COMMAND
from pgtrial.hosts.base import LOCAL, Host
from pgtrial.hosts.connect import open_host
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.processes import identify
from pgtrial.knobs import HOST_KNOBS, scope_of
from pgtrial.knobs.declaration import Scope
from pgtrial.model.arm import Arm
from pgtrial.model.run import RunState, Slot
from pgtrial.postgres.connect import forget_caller
from pgtrial.postgres.existing.knobs import restoring_knobs
from pgtrial.postgres.existing.session import split_settings
from pgtrial.postgres.settings import Setting
from pgtrial.postgres.work_directory import remove_directories
from pgtrial.store import layout
from pgtrial.store.belongings import Belongings
from pgtrial.store.calibrations import identify_machine
from pgtrial.store.journal import Journal
from pgtrial.store.state import STOPPED, State, has_runs
from pgtrial.workloads.command import files_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """Options of the user beside the experiment: where data may lie, whether the host may be changed, whether the
    experiment may execute code of its own, whether it may write to an existing database, and where files may lie that
    it names, beside its result folder.
    """

    work_base: Path | None = None
    host_changes: bool = False
    code: bool = False
    writes: bool = False
    files: tuple[Path, ...] = ()


def run_experiment(
    folder: Path,
    *,
    permission: Permission,
    tell: Observer,
    is_new: bool = False,
    blocks: AsyncGenerator[int, None] | None = None,
) -> None:
    """Do every run of the schedule that has not been done, in the folder's order; or those of ``blocks``, one after the
    other as they come, while other hosts run others. Ends in one of four ways:

    it returns: all runs are done; PgTrialError: something is wrong, finished runs are kept; KeyboardInterrupt: SIGINT,
    SIGTERM or SIGHUP came, finished runs are kept; or it is killed: then ``sweep`` cleans up.
    A folder that ``is_new``, made by the caller just now, is removed on an error where no run was begun: it would hold
    nothing, but for a bug's traceback. Any other one may be a stranger's, or have more in it.
    """
    caller = forget_caller()
    plan = load_stored(folder)
    with lock_folder(folder):
        sweep(folder, is_done=is_done(folder, plan))
        refuse_older_copy(folder)
        belongings = Belongings.of(folder)
        if is_new:
            belongings.add_measured()
        try:
            try:
                work = _run_schedule(plan, folder, permission, caller, tell, blocks=blocks)
                asyncio.run(until_signalled(work, on_signal=lambda: tell(StopRequested())))
            finally:
                with contextlib.suppress(StoreError):  # why it ended is the one to be told
                    belongings.add_ended()
        except BaseException as err:
            is_bug = isinstance(err, Exception) and not isinstance(err, PgTrialError | OSError)
            if is_new and not is_bug and not has_runs(folder):
                forget_attempt(folder)
                shutil.rmtree(folder, ignore_errors=True)
            raise


def refuse_files(plan: Plan, folder: Path, allowed: Sequence[Path]) -> None:
    """Raise SpecError for files that the plan names outside of its folder, which may come from anybody, unless they are
    ``allowed``, or were when the experiment was begun here: that is on record, and what is allowed now from now on.
    """
    belongings = Belongings.of(folder)
    known = belongings.readable()
    roots = (*allowed, *known)
    outside = find_outside(named_files(plan), folder / layout.FILES, roots, called="the files of the result folder")
    if problems := tuple(outside):
        raise SpecError(problems[0].message, problems=problems, hint=problems[0].hint)
    belongings.add_readable(Path(name) for name in plan.experiment.dataset.load)


def uses_left(folder: Path, files: Sequence[Path] = ()) -> tuple[CodeUse, ...]:
    """What the runs of a result folder that are still to be done execute; ``files`` as of Permission.

    Raises StoreError and SpecError.
    """
    plan = load_stored(folder)
    if is_done(folder, plan):
        return ()
    refuse_files(plan, folder, files)
    return uses_of(plan.experiment, plan.arms, folder / layout.FILES)


def is_done(folder: Path, plan: Plan) -> bool:
    """Whether no run of the plan is left to do. Raises StoreError."""
    with contextlib.closing(State.open(folder)) as state:
        return not pending_slots(plan, state)


def writes_left(folder: Path) -> tuple[tuple[CodeUse, ...], str | None]:
    """What the runs of a result folder that are still to be done change in an existing database, and what that is a
    copy of. Raises StoreError.
    """
    plan = load_stored(folder)
    with contextlib.closing(State.open(folder)) as state:
        writes = writes_of(plan.experiment, plan.arms) if pending_slots(plan, state) else ()
    return writes, plan.experiment.target.copy_of


def pending_slots(plan: Plan, state: State) -> list[Slot]:
    """What is left to do of a plan as it was read."""
    done = {run.slot.number for run in state.runs() if run.state is RunState.DONE}
    has_stopped = STOPPED in state.meta()  # by its rule
    return [slot for slot in plan.slots if slot.number not in done and not has_stopped]


async def _run_schedule(
    plan: Plan,
    folder: Path,
    permission: Permission,
    caller: Mapping[str, str],
    tell: Observer,
    *,
    blocks: AsyncGenerator[int, None] | None,
) -> None:
    experiment = plan.experiment
    with contextlib.closing(State.open(folder, write=True)) as state:
        belongings = Belongings.of(folder)
        pending = pending_slots(plan, state)
        here = LocalHost(mark=mark_of(folder), on_start=belongings.add_process)
        if not pending:
            await _remove_left(experiment, belongings)
            return
        own = identify(os.getpid())
        assert own is not None  # it is this process
        belongings.add_process(own, OWN_ROLE)
        state.set_meta(**{WORKER: worker_text(own)})
        changes_something = refuse_unallowed(plan, folder, permission)
        await undo_own(
            folder,
            knobs=restoring_knobs(caller, say=lambda text: tell(Waiting(text=text))),
            host_of=open_host,
            tell=tell,
        )
        refuse_harm(state, [arm.name for arm in plan.arms])
        makes_database = experiment.target.kind == "server" and experiment.target.database is None
        with Journal.open(write=changes_something or makes_database) as journal:
            # Of several hosts each has changes of its own, which do not mix.
            refuse_unrestored(
                journal,
                own=own,
                host=None if blocks is None else experiment.target.host or LOCAL,
                is_apart=experiment.target.kind != "server" and not changes_something,
            )
            async with contextlib.AsyncExitStack() as around:
                host = await around.enter_async_context(
                    open_host(experiment.target.host, mark=here.mark, on_start=belongings.add_process)
                )
                machines = await around.enter_async_context(  # before data are made, which can take long
                    open_machines(experiment.load, server=host, belongings=belongings)
                )
                if is_wanted(experiment):
                    await around.enter_async_context(keeper(folder, here=here))
                hooks = Hooks(table=experiment.hooks, host=here, state=state, folder=folder, tell=tell)
                if (
                    experiment.target.kind == "server"
                    and experiment.hooks.before_dataset
                    and not permission.host_changes
                ):
                    await refuse_shared_settings(plan, host=host, caller=caller)
                await hooks.run("before_dataset")
                await _refuse_unstartable(plan, folder, host=host, here=here)
                changes = HostChanges(journal=journal, host=host, folder=folder, knobs=HOST_KNOBS, owner=own, tell=tell)
                target = await prepare_target(
                    Preparation(
                        plan=plan,
                        scripts=folder / layout.FILES,
                        state=state,
                        belongings=belongings,
                        host=host,
                        here=here,
                        changes=changes,
                        base=permission.work_base,
                        may_run=permission.code,
                        may_change=permission.host_changes,
                        caller=caller,
                        tell=tell,
                    )
                )
                async with contextlib.AsyncExitStack() as stack:
                    stack.callback(_leave_nothing, {host.name: host, here.name: here}.values(), belongings)
                    if isinstance(target, ThrowawayTarget):
                        target.let_in(make_entrance(experiment.load, machines, host))
                    stack.push_async_callback(changes.undo)  # changes still open, as of a server that would not stop
                    stack.push_async_callback(target.remove)
                    await hooks.run("after_dataset")
                    schedule = await _try_and_plan(
                        plan, folder, state, target, belongings, here=here, machines=machines, tell=tell
                    )
                    schedule.hooks = hooks
                    # Of the schedule's plan: turns may have become blocks.
                    schedule.slice_plan = plan_slices(schedule.planned.method, arms=len(schedule.arms), host=host)
                    if schedule.slice_plan is not None:
                        schedule.twins = _make_twins(target, belongings, schedule.arms, schedule.slice_plan)
                        stack.push_async_callback(schedule.twins.remove)
                    if schedule.planned.method.method == "switchback":
                        board = _put_on_board(schedule, target)
                        stack.push_async_callback(board.stop, immediate=True)
                    if blocks is None:
                        await schedule.run(pending)
                        return
                    async with contextlib.aclosing(blocks) as given:
                        async for block in given:
                            await schedule.run([slot for slot in pending if slot.block == block])


async def _refuse_unstartable(plan: Plan, folder: Path, *, host: Host, here: Host) -> None:
    """Raise PreflightError or SettingError for a program or pooler that would fail once the data are made."""
    experiment = plan.experiment
    if experiment.workload.kind == COMMAND:
        await refuse_missing(experiment.workload, plan.arms, here, files_of(experiment, folder / layout.FILES))
    for arm in plan.arms:
        await pooler_of(arm, experiment.workload, host)


async def _remove_left(experiment: Experiment, belongings: Belongings) -> None:
    """All that can be left of an experiment that is done is what a pgtrial that was killed at its very end had still to
    remove. A host that cannot be reached is no reason to refuse the report.
    """
    machines = () if experiment.load is None else experiment.load.hosts
    for address in (experiment.target.host, *machines) if belongings.hosts() else ():
        with contextlib.suppress(ConnectError):
            async with open_host(address, mark=mark_of(belongings.folder)) as host:
                remove_directories(host, *belongings.paths(host.name))


def refuse_unallowed(plan: Plan, folder: Path, permission: Permission) -> bool:
    """Whether anything is changed that is not pgtrial's own, all of which is allowed. Raises ConsentError."""
    experiment = plan.experiment
    refuse_files(plan, folder, permission.files)
    if not permission.code and (uses := uses_of(experiment, plan.arms, folder / layout.FILES)):
        raise refuse_code(uses)
    writes = writes_of(experiment, plan.arms)
    if writes and not permission.writes:
        raise refuse_writes(writes, copy_of=experiment.target.copy_of)
    wanted = host_changes(experiment, plan.arms)
    if wanted and not permission.host_changes:
        raise refuse_host_changes(wanted)
    return bool(wanted or writes)


def _leave_nothing(hosts: Collection[Host], belongings: Belongings) -> None:
    end_all_strays(str(belongings.folder), *hosts)
    for host in hosts:
        remove_directories(host, *belongings.paths(host.name))


def _make_twins(target: Target, belongings: Belongings, arms: Mapping[str, Arm], slice_plan: SlicePlan) -> TurnTaking:
    if isinstance(target, ServerTarget):
        if slice_plan.cpu_sets:
            refuse_unpinnable(target)
        return SessionTwins(target=target, arms=arms)
    assert isinstance(target, ThrowawayTarget)  # the only kind that can be there twice
    return make_twins(target, belongings, arms)


def _put_on_board(schedule: Schedule, target: Target) -> Board:
    """The server of the target is switched between the arms; one that others use has a guard."""
    if isinstance(target, ThrowawayTarget):
        schedule.board = Switchboard(target=target, arms=schedule.arms)
        return schedule.board
    guardrails = schedule.planned.experiment.guardrails
    assert isinstance(target, ServerTarget)
    assert guardrails is not None  # else the method is refused
    schedule.board = board = ServerBoard(target=target, arms=schedule.arms)
    schedule.guard = Guard(
        table=guardrails,
        arms=tuple(schedule.arms),
        board=board,
        ask=asking(target.server.conninfo()),
        state=schedule.state,
    )
    return board


async def _try_and_plan(
    plan: Plan,
    folder: Path,
    state: State,
    target: Target,
    belongings: Belongings,
    *,
    here: Host,
    machines: tuple[LoadMachine, ...],
    tell: Observer,
) -> Schedule:
    """Try every arm, and build what all runs share."""
    experiment, arms = plan.experiment, plan.arms
    load = await make_load(plan, target, belongings, here=here, machines=machines, scripts=folder / layout.FILES)
    ask_for_check(load, plan, state)
    baseline = await try_arms(target, arms, load, tell=tell)
    plan = decide_turns(load, plan, state, tell=tell)
    for caveat in target.caveats:
        state.add_caveat(caveat)
    environment = read_environment(here.ops, programs=target.client)
    state.add_fingerprint({**environment, **load.facts(), **target.facts()})
    context = RunContext(
        workload=experiment.workload,
        load=load,
        levels=tuple(over_arms(arms, level) for level in plan.levels),
        seed=plan.seed,
        client_host=here,
        machines=machines,
        baseline=baseline,
        mark=mark_of(folder),
        machine=identify_machine(),
        sysctls=tuple({name: None for arm in arms for name in arm.knobs.get("sysctl", {})}),
        restore="never" if stays_as_prepared(experiment, arms) else experiment.restore,
        watches_pages=experiment.target.kind != "host" and are_about_pages(arms),
    )
    if isinstance(target, ServerTarget):
        target.load_sessions = tuple(context.beginning_of_names(arm.name) for arm in arms)
    return Schedule(
        planned=plan,
        folder=folder,
        state=state,
        target=target,
        context=context,
        arms={arm.name: arm for arm in arms},
        tell=tell,
    )


def host_changes(experiment: Experiment, arms: Sequence[Arm]) -> tuple[str, ...]:
    """Short descriptions of everything that an experiment sets outside servers of its own."""
    found = [
        f"{knob}.{name} = {value}"
        for arm in arms
        for knob, table in arm.knobs.items()
        if scope_of(knob) is Scope.HOST
        for name, value in table.items()
    ]
    if experiment.design.cache == "cold" and experiment.target.kind != "host":
        found.append("the page cache is dropped before each run")
    target = experiment.target
    if target.kind == "server":
        for arm in arms:
            shared = arm.settings if target.settings == "server" else split_settings(arm.settings)[1]
            found += [f"{name} = {value} for the whole server" for name, value in shared.items()]
        if target.settings == "role":
            own = [f"{name} = {value}" for arm in arms for name, value in split_settings(arm.settings)[0].items()]
            found += [f"{setting} for the load's role in its database" for setting in own]
    return tuple(dict.fromkeys(found))


async def prepare_target(task: Preparation) -> Target:
    """Prepare the target and its data. Raises PgTrialError; whatever was made then is removed."""
    match task.plan.experiment.target.kind:
        case "server":
            return await prepare_server(task)
        case "host":
            return await prepare_host(task)
        case "throwaway":
            return await prepare_throwaway(task)


async def try_arms(target: Target, arms: Sequence[Arm], load: Load, *, tell: Observer) -> dict[str, Setting]:
    """Start each arm once and try the load on it: what cannot work fails before anything is measured.

    Returns the settings of the control. Raises SettingError or WorkloadError that names the arm, the scenario or the
    job. The data are to be restored after it.
    """
    control: dict[str, Setting] = {}
    try:
        for arm in arms:
            tell(Preparing(step=f'trying arm "{arm.name}"'))
            try:
                server = await target.start(arm, run=None)
            except TargetError as err:
                raise type(err)(f'arm "{arm.name}": {err.message}', detail=err.detail, hint=err.hint) from err
            if not control:
                control = dict(server.settings)
            await load.try_out(arm, server)
            await target.stop(immediate=server.altered)
            if server.altered:
                await target.restore(arm)
    finally:
        await target.stop(immediate=True)
    return control
