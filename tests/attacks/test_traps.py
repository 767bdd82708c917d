"""What the account of server and load leaves where root reads: no file takes root's time, memory, disk or passwords."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgtrial.engine.live.follower import LogSampler
from pgtrial.errors import WorkloadError
from pgtrial.hosts.local import LocalHost
from pgtrial.postgres.connect import conninfo
from pgtrial.store.fio_log import HistogramLog
from pgtrial.store.pgbench_log import LevelLog
from pgtrial.store.transactions import LoadLog, ingest

LARGE = 100 << 30  # bytes
INGEST = """
import resource, sys
from pathlib import Path
from pgtrial.errors import WorkloadError
from pgtrial.store import fio_log, pgbench_log, transactions
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
files, window = (Path(sys.argv[1]),), (0.0, 5.0)
if sys.argv[2] == "fio":
    log = fio_log.HistogramLog(level=0, scenario="s", files=files, window=window, interval=1.0)
else:
    log = pgbench_log.LevelLog(
        level=0, scenarios=("s",), files=files, window=window, latency_limit=None, has_rate=False, max_tries=1
    )
try:
    transactions.ingest([log], files[0].with_name("out.parquet"))
except WorkloadError as err:
    print(err.message)
"""


def logs(file: Path) -> Iterator[LoadLog]:
    yield LevelLog(
        level=0, scenarios=("s",), files=(file,), window=(0.0, 5.0), latency_limit=None, has_rate=False, max_tries=1
    )
    yield HistogramLog(level=0, scenario="s", files=(file,), window=(0.0, 5.0), interval=1.0)


@pytest.mark.parametrize("program", ["pgbench", "fio"])
def test_a_log_that_is_one_hole_takes_neither_memory_nor_time(program: str, tmp_path: Path) -> None:
    file = tmp_path / "log"
    with file.open("wb") as log:
        log.truncate(LARGE)
        log.seek(LARGE)
        log.write(b"\n")

    done = subprocess.run(
        [sys.executable, "-c", INGEST, file, program], capture_output=True, text=True, check=False, timeout=300
    )

    assert "has a hole" in done.stdout, done.stderr


@pytest.mark.parametrize("program", ["pgbench", "fio"])
def test_a_long_line_is_not_read_as_a_whole(program: str, tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"1 " * (8 << 20) + b"\n")
    log = dict(zip(("pgbench", "fio"), logs(file), strict=True))[program]

    with pytest.raises(WorkloadError, match="has a line that is not"):
        ingest([log], tmp_path / "out.parquet")


def test_a_log_of_empty_lines_has_no_transactions(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"\n\n")

    assert ingest([next(logs(file))], tmp_path / "out.parquet").transactions == 0


def test_a_log_of_the_server_is_kept_to_its_first_hole(tmp_path: Path) -> None:
    log, kept = tmp_path / "server.json", tmp_path / "kept"
    log.write_bytes(b"{}\n" * 100_000)
    with log.open("r+b") as file:
        file.truncate(LARGE)

    def copied() -> int:
        asyncio.run(LocalHost().copy_from(log, kept))
        return kept.stat().st_size

    # In a process of its own, which may not write more than this.
    child = os.fork()
    if child == 0:
        import resource
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        status = 1
        try:
            status = 0 if 300_000 <= copied() <= 1 << 20 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_live_view_does_not_wait_for_a_pipe_in_the_place_of_a_log(tmp_path: Path) -> None:
    """Whose size is told before it is opened; the account may put anything there in between."""
    os.mkfifo(tmp_path / "level0-1")
    found = []
    look = threading.Thread(
        target=lambda: found.append(LogSampler(folder=tmp_path, level=0)._read("level0-1", 0, 100, share=100)),
        daemon=True,
    )

    look.start()
    look.join(timeout=20)

    if not found:  # let it go
        os.close(os.open(tmp_path / "level0-1", os.O_WRONLY | os.O_NONBLOCK))
    assert [part.lines for part in found] == [()]


def test_a_server_of_an_experiment_is_told_none_of_the_callers_passwords(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an experiment executes may have it ask for one, in pg_hba.conf or by a server of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    passwords = tmp_path / ".pgpass"
    passwords.write_text("*:*:*:*:geheim\n")
    passwords.chmod(0o600)
    heard = []

    def ask(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"R\0\0\0\x08\0\0\0\x03")  # AuthenticationCleartextPassword
            heard.append(connection.recv(4096))

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / ".s.PGSQL.5432"))
        server.listen()
        asking = threading.Thread(target=ask, args=(server,), daemon=True)
        asking.start()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(conninfo(host=str(tmp_path), port=5432, user="postgres", database="postgres"))
        asking.join(timeout=60)

    assert heard == [b""]
