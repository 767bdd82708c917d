"""The pure parts of benchmarks/efficiency: what is played, what contenders conclude, and how that is scored."""

import importlib
import math
import random
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from pgtrial.stats.paired import compare_blocks

FOLDER = Path(__file__).parents[2] / "benchmarks" / "efficiency"


def load(name: str) -> ModuleType:
    sys.path.insert(0, str(FOLDER))  # as Python itself does for `python benchmarks/efficiency`
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


segments, contenders, records, tables = (load(name) for name in ("segments", "contenders", "records", "tables"))


@pytest.mark.parametrize("cases", [segments.QUIET_CASES, segments.BURSTY_CASES, segments.QUIET_CASES[:3]])
def test_every_case_has_its_two_runs_one_after_the_other(cases):
    order = segments.chain(cases, random.Random(1))

    for case in cases:
        first, second = (i for i, (_, counting) in enumerate(order) if case in counting)
        assert second == first + 1
        assert {order[first][0], order[second][0]} == {segments.CONTROL, case}


@pytest.mark.parametrize("seconds", [6.0, 7.3, 12.0, 20.0])
def test_every_contender_has_the_same_wall_time_in_every_case(seconds):
    sessions = [
        segments.session_segments(
            segments.QUIET_CASES,
            seconds=seconds,
            slice_length=0.25,
            guard=0.1,
            contiguous=session == 2,
            seed=f"{session}",
        )
        for session in range(segments.SESSIONS)
    ]
    for case in segments.QUIET_CASES:
        time = dict.fromkeys(records.STREAMS, 0.0)
        for segment in (segment for session in sessions for segment in session):
            for step, counting in zip(segment.steps, segment.cases, strict=True):
                own = segment.method in (segments.INTERLEAVED, segments.DUET)  # its guards are part of its time
                time[segment.method] += (step.length - (0 if own else step.guard)) * (case in counting)
        assert time == pytest.approx(dict.fromkeys(records.STREAMS, seconds))


def test_slices_are_not_shorter_than_wanted_where_they_fit():
    assert segments.fitting_slice(2.0, 0.25) == 0.25
    assert segments.fitting_slice(1.5, 0.25) == 0.375
    assert segments.fitting_slice(0.5, 0.25) == 0.125


def test_hyperfine_prints_deviations_of_single_runs():
    control, treated = np.array([100.0, 110.0] * 5), np.array([90.0, 99.0] * 5)

    found = contenders.hyperfine(control, treated)

    relative = np.std(1 / control, ddof=1) / np.mean(1 / control)  # of times; the same for both arms
    assert found.ratio == pytest.approx(0.9)
    assert found.high - found.ratio == pytest.approx(0.9 * math.sqrt(2) * relative)
    assert found.found == (found.high < 1)


def test_benchstat_finds_what_is_wholly_apart_and_not_what_is_mixed():
    control = np.arange(10.0) + 100
    assert contenders.benchstat(control, control - 20).found
    assert not contenders.benchstat(control, control + 0.5).found
    assert contenders.benchstat(control, control - 20).ratio == pytest.approx(84.5 / 104.5)


def test_aaabbb_is_welch():
    control, treated = np.exp([1.0, 2.0, 3.0]), np.exp([11.0, 12.0, 13.0])

    found = contenders.aaabbb(control, treated)

    half = 2.7764451 * math.sqrt(2 / 3)  # t with four degrees of freedom, variances of one
    assert math.log(found.ratio) == pytest.approx(10)
    assert math.log(found.low) == pytest.approx(10 - half)
    assert found.found


def test_blocks_conclude_what_pgtrial_does():
    rng = np.random.default_rng(4)
    control, treated = rng.lognormal(0, 0.1, 6), rng.lognormal(0.1, 0.1, 6)

    found, whole = contenders.blocks(control, treated), compare_blocks(control, treated)

    assert (found.ratio, found.low, found.high) == pytest.approx((whole.ratio, whole.low, whole.high))


def test_three_percent_between_two_numbers_is_taken_for_a_difference():
    assert not contenders.one_run(np.full(30, 100.0), np.full(30, 97.5)).found
    assert contenders.one_run(np.full(30, 100.0), np.full(30, 96.5)).found


def make_trials(*, effect: float, sd: float, count: int = 20):
    """Repetitions in which a session's log ratio has the deviation ``sd``, and that of runs is the same."""

    rng = np.random.default_rng(4)

    def pair(size):
        return np.full(size, 1000.0), 1000 * np.exp(effect + rng.normal(0, sd, size))

    return [records.Trial(contiguous=pair(30), blocks=pair(6), interleaved=pair(6), duet=pair(6)) for _ in range(count)]


def test_minutes_to_detection_are_those_of_the_power_of_the_t_test():
    trials = make_trials(effect=-0.05, sd=0.05, count=200)

    minutes = tables.minutes_to_detection(contenders.CONTENDERS[6], trials, -0.05, 6.0)

    # 13 blocks for an effect of one standard deviation at 90 % power (R: power.t.test(type = "one.sample")), each 1 s
    assert minutes * 60 == pytest.approx(13, abs=2)


def test_what_is_never_found_takes_more_than_an_hour():
    assert tables.minutes_to_detection(contenders.CONTENDERS[6], make_trials(effect=0, sd=1), 1e-6, 600.0) is None


def test_smallest_number_for_which_it_holds():
    for least in (1, 2, 6):
        for wanted in range(least, 40):
            assert tables.first_true(lambda n, wanted=wanted: n >= wanted, least, 64) == wanted
    assert tables.first_true(lambda n: False, 1, 64) is None


def test_half_the_deviation_is_a_quarter_of_the_testing_time():
    rng = np.random.default_rng(4)
    one, other = [rng.normal(0, 0.2, 400)], [rng.normal(0.3, 0.1, 400)]

    ratio, low, high = tables.gain(one, other)

    assert ratio == pytest.approx(4, rel=0.25)
    assert low < ratio < high


def test_regrouped_sessions_miss_the_truth_as_often_as_promised():
    trials = make_trials(effect=0.02, sd=0.1, count=30)
    assert tables.regrouped_misses(trials, "duet", 0.02) == pytest.approx(0.05, abs=0.03)


def test_raw_results_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "raw.jsonl"
    row = load("laboratory").Counted(
        method="duet", cases=("copy",), arm="control", piece=3, started=1.5, seconds=0.5, counts=(1, 2, 3, 4)
    )
    records.append(path, {"kind": "header", "seconds": 6.0})
    records.append(path, records.session_record("quiet", 2, 5, [row]))
    with path.open("a") as file:
        file.write('{"kind":"session","part":"qui')  # killed while it wrote

    found = records.read(path)

    assert found.header == {"seconds": 6.0}
    assert found.sessions == {("quiet", 2, 5): [row]}
    assert records.tps([row]) == 20
