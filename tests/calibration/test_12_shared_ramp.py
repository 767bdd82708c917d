"""Defect 12: series that have nothing in common but the ramp at the start of each run were called associated."""

import numpy as np
import pytest

from calibration.trials import Row, most, rate, record
from pgtrial.stats.association import associations

EXPERIMENTS = 400
RUNS, SECONDS, RAMP = 12, 60, 5


def simulate(rng, *, has_ramp, has_link):
    """Two series of twelve runs of one configuration."""
    rows = [[], []]
    for _ in range(RUNS):
        start = 5 * np.clip(np.arange(SECONDS) / RAMP - 1, None, 0) if has_ramp else np.zeros(SECONDS)
        common = rng.normal(size=SECONDS) if has_link else np.zeros(SECONDS)
        for row in rows:
            row.append(start + 0.5 * common + rng.normal(size=SECONDS))
    return np.array([np.concatenate(row) for row in rows]), np.repeat(np.arange(RUNS), SECONDS)


def count(*, has_ramp, has_link, is_compared=True):
    rng, found = np.random.default_rng(12), np.zeros(2, dtype=int)
    for _ in range(EXPERIMENTS):
        series, strata = simulate(rng, has_ramp=has_ramp, has_link=has_link)
        alike = [0] * RUNS if is_compared else None
        (result,) = associations(series, [(0, 1)], strata, rng=rng, draws=399, alike=alike)
        found += [one.p_value <= 0.05 for one in (result.spearman, result.pearson)]
    return found


@pytest.mark.slow
def test_a_ramp_that_all_runs_share_is_no_association() -> None:
    without = count(has_ramp=True, has_link=False, is_compared=False)
    ramp, white, linked = (count(has_ramp=r, has_link=k) for r, k in ((True, False), (False, False), (True, True)))

    assert (without > 0.8 * EXPERIMENTS).all()  # the fault
    assert (ramp <= most(EXPERIMENTS, 0.05)).all()
    assert (white <= most(EXPERIMENTS, 0.05)).all()
    assert (linked > 0.9 * EXPERIMENTS).all()
    told, of_old = (", ".join(rate(number, EXPERIMENTS) for number in numbers) for numbers in (ramp, without))
    record(
        Row(
            number=12,
            defect="independent series whose runs share a ramp of 5 s: p ≤ 0.05 (Spearman, Pearson)",
            audit="92 %, 99.5 %",
            before=f"{of_old} by the signs of frequencies alone",
            after=(
                f"{told} against the other runs of the arm as well (series that are linked are found in "
                f"{rate(linked[0], EXPERIMENTS)}); a single run cannot tell them apart"
            ),
        )
    )
