import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from pgtrial.stats.interval import benjamini_hochberg, holm

P_VALUES = (0.01, 0.02, 0.03, 0.04, 0.05)
p_values = st.lists(st.floats(min_value=0, max_value=1), min_size=1, max_size=12)


def test_holm_agrees_with_r():
    # R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm")
    assert holm(P_VALUES) == pytest.approx((0.05, 0.08, 0.09, 0.09, 0.09))


def test_benjamini_hochberg_agrees_with_r():
    # R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "BH")
    assert benjamini_hochberg(P_VALUES) == pytest.approx((0.05,) * 5)


def test_both_agree_with_statsmodels():
    # statsmodels 0.15: multipletests(p, method="holm")[1] and method="fdr_bh"
    p = (0.001, 0.04, 0.03, 0.002, 0.6, 0.02, 0.02, 1.0)

    assert holm(p) == pytest.approx((0.008, 0.12, 0.12, 0.014, 1.0, 0.12, 0.12, 1.0))
    assert benjamini_hochberg(p) == pytest.approx((0.008, 0.4 / 7.5, 0.048, 0.008, 4.8 / 7, 0.04, 0.04, 1.0))


@given(p_values)
def test_benjamini_hochberg_agrees_with_scipy(p):
    assert benjamini_hochberg(p) == pytest.approx(false_discovery_control(p))


@given(p_values)
def test_adjusting_keeps_the_order_and_never_lowers(p):
    for adjust in (holm, benjamini_hochberg):
        adjusted = adjust(p)
        assert all(before <= after <= 1 for before, after in zip(p, adjusted, strict=True))
        assert sorted(adjusted) == [adjusted[i] for i in sorted(range(len(p)), key=lambda i: p[i])]
    assert all(one <= other for one, other in zip(benjamini_hochberg(p), holm(p), strict=True))


@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
def test_a_missing_p_value_stays_missing_and_does_not_count(adjust):
    adjusted = adjust([0.04, None, 0.01])

    assert adjusted[1] is None
    assert (adjusted[0], adjusted[2]) == adjust([0.04, 0.01])
    assert adjust([]) == ()
