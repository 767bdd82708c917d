"""Experiments as the product plans, schedules and judges them, with runs whose numbers the test makes up.

The plan's seed is drawn for each experiment, as for every user. Nothing of the order, the slices, the estimate or the
verdict is done again here: what a simulation adds is the machine, and the truth.
"""

import random
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from gym.scores import wilson
from numpy.typing import NDArray
from scipy import stats

from pgtrial.analysis.effects.claim import claims_of
from pgtrial.analysis.effects.comparison import compare_metric
from pgtrial.analysis.effects.verdict import judge_claim
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.design.levels import load_levels
from pgtrial.design.methods import choose_method
from pgtrial.design.plan import plan_schedule
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.findings.record import ALL
from pgtrial.model.metric import Better
from pgtrial.model.rules import CURRENT
from pgtrial.model.run import RunRow, RunState, Slot
from pgtrial.model.verdict import Verdict
from pgtrial.stats.base import Comparison
from pgtrial.stats.power import MoreBlocks

Array = NDArray[np.float64]
ROWS = Path(__file__).parent / "rows"
TPS = "pgbench.tps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of the table in docs/statistics.md: what the test measured of one simulation, judged as it was and as it
    is.

    ``audit``: figures of the audit, of machines of its own. ``beyond``: what of ``after`` is above its nominal rate by
    more than chance, for the list in docs/exceptions.md.
    """

    number: int
    defect: str
    before: str
    after: str
    audit: str = ""
    beyond: str = ""


def record(row: Row) -> None:
    """Keep a line of the table; ``tools/generate_docs.py`` puts it into the page."""
    text = f'defect = "{row.defect}"\n'
    if row.audit:
        text += f'audit = "{row.audit}"\n'
    text += f'before = "{row.before}"\nafter = "{row.after}"\n'
    if row.beyond:
        text += f'beyond = "{row.beyond}"\n'
    (ROWS / f"{row.number:02d}.toml").write_text(text, encoding="utf-8")


def percent(count: float, of: int) -> str:
    return f"{100 * count / of:.1f} %"


def rate(count: float, of: int) -> str:
    """A share with the interval of 95 % that simulation leaves it: "4.2 % (3.1–5.6)"."""
    low, high = wilson(count, of)
    return f"{percent(count, of)} ({max(0.0, 100 * low):.1f}–{100 * high:.1f})"


def most(experiments: int, probability: float) -> int:
    """Cases that a right method exceeds in one of ten thousand tests."""
    return int(stats.binom.ppf(0.9999, experiments, probability))


def power(experiments: int, probability: float, *, truth: float) -> float:
    """Probability with which a method whose cases are as frequent as ``truth`` exceeds ``most``: how sharp that is."""
    return float(stats.binom.sf(most(experiments, probability), experiments, truth))


def spare_blocks_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not find the blocks still needed, by which no verdict goes, and which take most of the time."""
    for module in ("analysis.effects.estimate", "stats.power"):
        monkeypatch.setattr(
            f"pgtrial.{module}.blocks_needed", lambda *_, **__: MoreBlocks(blocks=None, reachable=False)
        )


TEXT = """\
format = 1

[experiment]
name = "trial"

[hypothesis]
claim = "b is not worse than a"
arm = "b"
metric = "{metric}"
expect = "{expect}"
margin = "{margin}%"
confidence = {confidence}

[workload]
mix = "simple-update"
clients = 8
duration = "{duration}s"

[arms.a.postgresql]
commit_delay = 0

[arms.b.postgresql]
commit_delay = 10
{more}
[design]
method = "{method}"
blocks = {blocks}
placebo = {placebo}
stop = "{stop}"
"""


@cache
def _template(**design: object) -> Evidence:
    return evidence_of(Experiment.model_validate(tomllib.loads(TEXT.format(**design))))


def evidence_of(experiment: Experiment) -> Evidence:
    """Its evidence before the seed is drawn, without runs."""
    arms, levels = resolve_arms(experiment), load_levels(experiment.workload)
    return Evidence(
        folder=Path(),
        experiment=experiment,
        meta={},
        arms=arms,
        levels=levels,
        slots=(),
        method=choose_method(experiment, arms, levels, None),
        seed=0,
        rules=CURRENT,
        attempts_before=None,
        runs=(),
        valid=(),
        events=(),
        settings={},
        fingerprints={},
        fingerprints_after={},
        caveats=(),
        is_provisional=False,
    )


def plan_trial(
    seeds: random.Random,
    *,
    expect: str = "not-worse",
    margin: float = 0.03,
    confidence: float = 0.95,
    blocks: int = 6,
    method: str = "blocks",
    placebo: bool = False,
    duration: int = 10,
    stop: str = "never",
    attempts_before: int | None = None,
    more: int = 0,
    metric: str = TPS,
) -> Evidence:
    """An experiment with all its runs done, ``more`` arms beside a and b; what was measured is up to the test."""
    template = _template(
        expect=expect,
        margin=f"{100 * margin:g}",
        confidence=confidence,
        blocks=blocks,
        method=method,
        placebo=str(placebo).lower(),
        duration=duration,
        stop=stop,
        metric=metric,
        more="".join(f"\n[arms.c{number}.postgresql]\ncommit_delay = {20 + number}\n" for number in range(more)),
    )
    seed = seeds.randrange(2**31)
    slots = plan_schedule(template.arms, blocks=blocks, seed=seed)
    runs = tuple(make_run(slot) for slot in slots)
    return replace(template, seed=seed, slots=slots, runs=runs, valid=runs, attempts_before=attempts_before)


def make_run(slot: Slot, *, number: int | None = None, state: RunState = RunState.DONE) -> RunRow:
    return RunRow(
        id=slot.number if number is None else number,
        slot=slot,
        attempt=1,
        state=state,
        started=0.0,
        ended=1.0,
        reason="",
    )


def take_blocks(evidence: Evidence, blocks: int) -> Evidence:
    """The experiment as it is after its first blocks, the others still to come."""
    runs = tuple(run for run in evidence.runs if run.slot.block <= blocks)
    is_provisional = evidence.rules.is_provisional and len(runs) < len(evidence.slots)
    return replace(evidence, runs=runs, valid=runs, is_provisional=is_provisional)


def observe(evidence: Evidence, log_speeds: Mapping[int, float]) -> Values:
    """Throughput of each run, by the number of its slot."""
    return {(run.id, TPS, None, ALL): float(np.exp(log_speeds[run.slot.number])) for run in evidence.valid}


def second_runs(evidence: Evidence) -> Array:
    """(slots,) 1 for runs at the second place of their block or later, else 0, in the order of the slots."""
    return np.array([float(slot.position > 1) for slot in evidence.slots])


def compare(evidence: Evidence, values: Values) -> Comparison:
    """The comparison of the claim's arm, as its effect shows it."""
    return compare_metric(evidence, values, "b", (TPS, None, ALL), comparisons=evidence.comparisons)


def conclude(evidence: Evidence, comparison: Comparison) -> Verdict:
    return judge_claim(evidence, comparison, better=Better.HIGHER)[0]


def conclude_about(evidence: Evidence, comparison: Comparison) -> Verdict:
    """As ``conclude``, of the metric that the claim names."""
    (claim,) = claims_of(evidence)
    return judge_claim(evidence, comparison, better=claim.metric.better, claim=claim)[0]


def misses(comparison: Comparison, log_ratio: float) -> bool:
    """Whether the interval is there and does not hold the true log ratio."""
    if comparison.low is None or comparison.high is None:
        return False
    return not comparison.low <= np.exp(log_ratio) <= comparison.high
