import asyncio
import os
from pathlib import Path

import pytest

from pgtrial.errors import PreflightError
from pgtrial.hosts.base import Account
from pgtrial.hosts.local import LocalHost, server_account
from pgtrial.postgres.work_directory import (
    check_access,
    prepare_directories,
    remove_directories,
    remove_until_gone,
)


def test_long_path_gets_a_short_directory_for_its_socket(tmp_path: Path):
    base = tmp_path / ("x" * 80) / ("y" * 80)
    work, socket_directory = prepare_directories(LocalHost(), base, f"pgtrial-test-{os.getpid()}", None)

    try:
        assert work.is_relative_to(base)
        assert socket_directory.parent == Path("/tmp")
    finally:
        remove_directories(LocalHost(), work, socket_directory)
    assert not socket_directory.exists()


def test_file_in_place_of_a_directory_is_a_clear_error(tmp_path: Path):
    (tmp_path / "file").touch()

    with pytest.raises(PreflightError) as caught:
        prepare_directories(LocalHost(), tmp_path / "file", "x", None)

    assert str(tmp_path / "file") in caught.value.message
    assert "--work-directory" in caught.value.hint


def test_comma_in_a_path_gets_another_directory_for_its_socket(tmp_path: Path):
    work, socket_directory = prepare_directories(LocalHost(), tmp_path / "a,b", f"pgtrial-test-{os.getpid()}", None)

    try:
        assert work.parent == tmp_path / "a,b"
        assert "," not in str(socket_directory)
    finally:
        remove_directories(LocalHost(), work, socket_directory)


def test_directory_that_the_servers_user_cannot_reach_is_refused(tmp_path: Path):
    account = server_account() or Account(name="nobody", uid=os.getuid(), gid=os.getgid())
    if os.geteuid() != 0:
        pytest.skip("only root can make files for another user")
    (tmp_path / "closed").mkdir(mode=0o700)
    work, socket_directory = prepare_directories(LocalHost(), tmp_path / "closed", "work", account)

    try:
        with pytest.raises(PreflightError, match=f'user "{account.name}", under which the server runs, cannot reach'):
            asyncio.run(check_access(LocalHost(), work, account))
        asyncio.run(check_access(LocalHost(), work, None))
    finally:
        remove_directories(LocalHost(), work, socket_directory)


def test_directory_into_which_a_dying_process_still_writes_is_removed_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    directory = tmp_path / "data"
    directory.mkdir()
    tries = []

    def remove(host: LocalHost, *directories: Path) -> None:
        tries.append(directories)
        if len(tries) == 3:
            remove_directories(host, *directories)

    monkeypatch.setattr("pgtrial.postgres.work_directory.remove_directories", remove)

    assert asyncio.run(remove_until_gone(LocalHost(), directory))
    assert not directory.exists()
    assert len(tries) == 3


def test_directory_that_stays_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pgtrial.postgres.work_directory.remove_directories", lambda *_: None)

    assert not asyncio.run(remove_until_gone(LocalHost(), tmp_path, patience=0.1))
