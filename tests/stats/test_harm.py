from collections import defaultdict

import pytest

from pgtrial.stats.harm import HarmTest


def ask(worse: int, better: int, *, alpha: float = 0.05) -> HarmTest:
    test = HarmTest(alpha=alpha)
    for is_worse in [True] * worse + [False] * better:
        test.add(is_worse=is_worse)
    return test


def ever_shown(share: float, *, pairs: int, alpha: float) -> float:
    """Exactly, how often harm is shown at some time, if ``share`` of the pairs are worse, each by itself.

    What the players have depends on the numbers alone, so paths with equal numbers are taken together.
    """
    states, shown = {(0, 0): 1.0}, 0.0
    for _ in range(pairs):
        after: dict[tuple[int, int], float] = defaultdict(float)
        for (worse, better), chance in states.items():
            after[worse + 1, better] += chance * share
            after[worse, better + 1] += chance * (1 - share)
        states = {}
        for (worse, better), chance in after.items():
            if ask(worse, better, alpha=alpha).evidence >= 1 / alpha:
                shown += chance
            else:
                states[worse, better] = chance
    return shown


@pytest.mark.parametrize("alpha", [0.05, 0.025])
def test_it_is_wrong_no_more_often_than_it_says_however_often_it_is_asked(alpha: float) -> None:
    wrong = ever_shown(0.5, pairs=60, alpha=alpha)

    assert alpha / 4 < wrong <= alpha
    assert ever_shown(0.4, pairs=60, alpha=alpha) < wrong


def test_six_worse_pairs_in_a_row_show_harm_and_five_do_not() -> None:
    assert not ask(5, 0).is_shown
    assert ask(6, 0).is_shown
    # By hand: mean of 1.25^6, 1.5^6, 1.75^6 and 2^6 = (3.815 + 11.391 + 28.723 + 64) / 4.
    assert ask(6, 0).evidence == pytest.approx(26.98, abs=0.01)


def test_harm_that_was_shown_stays_shown_whatever_comes_later() -> None:
    test = ask(6, 3)

    assert test.evidence < 20
    assert test.is_shown


def test_harm_that_is_there_is_shown_soon() -> None:
    assert ever_shown(0.95, pairs=11, alpha=0.05) > 0.9
    assert ever_shown(0.8, pairs=35, alpha=0.05) > 0.9
    assert ever_shown(0.7, pairs=90, alpha=0.05) > 0.9
