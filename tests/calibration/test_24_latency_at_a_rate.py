"""Defect 24: what arms leave behind of a latency was read from the throughput, which at a fixed rate tells nothing.

The experiment is the one of examples/switchback: a probe sends statements at a rate while the server is switched.
"""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from scipy.signal import lfilter

from calibration.test_daily_load import ARM, Turns, plan_switches
from calibration.trials import Array, Row, conclude_about, misses, most, percent, record
from pgtrial.analysis.effects.estimate import compare_metric
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values, index_values, observe_turns
from pgtrial.analysis.reduction import Reduction
from pgtrial.findings.record import ALL
from pgtrial.model.metrics import LATENCY_MEAN, QUANTILES
from pgtrial.model.rules import RULES
from pgtrial.model.run import Phase, PhaseName
from pgtrial.model.verdict import Verdict
from pgtrial.stats.slices import PARTS

BEFORE, NOW = 13, 14  # rules
MARGIN = 0.05  # of the example's claim
SLICE = 30.0  # s
MINUTES, WANDERS = 2, 0.05  # time constant and SD with which latencies wander


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Latencies are longer by ``effect``, a log ratio, where the work of ``arm`` lies on them, which it does after a
    ``delay`` and with a time constant of ``fade``, both in slices: whichever arm is at work by then. ``tail``: only
    those above the median, and by twice as much.
    """

    effect: float = 0.0
    fade: float = 0.0
    delay: float = 0.0
    is_arm: bool = True

    @property
    def truth(self) -> float:
        """Log ratio of a server that has the arm's settings all the time to one that has the control's."""
        return self.effect if self.is_arm else -self.effect

    def lengthen(self, at_work: Array) -> Array:
        """Log latencies by second; ``at_work`` is whether the server has the arm's settings."""
        due = np.concatenate([np.zeros(round(self.delay * SLICE)), at_work == self.is_arm])[: at_work.size]
        kept = math.exp(-1 / (self.fade * SLICE)) if self.fade else 0.0
        return np.asarray(self.effect * lfilter([1 - kept], [1, -kept], due))


def run_trial(seeds: random.Random, machine: Machine, *, expect: str, metric: str) -> tuple[Evidence, Values]:
    """The plan, and what the product observes of each statement's time."""
    planned, turns = plan_switches(seeds, f"{SLICE:g}s")
    table = planned.experiment.hypothesis.model_copy(update={"expect": expect, "metric": metric})
    planned = replace(planned, experiment=planned.experiment.model_copy(update={"hypothesis": table}))
    rng = np.random.default_rng(planned.seed)
    seconds = np.arange(0, turns.end[-1])
    kept = math.exp(-1 / (60 * MINUTES))
    shocks = rng.normal(0, WANDERS * math.sqrt(1 - kept**2), seconds.size)
    shocks[0] = rng.normal(0, WANDERS)
    at_work = turns.is_arm[np.searchsorted(turns.start, seconds, side="right") - 1]
    logs = machine.lengthen(at_work) + lfilter([1], [1, -kept], shocks)
    assert planned.levels[0].rate is not None
    ended = np.sort(rng.uniform(0, turns.end[-1], rng.poisson(planned.levels[0].rate * turns.end[-1])))
    return observe(planned, turns, ended, np.exp(logs[ended.astype(int)]) * rng.exponential(1e-3, ended.size))


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
        mine, key = (turns.block == run.slot.block) & (turns.is_arm == (run.slot.arm == ARM)), (run.id, 0)
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
    machine: Machine, *, experiments: int, expect: str, metric: str = LATENCY_MEAN.name
) -> Mapping[int, Told]:
    """By rules, what the product says of the same experiments."""
    seeds, found = random.Random(24), {BEFORE: Told(), NOW: Told()}
    for _ in range(experiments):
        evidence, values = run_trial(seeds, machine, expect=expect, metric=metric)
        for version, told in found.items():
            judged = replace(evidence, rules=RULES[version])
            comparison = compare_metric(judged, values, ARM, (metric, None, ALL), comparisons=judged.comparisons)
            assert comparison.low is not None
            assert comparison.high is not None
            told.missed += misses(comparison, machine.truth)
            told.widths.append(math.log(comparison.high / comparison.low) / 2)
            told.verdicts.append(conclude_about(judged, comparison))
    return found
