from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pgtrial.analysis.causes.load import find_crossings, model_curves
from pgtrial.analysis.effects.estimate import Estimated, estimate_effects
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.findings.message import say
from pgtrial.model.run import LoadLevel

CLIENTS = (1, 2, 4, 8, 16, 32)


@pytest.fixture
def several(evidence: Evidence) -> Evidence:
    """The same experiment with six load levels."""
    return replace(evidence, levels=tuple(LoadLevel(index=i, clients=n) for i, n in enumerate(CLIENTS)))


def law(clients: int, *, one: float, contention: float, coherency: float) -> float:
    return one * clients / (1 + contention * (clients - 1) + coherency * clients * (clients - 1))


def simulate(evidence: Evidence, curves: dict[str, Callable[[int], float]], *, noise: float, seed: int = 1) -> Values:
    """Throughput by the arm's curve, with noise of blocks and of runs."""
    rng = np.random.default_rng(seed)
    blocks = {run.slot.block: rng.normal(0, 0.1) for run in evidence.valid}
    return {
        (run.id, "pgbench.tps", None, level.index): curves[run.slot.arm](level.clients)
        * float(np.exp(blocks[run.slot.block] + rng.normal(0, noise)))
        for run in evidence.valid
        if run.slot.arm in curves
        for level in evidence.levels
    }


def effects(evidence: Evidence, values: Values) -> tuple[Estimated, ...]:
    return estimate_effects(evidence, values, scenarios=(None,))


def test_the_law_is_found_again_with_its_peak(several: Evidence) -> None:
    values = simulate(several, {"on": lambda n: law(n, one=900, contention=0.05, coherency=0.002)}, noise=0.005)
    models = {model.arm: model for model in model_curves(several, values)}
    on = models["on"]

    assert list(models) == ["on", "off", "placebo"]
    assert on.reason is None
    for estimate, truth in ((on.contention, 0.05), (on.coherency, 0.002), (on.peak, np.sqrt(0.95 / 0.002))):
        assert estimate is not None
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low < truth < estimate.high
    assert on.throughput_of_one is not None
    assert on.throughput_of_one.value == pytest.approx(900, rel=0.15)
    assert on.knee is not None
    assert 1 < on.knee < 22
    assert on.error is not None
    assert on.error < 0.02
    # Nothing was measured in the others.
    assert (models["off"].peak, models["off"].error) == (None, None)
    assert models["off"].reason


def test_a_curve_without_a_largest_throughput_has_no_peak(several: Evidence) -> None:
    values = simulate(several, {"on": lambda n: law(n, one=900, contention=0.1, coherency=0.0)}, noise=0.005)
    (on,) = [model for model in model_curves(several, values) if model.arm == "on"]

    assert on.contention is not None
    assert on.contention.value == pytest.approx(0.1, rel=0.1)
    if on.peak is not None:  # noise may bend the curve a little
        assert on.peak.high is None  # but the data set no upper limit


def test_a_curve_that_only_flattens_has_no_peak_at_all(several: Evidence) -> None:
    values = simulate(several, {"on": lambda n: law(n, one=900, contention=0.1, coherency=0.0)}, noise=0.0)
    (on,) = [model for model in model_curves(several, values) if model.arm == "on"]

    assert (on.reason, on.peak) == (None, None)
    assert on.knee == pytest.approx(10, rel=0.01)


def test_a_shape_that_the_law_does_not_have_is_refused_with_its_reason(several: Evidence) -> None:
    values = simulate(several, {"on": lambda n: 100.0 * n**2}, noise=0.005)
    (on,) = [model for model in model_curves(several, values) if model.arm == "on"]

    assert "faster than the number of clients" in say(on.reason)
    assert (on.contention, on.peak, on.knee) == (None, None, None)
    assert on.error is not None


def test_given_arrivals_have_no_curve(several: Evidence, values: Values) -> None:
    open_loop = replace(several, levels=tuple(replace(level, rate=100.0) for level in several.levels))
    models = model_curves(open_loop, values)

    assert {say(model.reason) for model in models} == {
        "Transactions arrive at given rates, so throughput says nothing about the number of clients."
    }
    assert find_crossings(open_loop, values, ()) == ()


def test_one_load_level_is_no_curve(evidence: Evidence, values: Values) -> None:
    assert model_curves(evidence, values) == ()


class TestCrossings:
    def curves(self, at: float) -> dict[str, Callable[[int], float]]:
        """The arm is slower below ``at`` clients and faster above it."""
        return {"on": lambda n: 1000.0 * n**0.5, "off": lambda n: 1000.0 * n**0.5 * (n / at) ** 0.2}

    def test_where_two_arms_change_places_is_found(self, several: Evidence) -> None:
        values = simulate(several, self.curves(at=6), noise=0.005)
        (crossing,) = find_crossings(several, values, effects(several, values))

        assert (crossing.arm, crossing.control, crossing.below, crossing.above) == ("off", "on", "on", "off")
        assert crossing.clients == pytest.approx(6, rel=0.1)
        assert crossing.is_certain

    def test_a_crossing_in_the_noise_is_not_certain(self, several: Evidence) -> None:
        values = simulate(several, self.curves(at=6), noise=0.15)
        found = find_crossings(several, values, effects(several, values))

        assert found
        assert not any(crossing.is_certain for crossing in found)

    def test_one_block_makes_no_certain_crossing(self, several: Evidence) -> None:
        one = replace(several, valid=tuple(run for run in several.valid if run.slot.block == 1))
        values = simulate(one, self.curves(at=6), noise=0.0)
        (crossing,) = find_crossings(one, values, effects(one, values))

        assert not crossing.is_certain

    def test_a_level_that_one_arm_lacks_is_bridged(self, several: Evidence) -> None:
        values = simulate(several, self.curves(at=6), noise=0.005)
        some = {key: value for key, value in values.items() if key[3] != 2}  # 4 clients
        (crossing,) = find_crossings(several, some, effects(several, some))

        assert crossing.clients == pytest.approx(6, rel=0.1)

    def test_an_arm_that_is_faster_below_is_named_there(self, several: Evidence) -> None:
        curves = {"on": lambda n: 1000.0 * n**0.5, "off": lambda n: 1000.0 * n**0.5 * (6 / n) ** 0.2}
        values = simulate(several, curves, noise=0.005)
        (crossing,) = find_crossings(several, values, effects(several, values))

        assert (crossing.below, crossing.above) == ("off", "on")

    def test_arms_that_never_meet_have_no_crossing(self, several: Evidence) -> None:
        curves = {"on": lambda n: 1000.0 * n**0.5, "off": lambda n: 2000.0 * n**0.5}

        values = simulate(several, curves, noise=0.005)
        assert find_crossings(several, values, effects(several, values)) == ()

    def test_without_a_control_there_is_nothing_to_cross(self, several: Evidence) -> None:
        alone = replace(several, arms=tuple(arm for arm in several.arms if arm.name != "on"))

        assert find_crossings(alone, {}, ()) == ()

    def test_levels_are_put_in_order_of_their_clients(self, several: Evidence) -> None:
        values = simulate(several, self.curves(at=6), noise=0.005)
        turned: Any = replace(several, levels=several.levels[::-1])
        (crossing,) = find_crossings(turned, values, effects(several, values))

        assert crossing.clients == pytest.approx(6, rel=0.1)
