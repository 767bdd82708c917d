"""Main effects, interactions and curves of planted truths."""

import random
import tomllib
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from calibration.trials import evidence_of, make_run, most
from pgtrial.analysis.effects.attempts import find_excess
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.factors import describe_factors, read_number
from pgtrial.analysis.observations import STEP, Values
from pgtrial.design.plan import plan_schedule
from pgtrial.experiment_file.experiment import Experiment, FactorTable
from pgtrial.findings.message import say
from pgtrial.findings.questions import Factors
from pgtrial.model.arm import Arm, Role
from pgtrial.model.rules import CURRENT, RULES
from pgtrial.model.run import RunRow, RunState
from pgtrial.stats.interval import t_quantile

BLOCKS = 8


def cross(evidence: Evidence, levels: dict[str, list[str]]) -> Evidence:
    """An experiment of these factors, with a run of every combination in each block."""
    tables = {name: FactorTable(levels=tuple(each)) for name, each in levels.items()}
    names = ["-".join(map(str, each)) for each in np.ndindex(*(len(each) for each in levels.values()))]
    arms = tuple(Arm(name=name, role=Role.CONTROL if i == 0 else Role.CANDIDATE) for i, name in enumerate(names))
    first, order = evidence.valid[0], np.random.default_rng(5)
    runs: tuple[RunRow, ...] = tuple(
        replace(first, id=100 * block + i, slot=replace(first.slot, arm=names[at], block=block, number=100 * block + i))
        for block in range(1, BLOCKS + 1)
        for i, at in enumerate(order.permutation(len(names)))
    )
    experiment = evidence.experiment.model_copy(update={"factors": tables, "arms": {}})
    return replace(evidence, experiment=experiment, arms=arms, runs=runs, valid=runs, slots=tuple(r.slot for r in runs))


def place(run: RunRow) -> tuple[int, ...]:
    return tuple(int(part) for part in run.slot.arm.split("-"))


def simulate(evidence: Evidence, truth: NDArray[np.float64], *, noise: float = 0.01) -> Values:
    rng = np.random.default_rng(3)
    blocks = rng.normal(0, 0.3, BLOCKS + 1)  # of the machine, which every arm of a block shares
    return {
        (run.id, "pgbench.tps", None, "all"): float(
            1000 * truth[place(run)] * np.exp(blocks[run.slot.block] + rng.normal(0, noise))
        )
        for run in evidence.valid
    }


def test_two_factors_that_do_not_touch_each_other(evidence: Evidence) -> None:
    crossed = cross(evidence, {"a": ["1", "2"], "b": ["x", "y"]})
    found = describe_factors(crossed, simulate(crossed, np.array([[1.0, 1.2], [1.5, 1.8]])))

    assert found is not None
    a, b = found.mains
    assert (a.factor, a.level, a.base) == ("a", "2", "1")
    assert a.ratio.value == pytest.approx(1.5, rel=0.02)
    assert b.ratio.value == pytest.approx(1.2, rel=0.02)
    (both,) = found.interactions
    assert both.ratio.side(1.0) == 0
    assert "not clear" in say(both.text)
    assert found.curves == ()


def test_an_interaction_is_the_ratio_of_two_effects(evidence: Evidence) -> None:
    crossed = cross(evidence, {"a": ["1", "2"], "b": ["x", "y"]})
    found = describe_factors(crossed, simulate(crossed, np.array([[1.0, 1.0], [1.5, 3.0]])))

    assert found is not None
    (both,) = found.interactions
    assert both.ratio.value == pytest.approx(2.0, rel=0.02)
    assert both.ratio.side(1.0) == 1
    assert say(both.text).startswith("With b = y the effect of a = 2 is another one")
    # The mean of +50 % and +200 % on the log scale.
    assert found.mains[0].ratio.value == pytest.approx((1.5 * 3.0) ** 0.5, rel=0.02)


def test_the_best_of_five_levels_and_those_that_it_cannot_be_told_from(evidence: Evidence) -> None:
    crossed = cross(evidence, {"size": ["256MB", "8MB", "32MB", "64MB", "128MB"]})
    found = describe_factors(crossed, simulate(crossed, np.array([1.3, 1.0, 1.2, 1.31, 1.5])))
    flat = describe_factors(crossed, simulate(crossed, np.array([1.0, 0.6, 0.9, 1.001, 1.0])))

    assert found is not None
    assert flat is not None
    (curve,), (plateau,) = found.curves, flat.curves
    assert [point.levels[0] for point in curve.points] == ["8MB", "32MB", "64MB", "128MB", "256MB"]
    assert (curve.best, curve.among) == ("128MB", ("128MB",))
    assert plateau.among == ("64MB", "128MB", "256MB")
    assert plateau.per_doubling is not None
    assert plateau.per_doubling.side(1.0) == 1


def test_what_is_told_in_steps_may_be_off_by_one_in_every_average(evidence: Evidence) -> None:
    """A difference of two differences has it twice."""
    crossed = cross(evidence, {"a": ["1", "2"], "b": ["x", "y"]})
    truth, step = np.array([[1.0, 1.1], [1.2, 1.32]]), np.log(1.25)
    rng = np.random.default_rng(4)
    told: Values = {
        (run.id, "pgbench.tps", None, "all"): float(truth[place(run)] * np.exp(rng.normal(0, 0.01)))
        for run in crossed.valid
    }
    finely = describe_factors(crossed, told)
    coarsely = describe_factors(
        crossed, {**told, **{(run.id, "pgbench.tps" + STEP, None, "all"): step for run in crossed.valid}}
    )

    assert finely is not None
    assert coarsely is not None
    assert [each.ratio.side(1.0) for each in finely.mains] == [1, 1]
    assert [each.ratio.side(1.0) for each in coarsely.mains] == [0, 0]
    for weight, one, other in (
        (1, finely.mains[0].ratio, coarsely.mains[0].ratio),
        (2, finely.interactions[0].ratio, coarsely.interactions[0].ratio),
    ):
        assert one.low is not None
        assert other.low is not None
        assert np.log(one.low / other.low) == pytest.approx(weight * step)


def test_there_is_nothing_to_say_without_factors_or_complete_blocks(evidence: Evidence) -> None:
    crossed = cross(evidence, {"a": ["1", "2"], "b": ["x", "y"]})

    assert describe_factors(evidence, {}) is None
    assert describe_factors(crossed, {}) is None


def test_one_contrast_in_twenty_experiments_is_a_false_alarm_at_most(evidence: Evidence) -> None:
    crossed = cross(evidence, {"a": ["1", "2"], "b": ["x", "y"]})
    rng, alarms, number = np.random.default_rng(11), 0, 300
    for _ in range(number):
        values: Values = {
            (run.id, "pgbench.tps", None, "all"): float(np.exp(rng.normal(7, 0.1))) for run in crossed.valid
        }
        found = describe_factors(crossed, values)
        assert found is not None
        alarms += asserts(found)

    assert alarms / number < 0.05 + 4 * (0.05 * 0.95 / number) ** 0.5


def test_the_slope_and_pairs_of_levels_hold_together_with_the_effects() -> None:
    """Three levels: two effects against the base, the third pair, and the slope."""
    text = TWO.replace("[0, 10]", "[1, 2, 4]").replace(
        '[factors.b]\nsetting = "work_mem"\nlevels = ["4MB", "8MB"]\n', ""
    )
    experiment = Experiment.model_validate(tomllib.loads(text.format(metric=TPS, blocks=12)))
    evidence = draw(evidence_of(experiment), 3)
    noise = np.random.default_rng(1)
    values: Values = {(run.id, TPS, None, "all"): float(np.exp(noise.normal(7, SD))) for run in evidence.valid}
    found, before = (describe(replace(evidence, rules=RULES[rules]), values) for rules in (15, 14))
    speeds = np.log([[values[run.id, TPS, None, "all"] for run in evidence.runs_of(f"a={n}")] for n in (1, 2, 4)])
    slopes = (speeds[2] - speeds[0]) / 2

    for each, members in ((found, 4), (before, 1)):
        (curve,) = each.curves
        half = t_quantile(1 - 0.025 / members, 11) * slopes.std(ddof=1) / np.sqrt(12)
        assert curve.per_doubling is not None
        assert (curve.per_doubling.low, curve.per_doubling.high) == pytest.approx(
            (np.exp(slopes.mean() - half), np.exp(slopes.mean() + half))
        )


@pytest.mark.parametrize(
    ("level", "number"),
    [("256MB", 2**28), ("5min", 300), ("1.1", 1.1), ("20%", 20), ("on", None), ("nan", None), ("", None)],
)
def test_levels_are_read_as_numbers(level: str, number: float | None) -> None:
    assert read_number(level) == number


# Planned by the product: what runs that failed, were cut off, came to nothing or left something behind make of it.

TPS, P99 = "pgbench.tps", "pgbench.latency_p99"
TWO = """
format = 1

[experiment]
name = "two"

[hypothesis]
metric = "{metric}"
margin = "3%"

[workload]
mix = "simple-update"
clients = 8
duration = "10s"

[factors.a]
setting = "commit_delay"
levels = [0, 10]

[factors.b]
setting = "work_mem"
levels = ["4MB", "8MB"]

[design]
blocks = {blocks}
"""
SD = 0.02


def plan_two(blocks: int, *, metric: str = TPS) -> Evidence:
    return evidence_of(Experiment.model_validate(tomllib.loads(TWO.format(metric=metric, blocks=blocks))))


def draw(template: Evidence, seed: int) -> Evidence:
    """With all its runs done."""
    blocks = template.experiment.design.blocks
    assert blocks is not None
    slots = plan_schedule(template.arms, blocks=blocks, seed=seed)
    runs = tuple(make_run(slot) for slot in slots)
    return replace(template, seed=seed, slots=slots, runs=runs, valid=runs)


def lose(evidence: Evidence, *, state: RunState, often: int, noise: np.random.Generator) -> tuple[Evidence, Values]:
    """Equal arms; attempts of both arms with a = 10 end so where they would be slow, ``often`` at most, and are made
    anew.
    """
    more: list[RunRow] = []
    values: dict[tuple[int, str, str | None, int | str], float] = {}
    for slot in evidence.slots:
        speed = noise.normal(0, SD)
        while "a=10" in slot.arm and speed < -SD / 2 and len(more) < often:
            more.append(make_run(slot, number=10_000 + len(more), state=state))
            speed = noise.normal(0, SD)
        values[slot.number, TPS, None, "all"] = float(1000 * np.exp(speed))
    return replace(evidence, runs=(*evidence.runs, *more)), values


def describe(evidence: Evidence, values: Values) -> Factors:
    found = describe_factors(evidence, values)
    assert found is not None
    return found


def asserts(found: Factors) -> bool:
    ratios = [*(each.ratio for each in found.mains), *(each.ratio for each in found.interactions)]
    return any(ratio.side(1.0) != 0 for ratio in ratios)


@pytest.mark.parametrize(
    ("state", "often", "blocks"),
    [
        (RunState.INVALID, 1000, 12),
        (RunState.INTERRUPTED, 1000, 12),
        (RunState.INTERRUPTED, 2, 12),
        (RunState.DONE, 0, 6),
        (RunState.DONE, 0, 12),
    ],
)
def test_attempts_that_were_lost_where_they_were_slow_make_no_effect_of_a_factor(
    state: RunState, often: int, blocks: int
) -> None:
    template, experiments = plan_two(blocks), 100
    seeds, noise, false = random.Random(8), np.random.default_rng(8), 0
    for _ in range(experiments):
        evidence, values = lose(draw(template, seeds.randrange(2**31)), state=state, often=often, noise=noise)
        false += asserts(describe(evidence, values))

    assert false <= most(experiments, 0.05)


def test_by_rules_14_they_did() -> None:
    template, experiments = replace(plan_two(12), rules=RULES[14]), 60
    seeds, noise, false = random.Random(8), np.random.default_rng(8), 0
    for _ in range(experiments):
        evidence, values = lose(draw(template, seeds.randrange(2**31)), state=RunState.INVALID, often=1000, noise=noise)
        false += asserts(describe(evidence, values))

    assert false > most(experiments, 0.05)


def test_where_effects_decide_nothing_neither_do_factors() -> None:
    evidence = draw(plan_two(12), 1)
    slot = next(slot for slot in evidence.slots if slot.arm == "a=10,b=8MB")
    failed = tuple(make_run(slot, number=900 + number, state=RunState.INVALID) for number in range(2))
    noise = np.random.default_rng(1)
    values: Values = {
        (slot.number, TPS, None, "all"): float(np.exp(0.5 * ("a=10" in slot.arm) + noise.normal(0, SD)))
        for slot in evidence.slots
    }

    sound = describe(evidence, values)
    found = describe(replace(evidence, runs=(*evidence.runs, *failed)), values)
    excess = find_excess(replace(evidence, runs=(*evidence.runs, *failed)), slot.arm)

    assert (sound.mains[0].ratio.side(1.0), sound.reason) == (1, None)
    assert excess is not None
    assert excess.decides
    assert (found.mains[0].ratio.low, found.mains[0].ratio.high) == (None, None)
    assert say(found.mains[0].text).endswith("without an interval.")
    assert "So many runs of a=10,b=8MB, or of the control, failed" in say(found.reason)


def test_an_arm_of_which_nothing_is_known_in_some_block_leaves_no_effect_of_a_factor() -> None:
    """The block is not complete, as another arm's run is missing in it, so it is none of those that have all arms."""
    evidence = draw(plan_two(12, metric=P99), 1)
    gone = {next(slot.number for slot in evidence.slots if slot.block == 7 and slot.arm == "a=0,b=8MB")}
    unknown = next(slot.number for slot in evidence.slots if slot.block == 7 and slot.arm == "a=10,b=4MB")
    noise = np.random.default_rng(1)
    values: Values = {
        (slot.number, P99, None, "all"): float(np.exp(0.5 * ("a=10" in slot.arm) + noise.normal(0, SD)))
        for slot in evidence.slots
        if slot.number not in {*gone, unknown}
    }
    valid = tuple(run for run in evidence.valid if run.slot.number not in gone)

    found = describe(replace(evidence, valid=valid), values)

    assert not asserts(found)
    assert "a=10,b=4MB" in say(found.reason)


def test_a_placebo_that_failed_says_nothing_of_factors() -> None:
    evidence = draw(plan_two(12), 1)
    placebo = replace(evidence.arms[0], name="placebo", role=Role.PLACEBO)
    slots = [replace(slot, arm="placebo") for slot in evidence.slots if slot.arm == evidence.arms[0].name]
    ended = tuple(make_run(slot, number=500 + slot.block) for slot in slots)
    failed = tuple(make_run(slots[0], number=900 + number, state=RunState.INVALID) for number in range(2))
    noise = np.random.default_rng(1)
    values: Values = {
        (slot.number, TPS, None, "all"): float(np.exp(0.5 * ("a=10" in slot.arm) + noise.normal(0, SD)))
        for slot in evidence.slots
    }
    with_placebo = replace(
        evidence,
        arms=(*evidence.arms, placebo),
        runs=(*evidence.runs, *ended, *failed),
        valid=(*evidence.valid, *ended),
    )
    excess = find_excess(with_placebo, "placebo")

    assert excess is not None
    assert excess.decides
    assert describe(with_placebo, values).reason is None


def test_a_run_too_many_of_a_block_does_not_stand_for_another_arm() -> None:
    """As a damaged folder may have it."""
    evidence = draw(plan_two(8), 1)
    noise = np.random.default_rng(1)
    values: Values = {
        (slot.number, TPS, None, "all"): float(np.exp(0.5 * ("a=10" in slot.arm) + noise.normal(0, SD)))
        for slot in evidence.slots
    }
    twice = next(run for run in evidence.valid if run.slot.arm == evidence.arms[0].name)

    found = describe(replace(evidence, valid=(twice, *evidence.valid)), values)

    assert [main.ratio for main in found.mains] == [main.ratio for main in describe(evidence, values).mains]


def test_one_run_that_was_stopped_leaves_a_large_effect_asserted() -> None:
    evidence, values = lose(draw(plan_two(12), 2), state=RunState.INTERRUPTED, often=1, noise=np.random.default_rng(1))
    planted: Values = {
        key: value * (1.5 if "a=10" in evidence.slots[key[0] - 1].arm else 1.0) for key, value in values.items()
    }

    found = describe(evidence, planted)

    assert [each.ratio.side(1.0) for each in found.mains] == [1, 0]
    assert found.reason is None


def test_fewer_blocks_than_decide_a_claim_assert_nothing_of_factors() -> None:
    evidence = draw(plan_two(5), 3)
    values: Values = {
        (slot.number, TPS, None, "all"): float(np.exp(("a=10" in slot.arm) + 0.001 * slot.number))
        for slot in evidence.slots
    }

    found = describe(evidence, values)

    assert not asserts(found)
    assert asserts(describe(replace(evidence, rules=RULES[14]), values))
    assert say(found.reason) == "Effects of factors have an interval from 6 blocks on, and 5 have all arms."


@pytest.mark.parametrize("metric", [TPS, P99])
def test_blocks_in_which_an_arm_came_to_nothing_are_not_left_out(metric: str) -> None:
    """Of the worst run there is no ratio: a throughput of zero, and no latency at all."""
    evidence = draw(plan_two(8, metric=metric), 4)
    noise = np.random.default_rng(1)
    values: Values = {
        (slot.number, metric, None, "all"): float(np.exp(0.5 * ("a=10" in slot.arm) + noise.normal(0, SD)))
        for slot in evidence.slots
    }
    worst = next(key for key in values if evidence.slots[key[0] - 1].arm == "a=10,b=4MB")
    rest = {key: value for key, value in values.items() if key != worst}

    found = describe(evidence, {**rest, worst: 0.0} if metric == TPS else rest)

    assert asserts(describe(evidence, values))
    assert not asserts(found)
    assert say(found.reason).startswith("In 1 of 8 blocks the metric of an arm is zero or does not exist")


def test_what_runs_leave_for_the_next_one_is_in_the_interval_of_a_factor() -> None:
    """Whatever comes after a = 10 is slower, and the arms themselves are equal: it is the others that pay."""
    template, experiments = plan_two(24), 60
    seeds, noise = random.Random(9), np.random.default_rng(9)
    false = {CURRENT.version: 0, 14: 0}
    for _ in range(experiments):
        evidence = draw(template, seeds.randrange(2**31))
        before = ["", *(slot.arm for slot in evidence.slots)]
        values: Values = {
            (slot.number, TPS, None, "all"): float(np.exp(noise.normal(0, SD) - 0.1 * ("a=10" in last)))
            for slot, last in zip(evidence.slots, before, strict=False)
        }
        for rules in false:
            ratio = describe(replace(evidence, rules=RULES[rules]), values).mains[0].ratio
            false[rules] += ratio.side(1.0) > 0

    assert false[14] > most(experiments, 0.025)
    assert false[CURRENT.version] <= most(experiments, 0.025)
