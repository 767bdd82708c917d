"""Defect 24: what arms leave behind of a latency was read from the throughput, which at a fixed rate tells nothing.

The experiment is the one of examples/switchback: a probe sends statements at a rate while the server is switched.
"""

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from calibration.test_01_carry_over import run_blocks, take_turns
from calibration.test_daily_load import Turns, plan_switches
from calibration.trials import Array, Row, conclude_about, misses, most, percent, plan_trial, rate, record
from pgtrial.analysis.effects.comparison import compare_metric
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values, index_values, observe_turns
from pgtrial.analysis.reduction import Reduction
from pgtrial.analysis.slices import describe_slices
from pgtrial.analysis.validity.slices import find_reversal
from pgtrial.findings.record import ALL
from pgtrial.model.metrics import LATENCY_MEAN, QUANTILES
from pgtrial.model.rules import RULES
from pgtrial.model.run import Phase, PhaseName, Slice
from pgtrial.model.verdict import Verdict
from pgtrial.stats.slices import PARTS

BEFORE, NOW = 13, 14  # rules
EXPERIMENTS, AT_REST, IN_CLOSED_LOOP = 30, 120, 20
SLICE = 30.0  # s
LONGER = math.log(1.15)
MARGIN = 0.05  # of the example's claim
MINUTES, WANDERS = 2, 0.05  # time constant and SD with which latencies wander
MEAN, P99 = LATENCY_MEAN.name, QUANTILES[2][0].name


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Latencies are longer by ``effect``, a log ratio, where the work of b lies on them, or of a if not ``is_of_b``,
    which it does after a ``delay`` and with a time constant of ``fade``, both in slices, whoever is at work by then.
    """

    effect: float = 0.0
    fade: float = 0.0
    delay: float = 0.0
    is_of_b: bool = True

    @property
    def truth(self) -> float:
        """Log ratio of a server that has b's settings all the time to one that has a's."""
        return self.effect if self.is_of_b else -self.effect

    def lengthen(self, is_b: NDArray[np.bool_], *, per_slice: float) -> Array:
        """Log latencies by step, of which there are so many in a slice."""
        due = np.concatenate([np.zeros(round(self.delay * per_slice)), is_b == self.is_of_b])[: is_b.size]
        kept = math.exp(-1 / (self.fade * per_slice)) if self.fade else 0.0
        return np.asarray(self.effect * lfilter([1 - kept], [1, -kept], due))


def run_probe(seeds: random.Random, machine: Machine, *, expect: str, metric: str) -> tuple[Evidence, Values]:
    """A live server is switched, and a probe sends statements at a rate, whatever they take."""
    planned, turns = plan_switches(seeds, f"{SLICE:g}s")
    table = planned.experiment.hypothesis.model_copy(update={"expect": expect, "metric": metric})
    planned = replace(planned, experiment=planned.experiment.model_copy(update={"hypothesis": table}))
    rng = np.random.default_rng(planned.seed)
    seconds = np.arange(0, turns.end[-1])
    kept = math.exp(-1 / (60 * MINUTES))
    shocks = rng.normal(0, WANDERS * math.sqrt(1 - kept**2), seconds.size)
    shocks[0] = rng.normal(0, WANDERS)
    is_b = turns.is_arm[np.searchsorted(turns.start, seconds, side="right") - 1]
    logs = machine.lengthen(is_b, per_slice=SLICE) + lfilter([1], [1, -kept], shocks)
    assert planned.levels[0].rate is not None
    ended = rng.uniform(0, turns.end[-1], rng.poisson(planned.levels[0].rate * turns.end[-1]))
    return observe(planned, turns, ended, np.exp(logs[ended.astype(int)]) * rng.exponential(1e-3, ended.size))


CLIENTS, TAKES, SHAPE, STEP = 8, 0.02, 4.0, 0.05  # clients; mean of a transaction in s, gamma; s of the machine


def run_clients(seeds: random.Random, machine: Machine, *, expect: str, metric: str) -> tuple[Evidence, Values]:
    """Servers of two arms take turns, each with clients that send the next transaction when one is answered."""
    planned = plan_trial(seeds, blocks=6, method="interleaved", duration=8, expect=expect, metric=metric, margin=MARGIN)
    rng, at, rows, ended, latencies = np.random.default_rng(planned.seed), 0.0, [], [], []
    slices: dict[tuple[int, str], list[Slice]] = {}
    for block in range(1, 7):
        steps, first = take_turns(planned, block), len(rows)
        for number, step in enumerate(steps):
            own = Slice(level=0, number=number, started=at, counted=at + step.guard, ended=at + step.length)
            slices.setdefault((block, step.arms[0]), []).append(own)
            rows.append((own.started, own.counted, own.ended, block, step.arms[0] == "b"))
            at = own.ended
        mine = np.array(rows[first:])
        moments = np.arange(mine[0, 0], at, STEP)
        is_b = mine[np.searchsorted(mine[:, 0], moments, side="right") - 1, 4] == 1
        lasts = TAKES * np.exp(machine.lengthen(is_b, per_slice=planned.method.slice / STEP))
        for side in (0.0, 1.0):
            begins, ends = mine[mine[:, 4] == side][:, [0, 2]].T
            used = np.concatenate([[0.0], np.cumsum(ends - begins)])  # the arm's own time
            now = rng.uniform(-TAKES, 0, CLIENTS)
            while (now < used[-1]).any():
                place = np.clip(np.searchsorted(used, now, side="right") - 1, 0, begins.size - 1)
                clock = begins[place] + now - used[place]
                step_of = np.clip((clock - mine[0, 0]) / STEP, 0, lasts.size - 1).astype(int)
                took = lasts[step_of] * rng.gamma(SHAPE, 1 / SHAPE, CLIENTS)
                now = now + took
                place = np.searchsorted(used, now, side="right") - 1
                inside = (place >= 0) & (now < used[-1])
                ended.append(begins[place[inside]] + now[inside] - used[place[inside]])
                latencies.append(took[inside])
    start, begin, end, block_of, is_arm = np.array(rows, dtype=np.float64).T
    turns = Turns(start=start, begin=begin, end=end, block=block_of.astype(np.intp), is_arm=is_arm == 1)
    runs = tuple(replace(run, slices=tuple(slices[run.slot.block, run.slot.arm])) for run in planned.runs)
    return observe(replace(planned, runs=runs, valid=runs), turns, np.concatenate(ended), np.concatenate(latencies))


def observe(planned: Evidence, turns: Turns, ended: Array, latency: Array) -> tuple[Evidence, Values]:
    """What the product makes of statements that ended at these moments and took so long, both (n,) in s."""
    parts = turns.begin + turns.seconds * np.arange(PARTS)[:, None] / PARTS
    edges = np.vstack([turns.start, parts]).T.ravel()
    place = np.searchsorted(edges, ended, side="right") - 1
    counts, sums = (
        np.bincount(place, weights, minlength=edges.size).reshape(-1, 1 + PARTS) for weights in (None, latency)
    )
    reduction, runs, values = Reduction(parts={}, washout={}, part_latencies={}, washout_latencies={}), [], {}
    for run in planned.runs:
        mine, key = (
            (turns.block == run.slot.block) & (turns.is_arm == (run.slot.arm == planned.hypothesis_arm)),
            (run.id, 0),
        )
        reduction.parts[key], reduction.part_latencies[key] = counts[mine, 1:].astype(float), sums[mine, 1:]
        reduction.washout[key], reduction.washout_latencies[key] = counts[mine, 0].sum(), sums[mine, 0].sum()
        values[run.id, LATENCY_MEAN.name, None, ALL] = sums[mine, 1:].sum() / counts[mine, 1:].sum()
        own = latency[mine[place // (1 + PARTS)] & (place % (1 + PARTS) > 0)]
        for metric, q in QUANTILES:
            values[run.id, metric.name, None, ALL] = float(np.quantile(own, q))
        block = turns.block == run.slot.block
        window = Phase(name=PhaseName.MEASURE, start=turns.start[block][0], end=turns.end[block][-1], level=0)
        runs.append(replace(run, phases=(window,)))
    evidence = replace(planned, runs=tuple(runs), valid=tuple(runs))
    return evidence, values | index_values(observe_turns(evidence, reduction))


@dataclass(kw_only=True)
class Told:
    """Of experiments: intervals without the truth, half their widths as log ratios, and verdicts."""

    missed: int = 0
    widths: list[float] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def width(self) -> float:
        return 100 * float(np.mean(self.widths))


def judge(
    machine: Machine,
    *,
    experiments: int,
    expect: str = "not-worse",
    metric: str = MEAN,
    run_trial: Callable[..., tuple[Evidence, Values]] = run_probe,
) -> Mapping[int, Told]:
    """By rules, what the product says of the same experiments."""
    seeds, found = random.Random(24), {BEFORE: Told(), NOW: Told()}
    for _ in range(experiments):
        evidence, values = run_trial(seeds, machine, expect=expect, metric=metric)
        arm, key = evidence.hypothesis_arm, (metric, None, ALL)
        for version, told in found.items():
            judged = replace(evidence, rules=RULES[version])
            comparison = compare_metric(judged, values, arm, key, comparisons=judged.comparisons)
            assert comparison.low is not None
            assert comparison.high is not None
            told.missed += misses(comparison, machine.truth)
            told.widths.append(math.log(comparison.high / comparison.low) / 2)
            told.verdicts.append(conclude_about(judged, comparison))
    return found


MACHINES = (
    (Machine(effect=LONGER, fade=0.25), "it fades in ¼ slice"),
    (Machine(effect=LONGER, fade=0.5), "½"),
    (Machine(effect=LONGER, fade=1.0), "1"),
    (Machine(effect=LONGER, delay=0.5), "it comes after ½ slice"),
    (Machine(effect=LONGER, delay=1.0), "1"),
    (Machine(effect=LONGER, delay=2.0), "2"),
    (Machine(effect=LONGER, delay=4.0), "4"),
    (Machine(effect=LONGER, delay=7.0), "7"),
)


@pytest.mark.slow
def test_what_is_left_behind_of_a_latency_is_seen_at_a_rate() -> None:
    texts: dict[int, list[str]] = {BEFORE: [], NOW: []}

    def tell(name: str, found: Mapping[int, Told], *, verdict: Verdict) -> None:
        for version, told in found.items():
            held = percent(len(told.verdicts) - told.missed, len(told.verdicts))
            decided = percent(told.verdicts.count(verdict), len(told.verdicts))
            texts[version].append(f"{name}: the truth in {held} of the intervals, {verdict} in {decided}")

    for machine, name in MACHINES:
        found = judge(machine, experiments=EXPERIMENTS)
        now = found[NOW]
        assert now.verdicts.count(Verdict.SUPPORTED) <= most(EXPERIMENTS, 0.025)
        if machine.fade < 1:
            assert now.missed <= most(EXPERIMENTS, 0.05)
        if machine.delay >= 1:
            assert found[BEFORE].verdicts.count(Verdict.SUPPORTED) > 0.5 * EXPERIMENTS
        tell(name, found, verdict=Verdict.SUPPORTED)
    found = judge(Machine(effect=LONGER, delay=1.0, is_of_b=False), experiments=EXPERIMENTS, expect="better")
    assert found[NOW].verdicts.count(Verdict.REFUTED) <= most(EXPERIMENTS, 0.025)
    tell("a's own, after 1 (truth −13 %, “better by 5 %”)", found, verdict=Verdict.REFUTED)
    found = judge(Machine(effect=LONGER, delay=1.0), experiments=EXPERIMENTS, metric=P99)
    assert found[NOW].missed <= most(EXPERIMENTS, 0.05)
    tell("p99, after 1", found, verdict=Verdict.SUPPORTED)
    at_margin = judge(Machine(effect=math.log1p(MARGIN)), experiments=AT_REST)
    assert at_margin[NOW].missed <= most(AT_REST, 0.05)
    assert at_margin[NOW].verdicts.count(Verdict.SUPPORTED) <= most(AT_REST, 0.025)
    alike = judge(Machine(), experiments=AT_REST)
    assert alike[NOW].missed <= most(AT_REST, 0.05)
    for version, text in texts.items():
        text.append(
            "nothing late, and b worse by exactly the margin: supported in "
            f"{rate(at_margin[version].verdicts.count(Verdict.SUPPORTED), AT_REST)}, the truth outside in "
            f"{rate(at_margin[version].missed, AT_REST)}; as good: supported in "
            f"{rate(alike[version].verdicts.count(Verdict.SUPPORTED), AT_REST)}, the truth outside in "
            f"{rate(alike[version].missed, AT_REST)}, ±{alike[version].width:.1f} % (median "
            f"{100 * np.median(alike[version].widths):.1f})"
        )
    record(
        Row(
            number=24,
            defect="a probe at a rate on a server that is switched every 30 s; b makes latencies 15 % longer, late and "
            "whoever is at work by then (“not worse by 5 %”)",
            before="; ".join(texts[BEFORE]),
            after=f"{'; '.join(texts[NOW])}. Of {EXPERIMENTS} experiments each, and {AT_REST} where nothing is late",
        )
    )


@pytest.mark.simulated
def test_quick_a_debt_of_latency_that_comes_a_slice_late_is_in_the_interval() -> None:
    found = judge(Machine(effect=LONGER, delay=1.0), experiments=3)

    assert (found[BEFORE].missed, found[NOW].missed) == (3, 0)


@pytest.mark.slow
@pytest.mark.parametrize("machine", [Machine(), Machine(effect=LONGER, delay=2.0)])
def test_in_a_closed_loop_latencies_tell_what_throughput_does(machine: Machine) -> None:
    found = judge(machine, experiments=IN_CLOSED_LOOP, run_trial=run_clients)

    assert found[NOW].missed <= most(IN_CLOSED_LOOP, 0.05)
    assert found[NOW].width == pytest.approx(found[BEFORE].width, rel=0.1, abs=0.3)  # points


def send_at_a_rate(evidence: Evidence, reduction: Reduction) -> tuple[Evidence, Values, Reduction]:
    """The same machine where as many statements come in each part of the time, whatever they take."""
    found, values = Reduction(parts={}, washout={}, part_latencies={}, washout_latencies={}), {}
    for run in evidence.runs:
        key = (run.id, 0)
        seconds = np.array([[each.seconds] for each in run.slices])
        counts = np.repeat(PER_SECOND * seconds / PARTS, PARTS, axis=1)
        washout = PER_SECOND * sum(each.counted - each.started for each in run.slices)
        found.parts[key], found.part_latencies[key] = counts, TAKES * counts**2 / reduction.parts[key]
        found.washout[key], found.washout_latencies[key] = washout, TAKES * washout**2 / reduction.washout[key]
        values[run.id, MEAN, None, ALL] = found.part_latencies[key].sum() / counts.sum()
    table = evidence.experiment.hypothesis.model_copy(update={"metric": MEAN})
    asked = replace(evidence, experiment=evidence.experiment.model_copy(update={"hypothesis": table}))
    return asked, values | index_values(observe_turns(asked, found)), found


def count_reversals(seeds: random.Random, *, experiments: int, delay: float, of: str, duration: int) -> dict[int, int]:
    """By rules, how many experiments on the same machine are invalid for arms that turn with the length of slices."""
    found = {THROUGHPUT_ALONE: 0, LATENCIES: 0}
    for _ in range(experiments):
        planned, _, machine = run_blocks(seeds, blocks=6, fade=0.0, delay=delay, of=of, duration=duration)
        evidence, values, reduction = send_at_a_rate(planned, machine)
        for version in found:
            judged = replace(evidence, rules=RULES[version])
            comparison = compare_metric(judged, values, "b", (MEAN, None, ALL), comparisons=1)
            slices = describe_slices(judged, reduction)
            assert slices is not None
            assert comparison.ratio is not None
            found[version] += find_reversal(slices.arms[0], comparison.ratio, margin=judged.margin)
    return found


PER_SECOND = 100.0
THROUGHPUT_ALONE, LATENCIES = 14, 15  # rules, by what slices are described


@pytest.mark.simulated
@pytest.mark.parametrize(("delay", "reversed_now"), [(0.0, 0), (1.0, 5)])
def test_quick_a_cost_of_latency_that_looks_like_a_gain_in_short_slices_is_seen_at_a_rate(
    delay: float, reversed_now: int
) -> None:
    found = count_reversals(random.Random(24), experiments=5, delay=delay, of="b", duration=10)

    assert found == {THROUGHPUT_ALONE: 0, LATENCIES: reversed_now}


@pytest.mark.slow
def test_equal_arms_are_called_reversed_at_a_rate_no_more_often_than_the_interval_says() -> None:
    found = count_reversals(random.Random(5), experiments=AT_REST, delay=0.0, of="neither", duration=4)

    assert found[LATENCIES] <= most(AT_REST, 0.05)
