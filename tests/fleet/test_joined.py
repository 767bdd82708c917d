"""A cluster that is there already: who is let in, what is said where it cannot be used, and what its workers do."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import dask
import pytest

from pgtrial.errors import ConnectError, PgTrialError, PreflightError
from pgtrial.fleet import joined, scheduler
from pgtrial.fleet.cluster import LostError
from pgtrial.fleet.hosts_file import Fleet, FleetHost, Offer
from pgtrial.fleet.joined import Joined, OfferedHosts, There, ask_for_hosts
from pgtrial.fleet.machines import HostMachine
from support.dask_cluster import DaskCluster, dask_cluster, make_own_certificate, tls_environment
from support.waiting import PATIENCE, wait_until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    with dask_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def configured(monkeypatch):
    """Have dask read its variables, as at the start of a program."""

    def configure(environment: dict[str, str]) -> None:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        dask.config.refresh()

    yield configure
    monkeypatch.undo()
    dask.config.refresh()


def refusal(address: str) -> PgTrialError:
    with pytest.raises(PgTrialError) as caught:
        ask_for_hosts(address, tell=print)
    return caught.value


@contextlib.contextmanager
def plain_server() -> Iterator[str]:
    """A server that speaks no TLS."""

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(100)
            self.request.sendall(b"220 hello\r\n")

    with socketserver.TCPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"tls://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_without_a_certificate_it_is_said_which_are_missing(configured):
    configured({})
    error = refusal("tls://127.0.0.1:1")

    assert isinstance(error, PreflightError)
    assert error.message == (
        "dask's configuration names no certificate for tls://127.0.0.1:1: distributed.comm.tls.ca-file, "
        "distributed.comm.tls.client.cert, distributed.comm.tls.client.key"
    )


def test_a_certificate_that_is_not_there_is_named(configured, cluster, tmp_path):
    configured({**cluster.environment, "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY": str(tmp_path / "no.pem")})

    assert f'"{tmp_path}/no.pem" (distributed.comm.tls.client.key) cannot be read' in refusal(cluster.address).message


def test_a_scheduler_that_is_not_there_cannot_be_reached(configured, cluster):
    configured(cluster.environment)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"tls://127.0.0.1:{taken.getsockname()[1]}"
        error = refusal(address)

    assert isinstance(error, ConnectError)
    assert error.message.startswith(f"{address} cannot be reached: ")


def test_a_name_that_nobody_knows_cannot_be_reached(configured, cluster):
    configured(cluster.environment)

    assert "tls://no.such.host.invalid:8786 cannot be reached" in refusal("tls://no.such.host.invalid:8786").message


def test_a_server_without_tls_is_told_from_a_scheduler(configured, cluster):
    configured(cluster.environment)
    with plain_server() as address:
        assert refusal(address).message == f"{address} does not speak TLS"


def test_a_scheduler_that_is_not_trusted_is_sent_nothing(configured, cluster, tmp_path):
    stranger = make_own_certificate(tmp_path / "stranger")
    configured(tls_environment(cluster.certificate, trusts=stranger.certificate))
    error = refusal(cluster.address)

    assert error.message.startswith(f"{cluster.address} shows a certificate that is not trusted: ")


def test_who_is_not_trusted_by_the_scheduler_is_told_so(configured, cluster, tmp_path):
    stranger = make_own_certificate(tmp_path / "stranger")
    configured(tls_environment(stranger, trusts=cluster.certificate.certificate))
    error = refusal(cluster.address)

    assert error.message == f"{cluster.address} does not take the certificate that dask's configuration names"


def test_another_version_of_dask_is_refused(configured, cluster, monkeypatch):
    configured(cluster.environment)
    monkeypatch.setattr(scheduler, "metadata", SimpleNamespace(version=lambda _name: "1999.1"))

    assert "and this Python has 1999.1" in refusal(cluster.address).message


def test_without_an_offer_it_is_said_how_to_make_one(configured, cluster):
    configured(cluster.environment)
    error = refusal(cluster.address)

    assert error.message == f"no worker of {cluster.address} offers a host that pgtrial could use"
    assert '--resources "host:db1=1"' in error.hint


def offered(cluster: DaskCluster) -> OfferedHosts:
    """Its hosts, when there are some."""

    def ask() -> OfferedHosts | None:
        with contextlib.suppress(PreflightError):
            return ask_for_hosts(cluster.address, tell=print)
        return None

    found = wait_until(ask)
    assert found is not None
    return found


def test_a_worker_without_pgtrial_is_said_to_have_none(configured, tmp_path):
    with dask_cluster(tmp_path) as cluster:
        configured(cluster.environment)
        cluster.add_worker("host:a", has_pgtrial=False)
        hosts = offered(cluster)

        async def use() -> None:
            async with Joined(folder=tmp_path, places=tmp_path, hosts=hosts, longest=1.0) as found:
                with pytest.raises(PreflightError, match="has no pgtrial"):
                    await found.add_worker("a")

        asyncio.run(use())


def test_a_worker_of_another_version_is_refused(configured, tmp_path, monkeypatch):
    with dask_cluster(tmp_path) as cluster:
        configured(cluster.environment)
        cluster.add_worker("host:a")
        hosts = offered(cluster)
        monkeypatch.setattr(joined, "__version__", "0.0.1")

        async def use() -> None:
            async with Joined(folder=tmp_path, places=tmp_path, hosts=hosts, longest=1.0) as found:
                with pytest.raises(PreflightError, match=r"and this is 0\.0\.1"):
                    await found.add_worker("a")

        asyncio.run(use())


def test_a_worker_that_fails_is_lost_and_does_not_end_the_experiment(configured, tmp_path):
    with dask_cluster(tmp_path) as cluster:
        configured(cluster.environment)
        cluster.add_worker("host:a")
        hosts = offered(cluster)
        (tmp_path / "state.sqlite").write_text("no database " * 100)

        async def use() -> None:
            async with Joined(folder=tmp_path, places=tmp_path, hosts=hosts, longest=1.0) as found:
                (address,) = found._present
                asked = {"folder": str(tmp_path), "mark": {"created": "", "whole": {}}, "told": []}
                with pytest.raises(LostError, match="its worker fails: DatabaseError: file is not a database"):
                    await found._serve(address, "news", json.dumps(asked))
                found._there["a"] = There(folder=str(tmp_path), worker="of another name")
                with pytest.raises(LostError, match="its worker could not run it: TypeError"):
                    await found.run_block("a", json.dumps({"block": [], "permission": ""}))

        asyncio.run(use())


def test_workers_that_come_late_are_new_hosts_and_those_that_are_gone_stay_listed(configured, tmp_path):
    with dask_cluster(tmp_path) as cluster:
        configured(cluster.environment)
        first = cluster.add_worker("host:a@ssh://a")
        hosts = offered(cluster)

        async def use() -> None:
            async with Joined(folder=tmp_path, places=tmp_path, hosts=hosts, longest=1.0):
                assert hosts.changed() is None
                cluster.add_worker("host:b@ssh://b")
                first.terminate()
                while (fleet := hosts.changed()) is None:
                    await asyncio.sleep(0.01)
                assert [host.name for host in fleet.host] == ["a", "b"]

        asyncio.run(asyncio.wait_for(use(), 60))


def test_the_clock_of_a_worker_is_compared_with_ours(tmp_path, monkeypatch):
    async def serve(_self: Joined, _address: str, what: str, _request: str) -> str:
        if what == "who":
            return json.dumps({"worker": "w", "version": "1", "now": time.time() + 5.0})
        clock = {"offset": 0.0, "error": 0.0}  # on the host itself it has that of the host
        found = {"boot": "b", "begun": 105.0, "network": "net:[1]", "clock": clock, "worker": None}
        return json.dumps({"machine": found})

    monkeypatch.setattr(Joined, "_serve", serve)
    host = FleetHost(name="a", local=True)
    offer = Offer(host=host, address="tls://w", resource="host:a")

    async def ask() -> HostMachine:
        found = Joined(folder=tmp_path, places=tmp_path, hosts=OfferedHosts(fleet=Fleet(host=(host,))), longest=1.0)
        found._offers["a"] = offer
        return await found.ask_machine(host)

    machine = asyncio.run(ask())
    assert machine.worker is not None
    assert abs(machine.worker.offset - 5.0) <= machine.worker.error + 0.001
    assert abs(machine.begun - 100.0) <= machine.worker.error + 0.001  # by our clock


def test_one_machine_under_two_names_is_one_however_long_it_takes_to_reach_it(tmp_path, monkeypatch):
    now = [1000.0]

    async def serve(_self: Joined, address: str, what: str, _request: str) -> str:
        if what == "who":
            return json.dumps({"worker": "w", "version": "1", "now": now[0]})
        now[0] += 3.0 if address == "tls://far" else 0.0  # until ssh is through
        found = {"boot": "b", "begun": 100.0, "network": "net:[1]", "clock": {"offset": 0.0, "error": 0.0}}
        return json.dumps({"machine": found, "now": now[0]})

    monkeypatch.setattr(Joined, "_serve", serve)
    monkeypatch.setattr(joined, "time", SimpleNamespace(time=lambda: now[0], monotonic=lambda: now[0]))
    near, far = FleetHost(name="near", local=True), FleetHost(name="far", ssh="ssh://near")

    async def ask() -> list[HostMachine]:
        hosts = OfferedHosts(fleet=Fleet(host=(near, far)))
        found = Joined(folder=tmp_path, places=tmp_path, hosts=hosts, longest=1.0)
        for host in (near, far):
            found._offers[host.name] = Offer(host=host, address=f"tls://{host.name}", resource=f"host:{host.name}")
        return [await found.ask_machine(host) for host in (near, far)]

    first, second = asyncio.run(ask())
    assert first.is_same(second)


@contextlib.contextmanager
def standing_still(cluster: DaskCluster) -> Iterator[None]:
    """The worker of the one host does."""
    worker = cluster.workers["host:a"]
    os.kill(worker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(worker.pid, signal.SIGCONT)


@pytest.fixture
def asks_nothing_of_the_folder(monkeypatch):
    monkeypatch.setattr(Joined, "_request", lambda *_, **__: {"place": ["x", "a"], "reason": "", "done": []})


@pytest.mark.usefixtures("asks_nothing_of_the_folder")
def test_a_worker_that_does_not_answer_is_waited_for_no_longer_than_said(configured, tmp_path, monkeypatch):
    monkeypatch.setattr(joined, "PATIENCE", 0.5)
    with dask_cluster(tmp_path) as cluster:
        configured(cluster.environment)
        cluster.add_worker("host:a")
        hosts = offered(cluster)

        async def use() -> dict[str, PgTrialError]:
            async with Joined(folder=tmp_path, places=tmp_path, hosts=hosts, longest=1.0) as found:
                found._there["a"] = There(folder=str(tmp_path), worker="")
                found._there["a"].block = 1
                with standing_still(cluster):
                    return await found.leave()

        stays = asyncio.run(asyncio.wait_for(use(), PATIENCE))
    assert stays["a"].message == "no worker that offers a says that nothing goes on there"
    assert stays["a"].detail


@pytest.mark.usefixtures("asks_nothing_of_the_folder")
def test_who_asks_again_to_end_does_not_wait_for_a_worker(configured, tmp_path, monkeypatch):
    monkeypatch.setattr(joined, "PATIENCE", 1000.0)
    monkeypatch.setattr(joined, "LAST", 0.0)
    with dask_cluster(tmp_path) as cluster:
        configured(cluster.environment)
        cluster.add_worker("host:a")
        hosts = offered(cluster)

        async def use() -> dict[str, PgTrialError]:
            async with Joined(folder=tmp_path, places=tmp_path, hosts=hosts, longest=1.0) as found:
                found._there["a"] = There(folder=str(tmp_path), worker="")
                with standing_still(cluster):
                    leaving = asyncio.ensure_future(found.leave())
                    await asyncio.sleep(0)
                    found.stop_waiting()
                    return await leaving

        stays = asyncio.run(asyncio.wait_for(use(), PATIENCE))
    assert list(stays) == ["a"]


def test_files_go_only_where_they_belong(tmp_path: Path):
    from pgtrial.errors import StoreError
    from pgtrial.fleet import remote

    for place in (["..", "a"], ["x/y", "a"], ["x", "../a"], ["x", ".a"]):
        with pytest.raises(StoreError):
            remote._place({"place": place})
