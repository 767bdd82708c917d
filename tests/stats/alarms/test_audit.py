import math

import pytest
from scipy import stats

from pgtrial.stats.alarms.audit import Contract, audit


def test_the_rate_has_garwoods_interval():
    found = audit(3, days=60)

    assert found.rate == pytest.approx(1.5)
    assert found.low == pytest.approx(stats.chi2.ppf(0.025, 6) / 2 / 2)
    assert found.high == pytest.approx(stats.chi2.ppf(0.975, 8) / 2 / 2)


@pytest.mark.parametrize(
    ("alarms", "days", "contract"),
    [
        (0, 30, Contract.TOO_SHORT),
        (0, 120, Contract.HOLDS),  # 3.69 in four months are not excluded: 0.92 in one
        (0, 110, Contract.TOO_SHORT),
        (1, 30, Contract.TOO_SHORT),
        (4, 30, Contract.BROKEN),  # 1.09 are the least
        (3, 30, Contract.TOO_SHORT),
        (30, 1800, Contract.HOLDS),
    ],
)
def test_what_the_audit_says(alarms, days, contract):
    assert audit(alarms, days=days).contract is contract


def test_no_time_says_nothing():
    found = audit(0, days=0)

    assert (found.rate, found.low, found.high) == (None, 0.0, math.inf)
    assert found.contract is Contract.TOO_SHORT


def test_another_promise_is_another_contract():
    assert audit(0, days=30, allowed=4).contract is Contract.HOLDS
