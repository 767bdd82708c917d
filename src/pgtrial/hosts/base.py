"""What a host is to the rest of pgtrial: files and processes of a machine, this one or another."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from pgtrial.hosts.operations import Operations

LOCAL = "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An operating-system user of the host that programs can run as."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A program that has ended, and what it printed."""

    status: int
    stdout: str
    stderr: str


class HostProcess(Protocol):
    """A program that was started on a host; as asyncio's own processes, with the pid it has on that host."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    @property
    def stdin(self) -> asyncio.StreamWriter | None: ...
    @property
    def stdout(self) -> asyncio.StreamReader | None: ...
    @property
    def stderr(self) -> asyncio.StreamReader | None: ...

    async def wait(self) -> int: ...
    async def communicate(self, input: bytes | None = None) -> tuple[bytes, bytes]: ...
    def send_signal(self, signal: int) -> None: ...
    def kill(self) -> None: ...


class Host(Protocol):
    """A machine. ``name`` is "local" or its ssh:// address; ``ops`` are calls that return at once."""

    @property
    def name(self) -> str: ...
    @property
    def ops(self) -> Operations: ...

    async def run(
        self,
        argv: Sequence[str | Path],
        *,
        account: Account | None = None,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        check: bool = True,
    ) -> Completed:
        """Run a program to its end. Raises HostCommandError with its last words if ``check`` and it fails."""

    async def start(
        self,
        argv: Sequence[str | Path],
        *,
        role: str,
        account: Account | None = None,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        groups: Sequence[str] = (),
        stdin: int | IO[bytes] = asyncio.subprocess.DEVNULL,
        stdout: int | IO[bytes] = asyncio.subprocess.DEVNULL,
        stderr: int | IO[bytes] = asyncio.subprocess.DEVNULL,
    ) -> HostProcess:
        """Start a program that ends (SIGQUIT) when pgtrial ends, however that happens.

        ``groups`` are directories of control groups in which it begins. Files are those of the machine pgtrial runs on.
        """
