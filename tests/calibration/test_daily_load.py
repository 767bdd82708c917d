"""What the rhythm of a day does to the verdict about a live server that is switched, and what a covariate would gain.

The experiment is the one of examples/switchback, over the six hours in which the load of the morning rises: a probe's
latency is that of a queue, so at one and a half times the usual load it is twice as long as then.
"""

import math
import random
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from calibration.trials import ROWS, Array, evidence_of, make_run, misses, most, percent
from pgtrial.analysis.effects.comparison import compare_metric
from pgtrial.analysis.effects.verdict import judge_claim
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.design.methods import plan_steps, turn_seed
from pgtrial.design.plan import plan_schedule
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.findings.record import ALL
from pgtrial.model.metric import Better
from pgtrial.model.metrics import LATENCY_MEAN
from pgtrial.model.run import Slice
from pgtrial.model.verdict import Verdict
from pgtrial.stats.base import Comparison
from pgtrial.stats.interval import mean_and_sd, t_quantile
from pgtrial.stats.paired import compare_blocks

EXAMPLE = Path(__file__).parents[2] / "examples" / "switchback" / "experiment.toml"
SLICES = ("30s", "2min", "10min")
BLOCKS, DURATION = 6, "15min"  # of what counts of each arm in a block: six to eight hours in all
ARM, EFFECT = "large", math.log(0.95)
QUICK, THOROUGH = 40, 60
TICK = 10.0  # s of the simulated load
BUSY, MOST_BUSY = 0.5, 0.97  # share of the time at usual load, and at most
MINUTES, WANDERS = 2, 0.05  # time constant and SD with which the load wanders beside its rhythm

# Load by the hour since the run began, of the usual one.
DAYS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "even": ("even", np.ones_like),
    "morning": ("a sinusoid, from half to 1.5, steepest", lambda hour: 1 + 0.5 * np.sin(np.pi * (hour - 3) / 12)),
    "noon": ("the same, at its crest", lambda hour: 1 + 0.5 * np.cos(np.pi * (hour - 3) / 12)),
    "ramp": ("from half to 1.5, most of it within an hour", lambda hour: 0.5 + 1 / (1 + np.exp(-4 * (hour - 3)))),
    "batch": ("0.75, and 1.5 for two hours", lambda hour: np.where((hour > 2.3) & (hour < 4.3), 1.5, 0.75)),
    "hourly": ("a job each hour: 1.5 for 3 min", lambda hour: np.where(hour % 1 < 0.05, 1.5, 1.0)),
    "quarterly": ("a job each quarter of an hour: 1.5 for 2 min", lambda hour: np.where(hour % 0.25 < 1 / 30, 1.5, 1)),
}
SMOOTH = ("even", "morning", "noon", "ramp")


@cache
def template(length: str) -> Evidence:
    content = tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))
    content["design"] |= {"slice": length, "blocks": BLOCKS}
    content["workload"]["duration"] = DURATION
    return evidence_of(Experiment.model_validate(content))


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Slices of all blocks, (slices,), in order: from ``start`` on the server has the settings of the arm or, where not
    ``is_arm``, of the control; ``begin`` to ``end`` counts. In seconds since the run began.
    """

    start: Array
    begin: Array
    end: Array
    block: NDArray[np.intp]
    is_arm: NDArray[np.bool_]

    @property
    def seconds(self) -> Array:
        return self.end - self.begin

    def mean(self, values: Array) -> Array:
        """By slice, of what there is in each TICK."""
        sums, edges = np.concatenate([[0.0], np.cumsum(values)]) * TICK, np.arange(values.size + 1) * TICK
        return (np.interp(self.end, edges, sums) - np.interp(self.begin, edges, sums)) / self.seconds

    def by_block(self, values: Array, *, is_arm: bool) -> Array:
        """(blocks,), mean over the counted time of all slices of one of the two."""
        mine = self.is_arm == is_arm
        total, seconds = (np.bincount(self.block[mine], each[mine]) for each in (values * self.seconds, self.seconds))
        return np.asarray(total[1:] / seconds[1:])


def plan_switches(seeds: random.Random, length: str) -> tuple[Evidence, Turns]:
    planned, seed = template(length), seeds.randrange(2**31)
    assert planned.method.method == "switchback"
    slots = plan_schedule(planned.arms, blocks=BLOCKS, seed=seed)
    names, seconds, at, rows = sorted(arm.name for arm in planned.arms), planned.experiment.workload.duration, 0.0, []
    slices: dict[tuple[int, str], list[Slice]] = {}
    for block in range(1, BLOCKS + 1):
        steps = plan_steps(planned.method, names, seconds=seconds, seed=turn_seed(seed, block, 0), block=block)
        for number, step in enumerate(steps):
            (arm,), begin, end = step.arms, at + step.guard, at + step.length
            own = Slice(level=0, number=number, started=at, counted=begin, ended=end)
            slices.setdefault((block, arm), []).append(own)
            rows.append((at, begin, end, block, arm == ARM))
            at = end
    runs = tuple(
        replace(make_run(slot), slices=tuple(slices[slot.block, slot.arm]), is_switched=True) for slot in slots
    )
    start, begin, end, block_of, is_arm = np.array(rows, dtype=np.float64).T
    turns = Turns(start=start, begin=begin, end=end, block=block_of.astype(np.intp), is_arm=is_arm == 1)
    return replace(planned, seed=seed, slots=slots, runs=runs, valid=runs), turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """By slice the mean ``latency`` of the probe, what it would be if exactly what the day's rhythm does to it were
    taken out (``known``, of arms that are alike), and the ``load`` beside the probe. ``truth`` is the log ratio of
    latencies of a server that had the one arm's settings all the time to one that had the other's, the mean over the
    blocks.
    """

    turns: Turns
    latency: Array
    known: Array
    load: Array
    truth: float


def measure(planned: Evidence, turns: Turns, day: str, rng: np.random.Generator, *, effect: float) -> Measured:
    """``effect`` is the log ratio of the server's time for a statement, which bears on the queue as well."""
    times = np.arange(0, turns.end[-1], TICK)
    rhythm = np.log(DAYS[day][1](times / 3600 + rng.uniform(-0.5, 0.5)))
    kept = math.exp(-TICK / (60 * MINUTES))
    shocks = rng.normal(0, WANDERS * math.sqrt(1 - kept**2), times.size)
    shocks[0] = rng.normal(0, WANDERS)
    load = rhythm + lfilter([1], [1, -kept], shocks)
    assert planned.levels[0].rate is not None
    own = 1 + rng.normal(size=turns.end.size) / np.sqrt(planned.levels[0].rate * turns.seconds)  # of the probe
    latency, truth = np.exp(queue(load)), 0.0
    by_slice = turns.mean(latency)
    if effect:
        by_arm = np.exp(effect + queue(load + effect))
        by_slice = np.where(turns.is_arm, turns.mean(by_arm), by_slice)
        edges = np.append(turns.start[np.diff(turns.block, prepend=0) > 0], turns.end[-1])
        blocks = [(times >= begin) & (times < end) for begin, end in pairwise(edges)]
        truth = float(np.mean([math.log(by_arm[block].mean() / latency[block].mean()) for block in blocks]))
    return Measured(
        turns=turns,
        latency=by_slice * own,
        known=turns.mean(np.exp(queue(load) - queue(rhythm))) * own,
        load=turns.mean(np.exp(load)),
        truth=truth,
    )


def queue(log_load: Array) -> Array:
    """Log latency, of that at usual load."""
    return np.log1p(-BUSY) - np.log1p(-np.minimum(BUSY * np.exp(log_load), MOST_BUSY))


def compare(planned: Evidence, turns: Turns, latency: Array) -> Comparison:
    values: Values = {}
    sides = {is_arm: turns.by_block(latency, is_arm=is_arm) for is_arm in (True, False)}
    for run in planned.runs:
        values[run.id, LATENCY_MEAN.name, None, ALL] = float(sides[run.slot.arm == ARM][run.slot.block - 1])
    return compare_metric(planned, values, ARM, (LATENCY_MEAN.name, None, ALL), comparisons=planned.comparisons)


def run_days(
    day: str, length: str, *, experiments: int, seed: int, effect: float = 0.0
) -> Iterator[tuple[Evidence, Measured]]:
    seeds, rng = random.Random(seed), np.random.default_rng(seed)
    for _ in range(experiments):
        planned, turns = plan_switches(seeds, length)
        yield planned, measure(planned, turns, day, rng, effect=effect)


def half_width(turns: Turns, latency: Array) -> float:
    """Of the interval of 95 %, as a log ratio; without what it has to bear besides."""
    arm, control = (np.log(turns.by_block(latency, is_arm=side)) for side in (True, False))
    _, sd = mean_and_sd(arm - control)
    return t_quantile(0.975, BLOCKS - 1) * sd / math.sqrt(BLOCKS)


@dataclass(kw_only=True)
class Told:
    """Of experiments: intervals without the truth, half their widths as log ratios, and verdicts "supported"."""

    missed: int = 0
    widths: list[float] = field(default_factory=list)
    supported: int = 0

    def add(self, planned: Evidence, comparison: Comparison, truth: float) -> None:
        assert comparison.low is not None
        assert comparison.high is not None
        self.missed += misses(comparison, truth)
        self.widths.append(math.log(comparison.high / comparison.low) / 2)
        self.supported += judge_claim(planned, comparison, better=Better.LOWER)[0] is Verdict.SUPPORTED

    @property
    def width(self) -> float:
        return float(np.mean(self.widths))


def tell(day: str, length: str, *, experiments: int, seed: int, effect: float = 0.0) -> tuple[Told, float]:
    """What the product says, and the mean half width if what the rhythm does were known exactly."""
    told, known = Told(), []
    for planned, found in run_days(day, length, experiments=experiments, seed=seed, effect=effect):
        told.add(planned, compare(planned, found.turns, found.latency), found.truth)
        known.append(half_width(found.turns, found.known))
    return told, float(np.mean(known))


@pytest.mark.simulated
def test_quick_a_morning_is_no_effect_and_to_know_its_rhythm_gains_nothing() -> None:
    told, known = tell("morning", "2min", experiments=QUICK, seed=1)

    assert told.missed <= most(QUICK, 0.05)
    assert told.width < 1.02 * known


@pytest.mark.slow
@pytest.mark.parametrize("day", DAYS)
def test_intervals_hold_on_every_day_and_in_short_slices_its_rhythm_costs_nothing(day: str) -> None:
    cells, widths = [], {}
    for length in SLICES:
        told, known = tell(day, length, experiments=THOROUGH, seed=2)
        planted, _ = tell(day, length, experiments=THOROUGH, seed=3, effect=EFFECT)
        assert told.missed <= most(THOROUGH, 0.05)
        assert planted.missed <= most(THOROUGH, 0.05)
        assert told.supported <= most(THOROUGH, 0.025)
        if day in SMOOTH:
            assert told.width < {"30s": 1.02, "2min": 1.05, "10min": 1.25}[length] * known
        widths[length] = told.width
        alarms, held = percent(told.missed, THOROUGH), percent(THOROUGH - planted.missed, THOROUGH)
        cells.append(f"{alarms}, {held}, ±{100 * told.width:.1f} (±{100 * known:.1f})")
    assert widths["30s"] < widths["2min"]
    text = f'day = "{DAYS[day][0]}"\ncells = "{" | ".join(cells)}"\n'
    (ROWS / f"daily-{list(DAYS).index(day)}.toml").write_text(text, encoding="utf-8")


def without_load(found: Measured, *, moved: float = 0.0) -> Array:
    """Log ratio of each block at equal load, by the slope of latency on load over the slices of each arm in the other
    blocks; ``moved`` is by how much the load is counted higher in the arm's slices, as a log ratio.
    """
    turns = found.turns
    latency, load = np.log(found.latency), np.log(found.load) + moved * turns.is_arm
    sides = 2 * turns.block - 2 + turns.is_arm
    own = [
        each - (np.bincount(sides, each * turns.seconds) / np.bincount(sides, turns.seconds))[sides]
        for each in (latency, load)
    ]
    differences = [turns.by_block(each, is_arm=True) - turns.by_block(each, is_arm=False) for each in (latency, load)]
    slopes = []
    for block in np.unique(turns.block):
        y, x = (each[turns.block != block] for each in own)
        slopes.append(y @ x / (x @ x))
    return np.asarray(differences[0] - np.array(slopes) * differences[1])


@pytest.mark.slow
def test_an_effect_at_equal_load_is_narrower_and_untrue_where_the_arm_moves_the_load() -> None:
    """Why there is no covariate: where the application waits for answers, an arm moves what it sends."""
    raw, adjusted, moved = Told(), Told(), Told()
    for planned, found in run_days("noon", "2min", experiments=THOROUGH, seed=4):
        raw.add(planned, compare(planned, found.turns, found.latency), 0.0)
        for told, by in ((adjusted, 0.0), (moved, 0.03)):
            told.add(planned, compare_blocks(np.ones(BLOCKS), np.exp(without_load(found, moved=by))), 0.0)

    assert raw.missed <= most(THOROUGH, 0.05)
    assert adjusted.missed <= most(THOROUGH, 0.05)
    assert adjusted.width < 0.75 * raw.width
    assert moved.missed > 0.5 * THOROUGH
