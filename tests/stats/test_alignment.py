import numpy as np
import pytest
from scipy import stats

from pgtrial.stats.period import Marked, align


def covered(seconds, stretches, reach=0.0):
    at = np.arange(seconds)
    return np.any([(at + 1 > start - reach) & (at < end + reach) for start, end in stretches], axis=0)


def test_overlap_and_chance_are_those_of_all_shifts():
    events, dips = [(10, 14), (40, 43), (81, 90)], [(12, 16), (60, 62), (85, 88)]
    marked, low = covered(100, events, 1), covered(100, dips)
    shifts = np.array([(marked & np.roll(low, shift)).sum() for shift in range(100)])

    found = align([Marked(seconds=100, events=events, dips=dips)])

    assert found.overlap == shifts[0]
    assert found.expected == pytest.approx(shifts.mean())
    assert found.dip_seconds == 9
    assert found.p_value == pytest.approx((shifts >= shifts[0]).mean())


def test_runs_are_shifted_independently():
    runs = [
        Marked(seconds=60, events=[(5, 10)], dips=[(6, 9)]),
        Marked(seconds=50, events=[(20, 22), (40, 41)], dips=[(21, 23)]),
    ]
    one, other = (
        [
            (covered(run.seconds, run.events, 1) & np.roll(covered(run.seconds, run.dips), s)).sum()
            for s in range(run.seconds)
        ]
        for run in runs
    )
    sums = np.add.outer(one, other)

    assert align(runs).p_value == pytest.approx((sums >= one[0] + other[0]).mean())


def test_runs_without_dips_or_events_do_not_count():
    run = Marked(seconds=100, events=[(10, 12)], dips=[(11, 13)])
    others = [Marked(seconds=50, events=[(1, 9)], dips=[]), Marked(seconds=70, events=[], dips=[(3, 9)])]

    assert align([run, *others]) == align([run])
    assert align(others) is None


@pytest.mark.parametrize(("start", "overlap"), [(48, 1), (50, 1), (51, 0), (53, 0)])
def test_a_moment_reaches_a_second_to_both_sides(start, overlap):
    run = Marked(seconds=100, events=[(50, 50)], dips=[(start, start + 2)])

    assert align([run]).overlap == overlap


def test_what_lies_outside_of_the_run_does_not_count():
    run = Marked(seconds=30, events=[(-5, 2), (28, 60)], dips=[(29, 45)])

    assert (align([run]).overlap, align([run]).dip_seconds) == (1, 1)


def test_dips_that_follow_events_are_aligned():
    rng = np.random.default_rng(1)
    starts = rng.choice(580, 8, replace=False)
    run = Marked(seconds=600, events=[(s, s + 3) for s in starts], dips=[(s + 1, s + 4) for s in starts])

    assert align([run]).p_value < 0.01


def test_one_beat_that_fits_another_is_luck_in_one_run_and_none_in_four():
    run = Marked(
        seconds=600, events=[(30 * k, 30 * k + 2) for k in range(20)], dips=[(30 * k, 30 * k + 3) for k in range(20)]
    )

    assert align([run]).p_value > 0.02
    assert align([run] * 4).p_value < 0.0001


@pytest.mark.parametrize("runs", [1, 3])
def test_dips_and_events_of_independent_beats_are_seldom_called_aligned(runs):
    rng = np.random.default_rng(2)
    p = []
    for _ in range(400):
        experiment = []
        for _ in range(runs):
            events = rng.integers(0, 60) + 60 * np.arange(10)
            dips = rng.choice(600, rng.integers(2, 9), replace=False)
            experiment.append(Marked(seconds=600, events=[(e, e + 6) for e in events], dips=[(d, d + 4) for d in dips]))
        p.append(align(experiment).p_value)

    assert np.mean(np.array(p) <= 0.05) <= stats.binom.ppf(0.9995, 400, 0.05) / 400
