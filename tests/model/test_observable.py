import pytest

from pgtrial.model.metrics import COMPARED
from pgtrial.model.observable import find_observable, floor_of, observable_names


@pytest.mark.parametrize(
    "name",
    [
        *("pgbench.tps", "pgbench.failures", "cost.wal_bytes", "stability.lowest", "memory.swap_growth", "vmstat.wa"),
        *("iostat.r_await", "iostat.r_await/vda", "waits.IO", "wait.IO", "wait.IO/DataFileRead", "db.hit_ratio"),
        "server.cpu/client backend",
    ],
)
def test_what_a_claim_can_be_about(name: str) -> None:
    found = find_observable(name)

    assert found is not None
    assert found.metric.name == name


@pytest.mark.parametrize(
    "name",
    ["", "tps", "waits.", "wait.", "iostat.", "iostat.r_await/", "vmstat.wa/vda", "waits.IO/DataFileRead", "x.y"],
)
def test_what_it_cannot(name: str) -> None:
    assert find_observable(name) is None


def test_loads_have_their_own_metrics_and_the_machine_s() -> None:
    server, files = set(observable_names("pgbench")), set(observable_names("fio"))

    assert {metric.name for metric in COMPARED} <= server | files
    assert {"pgbench.tps", "wal.bytes", "waits."} <= server - files
    assert {"fio.bandwidth"} <= files - server
    assert {"iostat.r_await", "vmstat.wa", "stability.lowest"} <= files & server


def test_only_what_is_compared_by_nature_has_no_floor() -> None:
    assert floor_of("pgbench.tps") == floor_of("unknown") == 0
    assert floor_of("vmstat.wa") == 1e-3
