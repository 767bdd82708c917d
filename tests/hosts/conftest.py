import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pgtrial.hosts.ssh.host import SshHost


@pytest.fixture
def ssh_client(sshd, monkeypatch):
    """Function that makes pgtrial use a key and a list of known hosts; the address of the host."""

    def use(**how: str) -> str:
        monkeypatch.setenv("PGTRIAL_SSH", sshd.ssh(**how))
        return sshd.address

    return use


@pytest.fixture
def open_remote(ssh_client, runner: asyncio.Runner):
    """Context manager ``open_remote(mark=..., on_start=...)``: a host that is this machine, reached by ssh."""

    @contextmanager
    def opened(**options: object) -> Iterator[SshHost]:
        host = runner.run(SshHost.open(ssh_client(), **options))
        try:
            yield host
        finally:
            runner.run(host.close())

    return opened


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for a file, as it has one host."""
    with asyncio.Runner() as running:
        yield running


@pytest.fixture(scope="module")
def remote(sshd, runner: asyncio.Runner) -> Iterator[SshHost]:
    """A host for all tests of a file that leave the connection as it is: it takes longer than what they do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGTRIAL_SSH", sshd.ssh())
        host = runner.run(SshHost.open(sshd.address))
    try:
        yield host
    finally:
        runner.run(host.close())


@pytest.fixture
def own_remote(open_remote) -> Iterator[SshHost]:
    with open_remote() as host:
        yield host
