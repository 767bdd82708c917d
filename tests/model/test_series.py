import pytest

from pgtrial.collectors import COLLECTORS
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


def test_only_what_the_server_and_the_load_tell_is_of_the_server() -> None:
    of_server = {metric.name.partition(".")[0] for metric in METRICS if metric.is_of_server}
    of_machine = {metric.name.partition(".")[0] for metric in METRICS if not metric.is_of_server}

    linux = {"vmstat", "loadavg", "iostat", "dirty", "throttling", "reclaim", "watermark", "huge", "psi", "cgroup"}
    assert of_machine == linux
    assert not of_server & of_machine
