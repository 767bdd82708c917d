import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pgtrial.stats.paired import hodges_lehmann, signed_rank_interval, walsh_averages

# Hamilton depression scale factor IV before and after a tranquilizer, nine patients. Hollander & Wolfe,
# "Nonparametric Statistical Methods" (1973), table 3.1; also the example of R's wilcox.test.
BEFORE = np.array([1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30])
AFTER = np.array([0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29])


def test_estimate_for_the_depression_data():
    # Hollander & Wolfe, example 3.3: the median of the 45 Walsh averages of after - before is -0.46.
    assert hodges_lehmann(AFTER - BEFORE) == pytest.approx(-0.46)


def test_interval_for_the_depression_data():
    # Hollander & Wolfe, example 3.4: (-0.786, -0.010) with confidence 0.961, from the 6th Walsh average at both ends.
    interval = signed_rank_interval(AFTER - BEFORE, confidence=0.95)

    assert interval.confidence == pytest.approx(0.961, abs=5e-4)
    assert interval.low == pytest.approx(-0.786, abs=1e-3)
    assert interval.high == pytest.approx(-0.010, abs=1e-3)


@settings(max_examples=25)  # each with up to a hundred tests of scipy
@given(st.lists(st.floats(min_value=-10, max_value=10), min_size=6, max_size=14, unique=True), st.floats(0.8, 0.96))
def test_interval_is_what_the_signed_rank_test_does_not_reject(values, confidence):
    differences = np.array(values)
    interval = signed_rank_interval(differences, confidence=confidence)
    averages = np.unique(np.round(walsh_averages(differences), 9))

    for centre in (averages[:-1] + averages[1:]) / 2:
        shifted = differences - centre
        if np.unique(np.abs(shifted).round(9)).size < shifted.size or np.diff(averages).min() < 1e-6:
            continue
        rejected = stats.wilcoxon(shifted, method="exact").pvalue <= 1 - confidence
        assert rejected == (not interval.low <= centre <= interval.high)


@pytest.mark.parametrize(("count", "has_interval"), [(2, False), (5, False), (6, True)])
def test_five_values_allow_no_interval_of_95_percent(count, has_interval):
    interval = signed_rank_interval(np.arange(1.0, count + 1), confidence=0.95)

    assert (interval is not None) == has_interval


def test_smallest_interval_is_the_whole_range():
    interval = signed_rank_interval(np.array([3.0, 1, 4, 1.5, 9, 2.6]), confidence=0.95)

    assert (interval.low, interval.high, interval.confidence) == (1, 9, 1 - 2 / 64)


def test_ties_keep_the_coverage():
    rng = np.random.default_rng(4)
    covered = 0
    for _ in range(2000):
        interval = signed_rank_interval(rng.integers(-2, 3, 9).astype(float), confidence=0.95)
        covered += interval.low <= 0 <= interval.high

    assert covered >= stats.binom.ppf(0.001, 2000, 0.95)
