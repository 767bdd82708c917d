import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.observations import LOST, Values, index_values, observe_lost, observe_runs
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.analysis.reduction import Reduction, Totals
from pgtrial.findings.record import ALL
from pgtrial.model.rules import RULES
from pgtrial.model.run import PhaseName
from pgtrial.stats.quantiles import histogram_quantile


def observe(evidence: Evidence, reduction: Reduction) -> Values:
    return index_values(observe_runs(evidence, reduction))


@pytest.fixture(scope="module")
def mix(mix_folder: Path) -> Evidence:
    return read_evidence(mix_folder)


@pytest.fixture(scope="module")
def mixed(mix: Evidence) -> Reduction:
    return reduce_runs(mix)


def test_throughput_is_the_count_over_the_window(evidence: Evidence, reduction: Reduction, values: Values) -> None:
    for run in evidence.valid:
        assert values[run.id, "pgbench.tps", None, 0] == pytest.approx(reduction.totals[run.id, 0, None].count / 10)


def test_a_transaction_counts_with_the_part_that_was_inside(evidence: Evidence, reduction: Reduction) -> None:
    totals = {cell: replace(found, inside=found.count + 2.5) for cell, found in reduction.totals.items()}
    found = {
        version: observe(replace(evidence, rules=RULES[version]), replace(reduction, totals=totals))
        for version in (8, 9)
    }
    ended = totals[1, 0, None].count

    assert found[8][1, "pgbench.tps", None, 0] == ended / 10
    assert found[9][1, "pgbench.tps", None, 0] == (ended + 2.5) / 10
    wal = {version: values[1, "cost.wal_bytes", None, 0] for version, values in found.items()}
    assert wal[9] * (ended + 2.5) == pytest.approx(wal[8] * ended)
    assert found[8][1, "pgbench.latency_mean", None, 0] == found[9][1, "pgbench.latency_mean", None, 0]


def test_a_load_that_does_not_tell_when_transactions_began_is_counted_by_their_ends(evidence, reduction) -> None:
    totals = {cell: replace(found, inside=None) for cell, found in reduction.totals.items()}
    values = observe(evidence, replace(reduction, totals=totals))

    assert values[1, "pgbench.tps", None, 0] == totals[1, 0, None].count / 10


def test_latency_of_a_closed_loop_is_clients_over_throughput(evidence: Evidence, values: Values) -> None:
    for run in evidence.valid:
        expected = 4 / values[run.id, "pgbench.tps", None, 0]
        assert values[run.id, "pgbench.latency_mean", None, 0] == pytest.approx(expected, rel=0.03)


def test_quantiles_are_those_of_the_simulated_distribution(evidence: Evidence, values: Values) -> None:
    for run in evidence.valid:
        mean = values[run.id, "pgbench.latency_mean", None, 0]
        for name, z in (("p50", 0.0), ("p95", 1.645)):
            expected = mean * math.exp(0.5 * z - 0.125)
            assert values[run.id, f"pgbench.latency_{name}", None, 0] == pytest.approx(expected, rel=0.08)


def test_a_single_scenario_is_reported_as_all(values: Values) -> None:
    assert {scenario for _, _, scenario, _ in values} == {None}


def test_each_of_several_scenarios_is_reported_besides_all(mix: Evidence, mixed: Reduction) -> None:
    values = observe(mix, mixed)

    parts = sum(values[1, "pgbench.tps", scenario, 1] for scenario in ("read", "insert", "update"))
    assert values[1, "pgbench.tps", None, 1] == pytest.approx(parts)


@pytest.mark.parametrize("metric", ["pgbench.tps", "pgbench.latency_p99", "cost.wal_bytes"])
def test_all_levels_are_the_geometric_mean(mix: Evidence, mixed: Reduction, metric: str) -> None:
    values = observe(mix, mixed)

    levels = values[1, metric, None, 0] * values[1, metric, None, 1]
    assert values[1, metric, None, ALL] == pytest.approx(math.sqrt(levels))


def test_a_scenario_that_never_finished_a_transaction_has_throughput_zero_and_no_latency(
    mix: Evidence, mixed: Reduction
) -> None:
    totals = {cell: total for cell, total in mixed.totals.items() if cell != (1, 0, "insert")}
    histograms = {cell: found for cell, found in mixed.histograms.items() if cell != (1, 0, "insert")}
    values = observe(mix, replace(mixed, totals=totals, histograms=histograms))

    assert values[1, "pgbench.tps", "insert", 0] == 0
    assert (1, "pgbench.latency_mean", "insert", 0) not in values
    assert (1, "pgbench.latency_p50", "insert", 0) not in values
    # One zero would hide the other level.
    assert (1, "pgbench.tps", "insert", ALL) not in values


def test_no_transaction_at_all_is_throughput_zero_without_a_cost(evidence: Evidence, reduction: Reduction) -> None:
    values = observe(evidence, replace(reduction, totals={}, histograms={}))

    assert values[1, "pgbench.tps", None, ALL] == 0
    assert {metric for _, metric, _, _ in values} == {"pgbench.tps"}


def test_shares_are_counted_as_pgbench_counts_them(mix: Evidence, mixed: Reduction) -> None:
    totals = {
        (1, 0, None): Totals(count=80, latency_sum=1.0, failed=5, skipped=15, late=8),
        (1, 1, None): Totals(count=100, latency_sum=1.0, failed=0, skipped=0, late=0),
    }
    values = observe(mix, replace(mixed, totals=totals))

    assert values[1, "pgbench.failures", None, 0] == pytest.approx(5 / 100)
    assert values[1, "pgbench.skipped", None, 0] == pytest.approx(15 / 100)
    assert values[1, "pgbench.late", None, 0] == pytest.approx(8 / 80)
    assert values[1, "pgbench.failures", None, ALL] == pytest.approx(5 / 200)
    assert values[1, "pgbench.late", None, ALL] == pytest.approx(8 / 180)


@pytest.mark.parametrize(("failed", "skipped"), [(3, 0), (2, 5), (0, 9)])
def test_what_was_lost_is_told_as_the_slowest_of_all(
    evidence: Evidence, reduction: Reduction, failed: int, skipped: int
) -> None:
    cell = (1, 0, None)
    lost = {**reduction.totals, cell: replace(reduction.totals[cell], failed=failed, skipped=skipped)}
    changed, histogram = replace(reduction, totals=lost), reduction.histograms[cell]
    observed = observe_runs(evidence, changed)
    values = index_values((*observed, *observe_lost(evidence, changed, observed)))
    buckets = np.append(histogram.buckets, histogram.buckets.max() + 1000)
    counts = np.append(histogram.counts, failed + skipped)

    for metric, q in evidence.load.quantiles:
        found = values[1, metric.name + LOST, None, 0]
        if failed + skipped < (1 - q) * counts.sum():
            longer = histogram_quantile(buckets, counts, q)
            assert longer is not None
            assert values[1, metric.name, None, 0] * math.exp(found) == pytest.approx(longer, rel=0.02)
        else:
            assert found == math.inf
        assert values[1, metric.name + LOST, None, ALL] == found
        assert (2, metric.name + LOST, None, 0) not in values


def test_by_older_rules_it_is_not_told(evidence: Evidence, reduction: Reduction) -> None:
    lost = {cell: replace(found, failed=3) for cell, found in reduction.totals.items()}
    changed, older = replace(reduction, totals=lost), replace(evidence, rules=RULES[14])

    assert observe_lost(older, changed, observe_runs(older, changed)) == []


def test_late_and_skipped_exist_only_where_they_were_asked_for(values: Values) -> None:
    metrics = {metric for _, metric, _, _ in values}

    assert "pgbench.failures" in metrics
    assert not {"pgbench.late", "pgbench.skipped"} & metrics


def test_a_cost_is_the_increase_per_transaction(evidence: Evidence, reduction: Reduction, values: Values) -> None:
    for run in evidence.valid:
        transactions = reduction.totals[run.id, 0, None].count
        # 0.8 user, 0 nice, 0.4 system, 0 irq, 0.1 softirq seconds per second for 10 s.
        assert values[run.id, "cost.cpu_seconds", None, 0] == pytest.approx(13 / transactions)
        assert values[run.id, "cost.temp_bytes", None, ALL] == 0


def test_a_missing_source_yields_no_cost(evidence: Evidence, reduction: Reduction) -> None:
    kept = {key: value for key, value in reduction.increases.items() if key[2] != "proc_stat.cpu_system"}
    values = observe(evidence, replace(reduction, increases=kept))

    assert not [key for key in values if key[1] == "cost.cpu_seconds"]
    assert (1, "cost.wal_bytes", None, 0) in values


def test_a_run_without_a_window_has_no_observation(evidence: Evidence, reduction: Reduction) -> None:
    first, *others = evidence.valid
    bare = replace(first, phases=tuple(phase for phase in first.phases if phase.name is not PhaseName.MEASURE))
    values = observe(replace(evidence, valid=(bare, *others)), reduction)

    assert not [key for key in values if key[0] == first.id]


def test_a_run_that_lacks_a_level_has_no_value_over_all(mix: Evidence, mixed: Reduction) -> None:
    first, *others = mix.valid
    short = replace(first, phases=tuple(phase for phase in first.phases if phase.level != 1))
    values = observe(replace(mix, valid=(short, *others)), mixed)

    assert (first.id, "pgbench.tps", None, 0) in values
    assert (first.id, "pgbench.tps", None, ALL) not in values
