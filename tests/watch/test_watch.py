"""pgtrial watch on a real server under load: what it keeps, what it survives, and that it changes nothing."""

import asyncio
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from pgtrial.cli.main import main
from pgtrial.engine.sampler import loop
from pgtrial.engine.sampler.spool import Header
from pgtrial.postgres.programs import Programs
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.postgres.work_directory import PORT
from pgtrial.watch import reach as reach_module
from pgtrial.watch import watcher as watcher_module
from pgtrial.watch.folder import Ages, Rows, open_folder
from pgtrial.watch.layout import SAMPLES, STATEMENTS, WAITS
from pgtrial.watch.reach import find_first_process, reach
from pgtrial.watch.recorder import Recorder
from pgtrial.watch.series import COMMITS as COMMITS_METRIC
from pgtrial.watch.series import read_polls, read_rates
from pgtrial.watch.sums import COUNTERS
from pgtrial.watch.watcher import Options, Watcher
from pgtrial.watch.windows import Window, window_sums
from support import wait_until
from support.watching import BEGUN, COMMITS, INTERVAL, MACHINE, POLL, POLLS, Network, rows, watched

pytestmark = pytest.mark.pg
ROLE = "watcher"
SHOP = """
CREATE EXTENSION IF NOT EXISTS pg_stat_statements;
CREATE ROLE watcher LOGIN;
GRANT pg_monitor TO watcher;
CREATE ROLE anybody LOGIN;
CREATE TABLE item (id int PRIMARY KEY, n int NOT NULL);
INSERT INTO item SELECT id, 0 FROM generate_series(1, 1000) AS id;
"""


@pytest.fixture(scope="module")
def runner_() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def shop(
    programs: Programs,
    runner_: asyncio.Runner,
    run_cluster: Callable[..., AbstractContextManager[ThrowawayCluster]],
) -> Iterator[ThrowawayCluster]:
    has_extension = (programs.directory.parent / "share").exists() and "pg_stat_statements" in _extensions(programs)
    settings = {"autovacuum": "off"}  # nothing but the tests changes anything
    if has_extension:
        settings["shared_preload_libraries"] = "pg_stat_statements"
    script = SHOP if has_extension else SHOP.replace("CREATE EXTENSION IF NOT EXISTS pg_stat_statements;", "")
    with run_cluster(programs, runner_, settings=settings) as cluster:
        with psycopg.connect(cluster.conninfo(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE shop")
        with psycopg.connect(cluster.conninfo("shop"), autocommit=True) as connection:
            connection.execute(script.encode())
        yield cluster


def _extensions(programs: Programs) -> str:
    found = subprocess.run([programs.path("pg_config"), "--sharedir"], capture_output=True, text=True, check=False)
    place = Path(found.stdout.strip()) / "extension"
    return " ".join(path.name for path in place.glob("*.control")) if found.returncode == 0 else ""


def dsn(cluster: ThrowawayCluster) -> str:
    return psycopg.conninfo.make_conninfo(cluster.conninfo("shop"), user=ROLE)


@contextmanager
def load(cluster: ThrowawayCluster) -> Iterator[None]:
    """A little of it, that goes on when the server comes back."""
    is_over = threading.Event()

    def work() -> None:
        while not is_over.wait(0.01):
            with suppress(psycopg.Error), psycopg.connect(cluster.conninfo("shop"), autocommit=True) as connection:
                connection.execute("SET application_name = 'shop'")
                while not is_over.wait(0.005):
                    connection.execute("UPDATE item SET n = n + 1 WHERE id = 7")
                    connection.execute("SELECT pg_sleep(0.005)")

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


class WatchProcess(subprocess.Popen[str]):
    """``said`` is what it has told, once it has ended."""

    said = ""


@contextmanager
def watching(cluster: ThrowawayCluster, root: Path, *options: str, address: str = "") -> Iterator[WatchProcess]:
    command = [sys.executable, "-m", "pgtrial", "watch", address or dsn(cluster), "-o", str(root), "--keep-free", "1MB"]
    process = WatchProcess(
        [*command, "--interval", f"{INTERVAL}s", "--poll", f"{POLL}s", *options], stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        _, process.said = process.communicate(timeout=60)
        sys.stderr.write(process.said)  # for who reads of a test that fails


def test_what_is_read_of_a_loaded_server_by_a_monitor(shop: ThrowawayCluster, tmp_path: Path) -> None:
    root = tmp_path / "w"
    with load(shop), watching(shop, root) as process:
        wait_until(lambda: rows(root, SAMPLES, COMMITS), lambda found: len(found) >= 6)
        waited = "SELECT DISTINCT wait_event, application FROM {files} WHERE application = 'shop'"
        wait_until(lambda: rows(root, WAITS, waited), lambda found: ("PgSleep", "shop") in found)
        process.terminate()
        assert process.wait(60) == 0

    commits = rows(root, SAMPLES, COMMITS)
    assert commits[-1][1] > commits[0][1]
    metrics = {row[0] for row in rows(root, SAMPLES, "SELECT DISTINCT metric FROM {files}")}
    assert {"server_life.started", "watch.clock", "sessions.polls", "backend_cpu.run", "proc_stat.cpu_user"} <= metrics
    assert rows(root, WAITS, "SELECT 1 FROM {files} WHERE application = 'pgtrial/watch'") == []
    texts = {row[0] for row in rows(root, WAITS, "SELECT DISTINCT query FROM {files}")}
    assert "UPDATE item SET n = n + ? WHERE id = ?" in texts or "SELECT pg_sleep(?)" in texts
    with psycopg.connect(shop.conninfo("shop")) as connection:
        has_statements = connection.execute("SELECT count(*) FROM pg_extension WHERE extname = 'pg_stat_statements'")
        if has_statements.fetchone() == (1,):
            found = rows(root, STATEMENTS, "SELECT DISTINCT query FROM {files}")
            assert any("pg_sleep" in row[0] for row in found)
    assert "watching database" in process.said
    assert "its machine as well" in process.said


def test_nothing_is_missing_whatever_the_version(shop: ThrowawayCluster, tmp_path: Path) -> None:
    root = tmp_path / "w"
    major = shop.programs.major
    sources = {
        *("pg_stat_database", "pg_stat_bgwriter", "pg_stat_checkpointer", "pg_stat_slru", "pg_stat_wal"),
        *("pg_locks", "pg_stat_progress_vacuum", "pg_stat_progress_analyze", "blocking", "sessions"),
        *("relations", "server_life", "pg_replication_slots"),
        *(("pg_stat_io",) if major >= 16 else ()),
    }
    read = "SELECT DISTINCT split_part(metric, '.', 1) FROM {files}"
    with load(shop), watching(shop, root) as process:
        wait_until(lambda: {row[0] for row in rows(root, SAMPLES, read)}, lambda found: sources <= found)

    # Where the data lie in memory there is no device to read.
    expected = ("watching database", "connected to", "The tmpfs at")
    said = process.said.splitlines()
    assert [line for line in said if not line.startswith(expected)] == []
    life = {row[0] for row in rows(root, SAMPLES, "SELECT DISTINCT metric FROM {files} WHERE metric ~ 'server_life.*'")}
    resets = {
        "database",
        "bgwriter",
        "wal",
        *(("io",) if major >= 16 else ()),
        *(("checkpointer",) if major >= 17 else ()),
    }
    assert life == {
        *("server_life.started", "server_life.version_num", "server_life.in_recovery"),
        *(f"server_life.{name}_reset" for name in resets),
    }
    version = "SELECT max(value)::INT // 10000 FROM {files} WHERE metric = 'server_life.version_num'"
    assert rows(root, SAMPLES, version) == [(major,)]


def test_the_newest_figures_are_in_a_textfile_while_there_is_a_server(
    shop: ThrowawayCluster, runner_: asyncio.Runner, tmp_path: Path
) -> None:
    directory = tmp_path / "prom"
    directory.mkdir()

    def figures() -> dict[str, float]:
        found: dict[str, float] = {}
        for path in directory.glob("*.prom"):
            with suppress(FileNotFoundError):
                for family in text_string_to_metric_families(path.read_text(encoding="utf-8")):
                    found |= {sample.name: sample.value for sample in family.samples}
        return found

    with load(shop), watching(shop, tmp_path / "w", "--textfile", str(directory)) as process:
        commits = "pgtrial_pg_stat_database_xact_commit_total"
        first = wait_until(figures, lambda found: found.get(commits, 0) > 0 and found["pgtrial_up"] == 1)
        wait_until(figures, lambda found: found[commits] > first[commits] and found["pgtrial_session_polls_total"] > 0)
        runner_.run(shop.stop())
        # Its counters are gone, and no zeros.
        wait_until(figures, lambda found: found["pgtrial_up"] == 0 and commits not in found)
        runner_.run(shop.start())
        wait_until(figures, lambda found: found["pgtrial_up"] == 1 and commits in found)
        process.terminate()
        assert process.wait(60) == 0
    assert list(directory.iterdir()) == []


def test_a_directory_for_the_textfile_that_is_none_is_refused(
    shop: ThrowawayCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["-o", str(tmp_path / "w"), "--keep-free", "1MB", "--textfile", str(tmp_path / "none")]
    assert main(["watch", dsn(shop), *options]) == 1
    said = capsys.readouterr().err
    assert 'error: cannot write "' in said
    assert "hint: --textfile names the directory" in said


def test_a_restart_is_a_gap_and_the_watch_goes_on(
    shop: ThrowawayCluster, runner_: asyncio.Runner, tmp_path: Path
) -> None:
    root = tmp_path / "w"
    started = "SELECT DISTINCT value FROM {files} WHERE metric = 'server_life.started'"
    with load(shop), watching(shop, root) as process:
        wait_until(lambda: rows(root, SAMPLES, COMMITS), lambda found: len(found) >= 4)
        before = time.time()
        runner_.run(shop.stop())
        machine = f"SELECT 1 FROM {{files}} WHERE metric = 'proc_stat.cpu_user' AND t > {before}"
        runner_.run(shop.start())
        after = time.time()
        wait_until(lambda: rows(root, SAMPLES, started), lambda found: len(found) == 2)
        wait_until(lambda: rows(root, SAMPLES, COMMITS), lambda found: sum(row[0] > after for row in found) >= 3)
        assert process.poll() is None

    assert rows(root, SAMPLES, machine)
    assert all(value > 0 for _, value in rows(root, SAMPLES, COMMITS))
    assert "the connection to the server is lost" in process.said
    assert "connected to PostgreSQL" in process.said


def test_kill_9_loses_ten_seconds_at_most_and_the_next_watch_goes_on(shop: ThrowawayCluster, tmp_path: Path) -> None:
    root = tmp_path / "w"
    with load(shop), watching(shop, root, "--interval", "4s") as process:
        wait_until(lambda: rows(root, SAMPLES, COMMITS), lambda found: len(found) >= 2)
        process.kill()
        killed = time.time()
        process.wait(60)
        commits = rows(root, SAMPLES, COMMITS)
        assert killed - commits[-1][0] <= 10.0
        wait_until(lambda: _sessions(shop), lambda found: found == 0)
        with watching(shop, root, "--once"):
            wait_until(lambda: rows(root, SAMPLES, COMMITS), lambda found: len(found) > len(commits))


def _sessions(cluster: ThrowawayCluster) -> int:
    with psycopg.connect(cluster.conninfo()) as connection:
        found = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE usename = %s", (ROLE,)).fetchone()
    assert found is not None
    return int(found[0])


CATALOGUE = """
SELECT (SELECT array_agg((relname, relfilenode, reltuples)::text ORDER BY oid) FROM pg_class WHERE relkind <> 'i'),
       (SELECT array_agg((datname, datconnlimit)::text ORDER BY oid) FROM pg_database),
       (SELECT array_agg((rolname, rolconfig)::text ORDER BY oid) FROM pg_roles),
       (SELECT array_agg((name, setting)::text ORDER BY name) FROM pg_settings WHERE source <> 'session'),
       (SELECT sum(n_tup_ins + n_tup_upd + n_tup_del + n_tup_hot_upd)::text FROM pg_stat_all_tables)
"""


def test_nothing_on_the_server_changes(shop: ThrowawayCluster, tmp_path: Path) -> None:
    def found() -> list[Any]:
        with psycopg.connect(shop.conninfo("shop")) as connection:
            written = "SELECT sum(tup_inserted + tup_updated + tup_deleted), sum(temp_bytes) FROM pg_stat_database"
            return [connection.execute(CATALOGUE).fetchall(), connection.execute(written).fetchall()]

    with psycopg.connect(shop.conninfo("shop")) as connection:
        # Sessions of the tests before count what they did until they are gone.
        clients = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        wait_until(lambda: connection.execute(clients).fetchall(), lambda found: found == [(1,)])
        connection.execute("SELECT pg_stat_force_next_flush()")
    before = found()
    with watching(shop, tmp_path / "w", "--once") as process:
        assert process.wait(60) == 0

    assert found() == before


def test_a_session_of_the_watch_is_read_only_and_short(shop: ThrowawayCluster) -> None:
    from pgtrial.engine.sampler.link import ServerLink, rows_of

    link = ServerLink(dsn(shop), application="pgtrial/watch", timeout=5.0)
    deadline = time.monotonic() + 30
    names = ("default_transaction_read_only", "statement_timeout", "lock_timeout", "application_name")
    query = "SELECT " + ", ".join(f"current_setting('{name}')" for name in names)
    # By which the server itself ends one whose other end is gone; over a socket of its own machine there is none.
    ends = "SELECT name, setting FROM pg_settings WHERE source = 'session' AND name ~ '^(tcp_|idle_session)' ORDER BY 1"
    link.connect({"settings": query, "ends": ends}, deadline=deadline)
    try:
        answer, ended = (link.run(name, (), deadline=deadline) for name in ("settings", "ends"))
        assert answer is not None
        assert ended is not None
        assert rows_of(answer) == [["on", "5s", "5s", "pgtrial/watch"]]
        found = dict(rows_of(ended))
        keepalives = {f"tcp_keepalives_{name}" for name in ("count", "idle", "interval")}
        assert {*keepalives, "tcp_user_timeout"} <= found.keys()
        assert found.get("idle_session_timeout", "300000") == "300000"
    finally:
        link.close()


def test_what_reads_its_extensions_goes_on_when_its_session_was_ended(
    shop: ThrowawayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pace = watcher_module._PACE
    assert pace.rest
    monkeypatch.setattr(watcher_module, "_PACE", replace(pace, least=INTERVAL, rest=INTERVAL))
    root = tmp_path / "w"
    tables = "SELECT t FROM {files} WHERE metric = 'relations.table_bytes' ORDER BY t"
    with watched(dsn(shop), root) as (watcher, said):
        wait_until(lambda: rows(root, SAMPLES, tables))
        with psycopg.connect(shop.conninfo(), autocommit=True) as connection:
            ended = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s AND datname = 'shop'",
                (ROLE,),
            )
            assert ended.fetchall() == [(True,)]
            at = time.time()
        wait_until(lambda: rows(root, SAMPLES, tables), lambda found: found[-1][0] > at + INTERVAL)
    assert watcher.error is None
    assert any("cannot be read: " in text for text in said)
    assert not any("is lost" in text for text in said)


def test_a_full_disk_ends_the_watch_and_not_the_server(
    shop: ThrowawayCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", dsn(shop), "-o", str(tmp_path / "w"), "--keep-free", "9999999GB"]) == 1

    said = capsys.readouterr().err
    assert "error: the watch has ended: the disk of" in said
    assert "hint: Free some space" in said


def test_a_server_that_is_not_there_is_said_to_be_that(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "host=/nonexistent", "-o", str(tmp_path / "w")]) == 1
    assert "cannot connect to the server of the command" in capsys.readouterr().err
    assert not (tmp_path / "w").exists()


def test_a_password_does_not_stand_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options in ((), ("--unit",)):
        assert main(["watch", "host=db password=secret", "-o", str(tmp_path / "w"), *options]) == 2
        assert "secret" not in capsys.readouterr().err


def test_the_unit_has_the_command_and_no_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "a b"
    assert main(["watch", "service=shop", "-o", str(place), "--unit", "--interval", "2s", "--keep-free", "2GB"]) == 0

    unit = capsys.readouterr().out
    (start,) = (line for line in unit.splitlines() if line.startswith("ExecStart="))
    assert start == (
        f'ExecStart={sys.executable} -m pgtrial watch service=shop --output "{place}" '
        "--interval 2s --keep-free 2147483648B"
    )
    assert f'ReadWritePaths="{place}" /tmp' in unit
    assert not place.exists()

    assert main(["watch", "service=shop", "-o", str(place), "--unit", "--textfile", str(tmp_path)]) == 0
    unit = capsys.readouterr().out
    assert f'--output "{place}" --textfile {tmp_path}\n' in unit
    assert f'ReadWritePaths="{place}" {tmp_path} /tmp' in unit


def test_one_folder_has_one_watch(shop: ThrowawayCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "w"
    with watching(shop, root):
        wait_until((root / "watch.json").exists)
        assert main(["watch", dsn(shop), "-o", str(root), "--keep-free", "1MB"]) == 1
    assert "another pgtrial watches into" in capsys.readouterr().err


def test_after_a_failover_the_folder_is_that_of_the_same_connection_string(
    shop: ThrowawayCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is in there was read of a host that is away now; the one that has its place is named as well."""
    root = tmp_path / "w"
    root.mkdir()
    (root / "watch.json").write_text('{"format": 1, "server": "/gone:5433", "database": "shop"}')
    here = str(shop.socket_directory)
    several = psycopg.conninfo.make_conninfo(dsn(shop), host=f"/gone,{here}", port=f"5433,{PORT}")
    with watching(shop, root, "--once", address=several) as process:
        assert process.wait(60) == 0
    assert rows(root, SAMPLES, COMMITS)

    others = psycopg.conninfo.make_conninfo(dsn(shop), host=f"/elsewhere,{here}", port=f"5433,{PORT}")
    assert main(["watch", others, "-o", str(root), "--keep-free", "1MB", "--once"]) == 1
    assert 'has what was read of database "shop" at /gone:5433' in capsys.readouterr().err


def test_interrupting_is_how_it_ends(shop: ThrowawayCluster, tmp_path: Path) -> None:
    root = tmp_path / "w"
    with watching(shop, root) as process:
        wait_until(lambda: rows(root, SAMPLES, COMMITS), bool)
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) == 0


def test_several_servers_have_a_folder_each(shop: ThrowawayCluster, tmp_path: Path) -> None:
    root = tmp_path / "w"
    other = psycopg.conninfo.make_conninfo(shop.conninfo("postgres"), user=ROLE)
    command = [sys.executable, "-m", "pgtrial", "watch", dsn(shop), other, "-o", str(root), "--keep-free", "1MB"]
    done = subprocess.run([*command, "--interval", "0.5s", "--once"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    folders = sorted(root.iterdir())
    assert [folder.name.rpartition("-")[2] for folder in folders] == ["postgres", "shop"]
    for folder in folders:
        assert rows(folder, SAMPLES, COMMITS)
        assert f"{folder.name}: watching database" in done.stderr


def test_one_of_several_that_is_away_at_the_beginning_is_watched_when_it_is_there(
    shop: ThrowawayCluster, tmp_path: Path
) -> None:
    """As after a power cut: the watch of the others does not wait for the machine that comes last."""
    root, later = tmp_path / "w", tmp_path / "later"
    away = psycopg.conninfo.make_conninfo(dsn(shop), host=str(later))
    with watching(shop, root, away) as process:
        (here,) = wait_until(lambda: [*root.glob("*")] if root.exists() else [])
        wait_until(lambda: rows(here, SAMPLES, COMMITS))
        later.symlink_to(shop.socket_directory)
        (other,) = wait_until(lambda: {*root.glob("*")} - {here})
        wait_until(lambda: rows(other, SAMPLES, COMMITS))
        process.terminate()
        assert process.wait(60) == 0
    said = process.said.splitlines()
    (line,) = (each for each in said if "cannot connect" in each)
    assert line.endswith("it is tried again, and watched when it is there")
    assert any(each.startswith(f"{other.name}: watching database") for each in said)


def test_several_of_which_none_is_there_are_said_to_be_that(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "host=/nonexistent", "host=/nowhere", "-o", str(tmp_path / "w")]) == 1
    assert "cannot connect to the server of the command: host /nonexistent" in capsys.readouterr().err
    assert not (tmp_path / "w").exists()


def test_who_waits_for_a_server_ends_when_told_to(shop: ThrowawayCluster, tmp_path: Path) -> None:
    root = tmp_path / "w"
    with watching(shop, root, "host=/nonexistent") as process:
        wait_until(lambda: any(rows(each, SAMPLES, COMMITS) for each in root.glob("*")) if root.exists() else False)
        process.terminate()
        assert process.wait(60) == 0
    with watching(shop, root, "host=/nonexistent", "--once") as process:
        assert process.wait(60) == 0


def test_a_role_that_is_no_monitor_is_told_what_it_does_not_see(
    shop: ThrowawayCluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    anybody = psycopg.conninfo.make_conninfo(shop.conninfo("shop"), user="anybody")
    command = [sys.executable, "-m", "pgtrial", "watch", anybody, "-o", str(tmp_path / "w"), "--keep-free", "1MB"]
    assert subprocess.run([*command, "--interval", "0.5s", "--once"], check=False).returncode == 0
    assert "(GRANT pg_monitor TO anybody)" in capfd.readouterr().err


def test_a_server_that_falls_silent_is_connected_to_anew(
    shop: ThrowawayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a failover, or when the network is gone: nobody closes the connection."""
    monkeypatch.setattr(loop, "_MOST_SILENCE", 2 * INTERVAL)
    root, said = tmp_path / "w", []
    first = reach(dsn(shop), {})
    assert first.server_pid is not None
    with open_folder(root, first.mark, ages=Ages(), counters=COUNTERS, keep_free=0) as folder:
        options = Options(interval=INTERVAL, poll=POLL)
        watcher = Watcher(dsn(shop), {}, first, Recorder(folder, tell=said.append), options=options, tell=said.append)
        thread = threading.Thread(target=watcher.run)
        thread.start()
        stopped: list[int] = []
        try:
            wait_until(lambda: rows(root, SAMPLES, COMMITS), bool)
            stopped = wait_until(lambda: _pids(shop), bool)
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            silent = time.time()
            wait_until(lambda: rows(root, SAMPLES, COMMITS), lambda found: found[-1][0] > silent + INTERVAL)
            assert set(_pids(shop)) - set(stopped)
        finally:
            for pid in stopped:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            watcher.stop()
            thread.join(60)
    assert watcher.error is None
    assert rows(root, SAMPLES, "SELECT 1 FROM {files} WHERE metric = 'watch.unanswered'")
    assert any("connection to the server is lost" in text for text in said)


def test_without_a_network_polls_have_a_gap_and_counters_go_on_when_it_is_back(
    shop: ThrowawayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_MOST_SILENCE", 6.0)
    root = tmp_path / "w"
    with load(shop), Network(shop) as network, watched(network.address(dsn(shop)), root) as (watcher, said):
        began = wait_until(lambda: rows(root, SAMPLES, COMMITS), lambda found: len(found) >= 6)[0][0]
        network.cut()
        cut = time.time()
        wait_until(lambda: [text for text in said if "connection to the server is lost" in text])
        network.mend()
        mended = time.time()
        wait_until(lambda: rows(root, SAMPLES, COMMITS), lambda found: sum(row[0] > mended for row in found) > 6)
    assert watcher.error is None
    assert any("connected to PostgreSQL" in text for text in said)
    times = [t for t, _ in rows(root, SAMPLES, COMMITS)]
    assert [t for t in times if cut < t < mended] == []  # what is answered late is of nobody knows when
    assert [t for t, _ in rows(root, SAMPLES, MACHINE) if cut < t < mended]  # of this machine nothing is lost
    window = Window(math.ceil(began), math.floor(times[-1]))
    with window_sums(root, window, 1, kinds=(SAMPLES, WAITS)) as sums:
        rates, polls = read_rates(sums, [COMMITS_METRIC])[COMMITS_METRIC], read_polls(sums)
    inside = slice(math.ceil(cut) + 1 - window.start, math.floor(mended) - 1 - window.start)
    assert polls[inside].size
    assert np.isnan(polls[inside]).all()
    assert (rates[inside] > 0).all()  # the growth of all of the gap, which is shorter than a minute
    assert not (rates == 0).any()


def test_one_poll_after_a_cut_does_not_stand_for_those_that_the_cut_took(
    shop: ThrowawayCluster, tmp_path: Path
) -> None:
    """A cut that is over before the connection is given up: what was asked is answered when the network is back."""
    root = tmp_path / "w"
    unanswered = "SELECT t FROM {files} WHERE metric = 'watch.unanswered'"
    with Network(shop) as network, watched(network.address(dsn(shop)), root) as (watcher, said):
        wait_until(lambda: rows(root, SAMPLES, COMMITS), lambda found: len(found) >= 6)
        network.cut()
        cut = time.time()
        wait_until(lambda: rows(root, SAMPLES, unanswered), lambda found: len(found) >= 8)
        mended = time.time()
        network.mend()
        wait_until(lambda: rows(root, SAMPLES, COMMITS), lambda found: sum(row[0] > mended for row in found) > 6)
    assert watcher.error is None
    assert not any("lost" in text for text in said)
    polls = rows(root, SAMPLES, POLLS)
    assert [t for t, _ in polls if cut + INTERVAL < t < mended] == []
    # Each moment of the time without the cut counts once, but for those of some ticks around it.
    whole = polls[-1][0] - polls[0][0]
    assert POLL * sum(number for _, number in polls) <= whole - (mended - cut) + 4 * INTERVAL


def test_a_server_that_does_not_answer_holds_up_no_other_one(
    shop: ThrowawayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two watchers of one process: while one waits to be let in, the other begins sessions as if it were alone."""
    monkeypatch.setattr(loop, "_MOST_SILENCE", 2 * INTERVAL)
    monkeypatch.setattr(reach_module, "_PATIENCE", 600.0)
    for name in ("_FIRST_SESSION", "_LONGEST_SESSION"):
        monkeypatch.setattr(watcher_module, name, 4 * INTERVAL)
    one, other = tmp_path / "one", tmp_path / "other"
    with Network(shop) as network:
        far = network.address(dsn(shop), connect_timeout="600")
        with watched(far, one) as (lost, said), watched(dsn(shop), other) as (near, _):
            wait_until(lambda: rows(one, SAMPLES, COMMITS))
            network.cut()
            before = network.connections
            wait_until(lambda: network.connections > before)
            tried, begun = network.connections, len(rows(other, SAMPLES, BEGUN))
            wait_until(lambda: rows(other, SAMPLES, BEGUN), lambda found: len(found) > begun + 2)
            assert network.connections == tried  # it still waits
            network.mend()
            mended = time.time()
            wait_until(lambda: rows(one, SAMPLES, COMMITS), lambda found: found[-1][0] > mended)
    assert (lost.error, near.error) == (None, None)
    assert any("lost" in text for text in said)


def _pids(cluster: ThrowawayCluster) -> list[int]:
    with psycopg.connect(cluster.conninfo()) as connection:
        query = "SELECT pid FROM pg_stat_activity WHERE usename = %s AND backend_type = 'client backend'"
        return [pid for (pid,) in connection.execute(query, (ROLE,)).fetchall()]


def _readers() -> list[int]:
    """Processes of this machine that read its files for a pgtrial on another one."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if b"exec(sys.stdin.buffer.read(" in each.read_bytes() and not each.read_bytes().startswith(b"ssh"):
                found.append(int(each.parent.name))
    return found


def test_a_machine_is_watched_by_ssh(
    shop: ThrowawayCluster, sshd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGTRIAL_SSH", sshd.ssh())
    root, begun = tmp_path / "w", time.time()
    with load(shop), watching(shop, root, "--host", sshd.address) as process:
        wait_until(lambda: rows(root, SAMPLES, MACHINE), lambda found: len(found) >= 4)
        wait_until(lambda: rows(root, SAMPLES, COMMITS), lambda found: len(found) >= 4)
        assert _readers()
        process.terminate()
        assert process.wait(60) == 0

    assert "its machine as well" in process.said
    metrics = {row[0] for row in rows(root, SAMPLES, "SELECT DISTINCT metric FROM {files}")}
    assert {"backend_cpu.run", "proc_meminfo.MemAvailable", "pg_stat_database.xact_commit"} <= metrics
    assert all(begun - 1 < t < time.time() + 1 for t, _ in rows(root, SAMPLES, MACHINE))
    assert all(value > 0 for _, value in rows(root, SAMPLES, MACHINE))


def test_a_machine_that_does_not_let_the_watch_in_is_said_at_the_beginning(
    shop: ThrowawayCluster,
    sshd: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PGTRIAL_SSH", sshd.ssh(key="stranger"))
    command = [sys.executable, "-m", "pgtrial", "watch", dsn(shop), "-o", str(tmp_path / "w"), "--host", sshd.address]

    assert subprocess.run([*command, "--once"], check=False).returncode == 1
    assert "permission denied" in capfd.readouterr().err
    assert not (tmp_path / "w").exists()


def test_a_machine_that_is_lost_is_a_gap_of_the_machine_alone_and_comes_back(
    shop: ThrowawayCluster, sshd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGTRIAL_SSH", sshd.ssh())
    monkeypatch.setattr(watcher_module, "_FIRST_SESSION", 30 * INTERVAL)
    monkeypatch.setattr(watcher_module, "_LONGEST_REMOTE", 30 * INTERVAL)
    root, said = tmp_path / "w", []
    first = reach(dsn(shop), {}, machine=sshd.address)
    assert first.remote is not None
    with open_folder(root, first.mark, ages=Ages(), counters=COUNTERS, keep_free=0) as folder:
        options = Options(interval=INTERVAL, poll=POLL, machine=sshd.address)
        watcher = Watcher(dsn(shop), {}, first, Recorder(folder, tell=said.append), options=options, tell=said.append)
        thread = threading.Thread(target=watcher.run)
        thread.start()
        try:
            wait_until(lambda: rows(root, SAMPLES, MACHINE), lambda found: len(found) >= 2)
            os.kill(first.remote.host.connection.pid, signal.SIGKILL)
            wait_until(lambda: any("the reader on the server's machine ended" in text for text in said))
            lost = time.time()
            wait_until(lambda: rows(root, SAMPLES, COMMITS), lambda found: found[-1][0] > lost)
            wait_until(lambda: rows(root, SAMPLES, MACHINE), lambda found: found[-1][0] > lost)
        finally:
            watcher.stop()
            thread.join(60)
    assert watcher.error is None
    assert not any("connection to the server is lost" in text for text in said)
    wait_until(lambda: not _readers())


def test_a_machine_that_cannot_be_read_leaves_the_server_watched_and_is_tried_again(
    shop: ThrowawayCluster, sshd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where sshd lets nobody have a second session (MaxSessions 1)."""
    monkeypatch.setenv("PGTRIAL_SSH", sshd.ssh())
    monkeypatch.setattr(watcher_module, "_FIRST_SESSION", 10 * INTERVAL)
    monkeypatch.setattr(watcher_module, "_LONGEST_REMOTE", 10 * INTERVAL)
    root, said = tmp_path / "w", []
    first = reach(dsn(shop), {}, machine=sshd.address)
    assert first.remote is not None
    refusing = replace(first.remote.reader, command=("sh", "-c", "echo open failed >&2; exit 1"))
    first = replace(first, remote=replace(first.remote, reader=refusing))
    with open_folder(root, first.mark, ages=Ages(), counters=COUNTERS, keep_free=0) as folder:
        options = Options(interval=INTERVAL, poll=POLL, machine=sshd.address)
        watcher = Watcher(dsn(shop), {}, first, Recorder(folder, tell=said.append), options=options, tell=said.append)
        thread = threading.Thread(target=watcher.run)
        thread.start()
        try:
            machine = wait_until(lambda: rows(root, SAMPLES, MACHINE), lambda found: len(found) >= 2)
        finally:
            watcher.stop()
            thread.join(60)
    assert watcher.error is None
    before = [t for t, _ in rows(root, SAMPLES, COMMITS) if t < machine[0][0] - 2 * INTERVAL]
    assert len(before) >= 5
    assert said[0] == "the reader on the server's machine ended: open failed: without its machine for now"
    assert not any("connect" in text for text in said)


def test_the_machine_of_several_servers_is_a_usage_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["watch", "dbname=a", "dbname=b", "-o", str(tmp_path / "w"), "--host", "ssh://db1"]

    assert main(words) == 2
    assert "--host is the machine of one server" in capsys.readouterr().err


def test_the_unit_reaches_the_machine_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["watch", "dbname=a", "-o", str(tmp_path), "--host", "ssh://watcher@db1:22", "--unit"]) == 0
    assert "--host ssh://watcher@db1:22" in capsys.readouterr().out


def test_a_server_of_another_machine_is_not_taken_for_one_with_its_number(tree: Any) -> None:
    tree.add({"/proc/7/cmdline": "postgres: watcher shop 10.0.0.1(5) idle\0", "/proc/7/stat": "7 (postgres) S 3 7"})
    tree.add({"/proc/8/cmdline": "postgres: watcher shop2 [local] idle\0", "/proc/8/stat": "8 (postgres) S 3 8"})
    tree.add({"/proc/9/cmdline": "vi postgres: shop \0", "/proc/9/stat": "9 (vi) S 3 9"})

    found = [find_first_process(tree, pid, database="shop") for pid in (7, 8, 9, 10)]

    assert found == [3, None, None, None]


class Written:
    """In place of a folder, what a recorder writes."""

    def __init__(self) -> None:
        self.rows: list[Rows] = []

    def write(self, rows: Rows) -> None:
        self.rows.append(rows)

    def maintain(self, now: float) -> tuple[()]:
        return ()

    def times(self, source: str) -> set[float]:
        return {one.t for rows in self.rows for one in rows.samples if one.metric.startswith(source)}


FOREIGN = Header(
    version_num=160000,
    interval=1.0,
    session_interval=0.1,
    sources=("proc_loadavg", "proc_meminfo"),
    devices=(),
    absent={},
    foreign=("proc_loadavg", "proc_meminfo"),
    clock_offset=5.0,
)


def test_readings_of_another_machine_have_times_of_this_one() -> None:
    written = Written()
    recorder = Recorder(written, tell=lambda _: None)  # type: ignore[arg-type]
    recorder.add_header(100.0, FOREIGN)
    recorder.add(107.0, "proc_loadavg", "1.5 0.5 0.25 2/300 4711\n")
    recorder.flush()
    recorder.finish()

    assert written.times("proc_loadavg") == {102.0}


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("proc_loadavg", f"{'9' * 400} 0.5 0.25 2/300 4711\n"),
        ("proc_loadavg", "nan 0.5 0.25 2/300 4711\n"),
        ("proc_meminfo", f"MemTotal: {'9' * 400} kB\n"),
        ("proc_meminfo", f"MemTotal: {'9' * 5000} kB\n"),
    ],
)
def test_a_number_of_another_machine_that_is_none_ends_nothing(source: str, text: str) -> None:
    written, said = Written(), list[str]()
    recorder = Recorder(written, tell=said.append)  # type: ignore[arg-type]
    recorder.add_header(100.0, FOREIGN)
    recorder.add(107.0, source, text)
    recorder.add(108.0, "proc_loadavg", "1.5 0.5 0.25 2/300 4711\n")
    recorder.flush()
    recorder.finish()

    assert [each.partition(":")[0] for each in said] == [f"cannot understand what {source} said"]
    assert written.times("proc_") == {103.0}
