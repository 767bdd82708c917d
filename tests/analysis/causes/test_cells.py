from collections.abc import Callable

import numpy as np
import pytest

from pgtrial.analysis.causes.check_advice import explain_event
from pgtrial.analysis.causes.sessions import (
    estimate_mean,
    find_objects,
    find_series,
    group_cells,
    pooled_mean,
    rank_objects,
)
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.findings.message import say
from pgtrial.stats.interval import t_quantile

Make = Callable[..., Timeline]


def test_timelines_are_grouped_by_arm_and_load_level(make_timeline: Make) -> None:
    made = [
        make_timeline(run=run, arm=arm, level=level)
        for run, (arm, level) in enumerate([("b", 1), ("a", 0), ("b", 0), ("a", 0)])
    ]
    cells = group_cells(made)

    assert list(cells) == [("b", 0), ("b", 1), ("a", 0)]
    assert [each.run for each in cells["a", 0]] == [1, 3]


def test_throughput_and_latency_are_series_like_others(make_timeline: Make) -> None:
    timeline = make_timeline({("iostat.r", "vdb"): 1.0, ("iostat.r", "vda"): 3.0}, tps=5.0, latency=0.2)

    assert np.all(find_series(timeline, "pgbench.tps") == 5.0)
    assert pooled_mean([timeline], "pgbench.latency_mean") == pytest.approx(0.2)
    assert find_objects([timeline], "pgbench.tps") == ("",)
    assert find_objects([timeline], "iostat.r") == ("vda", "vdb")
    assert find_objects([timeline], "iostat.w") == ()
    assert find_series(timeline, "iostat.w", "vda") is None
    assert rank_objects([timeline], "iostat.r") == (("vda", 3.0), ("vdb", 1.0))


def test_a_pooled_mean_is_over_the_seconds_that_are_known(make_timeline: Make) -> None:
    half = np.where(np.arange(100) < 50, np.nan, 4.0)

    assert pooled_mean([make_timeline({"x": half}), make_timeline({"x": 1.0}), make_timeline()], "x") == 2.0
    assert pooled_mean([make_timeline({"x": np.nan})], "x") is None


def test_the_time_of_a_request_is_the_mean_over_requests_as_iostats(make_timeline: Make) -> None:
    # A checkpoint: in 5 of 100 seconds 5000 writes of 80 ms each, in the others 50 of 1 ms; nothing is read.
    writes = np.where(np.arange(100) < 5, 5000.0, 50.0)
    series = {
        ("iostat.w", "vda"): writes,
        ("iostat.w_await", "vda"): np.where(writes > 50, 0.08, 0.001),
        ("iostat.wareq", "vda"): np.where(writes > 50, 65536.0, 8192.0),
        ("iostat.r", "vda"): 0.0,
        ("iostat.r_await", "vda"): np.nan,
    }
    cell = [make_timeline(series), make_timeline()]

    time, volume = 5 * 5000 * 0.08 + 95 * 50 * 0.001, 5 * 5000 * 65536 + 95 * 50 * 8192
    assert pooled_mean(cell, "iostat.w_await", "vda") == pytest.approx(time / writes.sum())
    assert pooled_mean(cell, "iostat.wareq", "vda") == pytest.approx(volume / writes.sum())
    assert pooled_mean(cell, "iostat.r_await", "vda") is None
    assert rank_objects(cell, "iostat.w_await") == (("vda", pytest.approx(time / writes.sum())),)


def test_an_estimate_over_blocks_is_students() -> None:
    values = [1.0, 2.0, 4.0]
    found = estimate_mean([*values, None, float("nan")], confidence=0.9)
    half = t_quantile(0.95, 2) * np.std(values, ddof=1) / np.sqrt(3)

    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((7 / 3, 7 / 3 - half, 7 / 3 + half))


def test_without_noise_there_is_no_interval() -> None:
    assert estimate_mean([], confidence=0.95) is None
    for values in ([3.0], [3.0, 3.0], [0.0, 0.0, 0.0]):
        found = estimate_mean(values, confidence=0.95)
        assert found is not None
        assert (found.value, found.low, found.high) == (values[0], None, None)


@pytest.mark.parametrize(("older", "newer"), [("WALSync", "WalSync"), ("lock_manager", "LockManager")])
def test_events_are_known_by_their_older_and_newer_names(older: str, newer: str) -> None:
    wait_type = "IO" if older.startswith("WAL") else "LWLock"

    assert explain_event(wait_type, older) == explain_event(wait_type, newer) != explain_event(wait_type, "")


def test_an_unknown_event_is_explained_by_its_type() -> None:
    assert explain_event("Timeout", "SomethingNew") == explain_event("Timeout", "")
    assert "statement_timeout" in say(explain_event("Timeout", ""))
    assert explain_event("Novel", "Something") is None
