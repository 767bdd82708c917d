"""Arms that end one by one, each at the first look at which the claim is decided for it: how often any of them gets a
false verdict, and how many runs that saves.

The experiment is planned by the product, each look is the product's, and the verdict is that of the report, about each
arm in turn. What is added is the machine, and the order of its attempts, of which a test shows that it is the engine's.
"""

import asyncio
import math
import random
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from calibration.trials import ROWS, TEXT, TPS, evidence_of, make_run, most, percent, rate
from pgtrial.analysis.effects.estimate import estimate_primary
from pgtrial.analysis.effects.failures import bound_primary
from pgtrial.analysis.effects.parts import estimate_parts
from pgtrial.analysis.effects.stopping import StopDecision, decide_each
from pgtrial.analysis.effects.verdict import judge_hypothesis
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.design.plan import Plan, due_slots, plan_schedule
from pgtrial.engine.collect import InvalidRunError
from pgtrial.engine.experiment import pending_slots
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.findings.record import ALL
from pgtrial.model.run import RunRow, RunState, Slot
from pgtrial.model.verdict import Verdict
from pgtrial.stats.power import MoreBlocks
from support.killing import Killed
from support.schedules import make_schedule, resume_schedule

EXPERIMENTS, MARGIN, NOMINAL = 1000, 0.03, 0.05  # either verdict is false: 2.5 % each
RUN_SD = 0.02 / math.sqrt(2)  # of a block's log ratio 2 %
ON_BOUND = -math.log1p(MARGIN)
P99 = "pgbench.latency_p99"
Values = dict[tuple[int, str, str | None, int | str], float]


def nobody(_slot: Slot, _state: float) -> bool:
    return False


def b_where_slow(slot: Slot, state: float) -> bool:
    return slot.arm == "b" and state < -0.5


def control_after_six_blocks(slot: Slot, state: float) -> bool:
    return slot.arm == "a" and slot.block > 6 and state < 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Arms on the bound of the claim, of which either verdict is false, but for those with ``effects`` of their own.

    ``drift``: by how much each run is slower than the one before, or faster, in SD of a run. ``dies``: which attempts
    do, by the state of the machine in SD. ``is_killed``: pgtrial is, once, in one of the first eight blocks.
    ``also``: the claim is about the 99th percentile as well, in which the arms are alike, and at two numbers of
    clients. ``looks_always``: every look takes the interval that holds whenever one looks, in place of a level.
    """

    text: str
    more: int = 1
    blocks: int = 12
    looks: int | None = 4  # after 6, 9 and 12 of 12 blocks; None: after every block from the sixth
    expect: str = "not-worse"
    effects: Mapping[str, float] = field(default_factory=dict)
    others: float = ON_BOUND
    drift: float = 0.0
    dies: Callable[[Slot, float], bool] = nobody
    is_killed: bool = False
    also: bool = False
    looks_always: bool = False

    def content(self, seed: int) -> dict[str, Any]:
        """The tables of its file."""
        more = "".join(f"\n[arms.c{number}.postgresql]\ncommit_delay = {20 + number}\n" for number in range(self.more))
        design = {"blocks": self.blocks, "method": "blocks", "placebo": "false", "stop": "each-arm"}
        claim = {"metric": TPS, "expect": self.expect, "margin": f"{100 * MARGIN:g}", "confidence": 0.95}
        found = tomllib.loads(TEXT.format(**claim, **design, duration=10, more=more))
        found["design"] |= {"seed": seed, "repeats": 20, **({} if self.looks is None else {"looks": self.looks})}
        if self.also:
            found["hypothesis"]["and"] = [{"metric": P99, "expect": "not-worse", "margin": "5%"}]
            found["workload"]["clients"] = [4, 8]
        return found

    def gain(self, arm: str) -> float:
        return 0.0 if arm == "a" else self.effects.get(arm, self.others)


NULL = Case(text="two arms, a look after every block", looks=None)
SOON = Case(text="two arms, b slower by 20 %", effects={"b": math.log(0.8)})
CASES = (
    NULL,
    Case(text="four arms", more=3),
    SOON,
    Case(text="each run slower by 1 SD than the one before, or faster", drift=1.0),
    Case(text="b dies where the machine is slow", dies=b_where_slow),
    replace(SOON, text="b slower by 20 %; from block 7 on the control dies mostly", dies=control_after_six_blocks),
    Case(text="pgtrial is killed once", is_killed=True),
    Case(text="throughput and 99th percentile, at two loads", also=True),
)
_EQUIVALENT = Case(text="", expect="equivalent", effects={"b": math.log(0.9)}, others=0.0, blocks=20, looks=None)
SAVINGS = (
    replace(_EQUIVALENT, text="two arms, one slower by 10 %, 20 blocks"),
    replace(_EQUIVALENT, text="likewise, by intervals that hold at any time", looks_always=True),
    replace(_EQUIVALENT, text="four arms, one slower by 10 %, 20 blocks", more=3),
    replace(_EQUIVALENT, text="likewise, by intervals that hold at any time", more=3, looks_always=True),
)
QUICK = 12
DECIDED = (Verdict.SUPPORTED, Verdict.REFUTED)


class Machine:
    """What the attempts of a case come to, in the order in which they are made, and what the good ones measure."""

    def __init__(self, case: Case, seed: int) -> None:
        self.case, self.values, self.attempts = case, Values(), 0
        self._rng = np.random.default_rng(seed)
        self._drift = self._rng.choice([-1, 1]) * case.drift * RUN_SD
        self._killed_in = self._rng.integers(1, 8 * (case.more + 2)) if case.is_killed else 0

    def attempt(self, slot: Slot, run: int) -> RunState:
        state = self._rng.normal()
        self.attempts += 1
        if self.attempts == self._killed_in:
            return RunState.INTERRUPTED
        if self.case.dies(slot, state):
            return RunState.INVALID
        log_speed = RUN_SD * state + self._drift * self.attempts + self.case.gain(slot.arm)
        self.values[run, TPS, None, ALL] = math.exp(log_speed)
        if self.case.also:
            self.values[run, P99, None, ALL] = math.exp(RUN_SD * self._rng.normal())
        return RunState.DONE


def plan(case: Case, seed: int) -> Evidence:
    template = evidence_of(Experiment.model_validate(case.content(seed)))
    slots = plan_schedule(template.arms, blocks=case.blocks, seed=seed)
    return replace(template, seed=seed, slots=slots, is_provisional=case.looks_always)


def run_one_by_one(case: Case, seed: int) -> tuple[Evidence, Machine]:
    """An experiment that went on until it was decided for each arm, or to its last block."""
    evidence, machine = plan(case, seed), Machine(case, seed)
    runs: list[RunRow] = []
    for block in range(1, case.blocks + 1):
        for slot in (slot for slot in evidence.slots if slot.block == block):
            is_done = False
            while not is_done:
                state = machine.attempt(slot, len(runs) + 1)
                runs.append(make_run(slot, number=len(runs) + 1, state=state))
                is_done = state is RunState.DONE
        valid = tuple(run for run in runs if run.state is RunState.DONE)
        evidence = replace(evidence, runs=tuple(runs), valid=valid)
        if block not in evidence.looks:
            continue
        decision = decide_each(evidence, machine.values)
        settled = decision.settled
        evidence = replace(evidence, settled=settled, slots=due_slots(evidence.slots, settled))
        if decision.stop:
            break
    return evidence, machine


def judge_as_reported(evidence: Evidence, machine: Machine, arm: str) -> Verdict:
    """The verdict of the report, were the claim about this arm."""
    hypothesis = evidence.experiment.hypothesis.model_copy(update={"arm": arm})
    experiment = evidence.experiment.model_copy(update={"hypothesis": hypothesis})
    about = replace(evidence, experiment=experiment)
    primary, parts = estimate_primary(about, machine.values), estimate_parts(about, machine.values)
    return judge_hypothesis(about, primary, (), None, bound_primary(about, primary), parts=parts)[0].verdict


@dataclass(slots=True, kw_only=True)
class Count:
    """Experiments in which some arm got a false verdict, and what all of them had: verdicts, runs, blocks."""

    supported: int = 0
    refuted: int = 0
    false: int = 0
    verdicts: int = 0
    runs: int = 0
    to_the_end: int = 0  # runs if every arm were run until the last one is decided

    def take(self, evidence: Evidence) -> None:
        self.verdicts += len(evidence.settled)
        self.runs += len(evidence.valid)
        self.to_the_end += max(run.slot.block for run in evidence.valid) * len(evidence.arms)


def count(case: Case, experiments: int) -> Count:
    """Every arm that was settled has the verdict of the report that ended it, whatever came later."""
    seeds, found = random.Random(case.text), Count()
    for _ in range(experiments):
        evidence, machine = run_one_by_one(case, seeds.randrange(2**31))
        names = [arm.name for arm in evidence.candidates]
        told = {name: judge_as_reported(evidence, machine, name) for name in names}
        assert {name for name in names if told[name] is not Verdict.INCONCLUSIVE} == set(evidence.settled)
        on_bound = [told[name] for name in names if case.gain(name) == ON_BOUND]
        found.supported += Verdict.SUPPORTED in on_bound
        found.refuted += Verdict.REFUTED in on_bound
        found.false += any(each is not Verdict.INCONCLUSIVE for each in on_bound)
        found.take(evidence)
    return found


@pytest.fixture(autouse=True)
def _without_forecasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that are still needed, and tests over the orders, take most of the time and are in no verdict."""

    def unknown(*_: object, **__: object) -> MoreBlocks:
        return MoreBlocks(blocks=None, reachable=False)

    monkeypatch.setattr("pgtrial.analysis.effects.estimate.blocks_needed", unknown)
    monkeypatch.setattr("pgtrial.stats.power.blocks_needed", unknown)
    monkeypatch.setattr("pgtrial.analysis.effects.stopping._forecast", unknown)
    monkeypatch.setattr("pgtrial.stats.paired.randomisation_p", lambda *_: 1.0)


def run_by_engine(case: Case, seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Evidence:
    """The same by the engine's schedule; who was killed resumes."""
    machine = Machine(case, seed)

    async def does(rows: Sequence[RunRow], _most_disturbed: float | None) -> None:
        (run,) = rows
        state = machine.attempt(run.slot, run.id)
        if state is RunState.INVALID:
            raise InvalidRunError("it died")
        if state is RunState.INTERRUPTED:
            raise Killed

    def decide(folder: Path, planned: Plan) -> StopDecision:
        return decide_each(replace(read_evidence(folder, planned), is_provisional=False), machine.values)

    monkeypatch.setattr("pgtrial.engine.schedule.decide_stop", decide)
    schedule = make_schedule(case.content(seed), folder, does=does)
    try:
        asyncio.run(schedule.run(schedule.planned.slots))
    except Killed:
        schedule.state.close()
        schedule = resume_schedule(folder, does=does)
        asyncio.run(schedule.run(pending_slots(schedule.planned, schedule.state)))
    schedule.state.close()
    return read_evidence(folder)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text)
def test_the_simulated_attempts_are_those_of_the_engine(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = replace(case, blocks=8)
    by_engine = run_by_engine(case, 5, tmp_path, monkeypatch)
    simulated, _ = run_one_by_one(case, 5)

    assert [(run.slot, run.state) for run in by_engine.runs] == [(run.slot, run.state) for run in simulated.runs]
    assert by_engine.settled == simulated.settled
    assert by_engine.slots == simulated.slots
    assert not by_engine.is_provisional


def test_what_is_not_simulated_is_in_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    case = replace(SOON, blocks=8)
    quick = [run_one_by_one(case, seed)[0].settled for seed in range(2)]
    monkeypatch.undo()

    assert [run_one_by_one(case, seed)[0].settled for seed in range(2)] == quick
    assert all("b" in settled for settled in quick)


def test_a_method_with_twice_the_nominal_rate_fails() -> None:
    assert stats.binom.cdf(most(EXPERIMENTS, NOMINAL), EXPERIMENTS, 2 * NOMINAL) < 0.01


@pytest.mark.parametrize(
    "case",
    [SOON, CASES[5], replace(CASES[5], also=True)],
    ids=["nothing fails", "later failures", "later failures, two metrics"],
)
def test_an_arm_that_is_soon_decided_saves_its_later_runs_and_keeps_its_verdict(case: Case) -> None:
    found = count(case, QUICK)

    assert found.verdicts >= 0.75 * QUICK
    assert found.runs < 0.9 * found.to_the_end
    assert found.false <= most(QUICK, NOMINAL)


@pytest.mark.parametrize("seed", [137, 427])  # in these, runs of all arms tell of a debt that those of two do not
def test_a_look_and_the_report_decide_alike(seed: int) -> None:
    evidence, machine = run_one_by_one(NULL, seed)
    told = {arm.name for arm in evidence.candidates if judge_as_reported(evidence, machine, arm.name) in DECIDED}

    assert told == set(evidence.settled)


def test_an_arm_keeps_its_verdict_whatever_later_runs_tell_of_what_it_leaves() -> None:
    """c0 slows down whatever run comes next, also where others are decided already."""
    case = replace(CASES[1], expect="better", effects={"b": 0.08, "c0": -0.2}, others=0.0)
    seeds, settled, leaves = random.Random(1), 0, Machine.attempt

    class Leaving(Machine):
        last = ""

        def attempt(self, slot: Slot, run: int) -> RunState:
            state = leaves(self, slot, run)
            if self.last == "c0":
                self.values[run, TPS, None, ALL] *= math.exp(-0.05)
            self.last = slot.arm
            return state

    for _ in range(10):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"{__name__}.Machine", Leaving)
            evidence, machine = run_one_by_one(case, seeds.randrange(2**31))
        told = {arm.name: judge_as_reported(evidence, machine, arm.name) for arm in evidence.candidates}
        assert {name for name, verdict in told.items() if verdict is not Verdict.INCONCLUSIVE} == set(evidence.settled)
        settled += len(evidence.settled)
    assert settled > 10


def _write(number: int, case: Case, cells: list[str]) -> None:
    text = f'case = "{case.text}"\ncells = "{" | ".join(cells)}"\n'
    (ROWS / f"arms-{number:02d}.toml").write_text(text, encoding="utf-8")


def _tell_runs(case: Case, found: Count, experiments: int) -> list[str]:
    planned = experiments * case.blocks * (case.more + 2)
    return [
        percent(found.verdicts, experiments * (case.more + 1)),
        f"{found.runs / experiments:.0f} of {planned // experiments}",
        percent(planned - found.runs, planned),
        percent(found.to_the_end - found.runs, found.to_the_end),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text)
def test_some_arm_rarely_gets_a_false_verdict(case: Case) -> None:
    found = count(case, EXPERIMENTS)

    _write(
        CASES.index(case),
        case,
        [rate(each, EXPERIMENTS) for each in (found.supported, found.refuted)] + _tell_runs(case, found, EXPERIMENTS),
    )
    assert found.supported <= most(EXPERIMENTS, NOMINAL / 2)
    assert found.refuted <= most(EXPERIMENTS, NOMINAL / 2)
    assert found.false <= most(EXPERIMENTS, NOMINAL)


@pytest.mark.slow
@pytest.mark.parametrize("case", SAVINGS, ids=lambda case: f"{case.text}, {case.more}")
def test_runs_are_saved_where_one_arm_is_soon_decided(case: Case) -> None:
    experiments, seeds, found = EXPERIMENTS // 10, random.Random(case.more), Count()
    for _ in range(experiments):
        found.take(run_one_by_one(case, seeds.randrange(2**31))[0])

    _write(len(CASES) + SAVINGS.index(case), case, ["", "", *_tell_runs(case, found, experiments)])
    assert found.runs < 0.95 * found.to_the_end
