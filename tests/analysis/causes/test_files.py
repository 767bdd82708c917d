import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pgtrial.analysis.causes.files import describe_files, tell_files
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.findings.message import say
from pgtrial.findings.storage import FileLimit, FileUse
from support import Simulation, write_result_folder

TEXT = """\
format = 1
[experiment]
name = "cache"
[workload]
kind = "fio"
duration = "10s"
[target.fio]
size = "1GB"
[arms.a.fio]
pattern = "randread"
[arms.b.fio]
pattern = "write"
[design]
blocks = 2
"""
MB = float(1 << 20)
REQUESTS, BLOCK = 1000.0, 8192

# What the kernel tells while nothing happens; vda is the disk under the files.
IDLE = {
    ("iostat.r_bytes", "vda"): 0.0,
    ("iostat.w_bytes", "vda"): 0.0,
    ("iostat.bytes", "vda"): 0.0,
    ("iostat.iops", "vda"): 0.0,
    ("iostat.rrqm", "vda"): 0.0,
    ("iostat.wrqm", "vda"): 0.0,
    ("iostat.util", "vda"): 0.0,
    ("iostat.aqu", "vda"): 0.0,
    "dirty.bytes": 10 * MB,
    "dirty.writeback": 0.0,
    "dirty.background": 100 * MB,
    "dirty.threshold": 200 * MB,
    "vmstat.available": 4000 * MB,
    "reclaim.direct": 0.0,
    "reclaim.kswapd": 0.0,
}


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    simulation = Simulation(tps={"a": REQUESTS, "b": REQUESTS})
    return read_evidence(write_result_folder(tmp_path_factory.mktemp("r") / "r", text=TEXT, simulation=simulation))


@pytest.fixture
def look(evidence: Evidence, make_timeline):
    """What is said of an arm of which the samples tell this; every run has the same."""

    def describe(arm: str, series) -> FileUse:
        values = {
            (run.id, metric, scenario, 0): number
            for run in evidence.valid
            for scenario in (None, "files")
            for metric, number in (
                ("fio.iops", REQUESTS),
                ("fio.bandwidth", REQUESTS * BLOCK),
                ("fio.latency_mean", 1 / REQUESTS),
            )
        }
        timelines = [
            make_timeline(IDLE | series, run=run.id, arm=run.slot.arm, block=run.slot.block, seconds=20)
            for run in evidence.valid
        ]
        return next(use for use in describe_files(evidence, timelines, values) if use.arm == arm)

    return describe


def device(*, read: float = 0.0, write: float = 0.0, requests: float = 0.0, util: float = 0.0, queue: float = 0.0):
    """Rates of the disk, as shares of those of the files."""
    return {
        ("iostat.r_bytes", "vda"): read * REQUESTS * BLOCK,
        ("iostat.w_bytes", "vda"): write * REQUESTS * BLOCK,
        ("iostat.bytes", "vda"): (read + write) * REQUESTS * BLOCK,
        ("iostat.iops", "vda"): requests * REQUESTS,
        ("iostat.util", "vda"): util,
        ("iostat.aqu", "vda"): queue,
    }


def test_reads_that_the_device_does_not_see_end_in_memory(look) -> None:
    use = look("a", device(read=0.01, requests=0.01))

    assert use.limit is FileLimit.MEMORY
    assert use.read_share.value == pytest.approx(0.01)
    assert "ends in memory" in say(use.text)
    assert "the device read 1.0 % of what was read from the files" in say(use.text)


@pytest.mark.parametrize("busy", [{"util": 0.95}, {"queue": 0.9}])
def test_reads_that_the_device_answers_wait_for_it(look, busy) -> None:
    use = look("a", device(read=1.0, requests=1.0, **busy))

    assert use.limit is FileLimit.DEVICE
    assert use.device_requests.value == pytest.approx(1.0)
    assert use.request_size == pytest.approx(BLOCK)


def test_a_device_that_reads_and_is_idle_most_of_the_time_is_not_what_limits(look) -> None:
    assert look("a", device(read=0.5, requests=0.5, util=0.3, queue=0.2)).limit is FileLimit.UNDETERMINED


def test_read_ahead_makes_one_request_of_many(look) -> None:
    # As in experiment E: 8087 requests of the device for 262144 of the file.
    series = device(read=1.0, requests=8087 / 262144, util=0.9) | {("iostat.rrqm", "vda"): REQUESTS / 10}
    use = look("a", series)

    assert use.device_requests.value == pytest.approx(0.0308, abs=1e-4)
    assert use.request_size == pytest.approx(BLOCK * 262144 / 8087)
    assert use.merged_share == pytest.approx(100 / (100 + 1000 * 8087 / 262144))


def test_writes_of_which_hardly_any_reach_the_device_end_in_memory(look) -> None:
    assert look("b", device(write=0.02)).limit is FileLimit.MEMORY


def test_writes_that_the_kernel_takes_down_beside_them_are_not_held_back(look) -> None:
    use = look("b", device(write=0.6, util=0.9) | {"dirty.bytes": 120 * MB})

    assert use.limit is FileLimit.BACKGROUND
    assert use.dirty_share == 0.0


def test_writers_are_held_back_from_half_way_between_the_thresholds_on(look) -> None:
    below = look("b", device(write=0.9, util=1.0) | {"dirty.bytes": 100 * MB, "dirty.writeback": 49 * MB})
    above = look("b", device(write=0.9, util=1.0) | {"dirty.bytes": 100 * MB, "dirty.writeback": 51 * MB})

    assert (below.limit, above.limit) == (FileLimit.BACKGROUND, FileLimit.THROTTLE)
    assert above.thresholds.free_run == pytest.approx(150 * MB)
    assert above.dirty == pytest.approx(151 * MB)


def test_pauses_whose_length_is_not_known_are_told_and_decide_nothing(look) -> None:
    use = look("b", device(write=0.9, util=1.0) | {"throttling.pauses": 20.0})

    assert use.limit is not FileLimit.THROTTLE
    assert "writers were made to sleep 20 times a second" in [say(fact.text) for fact in use.facts]


def test_pauses_that_were_counted_tell_of_the_throttle_whatever_the_pages_say(look) -> None:
    use = look("b", device(write=0.9, util=1.0) | {"throttling.pauses": 20.0, "throttling.paused": 0.6})

    assert use.limit is FileLimit.THROTTLE
    assert use.paused_share == pytest.approx(0.6)
    assert "writers were made to sleep 20 times a second, 60 % of their time" in say(use.text)


def test_pauses_that_were_not_counted_are_not_known(look) -> None:
    use = look("b", device(write=0.02))

    assert use.pauses is None
    assert use.paused_share is None


def test_thresholds_are_told_with_their_range(look) -> None:
    moving = np.linspace(150 * MB, 200 * MB, 20)
    use = look("b", {"dirty.threshold": moving, "dirty.background": moving / 2})

    assert use.thresholds.limit == pytest.approx((150 * MB, 175 * MB, 200 * MB))
    assert use.thresholds.background == pytest.approx((75 * MB, 87.5 * MB, 100 * MB))


def test_writes_past_the_cache_wait_for_the_device(look, evidence: Evidence, make_timeline) -> None:
    text = TEXT.replace('[arms.b.fio]\npattern = "write"', '[arms.b.fio]\npattern = "write"\nfsync = 1')
    experiment = type(evidence.experiment).model_validate(tomllib.loads(text))
    changed = replace(evidence, experiment=experiment, arms=resolve_arms(experiment))
    timelines = [
        make_timeline(
            IDLE | device(write=1.0, requests=1.0, util=0.9), run=run.id, arm=run.slot.arm, block=run.slot.block
        )
        for run in evidence.valid
    ]

    values = {(run.id, "fio.latency_mean", None, 0): 12e-6 for run in evidence.valid}

    (use,) = (use for use in describe_files(changed, timelines, values) if use.arm == "b")

    assert use.limit is FileLimit.DEVICE
    assert use.latency is None  # of the write into the cache alone, without the flush that is waited for
    assert "per request" not in say(use.text)


def test_without_samples_nothing_is_claimed(evidence: Evidence, make_timeline) -> None:
    assert describe_files(evidence, [], {}) == ()
    (use, *_) = describe_files(evidence, [make_timeline({}, run=1, arm="a")], {})

    assert use.limit is FileLimit.UNDETERMINED
    assert use.thresholds is None
    assert use.utilization is None


def test_a_load_on_a_server_has_no_files(tmp_path: Path, make_timeline) -> None:
    evidence = read_evidence(write_result_folder(tmp_path / "r"))

    assert describe_files(evidence, [make_timeline(IDLE)], {}) == ()


def test_arms_are_told_in_the_order_that_is_asked_for(look) -> None:
    uses = [look("a", device(read=0.01)), look("b", device(write=0.02))]

    assert say(tell_files(uses, arms=("b", "a"))) == f"{say(uses[1].text)} {say(uses[0].text)}"
