"""The local machine: start programs so that none outlives pgtrial, as another user if needed."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pgtrial.errors import HostCommandError, PreflightError
from pgtrial.hosts.base import LOCAL, Account
from pgtrial.hosts.operations import (
    LOAD,
    OUTPUT_FLAGS,
    Operations,
    gains_nothing,
    program_environment,
    session_group,
)
from pgtrial.hosts.processes import ProcessId, ProgramRunner, end_process, identify
from pgtrial.safe_files import find_hole, new_file, open_single

_HERE = Operations()
ACCOUNTS = ("pgtrial", "nobody")  # whom server and load run as, as root: the first that there is


def server_account(ops: Operations = _HERE) -> Account | None:
    """User for the server and the load. None when pgtrial itself is not root there.

    It is none that owns a server's data, as postgres does: what an experiment executes could read and change them.
    """
    if ops.user() != 0:
        return None
    for name in ACCOUNTS:
        found = ops.account(name)
        if found is not None and found[0] != 0:
            return Account(name=name, uid=found[0], gid=found[1])
    raise PreflightError(
        "server and load do not run as root, and there is no other user to run them",
        detail=f"None of these users exists: {', '.join(ACCOUNTS)}.",
        hint=f'Make one with "useradd --system --shell /usr/sbin/nologin {ACCOUNTS[0]}", or run pgtrial as an '
        "ordinary user.",
    )


def own_program(module: str) -> list[str]:
    """Command line of a module of pgtrial's; not of one that lies where pgtrial was started, beside a gift of files."""
    return [sys.executable, "-P", "-m", module]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalProcess:
    """A program on this machine. It leads its own session, and may have children in it."""

    process: asyncio.subprocess.Process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        return self.process.returncode

    @property
    def stdin(self) -> asyncio.StreamWriter | None:
        return self.process.stdin

    @property
    def stdout(self) -> asyncio.StreamReader | None:
        return self.process.stdout

    @property
    def stderr(self) -> asyncio.StreamReader | None:
        return self.process.stderr

    async def wait(self) -> int:
        return await self.process.wait()

    async def communicate(self, input: bytes | None = None) -> tuple[bytes, bytes]:
        return await self.process.communicate(input)

    def send_signal(self, signal: int) -> None:
        """Not by asyncio: Popen would ask first whether the process has ended, and take its exit status away from
        asyncio, which then reports 255 (https://github.com/python/cpython/issues/87744).
        """
        if self.returncode is not None:
            raise ProcessLookupError
        os.kill(self.pid, signal)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def kill_session(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)


@dataclass(slots=True, kw_only=True)
class LocalHost(ProgramRunner):
    """Starts programs; ``on_start`` is told of each one, with its role, as soon as it has a process id.

    ``mark`` names the result folder; every program carries it in its environment, by which it is found again even
    if pgtrial was killed before it could write down the process id.
    """

    mark: str = ""
    on_start: Callable[[ProcessId, str], None] = field(default=lambda _process, _role: None)
    ops: Operations = field(default_factory=Operations)
    name: str = field(default=LOCAL, init=False)
    session_argv: Sequence[str] = field(default=(), init=False)

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
    ) -> LocalProcess:
        """Start a program that the kernel ends (SIGQUIT) when pgtrial ends, however that happens.

        Its session is its own, so that Ctrl-C on the terminal reaches pgtrial alone, which then ends things in order.
        """
        with ExitStack() as stack:
            if output is not None:
                try:
                    stdout = stderr = stack.enter_context(
                        os.fdopen(os.open(output, OUTPUT_FLAGS, 0o644), "wb")
                    ).fileno()
                except OSError as err:
                    raise HostCommandError(f'cannot write "{output}": {err.strerror}') from err
            starting = asyncio.ensure_future(
                asyncio.create_subprocess_exec(
                    *_guarded(argv, account, groups, role, self.mark),
                    cwd=directory,
                    env={**program_environment(self.mark, role, account is not None), **(environment or {})},
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    start_new_session=True,
                    limit=1 << 20,
                )
            )
            try:
                # Cancelled between the fork and the connection of the pipes, asyncio waits for ever for a process that
                # has long ended (seen with Python 3.11); so it is let come to its end, which is near.
                process = LocalProcess(process=await asyncio.shield(starting))
            except OSError as err:
                raise HostCommandError(f'cannot start "{argv[0]}": {err.strerror or err}') from err
            except asyncio.CancelledError:
                with suppress(OSError):
                    await end_process(LocalProcess(process=await starting), with_signal=signal.SIGQUIT)
                raise
        identity = identify(process.pid)
        if identity is not None:
            try:
                self.on_start(identity, role)
            except BaseException:
                await end_process(process, with_signal=signal.SIGQUIT)  # nobody else knows of it
                raise
        return process

    async def forward(self, path: Path) -> Path:
        return path

    async def copy_from(self, path: Path, destination: Path) -> None:
        with open_single(path) as file:
            _copy(file, destination)


_CHUNK = 1 << 20  # bytes


def _copy(file: BinaryIO, destination: Path) -> None:
    with new_file(destination) as copy:
        # To where it has a hole: who may write it can have it seem as large as he likes by no more than that.
        left = find_hole(file)
        left = os.fstat(file.fileno()).st_size if left is None else left
        while left > 0 and (chunk := file.read(min(left, _CHUNK))):
            copy.write(chunk)
            left -= len(chunk)


_LAST_STEP = "--default-signal=INT,QUIT"  # an option of the last program before the one that is started
# Arguments: the user who owns the program's outputs from now on, if any; how many control groups; they; the command.
_ENTER = """
import os, stat, sys
owner, count = sys.argv[1], int(sys.argv[2])
for group in sys.argv[3 : 3 + count]:
    with open(group + "/cgroup.procs", "w") as file:
        file.write("0")
for output in (1, 2) if owner else ():
    if stat.S_ISFIFO(os.fstat(output).st_mode):
        os.fchown(output, int(owner), -1)
os.execvp(sys.argv[3 + count], sys.argv[3 + count :])
"""


def _guarded(
    argv: Sequence[str | Path], account: Account | None, groups: Sequence[str], role: str, mark: str
) -> list[str]:
    """Command line that sets the death signal (prctl PR_SET_PDEATHSIG) after the change of user, which resets it."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise PreflightError(
            'the program "setpriv" is missing',
            hint="Install the package util-linux, which every Linux distribution has.",
        )
    command = [setpriv, "--pdeathsig", "QUIT"]
    if account is not None:
        group = session_group(mark)
        alone = ["--clear-groups"] if group is None else ["--groups", str(group)]
        command += ["--reuid", str(account.uid), "--regid", str(account.gid), *alone]
    if gains_nothing(role, account is not None):
        command.append("--no-new-privs")
    # fio opens its standard error once more, which only the owner of a pipe may.
    owner = str(account.uid) if role == LOAD and account is not None else ""
    if groups or owner:
        # A process enters a control group by itself, while it still may; what it starts begins there.
        command = [sys.executable, "-I", "-S", "-c", _ENTER, owner, str(len(groups)), *groups, *command]
    # A program started in the background of a script inherits that it ignores SIGINT and SIGQUIT; it must not here.
    return [*command, "--", "env", _LAST_STEP, *(str(part) for part in argv)]


def has_begun(pid: int, ops: Operations = _HERE) -> bool:
    """Whether a process that was started here is the program itself by now, and not what executes it."""
    with suppress(OSError):  # it has ended
        return _LAST_STEP not in ops.read(f"/proc/{pid}/cmdline").split("\0")
    return True
