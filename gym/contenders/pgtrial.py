"""pgtrial itself: its own plan, schedule, intervals, stopping rule and verdict, for each of its methods.

Nothing is drawn or decided here. What the analysis does with Evidence of a result folder is done with the same
functions on simulated observations; tests/gym holds both against each other.
"""

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gym.contenders.base import ALL, Answer
from gym.machine import Measured, Runs
from gym.schedule import RUN, WARM_UP, WHOLE, Schedule, plain_runs
from pgtrial.analysis.evidence import confidence_due
from pgtrial.design.methods import plan_steps, turn_seed
from pgtrial.design.plan import MOST_SEEDS, Plan, make_plan, plan_schedule
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.hypothesis_table import Expect
from pgtrial.model.metric import Better
from pgtrial.model.rules import CURRENT
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.stats.base import Comparison
from pgtrial.stats.carry_over import CarryOver, bound_carry_over, find_among_arms, find_carry_over
from pgtrial.stats.crossover import fit_crossover
from pgtrial.stats.equivalence import decide, judge
from pgtrial.stats.fade import Turns, bound_fade
from pgtrial.stats.failures import Attempts, bound_failures, excess_share, fails_more
from pgtrial.stats.interval import NO_SPREAD, mean_and_sd, ratio_of, t_quantile
from pgtrial.stats.late import Late, bound_late
from pgtrial.stats.sequential import widen

Method = Literal["blocks", "interleaved", "duet"]
MARGIN = 0.03  # of the claims
# Higher throughput is better, and lower throughput worse.
CLAIMS = tuple(expect for expect in Expect if expect not in (Expect.LOWER, Expect.HIGHER))
_CONTROL, _CHANGED = "old", "new"
DUET_SLICE = "250ms"
_SIDES = {Decision.BETTER: 1, Decision.WORSE: -1}
_VERDICTS = {Verdict.SUPPORTED: 1, Verdict.REFUTED: -1, Verdict.INCONCLUSIVE: 0}
_FILE = """
format = 1
experiment.name = "gym"
arms.old.postgresql.work_mem = "4MB"
arms.new.postgresql.work_mem = "8MB"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pgtrial:
    """``stops``: with the rule that ends at a decision, looking after every block; the last of them is the size.
    ``placebo``: with a third arm, which is as the control.
    """

    method: Method
    stops: bool = False
    placebo: bool = False
    sizes: Sequence[int] = (6, 8, 12, 20, 30, 40)
    is_nested = True
    most = ALL

    @property
    def name(self) -> str:
        return f"pgtrial {self.method}{', stopping' if self.stops else ''}"

    @property
    def times(self) -> int:
        return 6 if self.method == "blocks" and not self.stops else 1

    @property
    def peeks_from(self) -> int | None:
        return None if self.stops else CURRENT.fewest_blocks

    def with_placebo(self) -> "Pgtrial":
        return self if self.method == "duet" else replace(self, placebo=True)

    def schedule(self, size: int, experiments: int, rng: np.random.Generator) -> Schedule:
        seeds = tuple(rng.integers(0, MOST_SEEDS, experiments).tolist())
        return _schedule(self.method, size, seeds, placebo=self.placebo)

    def answers(self, measured: Measured, *, planned: int, ratios: Sequence[float]) -> list[Answer]:
        experiments, blocks = measured.control.shape
        log_ratios = np.log(measured.treated) - np.log(measured.control)
        plan = plan_of(self.method, planned, stops=self.stops, placebo=self.placebo)
        looks = [look for look in plan.looks if look <= blocks] if self.stops else [blocks]
        design, confidence = plan.experiment.design, plan.confidence
        due = {
            look: confidence_due(design, plan.looks, confidence=confidence, blocks=look, comparisons=1)
            for look in looks
        }
        sheets = [_Sheet.blank(experiments) for _ in ratios]
        for place in range(experiments):
            series = Series(
                log_ratios=log_ratios[place],
                after=measured.after[place] if self.method == "blocks" else None,
                failed=measured.failed[place],
                before=None if measured.before is None else measured.before[place],
                runs=None if measured.runs is None else measured.runs.of(place),
                turns=None if measured.turns is None else measured.turns[:, place],
                late=None if measured.late is None else measured.late[:, place],
                guard=plan.method.guard,
                slice=plan.method.slice or 0.0,
            )
            # Whoever looks before the last block sees a provisional verdict.
            early = not self.stops and planned > blocks
            found = [
                series.at(look, confidence=due[look] or confidence, is_provisional=early)
                for look in looks
                if due[look] is not None
            ]
            for ratio, sheet in zip(ratios, sheets, strict=True):
                sheet.put(place, found, ratio)
        return [sheet.answer(stops=self.stops) for sheet in sheets]


@lru_cache(maxsize=64)
def _schedule(method: Method, size: int, seeds: tuple[int, ...], *, placebo: bool) -> Schedule:
    """The same one for all streams: to make it takes longer than to measure."""
    plan = plan_of(method, size, placebo=placebo)
    if method != "blocks":
        return _shared_time(plan, size, seeds)
    numbers = _numbers(plan)
    orders = [[numbers[slot.arm] for slot in plan_schedule(plan.arms, blocks=size, seed=seed)] for seed in seeds]
    return plain_runs(np.array(orders, dtype=np.int8), group=np.repeat(np.arange(size), len(numbers)).tolist())


def _numbers(plan: Plan) -> dict[str, int]:
    """Of each arm as schedules have it."""
    return {arm.name: {_CONTROL: 0, _CHANGED: 1}.get(arm.name, 2) for arm in plan.arms}


@cache
def plan_of(method: Method, blocks: int, *, stops: bool = False, placebo: bool = False) -> Plan:
    """The product's plan; its seed does not matter, each experiment has another one."""
    document = tomllib.loads(_FILE)
    document["hypothesis"] = {"margin": MARGIN}
    document["workload"] = {"mix": "select-only", "clients": 2, "duration": f"{RUN:g}s", "warmup": f"{WARM_UP:g}s"}
    stop = "decision" if stops else "never"
    document["design"] = {"method": method, "blocks": blocks, "stop": stop, "seed": 1, "placebo": placebo}
    if method == "duet":
        document["design"]["slice"] = DUET_SLICE
    return make_plan(Experiment.model_validate(document))


def _shared_time(plan: Plan, blocks: int, seeds: Sequence[int]) -> Schedule:
    """Of experiments in which the arms share the time of a block."""
    names, numbers = sorted(arm.name for arm in plan.arms), _numbers(plan)
    rows, owners = [], list[int]()
    for number, seed in enumerate(seeds):
        now, row = 0.0, list[tuple[int, int, float, float, float]]()
        for block in range(1, blocks + 1):
            now += WARM_UP
            for step in plan_steps(plan.method, names, seconds=RUN, seed=turn_seed(seed, block, 0), block=block):
                for half, arm in enumerate(step.arms):
                    row.append(
                        (
                            numbers[arm],
                            half if len(step.arms) > 1 else WHOLE,
                            now,
                            now + step.guard,
                            now + step.length,
                        )
                    )
                    if number == 0:
                        owners.append(block - 1)
                now += step.length
        rows.append(row)
    arm, half, start, counted, end = np.moveaxis(np.array(rows, dtype=np.float64), 2, 0)
    owner = np.array(owners, dtype=np.intp)
    return Schedule(
        arm=arm.astype(np.int8),
        half=half.astype(np.int8),
        start=start,
        counted=counted,
        end=end,
        observation=owner,
        group=owner,
        unit=owner,
        slice_length=plan.method.slice,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """After ``blocks``: the comparison, and the one that bears the failures; the same where there are none. Where those
    ``decide`` one arm failed so much more often that nothing else does.
    """

    blocks: int
    comparison: Comparison
    bounded: Comparison
    decide: bool = False

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Both, where they differ."""
        return (self.comparison,) if self.bounded is self.comparison else (self.comparison, self.bounded)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One experiment: log ratios of its blocks, (n,), and the attempts that ``failed`` before each. ``after`` and
    ``before`` are None where arms share the time, and fail together: it is taken that it was always the treated one.
    ``runs`` are those of all arms, of this experiment alone, where there are three and each has its time to itself.
    ``turns``, (3, n), and ``late``, (2, n, shapes), are None where they do not take turns. ``slice`` and the ``guard``
    in it are in seconds.
    """

    log_ratios: NDArray[np.float64]
    after: NDArray[np.bool_] | None
    failed: NDArray[np.intp]
    before: NDArray[np.float64] | None = None
    runs: Runs | None = None
    turns: NDArray[np.float64] | None = None
    late: NDArray[np.float64] | None = None
    guard: float = 0.0
    slice: float = 0.0

    def at(self, blocks: int, *, confidence: float, is_provisional: bool = False) -> Found:
        """What the analysis would have found after ``blocks`` of them."""
        values = self.log_ratios[:blocks]
        after = None if self.after is None else self.after[:blocks]
        comparison = compare(values, after, confidence=confidence)
        if is_provisional:
            comparison = widen(comparison)
        if after is not None and self.before is not None:
            found = None if self.runs is None else _find_among_arms(self.runs.first(blocks), after)
            left = found or find_carry_over(values, after, self.before[:blocks])
            comparison = bound_carry_over(comparison, left)
        if self.turns is not None:
            washout, early, late = self.turns[:, :blocks]
            counted = self.slice - self.guard
            turns = Turns(washout=washout, early=early, late=late, guard=self.guard, counted=counted)
            comparison = bound_fade(comparison, turns)
        if self.late is not None:
            change, error = self.late[:, :blocks]
            comparison = bound_late(comparison, Late(change=change, error=error))
        failed = int(self.failed[:blocks].sum())
        if not failed:
            return Found(blocks=blocks, comparison=comparison, bounded=comparison)
        attempts = Attempts(made=blocks, failed=0), Attempts(made=blocks + failed, failed=failed)
        share = excess_share(*attempts)
        position = comparison.position or 0.0
        level = values - (0.0 if after is None else np.where(after, position, -position))
        bounded = bound_failures(comparison, level, share=share)
        decide = share == 1 or fails_more(*attempts, weighs_lone=CURRENT.weighs_lone_failures)
        return Found(blocks=blocks, comparison=comparison, bounded=bounded, decide=decide)


def _find_among_arms(runs: Runs, after: NDArray[np.bool_]) -> CarryOver | None:
    """What the product tells of the runs of all arms; ``runs`` of one experiment."""
    arm, block, values = runs.arm[0], runs.observation, runs.log_rates[0]
    last = np.concatenate([[-1], arm[:-1]])
    sides = np.array([last == 1, (last == 0) | (last == 2)], dtype=np.float64)
    places = [int((block[:number] == own).sum()) for number, own in enumerate(block)]
    of_treated, of_control = (sides[:, arm == each][:, np.argsort(block[arm == each])] for each in (1, 0))
    groupings = [block.tolist(), arm.tolist(), places]
    return find_among_arms(values, sides, groupings, pairs=of_treated - of_control, after=after)


def compare(log_ratios: NDArray[np.float64], after: NDArray[np.bool_] | None, *, confidence: float) -> Comparison:
    """What compare_blocks gives, as far as verdicts use it: exact p-values, ranks and caveats take most of its time."""
    fit = None if after is None else fit_crossover(log_ratios, after, may_differ=CURRENT.tells_orders_apart)
    degrees: float
    if fit is None:
        effect, sd = mean_and_sd(log_ratios)
        degrees, information, position = log_ratios.size - 1, float(log_ratios.size), None
    else:
        effect, sd, degrees, information, position = fit.effect, fit.sd, fit.degrees, fit.information, fit.position
    half = t_quantile((1 + confidence) / 2, degrees) * sd / math.sqrt(information)
    spread = sd > NO_SPREAD
    return Comparison(
        ratio=math.exp(effect),
        low=ratio_of(effect - half) if spread else None,
        high=ratio_of(effect + half) if spread else None,
        confidence=confidence,
        p_value=None,
        p_sign_flip=None,
        hodges_lehmann=None,
        hl_low=None,
        hl_high=None,
        blocks=log_ratios.size,
        sd_log_ratio=sd,
        information=information,
        degrees=degrees,
        position=position,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sheet:
    """The answers on one planted effect, as they come."""

    direction: NDArray[np.int8]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    used: NDArray[np.intp]
    verdicts: dict[str, NDArray[np.int8]] = field(default_factory=dict)

    @classmethod
    def blank(cls, experiments: int) -> "_Sheet":
        return cls(
            direction=np.zeros(experiments, dtype=np.int8),
            low=np.full(experiments, -math.inf),
            high=np.full(experiments, math.inf),
            used=np.zeros(experiments, dtype=np.intp),
            verdicts={claim: np.zeros(experiments, dtype=np.int8) for claim in CLAIMS},
        )

    def put(self, place: int, looks: Sequence[Found], ratio: float) -> None:
        """An experiment, which ends at the first of the looks at which what is asked is decided, or at the last.

        An effect that is planted shifts the interval; here the margin is shifted instead, which comes to the same.
        """
        shift = math.log(ratio)
        none, margin = (shifted(each, shift) for each in (0.0, MARGIN))
        end, _ = conclude(looks, Expect.DIFFERENT, none)
        decisions = {decide(one, bounds=none, better=Better.HIGHER) for one in end.comparisons}
        self.direction[place] = _SIDES.get(decisions.pop(), 0) if len(decisions) == 1 and not end.decide else 0
        self.used[place] = end.blocks
        if end.bounded.low is not None and end.bounded.high is not None:
            self.low[place], self.high[place] = end.bounded.low * ratio, end.bounded.high * ratio
        for claim, verdicts in self.verdicts.items():
            _, verdict = conclude(looks, claim, margin)
            verdicts[place] = _VERDICTS[verdict]

    def answer(self, *, stops: bool) -> Answer:
        return Answer(
            direction=self.direction,
            low=self.low,
            high=self.high,
            used=self.used if stops else None,
            verdicts=dict(self.verdicts),
        )


def shifted(margin: float, shift: float) -> tuple[float, float]:
    """Bounds of a margin for a comparison to which the effect ``shift`` has yet to be added."""
    lower, upper = CURRENT.log_bounds(margin)
    return lower - shift, upper - shift


def conclude(looks: Sequence[Found], claim: str, bounds: tuple[float, float]) -> tuple[Found, Verdict]:
    """Where the experiment ends, at the first look at which the verdict is there, or at the last; and the verdict: that
    of the interval, where there are blocks enough and failures leave it as it is.
    """
    for found in looks:
        verdicts = {judge(one, expect=claim, bounds=bounds, better=Better.HIGHER) for one in found.comparisons}
        verdict = verdicts.pop()
        if verdicts or found.decide or found.blocks < CURRENT.fewest_blocks:
            verdict = Verdict.INCONCLUSIVE
        if verdict is not Verdict.INCONCLUSIVE:
            break
    return found, verdict
