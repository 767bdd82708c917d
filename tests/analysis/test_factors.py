"""Main effects, interactions and curves of planted truths."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.factors import describe_factors, read_number
from pgtrial.analysis.observations import STEP, Values
from pgtrial.experiment_file.experiment import FactorTable
from pgtrial.findings.message import say
from pgtrial.model.arm import Arm, Role
from pgtrial.model.run import RunRow

BLOCKS = 8


def cross(evidence: Evidence, levels: dict[str, list[str]]) -> Evidence:
    """An experiment of these factors, with a run of every combination in each block."""
    tables = {name: FactorTable(levels=tuple(each)) for name, each in levels.items()}
    names = ["-".join(map(str, each)) for each in np.ndindex(*(len(each) for each in levels.values()))]
    arms = tuple(Arm(name=name, role=Role.CONTROL if i == 0 else Role.CANDIDATE) for i, name in enumerate(names))
    first = evidence.valid[0]
    runs: tuple[RunRow, ...] = tuple(
        replace(first, id=100 * block + i, slot=replace(first.slot, arm=name, block=block, number=100 * block + i))
        for block in range(1, BLOCKS + 1)
        for i, name in enumerate(names)
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
    told = {
        (run.id, "pgbench.tps", None, "all"): float(truth[place(run)] * np.exp(rng.normal(0, 0.01)))
        for run in crossed.valid
    }
    finely = describe_factors(crossed, told)
    coarsely = describe_factors(
        crossed, told | {(run.id, "pgbench.tps" + STEP, None, "all"): step for run in crossed.valid}
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
        values = {(run.id, "pgbench.tps", None, "all"): float(np.exp(rng.normal(7, 0.1))) for run in crossed.valid}
        found = describe_factors(crossed, values)
        assert found is not None
        alarms += any(each.ratio.side(1.0) != 0 for each in (*found.mains, *found.interactions))

    assert alarms / number < 0.05 + 4 * (0.05 * 0.95 / number) ** 0.5


@pytest.mark.parametrize(
    ("level", "number"),
    [("256MB", 2**28), ("5min", 300), ("1.1", 1.1), ("20%", 20), ("on", None), ("nan", None), ("", None)],
)
def test_levels_are_read_as_numbers(level: str, number: float | None) -> None:
    assert read_number(level) == number
