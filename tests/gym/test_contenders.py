"""Each contender on series made by hand, and pgtrial's against what the product itself concludes."""

import math
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from gym.contenders import CONTENDERS, otava
from gym.contenders.benchstat import two_sided_p
from gym.contenders.pgtrial import MARGIN, Pgtrial, Series, compare, conclude, plan_of, shifted
from gym.machine import Measured, Runs
from scipy import stats

from calibration.test_04_failures import CASES
from calibration.test_04_failures import simulate as simulate_failures
from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.effects.estimate import estimate_primary
from pgtrial.analysis.effects.failures import bound_primary
from pgtrial.analysis.effects.verdict import judge_claim
from pgtrial.analysis.evidence import read_evidence
from pgtrial.model.metric import Better
from pgtrial.model.run import RunState
from pgtrial.model.verdict import Verdict
from pgtrial.stats.equivalence import judge
from pgtrial.stats.fade import Turns, bound_fade
from pgtrial.stats.failures import bound_failures
from pgtrial.stats.paired import compare_blocks
from support import EXPERIMENT, Simulation, write_result_folder
from support.programs import skip_for_want

BY_NAME = {contender.name: contender for contender in CONTENDERS}


def series(size, ratio):
    """Two experiments with a noise of half a per cent, the same in both arms but for its order."""
    noise = 1 + 0.005 * np.sin(np.arange(size) * 2.4)
    control = 100 * np.stack([noise, noise[::-1]])
    treated = 100 * ratio * np.stack([np.roll(noise, 1), np.roll(noise, 2)])
    return Measured(
        control=control,
        treated=treated,
        after=np.tile(np.arange(size) % 2 == 0, (2, 1)),
        failed=np.zeros((2, size), dtype=np.intp),
        times=np.arange(1, size + 1) * 20.0,
    )


def needed(name):
    if name == "Apache Otava" and not otava.is_installed():
        skip_for_want("Apache Otava", "tools/otava.sh")
    return BY_NAME[name]


@pytest.mark.parametrize("name", BY_NAME)
def test_a_fifth_slower_is_seen_and_equal_arms_are_not_told_apart(name):
    contender = needed(name)
    size = max(contender.sizes)
    for ratio, direction in ((0.8, -1), (1.0, 0)):
        (answer,) = contender.answers(series(size, ratio), planned=size, ratios=(1.0,))
        assert answer.direction.tolist() == [direction] * 2


@pytest.mark.parametrize("name", BY_NAME)
def test_an_effect_may_be_planted_before_or_after_measuring(name):
    contender = needed(name)
    size = max(contender.sizes)
    for ratio in (0.99, 0.8):
        (planted,) = contender.answers(series(size, 1.0), planned=size, ratios=(ratio,))
        (measured,) = contender.answers(series(size, ratio), planned=size, ratios=(1.0,))
        assert planted.direction.tolist() == measured.direction.tolist()
        assert (planted.low is None) == (measured.low is None)
        if planted.low is not None:
            assert planted.low == pytest.approx(measured.low)
            assert planted.high == pytest.approx(measured.high)
        for claim, verdicts in planted.verdicts.items():
            assert verdicts.tolist() == measured.verdicts[claim].tolist()


@pytest.mark.parametrize("name", BY_NAME)
def test_a_schedule_has_as_many_observations_of_each_arm_as_asked_for(name):
    contender = BY_NAME[name]
    schedule = contender.schedule(max(contender.sizes), 2, np.random.default_rng(1))

    assert schedule.observations == max(contender.sizes)
    for arm in (0, 1):
        assert {len(set(schedule.observation[row == arm])) for row in schedule.arm} == {max(contender.sizes)}
    assert (schedule.start <= schedule.counted).all()
    assert (schedule.counted < schedule.end).all()


@pytest.mark.parametrize("count", [4, 6, 10])
def test_p_of_benchstat_is_exact(count):
    rng = np.random.default_rng(2)
    for _ in range(5):
        one, other = rng.normal(size=(2, count))
        found = stats.mannwhitneyu(one, other, method="exact")
        assert two_sided_p(np.array([found.statistic]), count)[0] == pytest.approx(found.pvalue)


def test_the_interval_is_that_of_compare_blocks():
    rng = np.random.default_rng(3)
    for blocks in (2, 5, 6, 12, 20):
        control, treated = rng.lognormal(0, 0.1, (2, blocks))
        for after in (None, rng.permutation(np.arange(blocks) % 2 == 0)):
            whole = compare_blocks(control, treated, after=after, confidence=0.9, may_differ=True)
            lean = compare(np.log(treated) - np.log(control), after, confidence=0.9)
            same = ("ratio", "low", "high", "sd_log_ratio", "information", "degrees", "blocks", "alpha")
            assert [getattr(lean, name) for name in same] == pytest.approx([getattr(whole, name) for name in same])


def test_what_is_left_behind_is_borne_as_in_the_product():
    rng = np.random.default_rng(4)
    washout, early, late = rng.normal([[0.04], [0.02], [0.01]], 0.005, (3, 12))
    turns = Turns(washout=washout, early=early, late=late, guard=0.5, counted=0.5)
    counted = (early + late) / 2
    windows = np.stack([washout, early, late])
    none = np.zeros(12, dtype=np.intp)
    series = Series(log_ratios=counted, after=None, failed=none, turns=windows, guard=0.5, slice=1.0)

    found = series.at(12, confidence=0.95).comparison
    whole = compare_blocks(np.ones(12), np.exp(counted))
    assert (found.low, found.high) == pytest.approx((bound_fade(whole, turns).low, whole.high))
    assert found.low < whole.low


@pytest.mark.parametrize("placebo", [False, True])
@pytest.mark.parametrize("stop", ["never", "decision"])
@pytest.mark.parametrize("gain", [1.0, 1.03, 1.2])
def test_the_verdict_is_that_of_an_analysed_folder(tmp_path, gain, stop, placebo):
    """The same blocks, once as numbers in the gym, once as a result folder that the product analyses."""
    lines = ["placebo = true"] * placebo + [f'stop = "{stop}"']
    text = EXPERIMENT.replace("placebo = true", "\n".join(lines)).replace("blocks = 6", "blocks = 12")
    text = text.replace('margin = "5%"', f"margin = {MARGIN}")
    truth = Simulation(tps={"on": 500.0, "off": 500.0 * gain, "placebo": 500.0}, seed=5)
    folder = write_result_folder(tmp_path / "folder", text=text, simulation=truth)
    findings, evidence = analyze(folder), read_evidence(folder)
    effect = next(
        one for one in findings.effects if (one.arm, one.metric, one.load_level) == ("off", "pgbench.tps", "all")
    )
    ratios = np.array([math.nan if ratio is None else ratio for ratio in effect.block_ratios])
    after = np.array([run.slot.position > control.slot.position for control, run in evidence.pairs("off")])
    plan = plan_of("blocks", 12, stops=stop == "decision", placebo=placebo)
    confidence = evidence.confidence_at(12)
    assert plan.looks == evidence.looks
    arms = ["", *(slot.arm for slot in evidence.slots)]
    owners = {"": 0, "off": 1, "on": -1, "placebo": -1}
    last = dict(zip([slot.number for slot in evidence.slots], [owners[arm] for arm in arms], strict=False))
    before = np.array([last[run.slot.number] - last[control.slot.number] for control, run in evidence.pairs("off")]) / 2
    series = Series(
        log_ratios=np.log(ratios),
        after=after,
        before=before,
        runs=runs_of(evidence, findings) if placebo else None,
        failed=np.zeros(12, dtype=np.intp),
    )
    found = series.at(12, confidence=confidence)
    _, verdict = conclude([found], evidence.experiment.hypothesis.expect, shifted(MARGIN, 0.0))

    assert verdict is findings.hypothesis.verdict
    assert math.exp(found.comparison.carry_over) == pytest.approx(effect.carry_over)
    assert (found.comparison.low, found.comparison.high) == pytest.approx((effect.low, effect.high))


def runs_of(evidence, findings):
    """All of an experiment, as the gym has them."""
    rates = {
        one.run: one.value
        for one in findings.observations
        if (one.metric, one.scenario, one.load_level) == ("pgbench.tps", None, "all")
    }
    runs = sorted(evidence.valid, key=lambda run: run.slot.number)
    numbers = {"on": 0, "off": 1, "placebo": 2}
    return Runs(
        log_rates=np.log([[rates[run.id] for run in runs]]),
        arm=np.array([[numbers[run.slot.arm] for run in runs]], dtype=np.int8),
        observation=np.array([run.slot.block - 1 for run in runs]),
    )


@pytest.mark.parametrize("method", ["blocks", "interleaved", "duet"])
def test_failures_decide_as_in_the_product(method):
    """The gym went on with the interval alone where one arm fails so much more often that nothing is decided, and in
    turns and duets as if nothing had failed.
    """
    seeds, decides = random.Random(9), set()
    for _ in range(60):
        evidence, values = simulate_failures(seeds, replace(CASES[0], method=method), blocks=6)
        evidence = replace(evidence, rules=replace(evidence.rules, bears_carry_over=False))
        effect = estimate_primary(evidence, values)
        bounded = bound_primary(evidence, effect)
        wanted, _ = judge_claim(evidence, effect.comparison, better=Better.HIGHER, bounded=bounded)
        pairs = evidence.pairs("b")
        failed = Counter(
            run.slot.block for run in evidence.runs if run.state is RunState.INVALID and run.slot.arm == "b"
        )
        measured = Measured(
            control=np.ones((1, 6)),
            treated=np.array([effect.effect.block_ratios]),
            after=np.array([[run.slot.position > control.slot.position for control, run in pairs]]),
            failed=np.array([[failed[run.slot.block] for _, run in pairs]]),
            times=np.arange(1, 7) * 20.0,
        )
        (answer,) = Pgtrial(method=method).answers(measured, planned=6, ratios=(1.0,))
        borne = effect.comparison if bounded is None else bounded.comparison
        low, high = (-math.inf, math.inf) if borne.low is None else (borne.low, borne.high)

        assert answer.verdicts["not-worse"][0] == {Verdict.SUPPORTED: 1, Verdict.REFUTED: -1}.get(wanted, 0)
        assert (answer.low[0], answer.high[0]) == pytest.approx((low, high))
        decides.add(bounded is not None and bounded.decides)
    assert decides == {True, False}


def test_failures_can_hide_that_arms_are_not_equivalent():
    """Equivalence is shown by two one-sided tests, which bear what failures may have done as the interval does."""
    values = 0.002 * np.sin(np.arange(20) * 2.4)
    plain = compare(values, None, confidence=0.95)
    bounds = shifted(MARGIN, 0.0)
    wide = bound_failures(replace(plain, sd_log_ratio=0.002), np.linspace(-0.2, 0.2, 20), share=0.3)

    assert judge(plain, expect="equivalent", bounds=bounds, better=Better.HIGHER) is Verdict.SUPPORTED
    assert wide.low < math.exp(bounds[0])
    for claim in ("equivalent", "different"):
        assert judge(wide, expect=claim, bounds=bounds, better=Better.HIGHER) is Verdict.INCONCLUSIVE


def test_whoever_looks_too_early_gets_an_interval_that_holds_whenever_one_looks():
    (early,) = Pgtrial(method="blocks").answers(series(8, 1.0), planned=20, ratios=(1.0,))
    (late,) = Pgtrial(method="blocks").answers(series(8, 1.0), planned=8, ratios=(1.0,))

    assert (early.low < late.low).all()
    assert (early.high > late.high).all()


def test_few_blocks_decide_no_claim():
    few = series(5, 0.8)
    (answer,) = Pgtrial(method="blocks").answers(few, planned=5, ratios=(1.0,))

    assert {int(verdict) for verdicts in answer.verdicts.values() for verdict in verdicts} == {0}
