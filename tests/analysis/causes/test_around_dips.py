"""What sessions do inside dips, and what comes before these, on series whose truth is known."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pgtrial.analysis.causes.around_dips import compare_waits, find_signs, tell_more
from pgtrial.analysis.causes.stability import describe_stability
from pgtrial.analysis.evidence import Evidence, measured
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.findings.message import say
from pgtrial.stats.dips import Steadiness, find_dips

SECONDS, STARTS, LENGTH = 300, (40, 100, 180, 250), 5
LOCK, READ, ACTIVE = ("wait.Lock", "transactionid"), ("wait.IO", "DataFileRead"), ("sessions.active", "")


def throughput(rng: np.random.Generator, starts: Any = STARTS) -> Any:
    tps = rng.normal(1000, 20, SECONDS)
    for start in starts:
        tps[start : start + LENGTH] *= 0.2
    return tps


def make_cell(make_timeline: Any, rng: np.random.Generator, *, runs: int = 2, **planted: Any) -> list[Timeline]:
    """Runs with dips; ``planted`` adds to a series at seconds since each dip's beginning: lock=(0, 5, 3.0)."""
    cell = []
    for run in range(1, runs + 1):
        series = {
            ACTIVE: np.full(SECONDS, 4.0),
            LOCK: np.abs(rng.normal(0.3, 0.1, SECONDS)),
            READ: np.abs(rng.normal(1.0, 0.2, SECONDS)),
            ("waits.Lock", ""): np.abs(rng.normal(0.3, 0.1, SECONDS)),
            ("vmstat.b", ""): np.abs(rng.normal(1.0, 0.3, SECONDS)),
            ("db.commits", ""): rng.normal(1000, 20, SECONDS),
        }
        keys = {"lock": LOCK, "blocked": ("vmstat.b", ""), "commits": ("db.commits", "")}
        for name, (begin, end, more) in planted.items():
            for start in STARTS:
                series[keys[name]][start + begin : start + end] += more
        cell.append(make_timeline(series, run=run, block=run, seconds=SECONDS, tps=throughput(rng)))
    return cell


def steadiness_of(cell: list[Timeline]) -> dict[int, Steadiness]:
    return {each.run: found for each in cell if (found := find_dips(each.tps)) is not None}


def test_the_wait_that_dips_are_spent_in_is_told_apart_from_those_that_go_on_as_before(make_timeline: Any) -> None:
    cell = make_cell(make_timeline, np.random.default_rng(1), lock=(0, LENGTH, 3.0))

    first, second = compare_waits(cell, steadiness_of(cell), seed=7)

    assert (first.kind, first.event) == ("Lock", "transactionid")
    assert (first.inside, first.outside) == pytest.approx((3.3, 0.3), abs=0.1)
    assert first.chance < 0.01
    assert (second.kind, second.event) == ("IO", "DataFileRead")
    assert second.chance > 0.05


def test_each_dip_says_in_which_wait_it_has_more_sessions(make_timeline: Any) -> None:
    (cell,) = make_cell(make_timeline, np.random.default_rng(2), runs=1, lock=(0, LENGTH, 3.0))
    dips = steadiness_of([cell])[cell.run].dips

    told = [tell_more(cell, dips, dip) for dip in dips]

    assert len(told) == len(STARTS)
    assert all(say(each).startswith("Lock transactionid, by ") for each in told)
    assert tell_more(replace(cell, series={}), dips, dips[0]) is None


def test_what_rises_seconds_before_dips_is_a_sign_and_what_falls_with_them_is_none(make_timeline: Any) -> None:
    cell = make_cell(
        make_timeline,
        np.random.default_rng(3),
        blocked=(-4, -3, 4.0),
        commits=(0, LENGTH, -800.0),
        lock=(0, LENGTH, 3.0),
    )

    signs, tried = find_signs(cell, steadiness_of(cell), seed=7)

    assert [(sign.metric, sign.lead) for sign in signs] == [("vmstat.b", 4)]
    assert (signs[0].before, signs[0].usual) == pytest.approx((5.0, 1.0), abs=0.4)
    assert signs[0].chance <= 0.01
    assert tried == 2  # blocked tasks and the waits for locks


def test_one_or_two_dips_have_no_signs(make_timeline: Any) -> None:
    rng = np.random.default_rng(4)
    series = {("vmstat.b", ""): np.abs(rng.normal(1, 0.3, SECONDS))}
    cell = [make_timeline(series, seconds=SECONDS, tps=throughput(rng, (60, 200)))]

    assert find_signs(cell, steadiness_of(cell), seed=7) == ((), 0)


def test_without_dips_or_sampled_sessions_nothing_is_said(make_timeline: Any) -> None:
    rng = np.random.default_rng(5)
    steady = [make_timeline({LOCK: 0.2, ACTIVE: 4.0}, seconds=SECONDS, tps=throughput(rng, ()))]
    unseen = [make_timeline({}, seconds=SECONDS, tps=throughput(rng))]

    for cell in (steady, unseen):
        assert compare_waits(cell, steadiness_of(cell), seed=7) == ()
        assert find_signs(cell, steadiness_of(cell), seed=7) == ((), 0)


def test_findings_have_them_beside_the_dips(make_timeline: Any, evidence: Evidence) -> None:
    runs = evidence.runs_of("on")[:2]
    made = make_cell(make_timeline, np.random.default_rng(6), lock=(0, LENGTH, 3.0), blocked=(-4, -3, 4.0))
    cell = [
        replace(each, run=run.id, block=run.slot.block, started=measured(run)[0].start)
        for each, run in zip(made, runs, strict=True)
    ]

    (found,) = describe_stability(evidence, cell, [])

    assert (found.waits[0].kind, found.signs[0].metric, found.signs_tried) == ("Lock", "vmstat.b", 2)
    assert all(dip.more is not None for dip in found.dips)


@pytest.mark.simulated
def test_of_dips_that_have_to_do_with_nothing_no_wait_and_no_sign_is_told_more_than_one_time_in_twenty(
    make_timeline: Any,
) -> None:
    rng = np.random.default_rng(8)
    trials, waits, signs = 120, 0, 0
    for _ in range(trials):
        cell = make_cell(make_timeline, rng, runs=3)
        steadiness = steadiness_of(cell)
        waits += any(wait.chance <= 0.05 for wait in compare_waits(cell, steadiness, seed=7))
        signs += bool(find_signs(cell, steadiness, seed=7)[0])

    assert waits <= 15  # binom.ppf(0.999, 120, 0.05)
    assert signs <= 15
