"""Which methods are valid for an experiment, and which one it is run by."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from pgtrial.design.effect_timing import find_differences
from pgtrial.design.method_case import METHODS, Case, HostFacts, Method, Objection, Weight
from pgtrial.design.method_checks import find_objections
from pgtrial.design.slices import (
    LENGTH_SPREAD,
    WASHOUT,
    Step,
    builds_up,
    duet_guard,
    duet_slice_length,
    fits_doubled,
    interleave,
    pair_up,
    shuffled,
    slice_length,
    switch_length,
)
from pgtrial.errors import SpecError, SpecProblem
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.findings.catalogue.method import METHOD_REASONS
from pgtrial.model.arm import Arm
from pgtrial.model.run import LoadLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What speaks against a method: ``reasons`` why it is not valid, and ``warnings``, in clauses, gravest first.

    ``doubtful``: a warning is such that only who asks for the method gets it.
    """

    method: Method
    valid: bool
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    doubtful: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodChoice:
    """The method an experiment is run by; ``reason`` is a sentence, as it is recorded: in English.

    ``guard`` is the time at the start of each slice that does not count, ``slice`` the length of a slice with it, both
    in seconds; 0 where there are no slices. ``doubled``: in every second block slices are twice as long, so that an
    effect that builds up shows by how much it is larger there, and one that comes with the other arm's slices turns.
    ``duration``: measured seconds of a run, where it was chosen together with the number of blocks.
    """

    method: Method
    reason: str
    guard: float = 0.0
    slice: float = 0.0
    doubled: bool = False
    duration: float | None = None

    def slice_in(self, block: int) -> float:
        """Length of a slice in a block, from 1."""
        return self.slice * (2 if self._is_long(block) else 1)

    def guard_in(self, block: int) -> float:
        """Time at the start of a slice in a block that does not count; a washout grows with the slice."""
        return self.guard * (2 if self._is_long(block) and self.guard >= WASHOUT * self.slice else 1)

    def _is_long(self, block: int) -> bool:
        return self.doubled and block % 2 == 0


BLOCKS = MethodChoice(method="blocks", reason=str(METHOD_REASONS["method.blocks"].text))
SOAK = MethodChoice(method="blocks", reason=str(METHOD_REASONS["method.soak"].text))


def judge_methods(
    experiment: Experiment, arms: Sequence[Arm], levels: Sequence[LoadLevel], facts: HostFacts | None
) -> tuple[Judgement, ...]:
    """Every method, the cheapest first, and what speaks against it; without ``facts`` only what the file tells."""
    case = Case(
        experiment=experiment,
        arms=arms,
        levels=levels,
        facts=facts,
        differences=find_differences(arms),
    )
    objections = find_objections(case)
    return tuple(_judge(method, objections) for method in METHODS)


def choose_method(
    experiment: Experiment, arms: Sequence[Arm], levels: Sequence[LoadLevel], facts: HostFacts | None
) -> MethodChoice:
    """The method that the file asks for, or for "auto" the cheapest one that is valid and without doubt.

    SpecError with the reasons, at design.method, where what was asked for is not valid.
    """
    wanted = experiment.design.method
    if wanted == "blocks":
        return BLOCKS
    judgements = judge_methods(experiment, arms, levels, facts)
    if wanted == "auto":
        return _choose(experiment, arms, judgements)
    found = next(judgement for judgement in judgements if judgement.method == wanted)
    if not found.valid:
        valid = ", ".join(f'"{judgement.method}"' for judgement in judgements if judgement.valid)
        message = f'method "{wanted}" is not valid here: {"; ".join(found.reasons)}'
        hint = f'Valid here: {valid}. "auto" takes the cheapest one.'
        raise SpecError(message, problems=(SpecProblem(path="design.method", message=message, hint=hint),), hint=hint)
    return _settle(experiment, arms, wanted, str(METHOD_REASONS["method.asked-for"].text))


def plan_steps(
    choice: MethodChoice, arms: Sequence[str], *, seconds: float, seed: str, block: int = 1
) -> tuple[Step, ...]:
    """How ``arms`` (names) share the time of one load level in one block, with about ``seconds`` of counted time for
    each; () for blocks. ``seed`` has to be another one for each block and level.
    """
    if choice.method in ("interleaved", "switchback"):
        length, guard = choice.slice_in(block), choice.guard_in(block)
        whole = seconds * length / (length - guard)
        return interleave(arms, seconds=whole, slice_length=length, guard=guard, seed=seed)
    if choice.method == "duet":
        return pair_up(arms, seconds=seconds, slice_length=choice.slice, guard=choice.guard, seed=seed)
    return ()


def longest_stop(choice: MethodChoice, arms: int) -> float:
    """Seconds for which an arm stands still at most while others have their turns: each may have two in a row."""
    length = max(choice.slice_in(block) for block in (1, 2))
    return 2 * (arms - 1) * length * (1 + LENGTH_SPREAD)


def warmup_steps(
    choice: MethodChoice, arms: Sequence[str], *, seconds: float, seed: str, block: int = 1
) -> tuple[Step, ...]:
    """How ``arms`` share the time of a warm-up, in which each has ``seconds``.

    Nothing of it counts, so turns need neither a balanced order nor a part that is left out: in each round every arm
    has one, not longer than a slice.
    """
    if choice.method != "interleaved":
        return plan_steps(choice, arms, seconds=seconds, seed=seed, block=block)
    rounds = max(1, math.ceil(seconds / choice.slice_in(block)))
    rng = random.Random(seed)
    names = [name for _ in range(rounds) for name in shuffled(arms, rng)]
    return tuple(Step(arms=(name,), length=seconds / rounds, guard=0.0) for name in names)


def turn_seed(seed: int, block: int, what: int | str) -> str:
    """Of the steps of a block: ``what`` is the load level's index, or a name for other load."""
    return f"{seed}/{block}/{what}"


def _judge(method: Method, objections: Sequence[Objection]) -> Judgement:
    own = sorted((one for one in objections if method in one.methods), key=lambda one: -one.weight)
    reasons = tuple(one.text for one in own if one.weight is Weight.REFUSAL)
    return Judgement(
        method=method,
        valid=not reasons,
        reasons=reasons,
        warnings=tuple(one.text for one in own if one.weight is not Weight.REFUSAL),
        doubtful=any(one.weight is Weight.DOUBT for one in own),
    )


def _choose(experiment: Experiment, arms: Sequence[Arm], judgements: Sequence[Judgement]) -> MethodChoice:
    passed: dict[str, list[str]] = {}  # methods by what speaks first against them
    for judgement in judgements:
        if judgement.valid and not judgement.doubtful:
            reason = str(METHOD_REASONS["method.cheapest"].text)
            if passed:
                others = [f"not {' or '.join(names)}: {text}" for text, names in passed.items()]
                reason = "; ".join([reason.removesuffix("."), *others]) + "."
            return _settle(experiment, arms, judgement.method, reason)
        passed.setdefault((judgement.reasons or judgement.warnings)[0], []).append(judgement.method)
    raise AssertionError("blocks are always valid")


def _settle(experiment: Experiment, arms: Sequence[Arm], method: Method, reason: str) -> MethodChoice:
    if method in ("interleaved", "switchback"):
        has_turns = method == "interleaved"
        length = slice_length(experiment, arms) if has_turns else switch_length(experiment, arms)
        doubled = builds_up(find_differences(arms)) or (has_turns and fits_doubled(experiment, arms))
        return MethodChoice(method=method, reason=reason, guard=WASHOUT * length, slice=length, doubled=doubled)
    if method == "duet":
        length = duet_slice_length(experiment, arms)
        return MethodChoice(method=method, reason=reason, guard=duet_guard(length), slice=length)
    return MethodChoice(method=method, reason=reason)
