"""How a calibration divides its time: which methods, how long the runs, how many blocks, in which order."""

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pgtrial.design.duration import MOST_BLOCKS, estimate_total, warmup_cap
from pgtrial.design.levels import load_levels
from pgtrial.design.method_case import HostFacts, Method
from pgtrial.design.methods import BLOCKS, Judgement, MethodChoice, judge_methods
from pgtrial.design.slices import WASHOUT, duet_guard, duet_slice_length
from pgtrial.errors import SpecError
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.design_checks import LEAST_STRETCH
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.generate import control_twice
from pgtrial.experiment_file.workload_table import COMMAND
from pgtrial.units import format_duration

FEWEST_BLOCKS = 6  # of a method: the standard deviation of fewer is hardly more than a guess
SLICES = (0.5, 1.0, 5.0)  # s
LEAST_DURATION = 3.0  # s of measured time of a run: less is mostly its beginning
LEAST_WARMUP = 2.0  # s
_SAFEST: tuple[Method, ...] = ("blocks", "interleaved", "duet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """``portions`` of at least ``blocks`` blocks each, of runs that measure at least ``duration`` seconds."""

    portions: int
    blocks: int
    duration: float


# The best first. With two portions, in the second of which the methods come in reverse order, neither a quiet quarter
# of an hour nor a drift decides between methods; each has to prepare its data, though.
_SCHEMES = (
    Scheme(portions=2, blocks=FEWEST_BLOCKS, duration=6.0),
    Scheme(portions=2, blocks=FEWEST_BLOCKS // 2, duration=LEAST_DURATION),
    Scheme(portions=1, blocks=FEWEST_BLOCKS, duration=LEAST_DURATION),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A method to be calibrated. ``choice`` is what the experiment itself would be run by, ``duration`` and ``warmup``
    the seconds of a run of the calibration; the warm-up is None where it stays as it is.
    """

    choice: MethodChoice
    judgement: Judgement
    duration: float = 0.0
    warmup: float | None = None

    @property
    def method(self) -> Method:
        return self.choice.method

    @property
    def slice(self) -> float | None:
        """Seconds; None where it is not chosen."""
        return self.choice.slice if self.method == "interleaved" else None

    @property
    def label(self) -> str:
        """ "blocks", "interleaved-500ms"."""
        return self.method if self.slice is None else f"{self.method}-{slice_text(self.slice)}"

    @property
    def risk(self) -> tuple[int, float]:
        """The smaller, the simpler and safer: blocks, then long slices, in which little leaks, then short ones."""
        return _SAFEST.index(self.method), -(self.slice or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some blocks of a candidate, in a result folder with this ``name``; ``seconds`` are estimated."""

    name: str
    candidate: Candidate
    portion: int  # from 1
    blocks: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationPlan:
    """``candidates`` from the simplest on, ``parts`` in order of time; ``budget`` in seconds; ``refused`` maps what is
    not calibrated to the reason. A part has at least ``fewest`` blocks. ``facts`` are those of the host.
    """

    experiment: Experiment
    budget: float
    candidates: tuple[Candidate, ...]
    parts: tuple[Part, ...]
    fewest: int
    refused: Mapping[str, str]
    facts: HostFacts | None = None


def slice_text(seconds: float) -> str:
    """As an experiment file has it: "250ms", "1s"."""
    return f"{seconds:g}s" if seconds >= 1 else f"{seconds * 1000:g}ms"


def plan_calibration(experiment: Experiment, facts: HostFacts | None, *, budget: float) -> CalibrationPlan:
    """What is to be done in ``budget`` seconds.

    SpecError, with what would be enough, where the budget is too small for FEWEST_BLOCKS blocks of every method.
    """
    twice = Experiment.model_validate(tomllib.loads(control_twice(experiment, name="calibration")))
    candidates, refused = find_candidates(experiment, twice, facts)
    for scheme, chosen in _attempts(candidates):
        fitted = _fit(twice, chosen, scheme, budget)
        if fitted:
            left_out = [one.label for one in candidates if one not in chosen]
            return CalibrationPlan(
                experiment=experiment,
                budget=budget,
                candidates=fitted,
                parts=tuple(_divide(twice, fitted, scheme, budget)),
                fewest=scheme.blocks,
                refused={**refused, **dict.fromkeys(left_out, "there is no time for it in the budget")},
                facts=facts,
            )
    raise _too_small(twice, candidates, budget)


def find_candidates(
    experiment: Experiment, twice: Experiment, facts: HostFacts | None
) -> tuple[tuple[Candidate, ...], dict[str, str]]:
    """Methods that are valid for the experiment and for its control against itself, ``twice``, the simplest first; and
    the others, with the reason.
    """
    found: list[Candidate] = []
    refused: dict[str, str] = {}
    for method in _SAFEST:
        reason = _judge(experiment, method, None, facts).reasons or _judge(twice, method, None, facts).reasons
        if reason:
            refused[method] = reason[0]
            continue
        for length in SLICES if method == "interleaved" else (None,):
            judgement = _judge(experiment, method, length, facts)
            one = Candidate(choice=_choice(experiment, method, length), judgement=judgement)
            reason = judgement.reasons or _too_short(experiment, one)
            if reason:
                refused[one.label] = reason[0]
            else:
                found.append(one)
    return tuple(sorted(found, key=lambda one: one.risk)), refused


def with_method(experiment: Experiment, method: Method, slice: float | None) -> Experiment:
    """The same experiment by another method."""
    design = experiment.design.model_copy(update={"method": method, "slice": slice})
    return experiment.model_copy(update={"design": design})


def refit(share: float, *, prepare: float, block: float, fewest: int) -> int:
    """Blocks of ``block`` seconds that fit into ``share`` seconds after ``prepare``; ``fewest`` at least."""
    return min(max(fewest, int((share - prepare) / block)), MOST_BLOCKS)


def _judge(experiment: Experiment, method: Method, slice: float | None, facts: HostFacts | None) -> Judgement:
    if experiment.workload.kind == COMMAND and method != "blocks":
        text = "whether a command can take turns, each experiment finds out by itself"
        return Judgement(method=method, valid=False, reasons=(text,))
    one = with_method(experiment, method, slice)
    judgements = judge_methods(one, resolve_arms(one), load_levels(one.workload), facts)
    return next(each for each in judgements if each.method == method)


def _choice(experiment: Experiment, method: Method, slice: float | None) -> MethodChoice:
    """What ``choose_method`` makes of a valid method."""
    if method == "blocks":
        return BLOCKS
    arms = resolve_arms(experiment)
    if method == "duet":
        length = duet_slice_length(experiment, arms)
        return MethodChoice(method=method, reason="", guard=duet_guard(length), slice=length)
    assert slice is not None  # interleaved
    return MethodChoice(method=method, reason="", guard=WASHOUT * slice, slice=slice)


def _too_short(experiment: Experiment, candidate: Candidate) -> tuple[str, ...]:
    """Why the experiment's own duration does not allow the method; () if it does."""
    duration, needed = experiment.workload.duration, _least(candidate, arms=len(resolve_arms(experiment)))
    if duration >= needed:
        return ()
    return (f"it needs runs of {format_duration(needed)}, and those of the file have {format_duration(duration)}",)


def _least(candidate: Candidate, *, arms: int) -> int:
    """Measured seconds that a run has to have, as the checks of an experiment file want it."""
    if candidate.slice is not None:
        return math.ceil(2 * candidate.slice)
    return math.ceil(LEAST_STRETCH * arms) if candidate.method == "duet" else 1


def _attempts(candidates: Sequence[Candidate]) -> Iterator[tuple[Scheme, tuple[Candidate, ...]]]:
    """Schemes and candidates to try, the best first.

    Where time is short, slices are given up before methods: the longest, which need the longest runs, then the
    shortest, of which the guard time is the largest part.
    """
    slices = sorted(one.slice for one in candidates if one.slice is not None)
    unhurried = tuple(one for one in candidates if len(slices) < 2 or one.slice != slices[-1])
    hurried = tuple(one for one in unhurried if len(slices) < 3 or one.slice != slices[0])
    for scheme in _SCHEMES:
        yield scheme, tuple(candidates)
        yield scheme, unhurried
    for scheme in _SCHEMES:
        yield scheme, hurried


def _with_duration(twice: Experiment, candidate: Candidate, duration: float) -> tuple[Experiment, Candidate]:
    """Experiment and candidate with runs of ``duration``, and a warm-up shortened in proportion."""
    workload, warmup = twice.workload, None
    if duration < workload.duration:
        cap = warmup_cap(workload)
        warmup = min(cap, max(LEAST_WARMUP, round(cap * duration / workload.duration, 1)))
        workload = workload.model_copy(update={"duration": duration, "warmup": warmup})
    one = with_method(twice, candidate.method, candidate.slice).model_copy(update={"workload": workload})
    return one, replace(candidate, duration=duration, warmup=warmup)


def _cost(twice: Experiment, candidate: Candidate, duration: float) -> tuple[float, float]:
    """Seconds of the preparation and of a block."""
    one, _ = _with_duration(twice, candidate, duration)
    total = estimate_total(one, resolve_arms(one), blocks=1, choice=_choice(one, candidate.method, candidate.slice))
    return total.prepare, total.total - total.prepare


def _seconds(twice: Experiment, candidates: Sequence[Candidate], scheme: Scheme, duration: int) -> float:
    """Of everything, with runs of ``duration`` or as long as a candidate needs."""
    costs = [_cost(twice, one, max(duration, _least(one, arms=2))) for one in candidates]
    return scheme.portions * math.fsum(prepare + scheme.blocks * block for prepare, block in costs)


def _fit(twice: Experiment, candidates: Sequence[Candidate], scheme: Scheme, budget: float) -> tuple[Candidate, ...]:
    """The candidates with the longest runs, in whole seconds, that fit into the budget and are not longer than those of
    the file; () if none do.
    """
    longest = int(twice.workload.duration)
    low, high = min(int(scheme.duration), longest), longest
    if _seconds(twice, candidates, scheme, low) > budget:
        return ()
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _seconds(twice, candidates, scheme, middle) <= budget else (low, middle - 1)
    return tuple(_with_duration(twice, one, max(low, _least(one, arms=2)))[1] for one in candidates)


def _divide(twice: Experiment, candidates: Sequence[Candidate], scheme: Scheme, budget: float) -> Iterator[Part]:
    """Every candidate has the same share of the time that is left over."""
    costs = {one.label: _cost(twice, one, one.duration) for one in candidates}
    needed = math.fsum(prepare + scheme.blocks * block for prepare, block in costs.values())
    spare = max(0.0, budget / scheme.portions - needed) / len(candidates)
    for portion in range(1, scheme.portions + 1):
        for one in candidates if portion % 2 else reversed(candidates):
            prepare, block = costs[one.label]
            share = prepare + scheme.blocks * block + spare
            blocks = refit(share, prepare=prepare, block=block, fewest=scheme.blocks)
            yield Part(
                name=f"{one.label}-{portion}",
                candidate=one,
                portion=portion,
                blocks=blocks,
                seconds=prepare + blocks * block,
            )


def _too_small(twice: Experiment, candidates: Sequence[Candidate], budget: float) -> SpecError:
    scheme, chosen = list(_attempts(candidates))[-1]
    needed = _seconds(twice, chosen, scheme, int(min(scheme.duration, twice.workload.duration)))
    return SpecError(
        f"a budget of {format_duration(budget)} is too small to calibrate {', '.join(one.label for one in chosen)}",
        detail=f"{FEWEST_BLOCKS} blocks of each, whose data are prepared apart, take about {format_duration(needed)}.",
        hint=f"Give --budget {math.ceil(needed / 60)}min, or lower the size of the data or the number of load levels.",
    )
