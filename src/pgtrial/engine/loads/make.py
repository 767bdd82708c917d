"""The load of an experiment, on the target that was made ready for it."""

from pathlib import Path

from pgtrial.design.data_size import arm_scales
from pgtrial.design.plan import Plan
from pgtrial.engine.loads.base import Load
from pgtrial.engine.loads.fio import FioLoad
from pgtrial.engine.loads.pgbench import PgbenchLoad
from pgtrial.engine.target.base import Target
from pgtrial.engine.target.host import HostTarget
from pgtrial.hosts.base import Host
from pgtrial.workloads.scenarios import scenarios_of


def make_load(plan: Plan, target: Target, *, here: Host, scripts: Path) -> Load:
    """``here`` is where pgbench runs, ``scripts`` the folder with its scenarios' scripts."""
    experiment = plan.experiment
    if isinstance(target, HostTarget):
        return FioLoad(fio=target.fio, experiment=experiment, target=target)
    assert target.client is not None  # every target with a server has one
    scenarios = scenarios_of(experiment, scripts)
    constant = sum(scenario.sessions or 0 for scenario in scenarios)
    return PgbenchLoad(
        program=target.client.path("pgbench"),
        workload=experiment.workload,
        scenarios=scenarios,
        scripts=scripts,
        seed=experiment.design.seed,
        clients=max(level.clients for level in plan.levels) + constant,
        here=here,
        there=target.host,
        scales={arm.name: arm.scale for arm in plan.arms if arm.scale is not None}
        if len(arm_scales(plan.arms)) > 1
        else {},
    )
