import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from pgtrial.stats.multiplicity import benjamini_hochberg, holm

P_VALUES = (0.01, 0.02, 0.03, 0.04, 0.05)
p_values = st.lists(st.floats(min_value=0, max_value=1), min_size=1, max_size=12)


def test_holm_agrees_with_r():
    # R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm")
    assert holm(P_VALUES) == pytest.approx((0.05, 0.08, 0.09, 0.09, 0.09))


def test_benjamini_hochberg_agrees_with_r():
    # R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "BH")
    assert benjamini_hochberg(P_VALUES) == pytest.approx((0.05,) * 5)


@given(p_values)
def test_both_agree_with_statsmodels(p):
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])
    assert benjamini_hochberg(p) == pytest.approx(multipletests(p, method="fdr_bh")[1])


@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
def test_a_missing_p_value_stays_missing_and_does_not_count(adjust):
    adjusted = adjust([0.04, None, 0.01])

    assert adjusted[1] is None
    assert (adjusted[0], adjusted[2]) == adjust([0.04, 0.01])
    assert adjust([]) == ()
