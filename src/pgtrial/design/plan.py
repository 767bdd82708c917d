"""What an experiment will do, put together before anything is touched; the same is shown, run and analysed."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from pgtrial.design.data_size import estimate_data_size
from pgtrial.design.duration import TotalEstimate, blocks_of, estimate_total
from pgtrial.design.levels import load_levels
from pgtrial.design.method_checks import HostFacts
from pgtrial.design.methods import Judgement, MethodChoice, choose_method, judge_methods, plan_steps, turn_seed
from pgtrial.design.slices import Step, shuffled
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.design_checks import FIRST_LOOK
from pgtrial.experiment_file.experiment import DesignTable, Experiment
from pgtrial.model.arm import Arm
from pgtrial.model.run import LoadLevel, Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An experiment with its arms resolved, the control first, and its schedule.

    ``method`` is what the file's method comes to, ``judgements`` what speaks against each one. Everything else follows
    from these.
    """

    experiment: Experiment
    arms: tuple[Arm, ...]
    levels: tuple[LoadLevel, ...]
    slots: tuple[Slot, ...]
    method: MethodChoice
    judgements: tuple[Judgement, ...] = ()

    @property
    def claimed(self) -> str:
        """Name of the arm that the hypothesis is about: as declared, or the first that is not the control."""
        return self.experiment.hypothesis.arm or self.arms[1].name

    @property
    def blocks(self) -> int:
        return max((slot.block for slot in self.slots), default=0)

    @property
    def looks(self) -> tuple[int, ...]:
        """Blocks after which the stopping rule is asked, the last one the cap; () without one."""
        return plan_looks(self.experiment.design, blocks=self.blocks) if self.slots else ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """Those of the first load level in the first block; () where each run has its time to itself."""
        return plan_steps(
            self.method,
            sorted(arm.name for arm in self.arms),
            seconds=self.experiment.workload.duration,
            seed=turn_seed(self.experiment.design.seed, 1, 0),
        )

    @property
    def estimate(self) -> TotalEstimate:
        return estimate_total(self.experiment, self.arms, blocks=self.blocks, choice=self.method)

    @property
    def data_size(self) -> float:
        """Bytes of one copy of the data."""
        return estimate_data_size(self.experiment, self.arms)

    @property
    def trials(self) -> int:
        """Server starts of the preparation: one to make the data, one to try each arm."""
        return 1 + len(self.arms)


def make_plan(experiment: Experiment, facts: HostFacts | None = None) -> Plan:
    """The plan of a checked experiment; without ``facts`` of the host the method is judged by the file alone.

    SpecError if its budget is too short, or its method not valid.
    """
    arms, levels = resolve_arms(experiment), load_levels(experiment.workload)
    method = choose_method(experiment, arms, levels, facts)
    return Plan(
        experiment=experiment,
        arms=arms,
        levels=levels,
        slots=plan_schedule(arms, blocks=blocks_of(experiment, arms, method), seed=experiment.design.seed),
        method=method,
        judgements=judge_methods(experiment, arms, levels, facts),
    )


def plan_schedule(arms: Sequence[Arm], *, blocks: int, seed: int) -> tuple[Slot, ...]:
    """Randomised complete blocks: every arm once per block, in an order drawn from ``seed`` for each block anew.

    A longer schedule begins with the shorter one of the same seed, so blocks can be added later.
    Source: Fisher, The Design of Experiments, 1935, chapter 4.
    """
    rng = random.Random(seed)
    slots: list[Slot] = []
    for block in range(1, blocks + 1):
        for position, name in enumerate(shuffled([arm.name for arm in arms], rng), start=1):
            slots.append(Slot(number=len(slots) + 1, block=block, position=position, arm=name))
    return tuple(slots)


def plan_looks(design: DesignTable, *, blocks: int) -> tuple[int, ...]:
    """Numbers of complete blocks at which to look, rising, the last one ``blocks``; () without a stopping rule.

    As many as the file says, evenly spread, or after every block; but none before FIRST_LOOK, so there may be fewer.
    """
    if design.stop == "never":
        return ()
    count = blocks if design.looks is None else design.looks
    wanted = (math.ceil(blocks * number / count) for number in range(1, count + 1))
    return tuple(sorted({min(blocks, max(FIRST_LOOK, block)) for block in wanted}))
