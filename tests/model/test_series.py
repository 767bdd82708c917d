import pytest

from pgtrial.collectors import COLLECTORS
from pgtrial.collectors.base import FileCollector
from pgtrial.findings.catalogue.series import SERIES
from pgtrial.findings.naming import name_series
from pgtrial.model.formulas import SessionMetric, TimelineMetric
from pgtrial.model.series import METRICS, SESSION_METRICS, find_metric

UNITS = {"", "1/s", "B", "B/s", "s", "s/s", "share"}


def test_names_are_unique_and_the_catalogue_has_words_for_every_metric_and_for_nothing_else() -> None:
    names = [metric.name for metric in (*METRICS, *SESSION_METRICS)]

    assert len(set(names)) == len(names)
    assert {name_series(name).code for name in names} == SERIES.keys()
    for metric in (*METRICS, *SESSION_METRICS):
        assert metric.unit in UNITS
        assert find_metric(metric.name) is metric


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_sources_are_read_by_a_collector_and_are_of_the_kind(metric: TimelineMetric) -> None:
    known = {each.name: each.kind for collector in COLLECTORS for each in collector.metrics}

    assert {source.metric: known.get(source.metric) for source in metric.sources} == {
        source.metric: metric.kind for source in metric.sources
    }


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("iostat.r_await", "Δdisk.read_time / Δdisk.reads"),
        ("iostat.util", "Δdisk.io_time / Δt"),
        ("iostat.iops", "(Δdisk.reads + Δdisk.writes) / Δt"),
        ("vmstat.r", "proc_stat.procs_running − 1"),
        ("vmstat.swpd", "proc_meminfo.SwapTotal − proc_meminfo.SwapFree"),
        ("vmstat.si", "(Δproc_vmstat.pswpin / Δt) × page size"),
        ("watermark.low", "zoneinfo.low × page size"),
        ("wal.syncs", "Δpg_stat_wal.wal_sync / Δt; or Δpg_stat_io.fsyncs[.*/wal/normal] / Δt"),
        ("waits.", "sessions / polls"),
    ],
)
def test_a_formula_says_how_a_metric_is_computed(name: str, formula: str) -> None:
    metric = find_metric(name)

    assert metric is not None
    assert metric.formula == formula


def test_waits_are_found_whatever_their_type() -> None:
    by_type, by_event = find_metric("waits.LWLock"), find_metric("wait.LWLock")

    assert isinstance(by_type, SessionMetric)
    assert isinstance(by_event, SessionMetric)
    assert by_type is not by_event


@pytest.mark.parametrize("name", ["", "waits", "vmstat.us2", "db.", "unknown.metric"])
def test_a_name_that_there_is_not_is_not_found(name: str) -> None:
    assert find_metric(name) is None


def test_what_is_read_of_files_of_the_kernel_is_of_the_machine_and_all_else_of_the_server() -> None:
    files = {
        each.name for collector in COLLECTORS if isinstance(collector, FileCollector) for each in collector.metrics
    }
    of_files = {metric.name for metric in METRICS if {source.metric for source in metric.sources} & files}

    assert of_files == {metric.name for metric in METRICS if not metric.is_of_server}
    kinds = {metric.name.partition(".")[0]: metric.is_of_server for metric in METRICS}
    assert {
        metric.name for metric in METRICS if kinds[metric.name.partition(".")[0]] is not metric.is_of_server
    } == set()
