import asyncio
import os
import shutil
from pathlib import Path

import pytest

from pgtrial.errors import SettingError
from pgtrial.hosts.linux.loop_devices import (
    attach,
    detach,
    file_of,
    find_program,
    has_direct_io,
    loops_of,
    run_step,
    size_of,
)
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import Operations

needs_loop = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/loop-control").exists() or shutil.which("losetup") is None,
    reason="needs root and loop devices",
)


class Without(Operations):
    """A machine that lacks what lies at some paths."""

    def __init__(self, *missing: str) -> None:
        self.missing = missing

    def exists(self, path: str) -> bool:
        return path not in self.missing and super().exists(path)

    def which(self, program: str) -> str | None:
        return None


@needs_loop
def test_a_file_becomes_a_device_and_is_given_back(tmp_path: Path) -> None:
    file = tmp_path / "a (deleted)"
    file.write_bytes(bytes(1 << 20))
    host = LocalHost()

    name = asyncio.run(attach(host, str(file)))
    try:
        assert loops_of(host.ops, str(file)) == [name]
        assert file_of(host.ops, name) == str(file)
        assert size_of(host.ops, name) == 1 << 20
        assert isinstance(has_direct_io(host.ops, name), bool)
        assert Path(f"/sys/block/{name}/queue/discard_max_bytes").read_text().strip() == "0"
    finally:
        assert asyncio.run(detach(host, str(file), patience=5))

    assert loops_of(host.ops, str(file)) == []


@needs_loop
def test_a_device_is_found_although_its_file_has_been_removed(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(bytes(1 << 20))
    host = LocalHost()
    name = asyncio.run(attach(host, str(file)))

    file.unlink()
    try:
        assert loops_of(host.ops, str(file)) == [name]
    finally:
        assert asyncio.run(detach(host, str(file), patience=5))

    assert loops_of(host.ops, str(file)) == []


@needs_loop
def test_a_device_in_use_goes_with_its_last_user(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(bytes(1 << 20))
    host = LocalHost()
    name = asyncio.run(attach(host, str(file)))

    with Path(f"/dev/{name}").open("rb"):
        assert not asyncio.run(detach(host, str(file), patience=0.1))

    assert asyncio.run(detach(host, str(file), patience=5))


def test_a_machine_without_loop_devices_is_named() -> None:
    host = LocalHost(ops=Without("/dev/loop-control"))

    with pytest.raises(SettingError, match="no loop devices") as caught:
        asyncio.run(attach(host, "/x"))

    assert "modprobe loop" in caught.value.hint


def test_a_program_is_found_outside_of_the_path_and_a_missing_one_with_its_package() -> None:
    assert find_program(Operations(), "sh") == shutil.which("sh")
    if Path("/usr/sbin/losetup").exists():
        assert find_program(Without(), "losetup") == "/usr/sbin/losetup"
    with pytest.raises(SettingError, match=r'the program "mkfs\.x" is missing') as caught:
        find_program(Without(), "mkfs.x", "xfsprogs")
    assert caught.value.hint == 'Install the package "xfsprogs".'


def test_a_step_that_fails_says_what_and_why() -> None:
    with pytest.raises(SettingError, match="cannot list it") as caught:
        asyncio.run(run_step(LocalHost(), "list it", "ls", "/no/where"))

    assert "/no/where" in caught.value.detail
