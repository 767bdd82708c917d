import dataclasses
import stat
from datetime import UTC, datetime

import pytest

from pgtrial.errors import ConnectError
from pgtrial.hosts.certificate import draw_key_pair
from pgtrial.hosts.local import LocalHost
from pgtrial.postgres.connect import conninfo, fetch
from pgtrial.postgres.entrance import Entrance, are_addresses

HERE = "127.0.0.1"


def entrance(*sources: str) -> Entrance:
    return Entrance(
        port=LocalHost().ops.free_port(), addresses=(HERE,), sources=sources, database="postgres", user="postgres"
    )


def test_each_machine_is_let_in_alone_and_with_a_password():
    assert entrance("10.0.0.2", "fe80::1%eth0").hba == (
        "local all all trust\n"
        "local replication all trust\n"
        "host postgres postgres 10.0.0.2/32 scram-sha-256\n"
        "host postgres postgres fe80::1/128 scram-sha-256\n"
    )


def test_passwords_are_drawn_and_not_shown():
    first, second = entrance(HERE), entrance(HERE)

    assert first.password != second.password
    assert first.password not in repr(first)


@pytest.mark.parametrize("text", ["db1", "10.0.0.2 trust\nhost all all all trust", "", "10.0.0.0/8"])
def test_what_is_no_address_is_not_taken_for_one(text):
    assert not are_addresses([HERE, text])


def restarted(cluster, runner, way: Entrance):
    runner.run(cluster.stop())
    cluster.entrance = way
    cluster.write_settings({})
    runner.run(cluster.start())


def by_tcp(way: Entrance, password: str, database: str = "postgres") -> str:
    return f"{conninfo(host=HERE, port=way.port, user=way.user, database=database)} password={password}"


def test_a_server_lets_a_machine_in_with_the_password_and_into_its_database_alone(throwaway, runner):
    way = entrance(HERE)
    restarted(throwaway, runner, way)

    assert runner.run(fetch(by_tcp(way, way.password), "SELECT inet_client_addr()::text")) == [(f"{HERE}/32",)]
    ((verifier,),) = runner.run(
        fetch(throwaway.conninfo(), "SELECT rolpassword FROM pg_authid WHERE rolname = 'postgres'")
    )
    assert verifier.startswith("SCRAM-SHA-256$")
    for wrong in (by_tcp(way, "guessed"), by_tcp(way, way.password, "template1")):
        with pytest.raises(ConnectError):
            runner.run(fetch(wrong, "SELECT 1"))
    assert way.password not in throwaway.log.read_text()


def test_a_server_lets_nobody_else_in(throwaway, runner):
    way = dataclasses.replace(entrance("192.0.2.1"), password="known")
    restarted(throwaway, runner, way)

    with pytest.raises(ConnectError) as caught:
        runner.run(fetch(by_tcp(way, way.password), "SELECT 1"))

    assert "no pg_hba.conf entry" in caught.value.detail


def test_with_a_certificate_only_who_knows_it_gets_in_and_only_by_tls(throwaway, runner, tmp_path):
    way = dataclasses.replace(entrance(HERE), pair=draw_key_pair("pgtrial load", now=datetime.now(UTC)))
    stranger = dataclasses.replace(way, pair=draw_key_pair("stranger", now=datetime.now(UTC)))
    restarted(throwaway, runner, way)
    way.write_trust(LocalHost(), tmp_path)
    (tmp_path / "other").mkdir()
    stranger.write_trust(LocalHost(), tmp_path / "other")

    def by_tls(directory) -> str:
        trusted = way.environment(HERE, directory)
        return f"{by_tcp(way, way.password)} sslmode={trusted['PGSSLMODE']} sslrootcert={trusted['PGSSLROOTCERT']}"

    found = runner.run(fetch(by_tls(tmp_path), "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"))
    assert found == [(True,)]
    for wrong in (by_tls(tmp_path / "other"), f"{by_tcp(way, way.password)} sslmode=disable"):
        with pytest.raises(ConnectError):
            runner.run(fetch(wrong, "SELECT 1"))
    key = throwaway.directory / "server.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert way.pair is not None
    assert way.pair.key not in repr(way)
