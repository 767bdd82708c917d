"""The interface to a host: files and processes of a machine, local or remote."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pgtrial.hosts.operations import Operations

if TYPE_CHECKING:
    import asyncio  # a file or a report knows of hosts, and must not wait for an event loop's library

LOCAL = "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An operating-system user of the host that programs can run as."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """An ended program and its output."""

    status: int
    stdout: str
    stderr: str


class HostProcess(Protocol):
    """A program running on a host, with the interface of asyncio's processes; ``pid`` is its id on that host."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    @property
    def stdin(self) -> "asyncio.StreamWriter | None": ...
    @property
    def stdout(self) -> "asyncio.StreamReader | None": ...
    @property
    def stderr(self) -> "asyncio.StreamReader | None": ...

    async def wait(self) -> int: ...
    async def communicate(self, input: bytes | None = None) -> tuple[bytes, bytes]: ...
    def send_signal(self, signal: int) -> None:
        """Send a signal to the program. Raises ProcessLookupError if it has ended."""

    def kill(self) -> None: ...
    def kill_session(self) -> None:
        """Kill all processes in the program's session. Raises ProcessLookupError if there are none."""


class Host(Protocol):
    """A machine. ``name`` is "local" or its ssh:// address; ``ops`` has calls that return at once.

    Calls raise ConnectError with the host's name if the connection is lost.
    """

    @property
    def name(self) -> str: ...
    @property
    def ops(self) -> Operations: ...
    @property
    def session_argv(self) -> Sequence[str]:
        """Prefix of a command line on pgtrial's machine that makes the host's shell run the rest; empty if local."""

    async def run(
        self,
        argv: Sequence[str | Path],
        *,
        account: Account | None = None,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        check: bool = True,
    ) -> Completed:
        """Run a program to its end. If ``check``, raises HostCommandError with its last output when it fails."""

    async def start(
        self,
        argv: Sequence[str | Path],
        *,
        role: str,
        account: Account | None = None,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        groups: Sequence[str] = (),
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
        stderr: int = subprocess.DEVNULL,
        output: Path | None = None,
    ) -> HostProcess:
        """Start a program that the kernel ends (SIGQUIT) when pgtrial ends for any reason.

        ``groups`` are directories of control groups in which it starts. ``stdin``, ``stdout`` and ``stderr`` are PIPE
        or DEVNULL; ``output`` is a file of the host that takes stdout and stderr instead. Raises HostCommandError.
        """

    async def forward(self, path: Path) -> Path:
        """Path by which programs on pgtrial's machine reach a Unix socket of the host; the file name stays the same."""

    async def copy_from(self, path: Path, destination: Path) -> None:
        """Copy a file from the host to pgtrial's machine. Raises OSError like the system calls."""
