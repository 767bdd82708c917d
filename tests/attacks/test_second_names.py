"""A second name (hard link) of root's file in a directory of the account, as kernels allow with
fs.protected_hardlinks = 0, and a file of root's that an existing server names as its log: neither is read.
"""

import asyncio
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgtrial.engine.live.follower import LogSampler
from pgtrial.errors import WorkloadError
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import Operations
from pgtrial.postgres.existing.server import ExistingServer, ServerFacts
from pgtrial.store.pgbench_log import LevelLog
from pgtrial.store.transactions import ingest

NOBODY = 65534
SECRET = "0 1 100 0 1767323045 1\n"  # it may even look like a line of a log


@pytest.fixture
def name(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text(SECRET)
    place = tmp_path / "log"
    place.mkdir()
    (place / "level0-1").hardlink_to(tmp_path / "secret")
    return place / "level0-1"


def test_a_log_of_the_server_is_not_kept(name: Path, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="more than one name"):
        asyncio.run(LocalHost().copy_from(name, tmp_path / "kept"))

    assert not (tmp_path / "kept").exists()


def test_a_log_of_the_load_is_not_counted(name: Path, tmp_path: Path) -> None:
    log = LevelLog(
        level=0, scenarios=("s",), files=(name,), window=(0.0, 2e9), latency_limit=None, has_rate=False, max_tries=1
    )

    with pytest.raises(WorkloadError, match="more than one name"):
        ingest([log], tmp_path / "out.parquet")


def test_the_live_view_does_not_read_it(name: Path) -> None:
    assert LogSampler(folder=name.parent, level=0)._read(name.name, 0, 100, share=100).lines == ()


def test_nor_do_the_operations_of_a_host(name: Path) -> None:
    with pytest.raises(OSError, match="more than one name"):
        Operations().read_plain(str(name), 100)
    with pytest.raises(OSError, match="more than one name"):
        Operations().read_chunk(str(name), 0, 100)


@pytest.mark.skipif(os.geteuid() != 0, reason="the server runs as another user, which only root can start")
def test_what_a_server_names_as_its_log_is_read_if_it_is_its_own(tmp_path: Path) -> None:
    """Its account can write any name into current_logfiles, and set log_directory to any directory."""
    for owner in (0, NOBODY):
        (tmp_path / str(owner)).write_text(SECRET)
        os.chown(tmp_path / str(owner), owner, owner)
    with subprocess.Popen(["setpriv", f"--reuid={NOBODY}", "--clear-groups", "sleep", "900"]) as process:
        try:
            facts = ServerFacts(
                version="15.1",
                version_num=150001,
                in_recovery=False,
                data_directory="",
                process=process.pid,
                files=False,
            )
            server = ExistingServer(control=cast("Any", SimpleNamespace(host=LocalHost())), facts=facts)
            for _ in range(1000):  # until setpriv has become another user
                if server.host.ops.read(f"/proc/{process.pid}/status").partition("Uid:")[2].split()[0] == str(NOBODY):
                    break
            assert server.read_log_chunk(str(tmp_path / str(NOBODY)), 0, 100).decode() == SECRET
            with pytest.raises(OSError, match="somebody else"):
                server.read_log_chunk(str(tmp_path / "0"), 0, 100)
        finally:
            process.kill()
