"""The truth of each stream is what its name and its text say."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from gym.contenders import CONTENDERS
from gym.contenders.pgtrial import Pgtrial
from gym.machine import OWN_NOISE, TICK, measure
from gym.schedule import RUN, alternating, one_after_the_other
from gym.streams import AMPLITUDE, STREAMS, correlated

from gym import recording

BY_NAME = {stream.name: stream for stream in STREAMS}


def quiet(name):
    """A stream without the noise of each moment."""
    return replace(BY_NAME[name], own_noise=0.0)


def rng():
    return np.random.default_rng(4)


def noise_of(name, experiments=40, ticks=4000):
    return BY_NAME[name].noise(experiments, ticks, rng())


def seconds(values):
    """Means of whole seconds."""
    return values.reshape(len(values), -1, round(1 / TICK)).mean(axis=2)


def correlation(values, lag):
    return float(np.mean(values[:, :-lag] * values[:, lag:]) / np.mean(values**2))


@pytest.mark.parametrize("name", BY_NAME)
def test_a_noise_depends_on_its_generator_alone(name):
    first, second = noise_of(name, 3, 200), noise_of(name, 3, 200)

    assert first.shape == (3, 200)
    assert (first == second).all()
    assert np.isfinite(first).all()


@pytest.mark.parametrize("schedule", ["blocks", "interleaved", "duet", "alternating", "one after the other"])
def test_without_noise_equal_arms_are_equal_and_an_effect_is_what_was_planted(schedule):
    made = {
        "alternating": lambda: alternating(6, 3),
        "one after the other": lambda: one_after_the_other(6, 3),
    }.get(schedule, lambda: Pgtrial(method=schedule).schedule(6, 3, rng()))()
    measured = measure(quiet("white"), made, rng())
    # One half of a machine in a duet is faster; the arms exchange them equally often.
    assert measured.treated == pytest.approx(measured.control, rel=1e-6)
    assert measured.with_effect(0.9).treated == pytest.approx(0.9 * measured.control, rel=1e-6)


@pytest.mark.parametrize(("name", "phi"), [("ar-0.5", 0.5), ("ar-0.9", 0.9), ("ar-0.99", 0.99)])
def test_the_coefficient_of_ar_noise_is_that_from_second_to_second(name, phi):
    values = noise_of(name, 200)

    assert values.std() == pytest.approx(AMPLITUDE, rel=0.1)
    assert correlation(values, round(1 / TICK)) == pytest.approx(phi, abs=0.03)


def test_correlated_series_keep_their_coefficient():
    assert correlation(correlated(0.6, 200, 300, rng()), 1) == pytest.approx(0.6, abs=0.02)


def test_bursts_take_half_of_the_machine_for_a_fifth_of_the_time():
    values = noise_of("bursts", 200)

    assert set(np.unique(values)) == {0.0, -math.log(2)}
    assert (values < 0).mean() == pytest.approx(0.2, abs=0.03)


def test_regimes_are_two_speeds_that_last_for_minutes():
    values = noise_of("regimes", 200)
    changes = (np.diff(values, axis=1) != 0).sum() * 90 / (values.size * TICK)

    assert np.unique(values) == pytest.approx([0, 0.15])
    assert changes == pytest.approx(1, abs=0.15)


def test_drift_goes_up_or_down_by_a_hundredth_in_twenty_seconds():
    # Over one whole wave of 75 s, nothing but the slope is left; now and then it turns.
    values = noise_of("drift", 400, 2 * round(75 / TICK))
    wave = round(75 / TICK)
    slopes = (values[:, wave:].mean(axis=1) - values[:, :wave].mean(axis=1)) / 75 * 20

    assert np.median(np.abs(slopes)) == pytest.approx(0.01, rel=0.02)
    assert (slopes > 0).mean() == pytest.approx(0.5, abs=0.1)


def test_long_memory_does_not_average_out():
    values = noise_of("long-memory", 200, 4096)
    short, long = (values.reshape(200, -1, length).mean(axis=2).std() for length in (4, 1024))

    # The spread of a mean goes with its length to the power of the exponent less one; of independent values, less 1/2.
    assert math.log(long / short) / math.log(1024 / 4) == pytest.approx(0.95 - 1, abs=0.04)


def test_the_second_half_of_a_block_is_slower():
    blocks = Pgtrial(method="blocks").schedule(8, 20, rng())
    measured = measure(quiet("place"), blocks, rng())

    assert np.log(measured.treated / measured.control) == pytest.approx(np.where(measured.after, -0.05, 0.05))


@pytest.mark.parametrize("method", ["blocks", "interleaved"])
def test_the_first_run_of_a_block_or_its_first_slice_is_slower_whose_ever_it_is(method):
    schedule = Pgtrial(method=method).with_placebo().schedule(6, 20, rng())
    first = np.stack([schedule.arm[:, np.flatnonzero(schedule.observation == block)[0]] for block in range(6)], axis=1)
    measured, even = (measure(stream, schedule, rng()) for stream in (quiet("first-2"), quiet("white")))
    slower = {arm: np.log(getattr(measured, arm) / getattr(even, arm)) for arm in ("control", "treated")}

    assert schedule.arms == 3
    assert set(np.unique(first)) == {0, 1, 2}
    for number, arm in enumerate(("control", "treated")):
        assert slower[arm][first != number] == pytest.approx(0.0)
        assert (slower[arm][first == number] < -0.0005).all()
        if method == "blocks":
            assert slower[arm][first == number] == pytest.approx(-2 * OWN_NOISE * math.sqrt(2 / RUN))


def test_a_placebo_is_in_the_schedules_of_those_who_take_a_third_arm():
    for contender in CONTENDERS:
        is_taken = contender.name.startswith("pgtrial") and "duet" not in contender.name
        assert contender.with_placebo().schedule(6, 2, rng()).arms == (3 if is_taken else 2)


def test_what_the_control_leaves_for_later_is_told_of_three_arms_as_in_the_product():
    turns = [
        one.schedule(6, 2, rng()) for one in (Pgtrial(method="interleaved", placebo=three) for three in (False, True))
    ]
    two, three = (measure(BY_NAME["white"], schedule, rng()).late.shape for schedule in turns)

    assert three == (*two[:-1], 2 * two[-1])


def test_where_each_arm_has_data_of_its_own_places_cancel():
    measured = measure(quiet("place"), one_after_the_other(6, 2), rng())

    assert measured.treated.mean(axis=1) == pytest.approx(measured.control.mean(axis=1))


@pytest.mark.parametrize("name", ["debt-short", "debt-long"])
def test_an_arm_that_pays_its_own_debt_alone_is_as_fast_as_planted(name):
    measured = measure(quiet(name), one_after_the_other(10, 1), rng())

    assert measured.treated == pytest.approx(measured.control, rel=2e-4)


def test_turns_see_what_fades_within_the_washout_and_not_what_lasts_longer():
    turns = Pgtrial(method="interleaved").schedule(6, 4, rng())
    short, long = (measure(quiet(name), turns, rng()) for name in ("debt-short", "debt-long"))

    assert np.log(short.treated / short.control).mean() == pytest.approx(0, abs=0.002)
    assert np.log(long.treated / long.control).mean() > 0.01


def test_the_windows_of_turns_tell_how_a_debt_fades():
    turns = Pgtrial(method="interleaved").schedule(6, 4, rng())
    measured = measure(quiet("debt-long"), turns, rng())
    washout, early, late = measured.turns.mean(axis=(1, 2))

    # Its time constant is as long as the washout, and as what counts: each window of a quarter of a slice has e^-½ of
    # what the one before has; slices are longer and shorter than that. Alone the arms are alike, so what is seen of
    # them in what counts is what is left there.
    assert late / early == pytest.approx(math.exp(-0.5), rel=0.1)
    assert (early + late) / 2 / washout == pytest.approx(math.exp(-1), abs=0.12)
    assert np.log(measured.treated / measured.control).mean() == pytest.approx((early + late) / 2, rel=0.02)
    assert measure(quiet("debt-long"), Pgtrial(method="blocks").schedule(6, 4, rng()), rng()).turns is None


def test_only_the_arm_with_the_change_fails_and_where_the_machine_is_slow():
    stream = replace(quiet("failures"), noise=lambda experiments, ticks, _: _steps(experiments, ticks))
    measured = measure(stream, alternating(4, 2), rng())

    # Runs of ten seconds; twenty seconds are fast, twenty slow. The treated arm's second run begins at 30 s and fails
    # once, its third at 60 s and its fourth at 100 s fail twice: what the control ran at 20 s did not.
    assert measured.failed.tolist() == [[0, 1, 2, 2]] * 2
    assert measured.treated == pytest.approx(np.ones((2, 4)), rel=1e-6)


def _steps(experiments, ticks):
    return np.tile(np.where((np.arange(ticks) * TICK) % 40 < 20, 0.0, -0.1), (experiments, 1))


@pytest.mark.parametrize(("name", "every", "lasts"), [("stalls", 30, 1), ("stalls-rare", 80, 1)])
def test_an_arm_that_stalls_gets_as_much_done_in_the_long_run(name, every, lasts):
    values = BY_NAME[name].stalls(400, 8000, rng())
    slow, fast = np.unique(values)
    is_slow = values == slow
    begins = (is_slow[:, 1:] & ~is_slow[:, :-1]).sum()

    assert slow - fast == pytest.approx(math.log(0.1))
    assert values.size * TICK / begins == pytest.approx(every, rel=0.05)
    assert is_slow.sum() * TICK / begins == pytest.approx(lasts, rel=0.05)
    assert np.exp(values).mean() == pytest.approx(1, abs=0.003)


@pytest.mark.parametrize("method", ["blocks", "interleaved", "duet"])
@pytest.mark.parametrize("name", ["stalls", "stalls-rare"])
def test_stalls_are_of_the_arm_with_the_change_alone(name, method):
    schedule = Pgtrial(method=method).schedule(12, 400, rng())
    measured = measure(quiet(name), schedule, rng())
    steady = measure(quiet("white"), schedule, rng())

    assert measured.control == pytest.approx(steady.control)
    assert (measured.treated / steady.treated).mean() == pytest.approx(1, abs=0.006)


@pytest.mark.parametrize("name", ["stalls", "stalls-rare"])
def test_the_mean_of_the_logs_of_blocks_is_below_the_log_of_their_mean_by_half_their_variance(name):
    """Which of both an effect is of makes less of a difference than a sixth of the margin."""
    measured = measure(quiet(name), Pgtrial(method="blocks").schedule(40, 500, rng()), rng())
    logs = np.log(measured.treated / measured.control)

    assert -0.005 < logs.mean() < -0.001
    assert logs.mean() == pytest.approx(-logs.var() / 2, abs=0.0015)


@pytest.mark.parametrize("load", recording.LOADS)
def test_recorded_noise_reads_contiguous_stretches_of_the_recording(load):
    counts = np.maximum(recording.read(load).counts, 1)
    source = np.log(counts / counts.mean())
    values = BY_NAME[f"recorded-{load}"].noise(2, 400, rng())
    pairs = set(zip(source, np.roll(source, -1), strict=True))
    followed = [pair in pairs for row in values for pair in pairwise(row)]

    assert set(values.ravel()) <= set(source)
    assert 0.97 < np.mean(followed) <= 1


def test_a_recording_is_read_as_it_was_written(tmp_path):
    made = recording.Recording(name="reads", made="Once.\nHere.", counts=np.arange(101))
    path = recording.write(made, tmp_path)
    found = recording.read("reads", tmp_path)

    assert path.read_bytes() == recording.write(found, tmp_path).read_bytes()
    assert (found.made, found.counts.tolist()) == (made.made, made.counts.tolist())
