"""PgBouncer in front of a real server: that it is what was asked for, and what it says when it cannot be."""

import os
import resource
import signal
import time

import pytest

from pgtrial.engine.sampler.link import ConsoleLink, LinkError, columns_of
from pgtrial.errors import SettingError
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.processes import identify
from pgtrial.postgres.connect import fetch
from pgtrial.postgres.pooler import Pooler, PoolerProgram, find_pooler, require_protocol, require_sysbench
from support import PATIENCE, wait_until
from support.cluster import through
from support.programs import needs_pgbouncer

OLD = PoolerProgram(path="/usr/sbin/pgbouncer", version="1.18.0", number=(1, 18))
NEW = PoolerProgram(path="/usr/sbin/pgbouncer", version="1.21.0", number=(1, 21))
PID = "SELECT pid FROM pg_stat_activity WHERE datname = 'template1'"


@needs_pgbouncer
def test_it_has_what_the_arm_asks_for_and_leads_to_the_server(pooler, served, runner) -> None:
    started = pooler({"pool_mode": "transaction", "pool_size": "3"})

    own, other = (runner.run(fetch(conninfo, "SHOW port")) for conninfo in (through(started), served.conninfo()))
    assert own == other  # the server's, whatever the port of PgBouncer
    shown = runner.run(started._read_config())
    assert (shown["pool_mode"], shown["default_pool_size"], shown["max_client_conn"]) == ("transaction", "3", "15")
    assert shown["listen_addr"] in ("", None)  # no port is open


@needs_pgbouncer
def test_its_session_outlives_a_client_and_ends_with_it(pooler, served, runner) -> None:
    started = pooler({"pool_mode": "transaction"})

    runner.run(fetch(through(started, "template1"), "SELECT 1"))

    assert len(runner.run(fetch(served.conninfo(), PID))) == 1
    assert started.process is not None
    pid = started.process.pid
    runner.run(started.stop())
    assert identify(pid) is None
    assert wait_until(lambda: not runner.run(fetch(served.conninfo(), PID)))


@needs_pgbouncer
def test_its_console_tells_of_clients_and_sessions(pooler, runner) -> None:
    started = pooler({"pool_mode": "transaction"})
    runner.run(fetch(through(started), "SELECT 1"))
    link = ConsoleLink(started.console)
    deadline = time.monotonic() + PATIENCE

    link.connect({}, deadline=deadline)
    answers = [link.command(command, deadline=deadline) for command in ("SHOW POOLS", "SHOW STATS")]

    assert all(answer is not None and answer.ntuples >= 2 for answer in answers)
    assert {"cl_waiting", "sv_active"} < {*columns_of(answers[0])}
    with pytest.raises(LinkError, match=r"SHOW HELP|invalid command"):
        link.command("SHOW NOTHING", deadline=deadline)
    link.close()


@needs_pgbouncer
def test_one_that_was_killed_is_noticed(pooler) -> None:
    started = pooler({"pool_size": "2"})
    assert started.process is not None
    assert not started.has_died()

    os.kill(started.process.pid, signal.SIGKILL)

    assert wait_until(started.has_died)


@needs_pgbouncer
def test_too_few_open_files_are_said_before_it_would_refuse_clients(pooler) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 500), hard))
    try:
        with pytest.raises(SettingError, match="500 files open here, and PgBouncer needs 1062") as caught:
            pooler({"pool_size": "20", "max_client_conn": "1010"})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert caught.value.hint.endswith("ulimit -n 1062.")


def test_a_machine_without_it_says_which_package_has_it(runner, served) -> None:
    class Without(LocalHost):
        """A machine without any program."""

    host = Without()
    host.ops = type("Nothing", (type(host.ops),), {"which": lambda *_: None, "exists": lambda *_: False})()

    with pytest.raises(SettingError, match='the program "pgbouncer" is missing') as caught:
        runner.run(find_pooler(host, served.account))

    assert caught.value.hint == 'Install the package "pgbouncer".'


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_prepared_statements_need_a_session_or_a_later_version(mode: str) -> None:
    require_protocol(NEW, {"pool_mode": mode}, "prepared")
    require_protocol(OLD, {"pool_mode": mode}, "extended")
    require_protocol(OLD, {"pool_mode": "session"}, "prepared")
    require_protocol(OLD, {"pool_size": "5"}, "prepared")
    with pytest.raises(SettingError, match=f'1.18.0 cannot have pool_mode = "{mode}" with protocol = "prepared"'):
        require_protocol(OLD, {"pool_mode": mode}, "prepared")


def test_sysbench_prepares_its_statements_unless_it_is_told_not_to() -> None:
    command = ("sysbench", "oltp_read_only")

    require_sysbench(NEW, {"pool_mode": "transaction"}, command)
    require_sysbench(OLD, {"pool_mode": "session"}, command)
    require_sysbench(OLD, {"pool_mode": "transaction"}, (*command, "--db-ps-mode=disable"))
    with pytest.raises(SettingError, match="with sysbench, which prepares its statements") as caught:
        require_sysbench(OLD, {"pool_mode": "transaction"}, command)
    assert "--db-ps-mode=disable" in (caught.value.hint or "")


def test_a_version_that_follows_prepared_statements_is_told_to(served) -> None:
    old, new = (Pooler(program=each, cluster=served, table={}, clients=1).render() for each in (OLD, NEW))

    assert "max_prepared_statements" not in old
    assert "max_prepared_statements = 200" in new
    assert "pool_mode = session" in old
    assert "default_pool_size = 20" in old
