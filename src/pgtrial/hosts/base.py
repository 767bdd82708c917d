"""What a host is to the rest of pgtrial: files and processes of a machine, this one or another."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

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
    def send_signal(self, signal: int) -> None:
        """Send a signal to the program; ProcessLookupError if it has ended."""

    def kill(self) -> None: ...
    def kill_session(self) -> None:
        """Kill it with all that it started and that did not leave its session; ProcessLookupError if there is none."""


class Host(Protocol):
    """A machine. ``name`` is "local" or its ssh:// address; ``ops`` are calls that return at once.

    A host that is lost while something is asked of it raises ConnectError that names it.
    """

    @property
    def name(self) -> str: ...
    @property
    def ops(self) -> Operations: ...
    @property
    def session_argv(self) -> Sequence[str]:
        """Command line on pgtrial's machine that has a shell of the host run what comes behind; empty for this one."""

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
        stdin: int = asyncio.subprocess.DEVNULL,
        stdout: int = asyncio.subprocess.DEVNULL,
        stderr: int = asyncio.subprocess.DEVNULL,
        output: Path | None = None,
    ) -> HostProcess:
        """Start a program that ends (SIGQUIT) when pgtrial ends, however that happens.

        ``groups`` are directories of control groups in which it begins. ``stdin``, ``stdout`` and ``stderr`` are PIPE
        or DEVNULL; ``output`` is a file of the host that takes stdout and stderr instead. Raises HostCommandError.
        """

    async def forward(self, path: Path) -> Path:
        """The path by which programs on pgtrial's machine reach a Unix socket of the host; its name stays the same."""

    async def copy_from(self, path: Path, destination: Path) -> None:
        """Copy a file of the host to one of pgtrial's machine. Raises OSError as the system does."""

    async def copy_to(self, source: Path, path: Path) -> None:
        """Copy a file of pgtrial's machine to one of the host. Raises OSError as the system does."""
