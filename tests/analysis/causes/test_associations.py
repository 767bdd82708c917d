from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pgtrial.analysis.causes.associations import CHOSEN, PAIRS, find_associations, is_part
from pgtrial.analysis.causes.sessions import LATENCIES, THROUGHPUTS
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.experiment_file.cause_tables import AssociationsTable
from pgtrial.findings.causes import Association
from pgtrial.model.series import find_metric
from pgtrial.stats.interval import benjamini_hochberg

Make = Callable[..., Timeline]
SECONDS = 300


@pytest.fixture
def find(evidence: Evidence) -> Callable[..., dict[tuple[str, str], Association]]:
    def associate(
        *timelines: Timeline, pairs: tuple[tuple[str, str], ...] = (), **table: Any
    ) -> dict[tuple[str, str], Association]:
        chosen = AssociationsTable.model_validate({"pairs": pairs, **table})
        experiment = evidence.experiment.model_copy(update={"associations": chosen})
        found = find_associations(replace(evidence, experiment=experiment), timelines)
        return {(each.first, each.second): each for each in found}

    return associate


def noise(rng: np.random.Generator, phi: float = 0.9, seconds: int = SECONDS) -> Any:
    """Slow noise around 10, as samples are."""
    values = np.empty(seconds)
    values[0] = rng.normal()
    for i in range(1, seconds):
        values[i] = phi * values[i - 1] + rng.normal()
    return 10 + values


def test_metrics_that_go_together_are_found_and_others_are_not(make_timeline: Make, find: Any) -> None:
    rng = np.random.default_rng(1)
    timelines = []
    for run in range(1, 5):
        io = noise(rng)
        series = {"waits.IO": io, "vmstat.wa": io / 100 + rng.normal(0, 0.01, SECONDS), "vmstat.bo": noise(rng)}
        timelines.append(make_timeline(series, run=run, seconds=SECONDS))
    found = find(*timelines)

    real, unreal = found["waits.IO", "vmstat.wa"], found["waits.IO", "vmstat.bo"]
    assert real.is_real
    assert real.spearman == pytest.approx(0.9, abs=0.08)
    assert real.low < real.spearman < real.high
    assert real.pearson == pytest.approx(real.spearman, abs=0.1)
    assert (real.family, real.expected, real.part_of, real.count) == ("waits and system", "+", False, 4 * SECONDS)
    assert not unreal.is_real
    assert unreal.low < 0 < unreal.high


def test_a_difference_between_load_levels_or_arms_makes_no_association(make_timeline: Make, find: Any) -> None:
    rng = np.random.default_rng(2)
    timelines = [
        # Everything grows with the clients, and inside a level nothing goes together.
        make_timeline(
            {"vmstat.cs": 1000 * (level + 1) + noise(rng), "vmstat.us": 0.1 * (level + 1) + noise(rng) / 1000},
            run=1 + level,
            level=level,
            seconds=SECONDS,
        )
        for level in range(5)
    ]
    pair = find(*timelines)["vmstat.cs", "vmstat.us"]

    assert not pair.is_real
    assert abs(pair.spearman) < 0.3


def test_q_values_are_those_of_all_pairs_together(make_timeline: Make, find: Any) -> None:
    rng = np.random.default_rng(3)
    names = [f"vmstat.{name}" for name in ("cs", "in", "us", "sy", "r", "b", "bi", "bo", "si", "so", "wa")]
    waits = [f"waits.{name}" for name in ("IO", "Lock", "LWLock", "IPC")]
    found = find(make_timeline({name: noise(rng) for name in (*names, *waits)}, seconds=SECONDS))

    records = list(found.values())
    assert len(records) == 17
    assert [each.q_value for each in records] == pytest.approx(
        list(benjamini_hochberg([each.p_value for each in records]))
    )
    assert all(each.is_real is (each.q_value <= 0.05) for each in records)


def test_the_file_chooses_the_false_discovery_rate(make_timeline: Make, find: Any) -> None:
    rng = np.random.default_rng(4)
    cs = noise(rng)
    timeline = make_timeline({"vmstat.cs": cs, "vmstat.in": cs + 3 * noise(rng)}, seconds=SECONDS)
    q_value = find(timeline)["vmstat.cs", "vmstat.in"].q_value

    assert 0 < q_value < 0.4
    assert find(timeline, false_discovery=q_value + 0.01)["vmstat.cs", "vmstat.in"].is_real
    assert not find(timeline, false_discovery=q_value - min(0.01, q_value / 2))["vmstat.cs", "vmstat.in"].is_real


def test_chosen_pairs_are_looked_at_too(make_timeline: Make, find: Any) -> None:
    rng = np.random.default_rng(5)
    timeline = make_timeline(
        {"vmstat.wa": noise(rng), ("wait.IO", "WALSync"): noise(rng), ("wait.IO", "DataFileRead"): noise(rng)},
        tps=noise(rng),
        seconds=SECONDS,
    )
    found = find(
        timeline,
        pairs=(("wait.IO", "vmstat.wa"), ("wait.IO/WALSync", "pgbench.tps"), ("slru.read", "vmstat.wa")),
    )

    assert list(found) == [
        ("wait.IO/DataFileRead", "vmstat.wa"),
        ("wait.IO/WALSync", "vmstat.wa"),
        ("wait.IO/WALSync", "pgbench.tps"),
        ("slru.read", "vmstat.wa"),
    ]
    assert {each.family for each in found.values()} == {CHOSEN}
    missing = found["slru.read", "vmstat.wa"]  # nobody read that, and it is said
    assert (missing.count, missing.spearman, missing.q_value, missing.is_real) == (0, None, None, False)


def test_a_pair_of_the_table_is_not_chosen_twice(make_timeline: Make, find: Any, evidence: Evidence) -> None:
    rng = np.random.default_rng(6)
    timeline = make_timeline({"vmstat.cs": noise(rng), "vmstat.in": noise(rng)}, seconds=SECONDS)

    assert list(find(timeline, pairs=(("vmstat.in", "vmstat.cs"),))) == [("vmstat.cs", "vmstat.in")]


def test_every_device_has_its_pair_and_devices_are_not_mixed(make_timeline: Make, find: Any) -> None:
    rng = np.random.default_rng(7)
    metrics = [("iostat.util", "vda"), ("iostat.util", "vdb"), ("iostat.r", "vda"), ("iostat.r", "vdb")]
    timeline = make_timeline({"vmstat.wa": noise(rng), **{key: noise(rng) for key in metrics}}, seconds=SECONDS)
    found = find(timeline, pairs=(("iostat.util", "iostat.r"),))

    assert set(found) == {
        ("vmstat.wa", "iostat.util/vda"),
        ("vmstat.wa", "iostat.util/vdb"),
        ("iostat.util/vda", "iostat.r/vda"),
        ("iostat.util/vdb", "iostat.r/vdb"),
    }


@pytest.mark.parametrize("rounding", [0.0, 1e-15])
def test_a_constant_metric_goes_with_nothing(make_timeline: Make, find: Any, rounding: float) -> None:
    rng = np.random.default_rng(8)
    cs = noise(rng)
    pair = find(make_timeline({"vmstat.cs": cs, "vmstat.in": 5.0 + rounding * cs}, seconds=SECONDS))[
        "vmstat.cs", "vmstat.in"
    ]

    assert (pair.spearman, pair.pearson, pair.p_value, pair.is_real) == (None, None, None, False)


def test_without_timelines_there_are_no_associations(find: Any) -> None:
    assert find() == {}


def test_without_samples_there_are_no_associations(make_timeline: Make, find: Any) -> None:
    assert find(make_timeline({}, seconds=SECONDS)) == {}


def test_a_run_without_a_whole_second_changes_nothing(make_timeline: Make, find: Any) -> None:
    rng = np.random.default_rng(1)

    def timeline(run: int, seconds: int) -> Timeline:
        values = noise(rng, seconds=SECONDS)[:seconds]
        return make_timeline({"waits.IO": values, "vmstat.wa": values / 100}, run=run, seconds=seconds)

    first, short, last = timeline(1, SECONDS), timeline(2, 0), timeline(3, SECONDS)

    assert find(first, short, last) == find(first, last)
    assert set(find(short)) <= set(find(first, last))


def test_parts_are_marked(make_timeline: Make, find: Any) -> None:
    rng = np.random.default_rng(9)
    timeline = make_timeline({"vmstat.us": noise(rng), "vmstat.id": noise(rng)}, seconds=SECONDS)

    assert find(timeline, pairs=(("vmstat.us", "vmstat.id"),))["vmstat.us", "vmstat.id"].part_of


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("iostat.iops/vda", "iostat.r/vda", True),
        ("iostat.iops/vda", "iostat.r/vdb", False),
        ("vmstat.bi", "iostat.r_bytes/vda", True),
        ("waits.IO", "wait.IO/WALSync", True),
        ("waits.IO", "wait.Lock/tuple", False),
        ("wait.IO/WALSync", "wait.IO/WALWrite", False),
        ("waits.IO", "waits.Lock", False),
        ("sessions.active", "waits.IO", True),
        ("vmstat.us", "vmstat.sy", True),
        ("vmstat.us", "server.cpu/client backend", True),
        ("pgbench.tps", "pgbench.latency_mean", True),
        ("pgbench.tps", "iostat.iops/vda", False),
        ("dirty.bytes", "dirty.share", True),
        ("vmstat.wa", "iostat.util/vda", False),
        ("db.hit", "db.read", False),
    ],
)
def test_a_part_of_a_whole_is_known_either_way_round(first: str, second: str, expected: bool) -> None:
    assert is_part(first, second) is expected
    assert is_part(second, first) is expected


def test_all_pairs_are_of_metrics_that_exist_and_listed_once() -> None:
    names = {name for pair in PAIRS for name in (pair.first, pair.second)} - THROUGHPUTS - LATENCIES

    assert [name for name in names if find_metric(name) is None] == []
    assert len({frozenset((pair.first, pair.second)) for pair in PAIRS}) == len(PAIRS)
    assert not any(is_part(pair.first, pair.second) for pair in PAIRS)


@pytest.mark.parametrize(
    ("wait_type", "metrics"),
    [
        ("BufferPin", "bo swpd"),
        ("Extension", "cs in us sy"),
        ("IO", "bi bo wa"),
        ("IPC", "cs in sy"),
        ("Lock", "r us"),
        ("LWLock", "cs sy so si"),
        ("Timeout", "in cs sy r"),
    ],
)
def test_the_pairs_of_waits_that_pg_expecto_lists_are_there(wait_type: str, metrics: str) -> None:
    found = {pair.second for pair in PAIRS if pair.first == f"waits.{wait_type}"}

    assert found >= {f"vmstat.{name}" for name in metrics.split()}
