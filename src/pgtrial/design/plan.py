"""What an experiment will do, put together before anything is touched."""

from dataclasses import dataclass

from pgtrial.design.arms import claimed_arm, resolve_arms
from pgtrial.design.duration import TotalEstimate, blocks_of, estimate_data_size, estimate_total
from pgtrial.design.levels import load_levels
from pgtrial.design.schedule import plan_schedule
from pgtrial.model.arm import Arm
from pgtrial.model.run import LoadLevel, Slot
from pgtrial.spec.experiment import Experiment


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``claimed`` is the name of the arm the hypothesis is about, ``data_size`` bytes of one copy of the data.

    ``trials`` are the server starts of the preparation: one to make the data, one to try each arm.
    """

    experiment: Experiment
    arms: tuple[Arm, ...]
    levels: tuple[LoadLevel, ...]
    slots: tuple[Slot, ...]
    claimed: str
    blocks: int
    estimate: TotalEstimate
    data_size: float
    trials: int


def make_plan(experiment: Experiment) -> Plan:
    """The plan of a checked experiment; SpecError if its budget is too short."""
    arms = resolve_arms(experiment)
    blocks = blocks_of(experiment)
    return Plan(
        experiment=experiment,
        arms=arms,
        levels=load_levels(experiment.workload),
        slots=plan_schedule(arms, blocks=blocks, seed=experiment.design.seed),
        claimed=claimed_arm(experiment),
        blocks=blocks,
        estimate=estimate_total(experiment, blocks=blocks),
        data_size=estimate_data_size(experiment),
        trials=1 + len(arms),
    )
