from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pgtrial.analysis.causes import stability
from pgtrial.analysis.causes.stability import describe_stability
from pgtrial.analysis.evidence import Evidence, measured
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.findings.message import say
from pgtrial.model.run import Slice
from pgtrial.stats.dips import find_dips
from pgtrial.stats.interval import t_quantile

Make = Callable[..., Timeline]
SECONDS = 600


def steady(rng: np.random.Generator, seconds: int = SECONDS) -> Any:
    return rng.normal(1000, 20, seconds)


def with_dips(rng: np.random.Generator, starts: Any, length: int = 4, depth: float = 0.8) -> Any:
    tps = steady(rng)
    for start in starts:
        tps[start : start + length] *= 1 - depth
    return tps


@pytest.fixture
def make_run(make_timeline: Make, evidence: Evidence) -> Callable[..., Timeline]:
    """A timeline of the arm's n-th run, at that run's own time."""

    def make(tps: Any, number: int = 0, arm: str = "on", **about: Any) -> Timeline:
        run = evidence.runs_of(arm)[number]
        made = make_timeline(run=run.id, arm=arm, block=run.slot.block, seconds=len(tps), tps=tps, **about)
        return replace(made, started=measured(run)[0].start + made.offset)

    return make


def test_numbers_are_means_over_the_blocks_with_t_intervals(make_run: Any, evidence: Evidence) -> None:
    rng = np.random.default_rng(1)
    runs = [make_run(with_dips(rng, [100] if number < 2 else []), number) for number in range(6)]
    (found,) = describe_stability(evidence, runs, [])

    shares = [find_dips(run.tps).dip_share for run in runs]  # type: ignore[union-attr]
    half = t_quantile(0.975, 5) * np.std(shares, ddof=1) / np.sqrt(6)
    assert (found.arm, found.load_level) == ("on", 0)
    assert found.dip_share.value == pytest.approx(np.mean(shares)) == pytest.approx(2 / 6 * 4 / SECONDS, rel=0.3)
    assert (found.dip_share.low, found.dip_share.high) == pytest.approx(
        (np.mean(shares) - half, np.mean(shares) + half)
    )
    assert found.coefficient_of_variation.low < 0.06 < found.coefficient_of_variation.high
    assert found.lowest.value == pytest.approx(950, rel=0.02)
    assert found.stalled.value == 0
    assert found.stalled.low is None  # all runs agree, so the noise is not known
    assert [dip.run for dip in found.dips] == [runs[0].run, runs[1].run]


def test_dips_have_their_place_in_the_run_and_what_the_log_says_beside_them(
    make_run: Any, make_entry: Any, evidence: Evidence
) -> None:
    rng = np.random.default_rng(2)
    tps = with_dips(rng, [50, 300], length=5)
    tps[302] = 0
    run = make_run(tps, offset=60.0)
    log = [
        make_entry(run, 46, 49.5, kind="checkpoint"),
        make_entry(run, 303, kind="autovacuum", object="public.t"),
        make_entry(run, 304, kind="autovacuum", object="public.t"),
        make_entry(run, 320, kind="checkpoint"),
    ]
    (found,) = describe_stability(evidence, [run], log)

    first, second = sorted(found.dips, key=lambda dip: dip.start)
    assert (first.start, first.length, second.start) == (110, 5, 360)
    assert first.depth == pytest.approx(0.8, abs=0.05)
    assert (tuple(map(say, first.near)), tuple(map(say, second.near))) == (("checkpoint",), ("autovacuum of public.t",))
    assert (first.stalled, second.stalled, second.depth) == (0, 1, pytest.approx(1.0, abs=0.01))
    assert first.recovery is not None
    assert found.dip_share.low is None  # one block


def test_a_trend_is_told_per_minute(make_run: Any, evidence: Evidence) -> None:
    rng = np.random.default_rng(3)
    runs = [make_run(steady(rng) - np.arange(SECONDS) / 2, number) for number in range(6)]
    (found,) = describe_stability(evidence, runs, [])

    assert found.trend.low < -30 < found.trend.high
    assert found.trend.high < -25


def test_arms_and_load_levels_are_described_apart(make_run: Any, evidence: Evidence) -> None:
    rng = np.random.default_rng(4)
    found = describe_stability(
        evidence,
        [make_run(steady(rng), level=1), make_run(steady(rng)), make_run(with_dips(rng, [90]), arm="off")],
        [],
    )

    assert [(each.arm, each.load_level, len(each.dips)) for each in found] == [
        ("on", 0, 0),
        ("on", 1, 0),
        ("off", 0, 1),
    ]


def test_a_load_of_a_few_seconds_is_not_judged(make_run: Any, evidence: Evidence) -> None:
    (found,) = describe_stability(evidence, [make_run([10.0] * 5)], [])

    assert (found.coefficient_of_variation, found.lowest, found.trend, found.dips) == (None, None, None, ())
    assert (found.periods, found.aligned) == ((), None)


class TestAlignment:
    def test_dips_that_come_with_checkpoints_are_told_with_their_probability(
        self, make_run: Any, make_entry: Any, evidence: Evidence
    ) -> None:
        rng = np.random.default_rng(5)
        runs, log = [], []
        for number in range(3):
            starts = sorted(rng.choice(np.arange(20, SECONDS - 20, 20), 5, replace=False))
            runs.append(make_run(with_dips(rng, starts), number))
            log += [make_entry(runs[-1], start, start + 4, kind="checkpoint") for start in starts]
            log += [make_entry(runs[-1], 30 * i + 11, kind="autovacuum", object="t") for i in range(5)]
            log += [make_entry(runs[-1], start + 2, kind="slow statement") for start in starts]
        (found,) = describe_stability(evidence, runs, log)

        assert say(found.aligned).startswith("Of 1 min in dips 1 min lie beside a checkpoint; by chance it would be")
        assert float(say(found.aligned).partition("probability ")[2].rstrip(").")) < 1e-3
        assert "slow" not in say(found.aligned)  # what a dip brings about explains no dip

    def test_dips_at_other_times_do_not_follow_the_log(
        self, make_run: Any, make_entry: Any, evidence: Evidence
    ) -> None:
        rng = np.random.default_rng(6)
        run = make_run(with_dips(rng, [100, 250]))
        (found,) = describe_stability(evidence, [run], [make_entry(run, 400, 420, kind="checkpoint")])

        assert say(found.aligned).startswith(
            "The dips do not follow the log: of 8 s in dips 0 s lie beside a checkpoint"
        )

    def test_checkpoints_that_are_spread_until_the_next_are_tried_by_their_beginning(
        self, make_run: Any, make_entry: Any, evidence: Evidence
    ) -> None:
        rng = np.random.default_rng(8)
        runs, log = [], []
        for number in range(3):
            starts = [15 + 40 * each + 3 * number for each in range(10)]
            runs.append(make_run(with_dips(rng, starts), number))
            log += [make_entry(runs[-1], start, start + 37, kind="checkpoint") for start in starts]
            log += [make_entry(runs[-1], start + 2, kind="lock wait") for start in starts]
        (found,) = describe_stability(evidence, runs, log)

        of_locks, of_checkpoints, warning = say(found.aligned).replace(". ", ".\n").splitlines()
        assert of_locks.startswith("Of 2 min in dips 1 min lie beside a lock wait; by chance")
        assert of_checkpoints.startswith("Of 2 min in dips 2 min lie beside a checkpoint's beginning; by chance")
        assert warning.startswith("Locks are held longer when all is slow")

    def test_without_dips_or_without_entries_there_is_nothing_to_say(
        self, make_run: Any, make_entry: Any, evidence: Evidence
    ) -> None:
        rng = np.random.default_rng(7)
        quiet, dipping = make_run(steady(rng)), make_run(with_dips(rng, [100]))

        assert describe_stability(evidence, [quiet], [make_entry(quiet, 5, kind="checkpoint")])[0].aligned is None
        assert describe_stability(evidence, [dipping], [])[0].aligned is None


class TestPeriods:
    @pytest.fixture
    def timed(self, evidence: Evidence) -> Evidence:
        """Checkpoints every 50 s, autovacuum every minute."""
        told = {"checkpoint_timeout": ("50s", ""), "autovacuum_naptime": ("1min", "")}
        return replace(evidence, settings={run.id: told for run in evidence.valid})

    def test_a_rhythm_of_the_checkpoints_is_found_by_its_name(self, make_run: Any, timed: Evidence) -> None:
        rng = np.random.default_rng(8)
        runs = [make_run(with_dips(rng, range(number, SECONDS - 5, 50), depth=0.5), number) for number in range(3)]
        (found,) = describe_stability(timed, runs, [])

        by_name = {period.like: period for period in found.periods}
        assert list(by_name) == ["checkpoint_timeout", "autovacuum_naptime"]  # and none that nobody can name
        assert by_name["checkpoint_timeout"].seconds == pytest.approx(50, rel=0.02)
        assert by_name["checkpoint_timeout"].false_alarm < 0.01
        assert by_name["checkpoint_timeout"].share > 0.5
        assert by_name["autovacuum_naptime"].false_alarm > 0.01

    def test_a_rhythm_that_no_timer_has_is_found_without_a_name(self, make_run: Any, timed: Evidence) -> None:
        rng = np.random.default_rng(9)
        wave = 1000 + 300 * np.sin(2 * np.pi * np.arange(SECONDS) / 17) + rng.normal(0, 50, SECONDS)
        (found,) = describe_stability(timed, [make_run(wave)], [])

        assert [period.like for period in found.periods] == ["checkpoint_timeout", "autovacuum_naptime", ""]
        assert found.periods[-1].seconds == pytest.approx(17, rel=0.02)

    def test_a_long_run_is_searched_in_parts(
        self, make_run: Any, timed: Evidence, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rng = np.random.default_rng(9)
        wave = 1000 + 300 * np.sin(2 * np.pi * np.arange(SECONDS) / 17) + rng.normal(0, 50, SECONDS)
        (whole,) = describe_stability(timed, [make_run(wave)], [])
        monkeypatch.setattr(stability, "_SEARCHED", SECONDS // 2)
        (parted,) = describe_stability(timed, [make_run(wave)], [])

        assert [period.like for period in parted.periods] == [period.like for period in whole.periods]
        assert parted.periods[-1].seconds == pytest.approx(17, rel=0.03)

    def test_checkpoints_of_the_log_are_a_rhythm_of_their_own(
        self, make_run: Any, make_entry: Any, timed: Evidence
    ) -> None:
        rng = np.random.default_rng(10)
        starts = range(0, SECONDS - 5, 35)  # sooner than their timeout, because of much WAL
        run = make_run(with_dips(rng, starts, depth=0.5))
        log = [make_entry(run, start, start + 3, kind="checkpoint") for start in starts]
        (found,) = describe_stability(timed, [run], log)

        by_name = {period.like: period for period in found.periods}
        assert by_name["checkpoints of the log"].seconds == pytest.approx(35, rel=0.02)
        assert by_name["checkpoints of the log"].false_alarm < 0.01

    def test_noise_has_no_rhythm(self, make_run: Any, timed: Evidence) -> None:
        rng = np.random.default_rng(11)
        (found,) = describe_stability(timed, [make_run(steady(rng), number) for number in range(4)], [])

        assert [period.like for period in found.periods] == ["checkpoint_timeout", "autovacuum_naptime"]
        assert all(period.false_alarm > 0.05 for period in found.periods)

    def test_both_timers_are_found_where_both_beat(self, make_run: Any, timed: Evidence) -> None:
        rng = np.random.default_rng(14)
        tps = with_dips(rng, range(0, SECONDS - 5, 50), depth=0.5)
        tps += 100 * np.sin(2 * np.pi * np.arange(SECONDS) / 60)
        (found,) = describe_stability(timed, [make_run(tps)], [])

        assert [period.like for period in found.periods] == ["checkpoint_timeout", "autovacuum_naptime"]
        assert all(period.false_alarm < 0.01 for period in found.periods)

    def test_checkpoints_that_go_by_their_timer_are_told_once(
        self, make_run: Any, make_entry: Any, timed: Evidence
    ) -> None:
        rng = np.random.default_rng(15)
        run = make_run(with_dips(rng, range(0, SECONDS - 5, 50), depth=0.5))
        log = [make_entry(run, start, start + 3, kind="checkpoint") for start in range(0, SECONDS - 5, 50)]
        (found,) = describe_stability(timed, [run], log)

        assert [period.like for period in found.periods] == ["checkpoint_timeout", "autovacuum_naptime"]

    def test_a_timer_that_does_not_fit_three_times_is_not_looked_for(self, make_run: Any, timed: Evidence) -> None:
        rng = np.random.default_rng(12)
        (found,) = describe_stability(timed, [make_run(steady(rng, 100))], [])

        assert found.periods == ()

    def test_a_run_of_slices_does_not_go_by_the_servers_clock(self, make_run: Any, timed: Evidence) -> None:
        rng = np.random.default_rng(13)
        run = make_run(with_dips(rng, range(0, SECONDS - 5, 50)))
        piece = Slice(number=1, level=0, started=run.started, counted=run.started, ended=run.started + SECONDS)
        sliced = tuple(replace(each, slices=(piece,)) if each.id == run.run else each for each in timed.valid)
        (found,) = describe_stability(replace(timed, valid=sliced), [run], [])

        assert found.periods == ()
