import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calibration.trials import plan_trial
from pgtrial.analysis.causes.pareto import score_arms
from pgtrial.analysis.causes.recommend import chosen_criteria
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values, index_values
from pgtrial.analysis.sampled import find_swap_growth, observe_samples
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.experiment_file.cause_tables import CriterionTable
from pgtrial.experiment_file.criteria import CRITERIA
from pgtrial.findings.causes import ArmScore, Scorecard
from pgtrial.findings.message import say
from pgtrial.model.arm import Arm, Role
from pgtrial.model.metrics import COMPARED, FAILURES
from pgtrial.model.run import LoadLevel, RunState
from pgtrial.stats.interval import t_quantile

Make = Callable[..., Timeline]
TPS, P99, CPU, SWAP = "pgbench.tps", "pgbench.latency_p99", "cost.cpu_seconds", "memory.swap_growth"


def declare(evidence: Evidence, *criteria: Mapping[str, Any]) -> Evidence:
    tables = tuple(CriterionTable.model_validate(each) for each in criteria)
    return replace(evidence, experiment=evidence.experiment.model_copy(update={"criteria": tables}))


@pytest.fixture
def three(evidence: Evidence) -> Evidence:
    """The placebo's runs as a second candidate: on (control), off and third."""
    arms = tuple(Arm(name="third", role=Role.CANDIDATE) if arm.role is Role.PLACEBO else arm for arm in evidence.arms)
    runs = tuple(
        replace(run, slot=replace(run.slot, arm="third")) if run.slot.arm == "placebo" else run
        for run in evidence.valid
    )
    return replace(evidence, arms=arms, valid=runs)


def simulate(
    evidence: Evidence, truth: Mapping[str, Mapping[str, float]], *, noise: float = 0.01, seed: int = 1
) -> dict[Any, float]:
    """Values of metric and arm with noise of each run, over all load levels."""
    rng = np.random.default_rng(seed)
    return {
        (run.id, metric, None, "all"): by_arm[run.slot.arm] * float(np.exp(rng.normal(0, noise)))
        for metric, by_arm in truth.items()
        for run in evidence.valid
        if run.slot.arm in by_arm
    }


def sampled(evidence: Evidence, timelines: Sequence[Timeline]) -> Values:
    return index_values(observe_samples(evidence, timelines))


def of_arm(card: Scorecard | None, arm: str) -> ArmScore:
    assert card is not None
    return next(each for each in card.arms if each.arm == arm)


def test_ratios_are_to_the_control_with_the_intervals_of_all_effects(evidence: Evidence) -> None:
    asked = declare(evidence, {"metric": TPS})
    values = simulate(evidence, {TPS: {"on": 15_154.0, "off": 16_185.0}}, noise=0.02)
    card = score_arms(asked, values)

    pairs = evidence.pairs("off")
    logs = [np.log(values[run.id, TPS, None, "all"] / values[control.id, TPS, None, "all"]) for control, run in pairs]
    after = np.array([run.slot.position > control.slot.position for control, run in pairs])
    late, early = np.array(logs)[after], np.array(logs)[~after]
    middle = (late.mean() + early.mean()) / 2
    rest = np.concatenate([late - late.mean(), early - early.mean()])
    half = t_quantile(0.975, 4) * np.sqrt((rest**2).sum() / 4 * (1 / late.size + 1 / early.size)) / 2
    (value,) = of_arm(card, "off").values
    assert (value.criterion, value.better, value.weight) == (TPS, "higher", 1.0)
    assert value.ratio is not None
    assert (value.ratio.value, value.ratio.low, value.ratio.high) == pytest.approx(
        tuple(np.exp([np.mean(logs), middle - half, middle + half]))
    )
    assert of_arm(card, "off").score == pytest.approx(np.mean(logs))
    (control,) = of_arm(card, "on").values
    assert control.ratio is not None
    assert (control.ratio.value, control.ratio.low, of_arm(card, "on").score) == (1.0, None, 0.0)


@pytest.mark.parametrize(
    ("before", "after", "change"), [(15_154, 16_185, "+6.8 %"), (15_154, 15_095, "−0.4 %"), (178, 167, "−6.2 %")]
)
def test_percentages_are_of_the_control(evidence: Evidence, before: float, after: float, change: str) -> None:
    """Changes that published comparisons of these very figures have wrong, in sign or size."""
    asked = declare(evidence, {"metric": TPS}, {"metric": P99})
    values = simulate(
        evidence,
        {TPS: {"on": before, "off": after}, P99: {"on": 2.0, "off": 1.0 if after > before else 4.0}},
        noise=1e-5,
    )
    card = score_arms(asked, values)

    assert card is not None
    fast = card.recommendations[0]
    if after > before:
        assert say(fast.text).startswith(f"off: throughput {change} (95 % interval ")
    else:
        assert say(fast.text).startswith("on: no other arm is better than the control. ")
        turned = score_arms(declare(evidence, {"metric": TPS, "better": "lower"}), values)
        assert turned is not None
        assert say(turned.recommendations[0].text).startswith(f"off: throughput {change} (95 % interval ")


def test_an_arm_that_another_beats_in_everything_is_not_pareto_optimal(three: Evidence) -> None:
    asked = declare(three, {"metric": TPS}, {"metric": P99})
    card = score_arms(
        asked,
        simulate(
            three,
            {
                TPS: {"on": 1000.0, "off": 2000.0, "third": 900.0},
                P99: {"on": 0.010, "off": 0.030, "third": 0.012},
            },
        ),
    )

    assert [of_arm(card, arm).is_pareto for arm in ("on", "off", "third")] == [True, True, False]
    assert card is not None
    assert [(each.goal, each.arm) for each in card.recommendations][:2] == [("fast", "off"), ("stable", "on")]
    assert say(card.trade_off) == (
        "off against on is better in throughput (+100 %), and worse in latency p99 (+200 %)."
    ) or say(card.trade_off).startswith("off against on is better in throughput (+")
    assert "third" not in say(card.trade_off)  # it is worse in both, which is no trade-off


def test_declared_weights_decide_between_goals(three: Evidence) -> None:
    truth = {TPS: {"on": 1000.0, "off": 2000.0, "third": 1000.0}, P99: {"on": 0.010, "off": 0.030, "third": 0.010}}
    values = simulate(three, truth, noise=0.001)

    def weighted(tps: float, p99: float) -> str:
        asked = declare(three, {"metric": TPS, "weight": tps}, {"metric": P99, "weight": p99})
        card = score_arms(asked, values)
        assert card is not None
        (found,) = [each for each in card.recommendations if each.goal == "declared weights"]
        assert of_arm(card, "off").score == pytest.approx((tps * np.log(2) - p99 * np.log(3)) / (tps + p99), abs=0.01)
        return found.arm

    assert weighted(3.0, 1.0) == "off"
    assert weighted(1.0, 3.0) != "off"


def test_how_sure_a_recommendation_is_comes_from_the_blocks(evidence: Evidence) -> None:
    asked = declare(evidence, {"metric": TPS})
    sure = score_arms(asked, simulate(evidence, {TPS: {"on": 1000.0, "off": 1500.0}}))
    unsure = score_arms(asked, simulate(evidence, {TPS: {"on": 1000.0, "off": 1002.0}}, noise=0.1, seed=3))

    assert sure is not None
    assert unsure is not None
    assert of_arm(sure, "off").best_share == 1.0
    assert of_arm(sure, "off").values[0].rank_share == 1.0
    assert "This is sure: with 6 blocks it is the best with a probability of 100 %." in say(
        sure.recommendations[0].text
    )
    share = of_arm(unsure, unsure.recommendations[0].arm).best_share
    assert share is not None
    assert 0.5 <= share < 0.95
    assert "the data do not tell the arms apart" in say(unsure.recommendations[0].text)


def test_the_same_experiment_gives_the_same_shares(evidence: Evidence) -> None:
    values = simulate(evidence, {TPS: {"on": 1000.0, "off": 1010.0}}, noise=0.05)
    asked = declare(evidence, {"metric": TPS})

    assert score_arms(asked, values) == score_arms(asked, values)


def test_a_difference_in_the_noise_is_no_trade_off(evidence: Evidence) -> None:
    asked = declare(evidence, {"metric": TPS}, {"metric": P99})
    truth = {TPS: {"on": 1000.0, "off": 1003.0}, P99: {"on": 0.01, "off": 0.0101}}
    card = score_arms(asked, simulate(evidence, truth, noise=0.1))

    assert card is not None
    assert card.trade_off is None


def test_one_block_cannot_tell_how_sure_it_is(evidence: Evidence) -> None:
    one = replace(evidence, valid=tuple(run for run in evidence.valid if run.slot.block == 1))
    card = score_arms(declare(one, {"metric": TPS}), simulate(one, {TPS: {"on": 1000.0, "off": 1500.0}}, noise=0))

    assert card is not None
    assert of_arm(card, "off").best_share is None
    assert say(card.recommendations[0].text) == (
        "Undecided. off is ahead: throughput +50.0 %, against on. How sure that is, 1 block cannot tell: it takes 6."
    )


def test_fewer_blocks_than_decide_a_claim_make_nothing_sure(evidence: Evidence) -> None:
    three = replace(evidence, valid=tuple(run for run in evidence.valid if run.slot.block <= 3))
    truth = {TPS: {"on": 1000.0, "off": 1500.0}, P99: {"on": 0.01, "off": 0.02}}
    card = score_arms(declare(three, {"metric": TPS}, {"metric": P99}), simulate(three, truth))

    assert card is not None
    assert not any(each.is_sure for each in card.recommendations)
    assert all("3 blocks cannot tell: it takes 6." in say(each.text) for each in card.recommendations)
    assert card.trade_off is None
    assert {(arm.best_share, value.rank_share) for arm in card.arms for value in arm.values} == {(None, None)}


def test_without_a_declaration_there_is_no_recommendation_for_weights(evidence: Evidence) -> None:
    truth = {TPS: {"on": 1000.0, "off": 1500.0}, P99: {"on": 0.01, "off": 0.01}}
    card = score_arms(evidence, simulate(evidence, truth))

    assert card is not None
    assert [each.goal for each in card.recommendations] == ["fast", "stable"]
    # Without timelines nothing is known of how even throughput was, and it is shown so.
    values = {value.criterion: value.ratio for value in of_arm(card, "off").values}
    assert list(values) == [TPS, P99, "stability.lowest", "stability.variation"]
    assert (values["stability.lowest"], values["stability.variation"]) == (None, None)


def test_how_even_throughput_is_comes_from_the_timelines(evidence: Evidence, make_timeline: Make) -> None:
    rng = np.random.default_rng(5)
    spread = {"on": 10.0, "off": 100.0}
    timelines = [
        make_timeline(run=run.id, arm=run.slot.arm, seconds=200, tps=rng.normal(1000, spread[run.slot.arm], 200))
        for run in evidence.valid
        if run.slot.arm in spread
    ]
    truth = {TPS: {"on": 1000.0, "off": 1500.0}, P99: {"on": 0.01, "off": 0.01}}
    card = score_arms(evidence, {**simulate(evidence, truth), **sampled(evidence, timelines)})

    assert card is not None
    by_goal = {each.goal: each for each in card.recommendations}
    assert (by_goal["fast"].arm, by_goal["stable"].arm) == ("off", "on")
    values = {value.criterion: value for value in of_arm(card, "off").values}
    assert values["stability.variation"].ratio is not None
    assert values["stability.variation"].ratio.value == pytest.approx(10, rel=0.1)
    assert values["stability.variation"].rank_share == 0.0
    assert values["stability.lowest"].ratio is not None
    assert values["stability.lowest"].ratio.value < 0.85
    assert "better in throughput" in say(card.trade_off)
    assert "worse in lowest 1 % of throughput" in say(card.trade_off)


def test_growth_of_swap_is_that_of_the_run_and_little_is_none(evidence: Evidence, make_timeline: Make) -> None:
    grown = {"on": 4096.0, "off": 64 * 2.0**20}
    timelines = [
        make_timeline({"vmstat.swpd": np.linspace(1e8, 1e8 + grown[run.slot.arm], 100)}, run=run.id, arm=run.slot.arm)
        for run in evidence.valid
        if run.slot.arm in grown
    ]
    card = score_arms(declare(evidence, {"metric": SWAP}), sampled(evidence, timelines))

    (value,) = of_arm(card, "off").values
    assert value.ratio is not None
    # From the median of the first ten seconds to that of the last: 90 of 99 steps; 4 kB count as 1 MB.
    assert value.ratio.value == pytest.approx(64 * 90 / 99)
    assert find_swap_growth(make_timeline({"vmstat.swpd": np.linspace(5e6, 1e6, 50)}, seconds=50)) == 0
    assert find_swap_growth(make_timeline()) is None


def test_growth_of_swap_adds_up_over_the_load_levels(evidence: Evidence, make_timeline: Make) -> None:
    two = replace(evidence, levels=tuple(LoadLevel(index=i, clients=4 * (i + 1)) for i in range(2)))
    timelines = [
        make_timeline({"vmstat.swpd": np.where(np.arange(100) < 50, 0, growth)}, run=run.id, level=level)
        for run in evidence.valid
        for level, growth in enumerate((10e6, 30e6) if run.slot.arm == "off" else (20e6, 0.0))
    ]
    (value,) = of_arm(score_arms(declare(two, {"metric": SWAP}), sampled(two, timelines)), "off").values
    incomplete = [each for each in timelines if each.level == 0]

    assert value.ratio is not None
    assert value.ratio.value == pytest.approx(2)
    assert score_arms(declare(two, {"metric": SWAP}), sampled(two, incomplete)) is None


def test_only_blocks_of_all_arms_count(evidence: Evidence) -> None:
    lost = evidence.runs_of("off")[0]
    some = replace(evidence, valid=tuple(run for run in evidence.valid if run.id != lost.id))
    values = simulate(evidence, {TPS: {"on": 1000.0, "off": 1500.0}})
    card = score_arms(declare(some, {"metric": TPS}), values)

    assert card is not None
    assert "5 blocks cannot tell" in say(card.recommendations[0].text)


def test_a_criterion_that_was_not_measured_has_no_part_in_the_score(evidence: Evidence) -> None:
    asked = declare(evidence, {"metric": TPS}, {"metric": CPU, "weight": 9.0})
    card = score_arms(asked, simulate(evidence, {TPS: {"on": 1000.0, "off": 1500.0}}, noise=0))

    assert of_arm(card, "off").score == pytest.approx(np.log(1.5))
    assert [value.ratio is None for value in of_arm(card, "off").values] == [False, True]


def test_there_is_no_scorecard_without_arms_to_compare_or_values(evidence: Evidence) -> None:
    values = simulate(evidence, {TPS: {"on": 1000.0, "off": 1500.0}})
    alone = replace(evidence, arms=tuple(arm for arm in evidence.arms if arm.role is Role.CONTROL))

    assert score_arms(alone, values) is None
    assert score_arms(replace(evidence, valid=()), values) is None
    assert score_arms(evidence, {}) is None


def test_a_file_may_turn_what_is_better(evidence: Evidence) -> None:
    asked = declare(evidence, {"metric": TPS, "better": "lower"})

    assert [each.better for each in chosen_criteria(asked)] == ["lower"]
    card = score_arms(asked, simulate(evidence, {TPS: {"on": 1000.0, "off": 1500.0}}))
    assert of_arm(card, "on").best_share == 1.0


def test_every_metric_that_arms_are_compared_by_can_be_a_criterion() -> None:
    for metric in (*COMPARED, FAILURES):
        assert CRITERIA[metric.name].better is metric.better


@pytest.mark.parametrize(("state", "often"), [(RunState.INVALID, 2), (RunState.INTERRUPTED, 3)])
def test_an_arm_of_which_the_good_runs_are_not_all_is_not_surely_the_best(
    evidence: Evidence, state: RunState, often: int
) -> None:
    asked = declare(evidence, {"metric": TPS}, {"metric": P99})
    values = simulate(evidence, {TPS: {"on": 1000.0, "off": 1500.0}, P99: {"on": 0.01, "off": 0.02}})
    lost = tuple(replace(asked.runs_of("off")[0], id=1000 + number, state=state) for number in range(often))
    plain, doubtful = (score_arms(replace(asked, runs=runs), values) for runs in (asked.runs, (*asked.runs, *lost)))

    assert plain is not None
    assert doubtful is not None
    assert plain.recommendations[0].is_sure
    assert plain.trade_off is not None
    assert not any(each.is_sure for each in doubtful.recommendations)
    assert doubtful.trade_off is None
    assert "This is sure" not in say(doubtful.recommendations[0].text)


@pytest.mark.parametrize(("left", "is_sure"), [(0.06, False), (0.0, True)])
def test_what_an_arm_leaves_of_a_criterion_for_the_next_run_is_borne_by_that_criterion(
    left: float, is_sure: bool
) -> None:
    """At a rate throughput tells nothing of it. The p99 of b is 2 % shorter, and that of the run after it longer."""
    evidence = plan_trial(random.Random(1), blocks=12)
    rng = np.random.default_rng(2)
    before = ["", *(slot.arm for slot in evidence.slots[:-1])]
    values: dict[Any, float] = {
        (run.id, TPS, None, "all"): float(500 * np.exp(rng.normal(0, 0.001))) for run in evidence.valid
    }
    for run, last in zip(evidence.valid, before, strict=True):
        longer = -0.02 * (run.slot.arm == "b") + left * (last == "b")
        values[run.id, P99, None, "all"] = float(0.01 * np.exp(rng.normal(longer, 0.005)))
    card = score_arms(evidence, values)

    assert card is not None
    stable = next(each for each in card.recommendations if each.goal == "stable")
    assert (stable.arm, stable.is_sure) == ("b", is_sure)


def test_goals_share_the_error_probability(evidence: Evidence) -> None:
    """What is sure of one goal alone is not of each of three."""
    rng = np.random.default_rng(4)
    noise = {run.id: float(rng.normal(0, 0.01)) for run in evidence.valid}
    speed: dict[Any, float] = {
        (run.id, TPS, None, "all"): float(np.exp(noise[run.id] + 0.0152 * (run.slot.arm == "off")))
        for run in evidence.valid
    }
    others = simulate(evidence, {P99: {"on": 0.01, "off": 0.01}}, seed=3)
    alone = score_arms(declare(evidence, {"metric": TPS}), speed)
    among = score_arms(declare(evidence, {"metric": TPS}, {"metric": P99}), {**speed, **others})

    assert alone is not None
    assert among is not None
    assert [(each.goal, each.arm, each.is_sure) for each in alone.recommendations] == [
        ("fast", "off", True),
        ("declared weights", "off", True),
    ]
    fast, *_ = among.recommendations
    assert (fast.goal, fast.arm, fast.is_sure) == ("fast", "off", False)


def test_nothing_is_surely_the_best_while_blocks_are_still_to_come(evidence: Evidence) -> None:
    asked = replace(declare(evidence, {"metric": TPS}), is_provisional=True)
    card = score_arms(asked, simulate(evidence, {TPS: {"on": 1000.0, "off": 1500.0}}))

    assert card is not None
    assert not any(each.is_sure for each in card.recommendations)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("arms", [("off",), ("on", "off")])
@pytest.mark.parametrize("everywhere", [False, True])
def test_nothing_is_divided_by_a_time_that_was_counted_as_none(
    evidence: Evidence, arms: tuple[str, ...], everywhere: bool
) -> None:
    asked = declare(evidence, {"metric": TPS}, {"metric": CPU})
    values = simulate(evidence, {TPS: {"on": 100.0, "off": 110.0}, CPU: {"on": 0.01, "off": 0.01}})
    for run in evidence.valid:
        if run.slot.arm in arms and (everywhere or run.slot.block == 1):
            values[run.id, CPU, None, "all"] = 0.0
    speed, time = of_arm(score_arms(asked, values), "off").values
    assert speed.ratio is not None
    assert speed.ratio.value == pytest.approx(1.1, rel=0.05)
    if everywhere:
        assert time.ratio is None
    else:
        assert time.ratio is not None
        assert time.ratio.value == pytest.approx(1.0, rel=0.05)


def test_nobody_is_sure_of_a_criterion_that_some_runs_do_not_have(evidence: Evidence) -> None:
    """Without its worst runs an arm would seem to be the best."""
    truth = {"stability.dip_share": {"on": 0.1, "off": 0.05}, TPS: {"on": 1000.0, "off": 1000.0}}
    asked = declare(evidence, *({"metric": metric} for metric in truth))
    asked = replace(asked, rules=replace(asked.rules, fewest_blocks=5))
    whole = simulate(asked, truth)
    lost = asked.runs_of("off")[2].id
    part = {key: value for key, value in whole.items() if key[:2] != (lost, "stability.dip_share")}

    sure, unsure = (
        next(each for each in card.recommendations if each.goal == "stable")
        for values in (whole, part)
        if (card := score_arms(asked, values)) is not None
    )

    assert (sure.arm, sure.is_sure) == ("off", True)
    assert not unsure.is_sure
    assert "in 1 of 6 blocks a run has no value of it" in say(unsure.text)
    card = score_arms(asked, part)
    assert [each.best_share for each in (of_arm(card, "on"), of_arm(card, "off"))] == [None, None]
    assert of_arm(card, "off").values[0].rank_share is None
