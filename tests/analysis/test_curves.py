from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pgtrial.analysis.curves import MAX_DISTRIBUTION_POINTS, collect_distributions, trace_curve, trace_series
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.observations import Values, index_values, observe_runs
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.analysis.reduction import Histogram, Reduction
from pgtrial.findings.findings import Series
from pgtrial.model.run import Phase, PhaseName


def window_of(seconds: float) -> Phase:
    return Phase(name=PhaseName.MEASURE, start=100.0, end=100.0 + seconds, level=0)


def trace_one(evidence: Evidence, reduction: Reduction, *windows: Phase, width: int = 1) -> dict[str, Series]:
    run = replace(evidence.valid[0], phases=windows)
    series = trace_series(replace(evidence, valid=(run,)), replace(reduction, widths={run.id: width}))
    return {each.metric: each for each in series}


def test_the_curve_has_a_point_per_arm_level_and_metric(mix_folder: Path) -> None:
    evidence = read_evidence(mix_folder)
    values = index_values(observe_runs(evidence, reduce_runs(evidence)))

    points = trace_curve(evidence, values)

    assert {(point.arm, point.load_level) for point in points} == {("on", 0), ("on", 1), ("off", 0), ("off", 1)}
    (point,) = [p for p in points if (p.arm, p.load_level, p.metric) == ("on", 1, "pgbench.tps")]
    tps = [values[run.id, "pgbench.tps", None, 1] for run in evidence.runs_of("on")]
    assert point.value == pytest.approx(np.sqrt(np.prod(tps)))
    assert point.low is not None
    assert point.high is not None
    assert point.low < min(tps) < max(tps) < point.high
    assert point.blocks == 2


def test_an_arm_without_values_has_no_point(evidence: Evidence, values: Values) -> None:
    off = {run.id for run in evidence.runs_of("off")}
    points = trace_curve(evidence, {key: value for key, value in values.items() if key[0] not in off})

    assert {point.arm for point in points} == {"on", "placebo"}


def test_a_series_has_one_value_per_second(evidence: Evidence, reduction: Reduction) -> None:
    series = trace_series(evidence, reduction)

    assert len(series) == 3 * len(evidence.valid)
    assert all(each.t == tuple(float(second) for second in range(10)) for each in series)
    assert all(value is not None and value > 0 for each in series for value in each.value)


def test_a_second_without_a_transaction_has_throughput_zero_and_no_latency(
    evidence: Evidence, reduction: Reduction
) -> None:
    bins = {key: tuple(b for b in found if b.index != 3) for key, found in reduction.bins.items()}
    series = trace_one(evidence, replace(reduction, bins=bins), window_of(10))

    assert series["pgbench.tps"].value[3] == 0
    assert series["pgbench.latency_mean"].value[3] is None
    assert series["pgbench.latency_p95"].value[3] is None
    assert series["pgbench.latency_p95"].value[4] is not None


def test_levels_follow_each_other_in_time(mix_folder: Path) -> None:
    evidence = read_evidence(mix_folder)
    series = trace_series(evidence, reduce_runs(evidence))

    assert series[0].t == tuple(float(second) for second in range(8))


def test_a_last_bin_counts_by_its_length_and_not_when_it_is_less_than_half(
    evidence: Evidence, reduction: Reduction
) -> None:
    count = reduction.bins[1, 0][9].count
    longer = trace_one(evidence, reduction, window_of(9.6))["pgbench.tps"]
    shorter = trace_one(evidence, reduction, window_of(9.4))["pgbench.tps"]

    assert (len(longer.t), longer.value[-1]) == (10, pytest.approx(count / 0.6))
    assert len(shorter.t) == 9


def test_wider_bins_are_rates_too(evidence: Evidence, reduction: Reduction) -> None:
    bins = {(1, 0): tuple(replace(b, count=100) for b in reduction.bins[1, 0][:5])}
    series = trace_one(evidence, replace(reduction, bins=bins), window_of(10), width=2)

    assert series["pgbench.tps"].t == (0.0, 2.0, 4.0, 6.0, 8.0)
    assert series["pgbench.tps"].value == (50.0,) * 5


def test_between_two_load_levels_there_is_a_gap(evidence: Evidence, reduction: Reduction) -> None:
    first, later = window_of(4), Phase(name=PhaseName.MEASURE, start=107.0, end=110.0, level=1)
    bins = {(run, level): found for (run, _), found in reduction.bins.items() for level in (0, 1)}
    series = trace_one(evidence, replace(reduction, bins=bins), first, later)

    assert series["pgbench.tps"].t == (0.0, 1.0, 2.0, 3.0, 4.0, 7.0, 8.0, 9.0)
    for each in series.values():
        assert [value is None for value in each.value] == [False] * 4 + [True] + [False] * 3


def test_a_run_without_a_window_has_no_series(evidence: Evidence, reduction: Reduction) -> None:
    assert trace_one(evidence, reduction) == {}


def test_a_distribution_is_cumulative_and_ends_at_one(evidence: Evidence, reduction: Reduction) -> None:
    found = collect_distributions(evidence, reduction)

    assert {(each.arm, each.scenario, each.load_level) for each in found} == {
        (arm, None, level) for arm in ("on", "off", "placebo") for level in (0, "all")
    }
    for each in found:
        assert list(each.latency) == sorted(each.latency)
        assert list(each.share) == sorted(each.share)
        assert each.share[-1] == pytest.approx(1.0)


def test_a_long_distribution_is_thinned_with_both_ends_kept(evidence: Evidence, reduction: Reduction) -> None:
    wide = Histogram(buckets=np.arange(600), counts=np.ones(600, dtype=np.int64))
    runs = {(run.id, 0, None): wide for run in evidence.runs_of("on")}
    distribution = collect_distributions(evidence, replace(reduction, histograms=runs))[0]

    assert len(distribution.latency) == MAX_DISTRIBUTION_POINTS
    assert distribution.share[0] == pytest.approx(1 / 600)
    assert distribution.share[-1] == pytest.approx(1.0)
