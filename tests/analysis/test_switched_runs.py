"""Whose is what was counted while one server was switched between arms: by hand, and for any order of slices."""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.analysis.counters import Array, count_between, in_own_time, window_increases
from pgtrial.analysis.slices import spans, stretches, windows
from pgtrial.analysis.timelines.seconds import find_switched_rates, make_grids
from pgtrial.model.run import Phase, PhaseName, RunRow, RunState, Slice, Slot

START = 1_767_225_600.25
OF_MACHINE, OF_SERVER, OF_STATEMENTS = "disk.writes", "pg_stat_wal.wal_bytes", "pg_stat_statements.calls"
TICK = 1.0
FOREIGN = 1e6  # 1/s, of whatever happens outside of an arm's own counted time

Turn = tuple[str, float, float]  # arm, washout, what counts after it


def make_runs(turns: Sequence[Turn]) -> dict[str, RunRow]:
    """The runs of a block by arm; its slices follow each other with a tenth of a second between them."""
    own: dict[str, list[Slice]] = {}
    t = START
    for number, (arm, washout, counted) in enumerate(turns):
        ended = t + washout + counted
        own.setdefault(arm, []).append(Slice(level=0, number=number, started=t, counted=t + washout, ended=ended))
        t = ended + 0.1
    phase = Phase(name=PhaseName.MEASURE, start=START, end=t, level=0)
    return {
        arm: RunRow(
            id=place,
            slot=Slot(number=place, block=1, position=place, arm=arm),
            attempt=1,
            state=RunState.DONE,
            started=START - 5,
            ended=t + 5,
            reason="",
            phases=(phase,),
            slices=tuple(slices),
            is_switched=True,
        )
        for place, (arm, slices) in enumerate(sorted(own.items()), 1)
    }


def integral(runs: dict[str, RunRow], rates: dict[str, float]) -> Callable[[Array], Array]:
    """A counter that grows by an arm's rate in what counts of its slices, and by FOREIGN else."""
    edges, speed = [START - 10], [FOREIGN]
    for arm, piece in sorted(((a, s) for a, run in runs.items() for s in run.slices), key=lambda pair: pair[1].started):
        edges += [piece.counted, piece.ended]
        speed += [rates[arm], FOREIGN]
    ends = np.append(edges[1:], edges[-1] + 1000)
    value = np.concatenate([[0.0], np.cumsum((ends - np.array(edges)) * np.array(speed))])
    return lambda t: np.interp(t, np.append(edges, ends[-1]), value)


def moments(runs: dict[str, RunRow], rng: np.random.Generator, *, at_ends: float | None) -> Array:
    """When a sampler reads: once a second, at random; and so many seconds inside of both ends of what counts."""
    pieces = [piece for run in runs.values() for piece in run.slices]
    last = max(piece.ended for piece in pieces)
    ticks = np.arange(START - 2, last + 2, TICK)
    found = [ticks + rng.uniform(0, 0.2, ticks.size)]
    if at_ends is not None:
        found += [np.array([piece.counted + at_ends, piece.ended - at_ends]) for piece in pieces]
    return np.sort(np.concatenate(found))


def increase(run: RunRow, metric: str, t: Array, value: Array) -> float | None:
    ((_, _, found, _),) = window_increases(run, {(metric, ""): (t, value)})
    return found


turn = st.tuples(st.sampled_from(["a", "b", "c"]), st.floats(1.0, 4.0), st.floats(0.5, 6.0))


@given(turns=st.lists(turn, min_size=1, max_size=12), seed=st.integers(0, 2**32 - 1), late=st.floats(0.0, 0.05))
def test_an_arm_has_what_its_slices_count_and_nothing_of_what_lies_around(
    turns: list[Turn], seed: int, late: float
) -> None:
    runs = make_runs(turns)
    rates = {"a": 10.0, "b": 70.0, "c": 0.0}
    counter, t = integral(runs, rates), moments(runs, np.random.default_rng(seed), at_ends=late)

    for arm, run in runs.items():
        (window,) = windows(run)
        for metric in (OF_MACHINE, OF_SERVER, OF_STATEMENTS):
            assert increase(run, metric, t, counter(t)) == pytest.approx(rates[arm] * window.counted, abs=1e-3)
        assert window.active == pytest.approx(window.counted)


@given(turns=st.lists(turn, min_size=2, max_size=12), seed=st.integers(0, 2**32 - 1))
def test_what_the_arms_have_and_the_washouts_add_up_to_what_the_server_has_counted(
    turns: list[Turn], seed: int
) -> None:
    runs = make_runs(turns)
    rng = np.random.default_rng(seed)
    t = moments(runs, rng, at_ends=0.0)
    value = np.cumsum(rng.exponential(100.0, t.size))

    pieces = sorted((piece for run in runs.values() for piece in run.slices), key=lambda piece: piece.started)
    read = dict(zip(t.tolist(), value.tolist(), strict=True))
    between = sum(read[later.counted] - read[earlier.ended] for earlier, later in itertools.pairwise(pieces))
    arms = sum(increase(run, OF_MACHINE, t, value) or 0.0 for run in runs.values())
    assert arms + between == pytest.approx(read[pieces[-1].ended] - read[pieces[0].counted], rel=1e-6)


@given(turns=st.lists(turn, min_size=1, max_size=6), seed=st.integers(0, 2**32 - 1))
def test_without_readings_at_its_ends_a_slice_is_known_by_those_inside_or_not_at_all(
    turns: list[Turn], seed: int
) -> None:
    runs = make_runs(turns)
    rates = {"a": 10.0, "b": 70.0, "c": 0.0}
    counter, t = integral(runs, rates), moments(runs, np.random.default_rng(seed), at_ends=None)

    for arm, run in runs.items():
        for _, _, found, _ in window_increases(run, {(OF_MACHINE, ""): (t, counter(t))}):
            assert found is None or found == pytest.approx(rates[arm] * windows(run)[0].counted, abs=1e-3)


def test_seconds_are_those_of_the_arms_own_slices() -> None:
    run = make_runs([("a", 2.0, 2.5), ("b", 2.0, 3.0), ("a", 2.0, 1.5)])["a"]
    first, second = run.slices
    # 10 a second in the first slice, 30 in the second; the switches between them do what they like.
    t = np.array([first.started, first.counted, first.counted + 1.2, first.ended, second.counted, second.ended])
    value = np.array([0.0, 5e6, 5e6 + 12, 5e6 + 25, 9e6, 9e6 + 45])
    (grid,) = make_grids(run)

    found = find_switched_rates(grid, run, t, value)

    assert found == pytest.approx([10, 10, 0.5 * 10 + 0.5 * 30, 30], rel=1e-5)
    assert np.flatnonzero(in_own_time(run, t)).tolist() == [1, 2, 3, 4, 5]


def test_a_reset_leaves_out_its_slice_and_the_others_stand_for_it() -> None:
    run = make_runs([("a", 2.0, 2.0), ("b", 2.0, 2.0), ("a", 2.0, 4.0)])["a"]
    first, second = run.slices
    t = np.array([first.counted, first.counted + 1, first.ended, second.counted, second.ended])

    # Two thirds of the time are known, or one.
    assert increase(run, OF_MACHINE, t, np.array([7.0, 3.0, 9.0, 20.0, 60.0])) == pytest.approx(60)
    t = np.array([first.counted, first.ended, second.counted, second.counted + 1, second.ended])
    assert increase(run, OF_MACHINE, t, np.array([7.0, 9.0, 20.0, 1.0, 60.0])) is None


def test_a_washout_shorter_than_the_server_is_late_leaves_out_what_only_the_server_tells() -> None:
    turns = [("a", 0.75, 2.0), ("b", 0.75, 2.0), ("a", 1.5, 4.0), ("b", 1.5, 4.0)]
    run = make_runs(turns)["a"]
    t = np.sort(np.array([moment for piece in run.slices for moment in (piece.counted, piece.ended)]))
    value = np.array([0.0, 2.0, 100.0, 140.0])

    assert increase(run, OF_STATEMENTS, t, value) == pytest.approx(42)
    assert increase(run, OF_SERVER, t, value) == pytest.approx(40 * 6 / 4)
    short = make_runs(turns[:2])["a"]
    assert increase(short, OF_SERVER, t[:2], value[:2]) is None
    assert increase(short, OF_MACHINE, t[:2], value[:2]) == pytest.approx(2)


def test_the_longest_gap_is_inside_a_slice() -> None:
    run = make_runs([("a", 2.0, 5.0), ("b", 2.0, 20.0), ("a", 2.0, 3.0)])["a"]
    first, second = run.slices
    t = np.array([first.counted, first.counted + 4, first.ended, second.counted, second.ended])

    ((_, _, _, gap),) = window_increases(run, {(OF_MACHINE, ""): (t, np.arange(5.0))})

    assert gap == pytest.approx(4)


def test_waits_are_counted_inside_of_slices() -> None:
    run = make_runs([("a", 2.0, 5.0), ("b", 2.0, 5.0), ("a", 2.0, 5.0)])["a"]
    t = np.array([moment for piece in run.slices for moment in (piece.counted, piece.ended - 0.01)])
    readings = {("pg_wait_sampling.count", "Lock/advisory"): (t, np.array([10.0, 30.0, 500.0, 504.0]))}

    assert [count_between(span, readings) for span in spans(run)] == [{"Lock/advisory": 20}, {"Lock/advisory": 4}]


def test_a_slice_of_the_same_arm_again_begins_anew() -> None:
    run = make_runs([("a", 2.0, 3.0), ("a", 1.0, 2.0)])["a"]

    assert [(each.before, each.washout) for each in stretches(run)] == [
        (0.0, pytest.approx(2.0)),
        (pytest.approx(3.0), pytest.approx(1.0)),
    ]
    assert all(
        math.isclose(each.seconds, piece.seconds) for each, piece in zip(stretches(run), run.slices, strict=True)
    )
