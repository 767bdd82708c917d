"""What an experiment will do, put together before anything is touched."""

from dataclasses import dataclass

from pgtrial.design.arms import claimed_arm, resolve_arms
from pgtrial.design.data_size import estimate_data_size
from pgtrial.design.duration import TotalEstimate, blocks_of, estimate_total
from pgtrial.design.host_facts import HostFacts
from pgtrial.design.levels import load_levels
from pgtrial.design.looks import plan_looks
from pgtrial.design.methods import Judgement, MethodChoice, choose_method, judge_methods, plan_steps, turn_seed
from pgtrial.design.schedule import plan_schedule
from pgtrial.design.slices import Step
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.model.arm import Arm
from pgtrial.model.run import LoadLevel, Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``claimed`` is the name of the arm the hypothesis is about, ``data_size`` bytes of one copy of the data.

    ``method`` is what the file's method comes to, ``judgements`` what speaks against each one; ``steps`` are those of
    the first load level in the first block, () where each run has its time to itself; ``looks`` the blocks after which
    the stopping rule is asked, () without one. ``trials`` are the server starts of the preparation: one to make the
    data, one to try each arm.
    """

    experiment: Experiment
    arms: tuple[Arm, ...]
    levels: tuple[LoadLevel, ...]
    slots: tuple[Slot, ...]
    claimed: str
    method: MethodChoice
    judgements: tuple[Judgement, ...]
    steps: tuple[Step, ...]
    blocks: int
    looks: tuple[int, ...]
    estimate: TotalEstimate
    data_size: float
    trials: int


def make_plan(experiment: Experiment, facts: HostFacts | None = None) -> Plan:
    """The plan of a checked experiment; without ``facts`` of the host the method is judged by the file alone.

    SpecError if its budget is too short, or its method not valid.
    """
    arms, levels = resolve_arms(experiment), load_levels(experiment.workload)
    method = choose_method(experiment, arms, levels, facts)
    blocks = blocks_of(experiment, method)
    return Plan(
        experiment=experiment,
        arms=arms,
        levels=levels,
        slots=plan_schedule(arms, blocks=blocks, seed=experiment.design.seed),
        claimed=claimed_arm(experiment),
        method=method,
        judgements=judge_methods(experiment, arms, levels, facts),
        steps=plan_steps(
            method,
            sorted(arm.name for arm in arms),
            seconds=experiment.workload.duration,
            seed=turn_seed(experiment.design.seed, 1, 0),
        ),
        blocks=blocks,
        looks=plan_looks(experiment.design, blocks=blocks),
        estimate=estimate_total(experiment, blocks=blocks, choice=method),
        data_size=estimate_data_size(experiment),
        trials=1 + len(arms),
    )
