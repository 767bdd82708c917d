"""What comes later than an arm's own turn, against blocks whose truth is known and an oracle of its own."""

import math
from itertools import pairwise, product

import numpy as np
import pytest

from pgtrial.design.slices import interleave
from pgtrial.stats.late import SHAPES, Late, Speeds, bound_late, late_changes, unseen
from pgtrial.stats.paired import compare_blocks

STEP = 0.01  # s of the oracle's clock
SLICE = 1.0
PARTS = 4


def turns_of(seed, *, seconds=8.0, arms="ab"):
    """(start, counted, end, arm) of the slices of a block, as the product plans them."""
    found, now = [], 0.0
    for step in interleave(tuple(arms), seconds=seconds, slice_length=SLICE, guard=SLICE / 2, seed=seed):
        found.append((now, now + step.guard, now + step.length, arms.index(step.arms[0])))
        now += step.length
    return found


def debt(turns, *, delay, fade, of=1):
    """What the work ``of`` an arm lies on the machine with at each step, by Euler's method."""
    steps = round(turns[-1][2] / STEP)
    times = (np.arange(steps) + 0.5) * STEP
    busy = np.zeros(steps)
    for start, _, end, arm in turns:
        busy[(times >= start) & (times < end)] = arm == of
    late = np.zeros(steps)
    shift = round(delay / STEP)
    late[shift:] = busy[: steps - shift] - busy.mean()
    if not fade:
        return times, late
    load, found = 0.0, np.empty(steps)
    for place, due in enumerate(late):
        load += (due - load) * STEP / fade
        found[place] = load
    return times, found


def block(seed, *, arm_effect=0.0, late=0.0, delay=0.0, fade=0.0, noise=0.0, rng=None, seconds=8.0, arms="ab", of=1):
    turns = turns_of(seed, seconds=seconds, arms=arms)
    times, load = debt(turns, delay=delay, fade=fade, of=of)
    rows = []
    for _, counted, end, arm in turns:
        for begin, stop in pairwise(np.linspace(counted, end, PARTS + 1)):
            inside = (times >= begin) & (times < stop)
            own = rng.normal(0, noise / math.sqrt(stop - begin)) if noise else 0.0
            rows.append((begin, stop, 1000 * math.exp(arm_effect * (arm == 1) + late * load[inside].mean() + own), arm))
    started, ended, rate, arms = np.array(rows).T
    return Speeds(
        started=started,
        ended=ended,
        rate=rate,
        arm=arms.astype(np.intp),
        turns=np.array([(start, end, arm) for start, _, end, arm in turns]),
        slice=SLICE,
    )


def log_ratio(speeds):
    seconds = speeds.ended - speeds.started
    rates = [(speeds.rate * seconds)[speeds.arm == arm].sum() / seconds[speeds.arm == arm].sum() for arm in (0, 1)]
    return math.log(rates[1] / rates[0])


@pytest.mark.parametrize("shape", [(1.0, 0.0), (2.5, 0.5), (1.0, 1.0), (1.0, 2.0)])
def test_among_three_arms_what_the_control_does_later_is_put_right_by_the_controls_change(shape):
    delay, fade = shape
    for seed in ("1", "2", "3"):
        speeds = block(
            seed, arm_effect=0.02, late=-0.1, delay=delay * SLICE, fade=fade * SLICE, seconds=12.0, arms="abc", of=0
        )

        change = late_changes(speeds, of=0)[0][SHAPES.index(shape)]

        # The control alone is slower by all that comes later; b has nothing of the kind.
        assert log_ratio(speeds) + change == pytest.approx(0.02 + 0.1, abs=0.012)
        assert abs(late_changes(speeds)[0][SHAPES.index(shape)] + log_ratio(speeds) - 0.12) > 0.02  # the arm's does not


def test_of_two_arms_each_is_what_the_other_is_not():
    rng = np.random.default_rng(5)
    for seed in ("1", "2"):
        speeds = block(seed, late=-0.1, delay=SLICE, noise=0.02, rng=rng)
        assert late_changes(speeds, of=0) == pytest.approx(late_changes(speeds), nan_ok=True)


@pytest.mark.parametrize("shape", [(1.0, 0.0), (2.0, 0.0), (2.5, 0.5), (4.0, 0.0), (2.0, 1.0), (0.0, 2.0), (6.0, 2.0)])
def test_of_a_shape_that_is_there_the_change_puts_the_ratio_right(shape):
    delay, fade = shape
    for seed in ("1", "2", "3"):
        speeds = block(seed, arm_effect=0.02, late=-0.1, delay=delay * SLICE, fade=fade * SLICE)

        change = late_changes(speeds)[0][SHAPES.index(shape)]

        # Alone, without the other arm, b is slower by what it does at once and by all that comes later.
        assert log_ratio(speeds) + change == pytest.approx(0.02 - 0.1, abs=0.006)


def test_the_change_is_that_of_least_squares_on_regressors_made_by_hand():
    shape = (2.0, 0.5)
    speeds = block("7", arm_effect=0.03, late=-0.05, delay=1.5, noise=0.03, rng=np.random.default_rng(2))
    turns = turns_of("7")
    times, load = debt(turns, delay=shape[0], fade=shape[1])
    lies = np.array(
        [load[(times >= a) & (times < b)].mean() for a, b in zip(speeds.started, speeds.ended, strict=True)]
    )
    seconds = speeds.ended - speeds.started
    table = np.column_stack([speeds.arm == 0, speeds.arm == 1, (speeds.started + speeds.ended) / 2, lies])
    weight = np.sqrt(seconds)
    (*_, late), *_ = np.linalg.lstsq(weight[:, None] * table, weight * np.log(speeds.rate), rcond=None)
    mean = [np.average(lies[speeds.arm == arm], weights=seconds[speeds.arm == arm]) for arm in (0, 1)]

    assert late_changes(speeds)[0][SHAPES.index(shape)] == pytest.approx(late * (1 - mean[1] + mean[0]), abs=0.004)


def test_a_block_tells_nothing_of_what_comes_after_its_end():
    found = dict(zip(SHAPES, late_changes(block("1", seconds=2.0))[0], strict=True))

    assert math.isnan(found[8.0, 0.0])
    assert math.isfinite(found[1.0, 0.0])
    assert unseen(Late(change=np.full((6, len(SHAPES)), np.nan), error=None)) == (0.0, 0.0)


def test_a_block_without_one_of_the_arms_tells_nothing():
    speeds = block("1")
    only = speeds.arm == 1
    alone = Speeds(
        started=speeds.started[only],
        ended=speeds.ended[only],
        rate=speeds.rate[only],
        arm=speeds.arm[only],
        turns=speeds.turns,
        slice=SLICE,
    )

    assert np.isnan(late_changes(alone)).all()


def test_the_error_of_a_change_is_by_how_much_it_scatters():
    rng, count, found = np.random.default_rng(3), 300, []
    for _ in range(count):
        found.append(late_changes(block("5", noise=0.03, rng=rng)))
    changes, errors = np.moveaxis(np.array(found), 1, 0)
    known = np.isfinite(changes[0])

    assert known.sum() > 60
    assert changes[:, known].std(axis=0) == pytest.approx(errors[:, known].mean(axis=0), rel=0.2)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("blocks", [6, 12, 20])
def test_where_nothing_comes_late_something_is_seen_in_a_fifth_at_most(blocks, is_weighted):
    rng, seen, count = np.random.default_rng(blocks), 0, 1000
    mixing = rng.normal(size=(len(SHAPES), len(SHAPES)))  # shapes resemble each other
    for _ in range(count):
        change = rng.normal(size=(blocks, len(SHAPES))) @ mixing
        error = rng.uniform(0.5, 2, (blocks, len(SHAPES))) if is_weighted else None
        seen += unseen(Late(change=change, error=error)) != (0.0, 0.0)

    assert seen / count == pytest.approx(0.2, abs=4 * math.sqrt(0.2 * 0.8 / count))


def test_by_older_rules_all_flips_of_signs_decide_on_the_t_statistics_of_the_blocks():
    rng = np.random.default_rng(4)
    for _ in range(40):
        changes = rng.normal(0.4, 1, size=(6, len(SHAPES)))
        largest = []
        for signs in product((-1.0, 1.0), repeat=6):
            flipped = np.array(signs)[:, None] * changes
            largest.append(np.max(np.abs(flipped.mean(axis=0)) / flipped.std(axis=0, ddof=1)))
        own = np.abs(changes.mean(axis=0)) / changes.std(axis=0, ddof=1)
        chances = [np.mean(np.array(largest) >= one * (1 - 1e-12)) for one in own]

        assert (unseen(Late(change=changes, error=None)) != (0.0, 0.0)) == (min(chances) <= 0.2 + 1 / 32)


def test_all_flips_of_signs_decide_on_means_weighted_by_what_each_block_knows():
    rng = np.random.default_rng(4)
    for _ in range(40):
        changes, errors = rng.normal(0.4, 1, size=(6, len(SHAPES))), rng.uniform(0.5, 2, (6, len(SHAPES)))

        def statistics(values, errors=errors):
            means = np.average(values, weights=1 / errors**2, axis=0)
            return np.abs(means) * np.sqrt((1 / errors**2).sum(axis=0))

        largest = [statistics(np.array(signs)[:, None] * changes).max() for signs in product((-1.0, 1.0), repeat=6)]
        chances = [np.mean(np.array(largest) >= one * (1 - 1e-12)) for one in statistics(changes)]

        assert (unseen(Late(change=changes, error=errors)) != (0.0, 0.0)) == (min(chances) <= 0.2 + 1 / 32)


@pytest.mark.parametrize(
    ("late", "delay", "fade", "blocks"),
    [
        *((-0.05, delay, 0.0, 6) for delay in (2.0, 3.0)),
        *((-0.1, delay, 0.0, 6) for delay in (7.0, 8.0, 9.5, 12.0)),
        *((-0.1, 2.0, 1.0, 12), (-0.1, 11.0, 0.5, 12)),
    ],
)
def test_the_interval_holds_what_comes_late_and_did_not_before(late, delay, fade, blocks):
    rng, held, before = np.random.default_rng(1), 0, 0
    count = 20
    for experiment in range(count):
        speeds = [
            block(f"{experiment}/{number}", late=late, delay=delay, fade=fade, noise=0.03, rng=rng)
            for number in range(blocks)
        ]
        plain = compare_blocks(np.ones(blocks), np.exp([log_ratio(one) for one in speeds]))
        change, error = np.moveaxis(np.array([late_changes(one) for one in speeds]), 1, 0)
        bound = bound_late(plain, Late(change=change, error=error))
        before += plain.low <= math.exp(late) <= plain.high
        held += bound.low <= math.exp(late) <= bound.high

    assert before <= 0.2 * count
    assert held >= 0.9 * count


def test_the_interval_is_extended_to_the_side_of_what_comes_late():
    changes = np.full((6, len(SHAPES)), -0.1) + np.random.default_rng(1).normal(0, 0.001, (6, len(SHAPES)))
    plain = compare_blocks([100] * 6, [101, 99, 100, 102, 98, 100])

    speed, time = (bound_late(plain, Late(change=sign * changes, error=None)) for sign in (1, -1))

    assert (speed.high, time.low) == (plain.high, plain.low)
    assert speed.low < plain.low * 0.91
    assert time.high > plain.high * 1.09
    assert speed.hidden[0] == time.hidden[1] > 0.09
