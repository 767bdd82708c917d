from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from pgtrial.analysis.curves import MAX_COLUMNS, map_latencies, trace_series
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.analysis.reduction import Reduction
from pgtrial.findings.findings import LatencyMap
from pgtrial.model.histogram import row_bounds, row_of
from pgtrial.model.run import Phase, PhaseName


@pytest.fixture(scope="module")
def maps(evidence: Evidence, reduction: Reduction) -> tuple[LatencyMap, ...]:
    return map_latencies(evidence, reduction)


def test_every_arm_has_a_map_of_all_its_transactions(
    evidence: Evidence, reduction: Reduction, maps: tuple[LatencyMap, ...]
) -> None:
    assert [each.arm for each in maps] == [arm.name for arm in evidence.arms]
    for each in maps:
        runs = evidence.runs_of(each.arm)
        assert each.runs == len(runs)
        assert sum(map(sum, each.counts)) == sum(reduction.totals[run.id, 0, None].count for run in runs)


def test_columns_and_rows_are_complete_and_in_order(maps: tuple[LatencyMap, ...]) -> None:
    for each in maps:
        assert len(each.start) == len(each.end) == len(each.counts)
        assert {len(column) for column in each.counts} == {len(each.latency) - 1}
        assert all(high == pytest.approx(low * 2**0.5) for low, high in pairwise(each.latency))
        assert all(end == pytest.approx(start) for end, start in zip(each.end, each.start[1:], strict=False))
        assert any(column[0] for column in each.counts)
        assert any(column[-1] for column in each.counts)


def test_a_row_has_the_transactions_of_its_buckets(
    evidence: Evidence, reduction: Reduction, maps: tuple[LatencyMap, ...]
) -> None:
    """Against the histograms of whole runs, which come from another query."""
    for each in maps:
        expected: dict[int, int] = {}
        for run in evidence.runs_of(each.arm):
            histogram = reduction.histograms[run.id, 0, None]
            for bucket, count in zip(histogram.buckets.tolist(), histogram.counts.tolist(), strict=True):
                expected[row_of(bucket)] = expected.get(row_of(bucket), 0) + count
        first = min(expected)
        assert each.latency[0] == row_bounds(first)[0]
        found = [sum(column) for column in zip(*each.counts, strict=True)]
        assert {first + row: count for row, count in enumerate(found) if count} == expected


def test_a_column_has_the_transactions_of_its_time(
    evidence: Evidence, reduction: Reduction, maps: tuple[LatencyMap, ...]
) -> None:
    series = [each for each in trace_series(evidence, reduction) if each.metric == "pgbench.tps" and each.arm == "on"]
    on = next(each for each in maps if each.arm == "on")

    assert on.start == series[0].t
    assert [sum(column) for column in on.counts] == pytest.approx(
        [sum(run.value[second] or 0 for run in series) for second in range(len(on.start))]
    )


def test_load_levels_follow_each_other(mix_folder: Path) -> None:
    evidence = read_evidence(mix_folder)
    found = map_latencies(evidence, reduce_runs(evidence))

    assert [each.start for each in found] == [tuple(float(second) for second in range(8))] * 2


def test_a_long_run_has_wider_columns_of_equally_many_bins(evidence: Evidence, reduction: Reduction) -> None:
    run = replace(evidence.valid[0], phases=(Phase(name=PhaseName.MEASURE, start=100.0, end=750.0, level=0),))
    bins = np.array([(k, 20, 1) for k in range(217)])  # 650 s in bins of 3 s
    long = replace(reduction, widths={run.id: 3}, latency_rows={(run.id, 0): bins})
    (found,) = map_latencies(replace(evidence, valid=(run,)), long)

    assert len(found.start) <= MAX_COLUMNS
    assert {end - start for start, end in zip(found.start[:-1], found.end[:-1], strict=True)} == {9.0}
    assert [column[0] for column in found.counts[:-1]] == [3] * (len(found.counts) - 1)
    assert found.end[-1] == 650.0


def test_an_arm_without_transactions_has_no_map(evidence: Evidence, reduction: Reduction) -> None:
    off = {run.id for run in evidence.runs_of("off")}
    rows = {key: value for key, value in reduction.latency_rows.items() if key[0] not in off}

    assert [each.arm for each in map_latencies(evidence, replace(reduction, latency_rows=rows))] == ["on", "placebo"]
    assert map_latencies(evidence, Reduction()) == ()
