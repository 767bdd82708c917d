"""The level of another attempt at a claim."""

import pytest

from pgtrial.model.rules import CURRENT, RULES


def test_all_attempts_after_the_first_err_no_more_often_than_it_does() -> None:
    levels = [1 - CURRENT.confidence(0.95, attempts_before=before) for before in range(2_000)]

    assert levels[:5] == pytest.approx([0.05, 0.025, 0.05 / 6, 0.05 / 12, 0.05 / 20])
    assert levels == sorted(levels, reverse=True)
    assert sum(levels[1:]) < levels[0]
    assert sum(levels[1:]) == pytest.approx(levels[0], rel=0.001)


def test_so_many_attempts_that_their_share_is_lost_in_rounding_have_a_level_all_the_same() -> None:
    assert 0 < 1 - CURRENT.confidence(0.99, attempts_before=10**400) < 1e-9


@pytest.mark.parametrize("before", [None, 0])
def test_the_first_attempt_and_one_of_unknown_number_keep_their_level(before: int | None) -> None:
    assert CURRENT.confidence(0.9, attempts_before=before) == 0.9


@pytest.mark.parametrize("version", [1, 2, 3])
def test_older_rules_know_no_attempts(version: int) -> None:
    assert RULES[version].confidence(0.9, attempts_before=7) == 0.9
