"""A remote machine, reached with the system's OpenSSH; it needs only python3, and nothing is installed there."""

import asyncio
import base64
import errno
import os
import re
import secrets
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from pgtrial.errors import ConnectError, HostCommandError, TargetError
from pgtrial.hosts.base import Account
from pgtrial.hosts.local import LocalHost, server_account
from pgtrial.hosts.operations import Operations
from pgtrial.hosts.processes import ProcessId, ProgramRunner, end_process, identify
from pgtrial.hosts.ssh.agent import encode
from pgtrial.hosts.ssh.command import explain_failure, explain_nonsense, ssh_command
from pgtrial.hosts.ssh.connection import ANSWER_LIMIT, Connection
from pgtrial.hosts.ssh.process import SshProcess
from pgtrial.safe_files import new_file

_OPEN_LIMIT = 30.0  # s until the agent answers; ssh itself gives up a connection that is not made after 10 s
_CHUNK = 1 << 20  # bytes of a file in one call
_LARGEST = 16 << 30  # bytes of a file that comes from there: a host could go on for ever
_PREFIX = "pgtrial-ssh-"
_MAKER = re.compile(rf"{_PREFIX}(?P<pid>[0-9]{{1,10}})-(?P<ticks>[0-9]{{1,19}})-[0-9a-f]+")
_LONGEST = 40  # bytes of the place for our sockets; ssh and we add up to 65, and 107 are allowed (unix(7))
_SPECIAL = frozenset(":%$\\")  # ssh does not take these in the path of a socket as they stand


@dataclass(slots=True, kw_only=True)
class SshHost(ProgramRunner):
    """One connection to a remote host, from ``open`` to ``close``; see LocalHost for ``mark`` and ``on_start``.

    Everything that is started there ends with the connection, however it ends. ssh itself runs here.
    """

    mark: str
    on_start: Callable[[ProcessId, str], None]
    connection: Connection
    ops: Operations
    directory: Path  # private, here, of the sockets of our end
    forwarded: dict[Path, Path] = field(default_factory=dict, init=False)

    @property
    def name(self) -> str:
        return self.connection.ssh.name

    @classmethod
    async def open(
        cls, address: str, *, mark: str = "", on_start: Callable[[ProcessId, str], None] = lambda _process, _role: None
    ) -> "SshHost":
        """Connect. Raises PreflightError for what is no address, ConnectError that says why it failed."""
        ssh, directory = ssh_command(address), _make_directory()
        connection = Connection(replace(ssh, control=str(directory / "control")))
        host = cls(
            mark=mark,
            on_start=on_start,
            connection=connection,
            ops=RemoteOperations(connection),
            directory=directory,
        )
        try:
            ready = connection.open(mark=mark)
            own = identify(connection.pid)
            if own is not None:
                on_start(own, "ssh")
            async with asyncio.timeout(_OPEN_LIMIT):
                await asyncio.wrap_future(ready)
        except TimeoutError:
            words = connection.words_so_far()
            await host.close(at_once=True)
            raise explain_failure(ssh, status=None, words=words) from None
        except BaseException:
            await host.close(at_once=True)
            raise
        return host

    async def close(self, *, at_once: bool = False) -> None:
        """End what runs there, and the connection. ``at_once``: without waiting for an orderly end."""
        # In a thread: what has been started there may need its time.
        await asyncio.to_thread(self.connection.close, at_once=at_once)
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def session_argv(self) -> tuple[str, ...]:
        return tuple(self.connection.ssh.session())

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
    ) -> SshProcess:
        """Start a program that the kernel there ends (SIGQUIT) when the agent ends, and the agent with the connection.

        Its session is its own.
        """
        wanted = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        pipes = {name for name, kind in wanted.items() if kind == asyncio.subprocess.PIPE}
        if output is not None:
            pipes -= {"stdout", "stderr"}
        process = SshProcess(self.connection, pipes=frozenset(pipes))
        order = {
            "argv": [str(part) for part in argv],
            "role": role,
            "account": None if account is None else [account.uid, account.gid],
            "environment": dict(environment or {}),
            "directory": None if directory is None else str(directory),
            "groups": list(groups),
            "output": None if output is None else str(output),
            **{name: "pipe" if name in pipes else "null" for name in wanted},
        }
        try:
            # Not awaited: cancelled half-way, it would not be known whether the program runs.
            pid, ticks = process.start(order)
        except OSError as err:
            raise HostCommandError(f'cannot start "{argv[0]}" on "{self.name}": {err.strerror or err}') from err
        try:
            self.on_start(ProcessId(pid=pid, start_ticks=ticks, boot_id=self.ops.boot_id()), role)
        except BaseException:
            await end_process(process, with_signal=signal.SIGQUIT)  # nobody else knows of it
            raise
        return process

    async def forward(self, path: Path) -> Path:
        """Have ssh carry the Unix socket ``path`` of the host; the socket here. Raises TargetError if it does not."""
        if path in self.forwarded:
            return self.forwarded[path]
        if _SPECIAL & set(str(path)):
            raise TargetError(
                f'ssh cannot forward the socket "{path}" of "{self.name}"',
                detail=f"Its path has one of the characters {' '.join(sorted(_SPECIAL))}",
                hint="Choose another directory for the data there.",
            )
        here = self.directory / str(len(self.forwarded)) / path.name
        here.parent.mkdir(mode=0o700)
        command = self.connection.ssh.forward(str(here), str(path))
        completed = await LocalHost(mark=self.mark).run(command, check=False)
        if completed.status != 0:
            raise TargetError(
                f'ssh does not forward the socket "{path}" of "{self.name}"', detail=completed.stderr.strip()
            )
        await self._check_forward(here, path)
        self._let_in(here)
        self.forwarded[path] = here
        return here

    def _let_in(self, here: Path) -> None:
        """Where pgtrial runs as root, the account of its load may use the socket, and not replace it."""
        account = server_account(Operations())
        if account is not None:
            for directory in (self.directory, here.parent):
                directory.chmod(0o711)
            os.chown(here, account.uid, account.gid, follow_symlinks=False)

    async def _check_forward(self, here: Path, path: Path) -> None:
        """Raise TargetError if the host's sshd refuses to forward: that shows only when a connection is made."""
        if not self.ops.exists(str(path)):
            return
        before = self.connection.words_so_far()
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(here))
            probe.setblocking(False)
            # A refusal travels on the same connection as these calls, so it is here before their answers.
            for _ in range(3):
                self.ops.clock()
                await asyncio.sleep(0.02)
            with suppress(BlockingIOError):
                if not probe.recv(1):
                    for _ in range(50):  # what ssh says of it comes another way, and may come later
                        if self.connection.words_so_far() != before:
                            break
                        await asyncio.sleep(0.02)
                    raise TargetError(
                        f'"{self.name}" does not let ssh reach the socket "{path}"',
                        detail="\n".join(self.connection.words_so_far()[-3:]),
                        hint="Its sshd must allow it: AllowStreamLocalForwarding yes, and no restrict for the key.",
                    )

    async def copy_from(self, path: Path, destination: Path) -> None:
        with new_file(destination) as file:
            while chunk := self.ops.read_chunk(str(path), file.tell(), _CHUNK):
                file.write(base64.b64decode(chunk))
                if file.tell() > _LARGEST:
                    raise OSError(errno.EFBIG, f"{path} of {self.name} has more than {_LARGEST >> 30} GB")
                await asyncio.sleep(0)


def _make_directory() -> Path:
    """A private directory with a short path; those of a pgtrial that was killed are removed."""
    place = Path(tempfile.gettempdir())
    if len(os.fsencode(place)) > _LONGEST:
        place = Path("/tmp")
    for left in place.glob(f"{_PREFIX}*"):
        maker = _MAKER.fullmatch(left.name)  # anybody may have put something else there
        with suppress(FileNotFoundError):  # another pgtrial removes its own meanwhile
            is_own = left.lstat().st_uid == os.geteuid()
            if is_own and maker and Operations().start_ticks(int(maker["pid"])) != int(maker["ticks"]):
                shutil.rmtree(left, ignore_errors=True)
    own = identify(os.getpid())
    assert own is not None  # it is this process
    directory = place / f"{_PREFIX}{own.pid}-{own.start_ticks}-{secrets.token_hex(4)}"
    directory.mkdir(mode=0o700)
    return directory


# The operations of a remote host: every call goes over the connection.


# s; for large data, and for dirty pages that are written out first
_LIMITS = {"remove": 600.0, "mount": 120.0, "unmount": 120.0}


class RemoteOperations(Operations):
    """Answers as the agent's own Operations do. Raises the same OSError, and ConnectError where there is no answer."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._boot_id = ""

    def read_chunk(self, path: str, offset: int, size: int, follow: bool = False, owner: int | None = None) -> str:
        found: str = self._call("read_chunk", path, offset, size, follow, owner)
        try:
            is_good = len(base64.b64decode(found, validate=True)) <= size
        except ValueError:
            is_good = False
        if not is_good:
            raise self._give_up("read_chunk", found)
        return found

    def boot_id(self) -> str:
        # A connection does not outlive the boot of either end.
        self._boot_id = self._boot_id or self._call("boot_id")
        return self._boot_id

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        limit = _LIMITS.get(name, ANSWER_LIMIT)
        message = {"call": name, "args": encode(list(args)), "kwargs": encode(kwargs)}
        found = self._connection.ask(message, limit=limit)
        if not _fits(found, _returned(name)):
            raise self._give_up(name, found)
        return found

    def _give_up(self, name: str, found: object) -> ConnectError:
        """Lose the connection to a host that is none of ours; the error that says so."""
        error = explain_nonsense(self._connection.ssh, f"It returned {found!r:.100} for {name}")
        self._connection.lose(error)
        return error


@cache
def _returned(name: str) -> Any:
    return get_type_hints(getattr(Operations, name))["return"]


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of the kind that an operation is to return: the host may be in anybody's hands."""
    inner = get_args(kind)
    match get_origin(kind):
        case None:
            is_number = isinstance(value, int) and not isinstance(value, bool)
            return value is None if kind in (None, NoneType) else (kind is float and is_number) or type(value) is kind
        case origin if origin is list:
            return isinstance(value, list) and all(_fits(each, inner[0]) for each in value)
        case origin if origin is dict:
            return isinstance(value, dict) and all(_fits(each, inner[1]) for each in value.values())
        case origin if origin is tuple:
            return (
                isinstance(value, tuple)
                and len(value) == len(inner)
                and all(_fits(each, of) for each, of in zip(value, inner, strict=True))
            )
    return any(_fits(value, each) for each in inner)


def _forwarded(name: str) -> Callable[..., Any]:
    def call(self: RemoteOperations, *args: Any, **kwargs: Any) -> Any:
        return self._call(name, *args, **kwargs)

    return call


for _name in vars(Operations):
    if not _name.startswith("_") and _name not in vars(RemoteOperations):
        setattr(RemoteOperations, _name, _forwarded(_name))
