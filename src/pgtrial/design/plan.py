"""What an experiment will do, put together before anything is touched; the same is shown, run and analysed."""

import math
import random
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pgtrial.design.budget import settle_design
from pgtrial.design.data_size import estimate_data_size
from pgtrial.design.duration import TotalEstimate, blocks_of, estimate_total
from pgtrial.design.levels import load_levels
from pgtrial.design.method_case import HostFacts
from pgtrial.design.methods import Judgement, MethodChoice, judge_methods, plan_steps, turn_seed
from pgtrial.design.slices import Step, shuffled
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.design_checks import FIRST_LOOK
from pgtrial.experiment_file.experiment import DesignTable, Experiment
from pgtrial.model.arm import Arm
from pgtrial.model.rules import CURRENT, Rules
from pgtrial.model.run import LoadLevel, Slot

MOST_SEEDS = 2**31
_BALANCED = 6  # blocks at the start in which no arm is always on the same side of the control
_LEAST_EACH = 2  # of them with the arm before the control, and as many with it after
_CAN_BE_HALVED = 2  # arms beside the control that each come after it in half of the first blocks
# How well the first blocks have to tell what a run leaves, in variances of a block; two and three arms always can.
_UNSEEN = 2.6
_DRAWS = 20  # of more arms the best of so many
_MOST_DRAWS = 1000  # of two and three, of which one in a few is enough
_MOST_AS_DRAWN = 5  # arms; of more hardly a draw has each of them on both sides of the control


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An experiment with its arms resolved, the control first, and its schedule.

    ``settled`` has the last block of each arm that is decided already: what came after it is not in ``slots``.
    ``method`` is what the file's method comes to, ``judgements`` what speaks against each one. ``seed`` decides about
    everything that is random, and the verdict is reached by ``rules``. ``attempts_before`` is how often the claim was
    tried already, and ``attempts_since`` when first, in seconds since the epoch; None where that is not known.
    Everything else follows from these.
    """

    experiment: Experiment
    arms: tuple[Arm, ...]
    levels: tuple[LoadLevel, ...]
    slots: tuple[Slot, ...]
    method: MethodChoice
    seed: int
    judgements: tuple[Judgement, ...] = ()
    rules: Rules = CURRENT
    attempts_before: int | None = None
    attempts_since: float | None = None
    settled: Mapping[str, int] = field(default_factory=dict)

    @property
    def claimed(self) -> str:
        """Name of the arm that the hypothesis is about: as declared, or the first that is not the control."""
        return self.experiment.hypothesis.arm or self.arms[1 if self.arms[1:] else 0].name

    @property
    def confidence(self) -> float:
        """Of its intervals: what the file says, or what is left of the error probability after other attempts."""
        declared = self.experiment.hypothesis.confidence
        return self.rules.confidence(declared, attempts_before=self.attempts_before)

    @property
    def blocks(self) -> int:
        return max((slot.block for slot in self.slots), default=0)

    @property
    def orders(self) -> dict[int, tuple[bool, ...]]:
        """Of each block, whether each arm but the control, in the order of ``arms``, comes after the control."""
        places: dict[int, dict[str, int]] = {}
        for slot in self.slots:
            places.setdefault(slot.block, {})[slot.arm] = slot.position
        control, *others = (arm.name for arm in self.arms)
        return {block: tuple(place[name] > place[control] for name in others) for block, place in places.items()}

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
            seed=turn_seed(self.seed, 1, 0),
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


def draw_seed() -> int:
    """A seed that nobody can know before."""
    return secrets.randbelow(MOST_SEEDS)


def make_plan(experiment: Experiment, facts: HostFacts | None = None) -> Plan:
    """The plan of a checked experiment; without ``facts`` of the host the method is judged by the file alone.

    Its seed is that of the file, or drawn where the file has none; so is the duration of a run where there is a budget.

    SpecError if its budget is too short, or its method not valid.
    """
    arms, levels = resolve_arms(experiment), load_levels(experiment.workload)
    experiment, method = settle_design(experiment, arms, levels, facts)
    seed = draw_seed() if experiment.design.seed is None else experiment.design.seed
    return Plan(
        experiment=experiment,
        arms=arms,
        levels=levels,
        slots=(plan_schedule if experiment.design.soak is None else plan_soak)(
            arms, blocks=blocks_of(experiment, arms, method), seed=seed
        ),
        method=method,
        seed=seed,
        judgements=() if experiment.design.soak is not None else judge_methods(experiment, arms, levels, facts),
    )


def plan_schedule(arms: Sequence[Arm], *, blocks: int, seed: int) -> tuple[Slot, ...]:
    """Randomised complete blocks: every arm once per block, in an order drawn from ``seed`` for each block anew.

    ``arms``: the control first. A longer schedule begins with the shorter one of the same seed, so blocks can be added
    later.
    Source: Fisher, The Design of Experiments, 1935, chapter 4; for restricted randomisation Cox, Planning of
    Experiments, 1958, section 5.4.
    """
    rng = random.Random(seed)
    names = [arm.name for arm in arms]
    orders = _draw_first_orders(names, rng)
    orders += [shuffled(names, rng) for _ in range(blocks - _BALANCED)]
    return _slots_of(orders[:blocks])


def plan_pairs(arms: Sequence[Arm], *, blocks: int, seed: int) -> tuple[Slot, ...]:
    """The schedule of an experiment over hosts: as ``plan_schedule``, but every second block has the order of the one
    before it from its end, so that each arm comes as often before the control as after it.

    Blocks of both orders are there for every host then; what a run leaves for the next one is looked for on one host,
    whose blocks have another sequence.
    """
    rng = random.Random(seed)
    names = [arm.name for arm in arms]
    orders = []
    for _ in range(math.ceil(blocks / 2)):
        order = shuffled(names, rng)
        orders += [order, order[::-1]]
    return _slots_of(orders[:blocks])


def due_slots(slots: Iterable[Slot], settled: Mapping[str, int]) -> tuple[Slot, ...]:
    """Without those of arms after their last block, as in ``Plan.settled``: a random order of the others is left."""
    return tuple(slot for slot in slots if slot.block <= settled.get(slot.arm, slot.block))


def over_hosts(plan: Plan) -> Plan:
    """The plan of an experiment whose blocks go to several hosts."""
    return replace(plan, slots=plan_pairs(plan.arms, blocks=plan.blocks, seed=plan.seed))


def _slots_of(orders: Sequence[Sequence[str]]) -> tuple[Slot, ...]:
    """One block of each order."""
    return tuple(
        Slot(number=(block - 1) * len(order) + position, block=block, position=position, arm=name)
        for block, order in enumerate(orders, start=1)
        for position, name in enumerate(order, start=1)
    )


def plan_soak(arms: Sequence[Arm], *, blocks: int, seed: int) -> tuple[Slot, ...]:
    """All windows of an arm, which stand in place of blocks, before those of the next; the arms in random order."""
    names = shuffled([arm.name for arm in arms], random.Random(seed))
    return tuple(
        Slot(number=place * blocks + window, block=window, position=place + 1, arm=name)
        for place, name in enumerate(names)
        for window in range(1, blocks + 1)
    )


def _draw_first_orders(names: Sequence[str], rng: random.Random) -> list[list[str]]:
    """Orders of the first blocks: drawn again until each other arm comes before the control in some of them and after
    it in others, so that what the place does can be told from what the arm does, and until what a run leaves for the
    next one can be told as well; of many arms that is so in none of the draws, and the best of them has to do.

    Of more than two arms that is best told where the control begins and ends most blocks. So its places are drawn
    before: each as often as any other, or what is special of the first run of a block would be in every effect.
    """
    from pgtrial.stats.carry_over import unseen_variance  # with numpy, which whoever only looks at folders does without

    best, least = list[list[str]](), math.inf
    places = _draw_places(len(names), rng) if len(names) > 2 else None
    for _ in range(_DRAWS if len(names) > 3 else _MOST_DRAWS):
        orders = _draw_orders(names, places, rng)
        while not _is_balanced(names, orders):
            orders = _draw_orders(names, places, rng)
        unseen = max((unseen_variance(orders, arm=name, control=names[0]) for name in names[1:]), default=0.0)
        if unseen < least or not best:
            best, least = orders, unseen
        if least <= _UNSEEN:
            break
    return best


def _draw_places(count: int, rng: random.Random) -> list[int]:
    """Of the control in each of the first blocks, where there are ``count`` of them; no two differ by more than one
    in how often they come up.
    """
    places: list[int] = []
    while len(places) < _BALANCED:
        places += shuffled(range(count), rng)
    return places[:_BALANCED]


def _draw_orders(names: Sequence[str], places: Sequence[int] | None, rng: random.Random) -> list[list[str]]:
    """Orders of the first blocks, with the control at each of ``places`` in one of them; None: at any place.

    Many arms have each order from its end as well, so every arm comes after the control in half of the blocks, and the
    control has half of the places and those that mirror them.
    """
    if places is None:
        return [shuffled(names, rng) for _ in range(_BALANCED)]
    control, *others = names
    is_mirrored = len(names) > _MOST_AS_DRAWN
    chosen = places[: _BALANCED // 2] if is_mirrored else places
    orders = [shuffled(others, rng) for _ in chosen]
    for order, place in zip(orders, shuffled(chosen, rng), strict=True):
        order.insert(place, control)
    return shuffled([*orders, *(order[::-1] for order in orders)], rng) if is_mirrored else orders


def _is_balanced(names: Sequence[str], orders: Sequence[Sequence[str]]) -> bool:
    control, *others = names
    after = (sum(order.index(name) > order.index(control) for order in orders) for name in others)
    least = len(orders) // 2 if len(others) == _CAN_BE_HALVED else _LEAST_EACH
    return all(least <= count <= len(orders) - least for count in after)


def plan_looks(design: DesignTable, *, blocks: int) -> tuple[int, ...]:
    """Numbers of complete blocks at which to look, rising, the last one ``blocks``; () without a stopping rule.

    As many as the file says, evenly spread, or after every block; but none before FIRST_LOOK, so there may be fewer.
    """
    if design.stop == "never":
        return ()
    count = blocks if design.looks is None else design.looks
    wanted = (math.ceil(blocks * number / count) for number in range(1, count + 1))
    return tuple(sorted({min(blocks, max(FIRST_LOOK, block)) for block in wanted}))
