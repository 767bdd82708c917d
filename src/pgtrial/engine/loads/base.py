"""The interface of a load, and which one an experiment has."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from pgtrial.design.data_size import arm_scales
from pgtrial.design.plan import Plan
from pgtrial.engine.leftovers import mark_of
from pgtrial.engine.loads.command import CommandLoad
from pgtrial.engine.loads.fio import FioLoad
from pgtrial.engine.loads.machines import LoadMachine
from pgtrial.engine.loads.pgbench import PgbenchLoad
from pgtrial.engine.target.base import RunningServer, Target, executable_client, make_work_directory
from pgtrial.engine.target.host import HostTarget
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.workload_table import COMMAND, WorkloadTable
from pgtrial.hosts.base import Account, Host
from pgtrial.hosts.local import server_account
from pgtrial.model.arm import Arm
from pgtrial.model.run import LoadLevel, Slice
from pgtrial.store.belongings import Belongings
from pgtrial.store.transactions import LoadLog
from pgtrial.workloads.base import Generator, Output
from pgtrial.workloads.command import files_of
from pgtrial.workloads.scenarios import read_arm_scripts, scenarios_of


class Load(Protocol):
    """The load of an experiment. ``output`` parses what its generators print."""

    @property
    def output(self) -> Output: ...
    @property
    def account(self) -> Account | None:
        """Whom the generators run as, None: as pgtrial."""

    def scripts(self, arm: Arm) -> Mapping[str, str]:
        """The text of each scenario of an arm that has one, by its name."""

    def does(self, arm: Arm) -> frozenset[tuple[str, str]]:
        """Knob and key of what an arm declares and the load does by itself."""

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


def followed(experiment: Experiment) -> WorkloadTable:
    """The load of an experiment; where guardrails follow what it tells, with one log and not one for each of its
    threads: pgbench writes a log when a hundred lines have come together, which takes a few a second long enough.
    """
    workload = experiment.workload
    return workload if experiment.guardrails is None else workload.model_copy(update={"threads": 1})


async def make_load(
    plan: Plan,
    target: Target,
    belongings: Belongings,
    *,
    here: Host,
    machines: tuple[LoadMachine, ...],
    scripts: Path,
) -> Load:
    """``here`` is where pgbench runs unless it is on ``machines``, ``scripts`` the folder with its scenarios' scripts.

    Where its account may not execute it, a copy is made, which ``belongings`` know of. Raises PreflightError.
    """
    experiment = plan.experiment
    if isinstance(target, HostTarget):
        return FioLoad(fio=target.fio, seed=plan.seed, target=target)
    assert target.client is not None  # every target with a server has one
    account = server_account(here.ops)
    if experiment.workload.kind == COMMAND:
        return CommandLoad(
            work=make_work_directory(belongings, here=here, account=account),
            mark=mark_of(belongings.folder),
            account=account,
            workload=experiment.workload,
            files=files_of(experiment, scripts),
            seed=plan.seed,
            clients=max(level.clients for level in plan.levels),
            here=here,
            there=target.host,
        )
    client = target.client if machines else await executable_client(target.client, account, belongings, here=here)
    return PgbenchLoad(
        program=client.path("pgbench"),
        account=None if machines else account,
        machines=machines,
        workload=followed(experiment),
        scenarios=scenarios_of(experiment, scripts),
        seed=plan.seed,
        here=here,
        there=target.host,
        scales={arm.name: arm.scale for arm in plan.arms if arm.scale is not None}
        if len(arm_scales(plan.arms)) > 1
        else {},
        own_scripts=read_arm_scripts(plan.arms, scripts),
    )
