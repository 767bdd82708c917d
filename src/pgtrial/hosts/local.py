"""The machine pgtrial runs on: start programs so that none outlives pgtrial, as another user where need be."""

import asyncio
import os
import pwd
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pgtrial.errors import HostCommandError, PreflightError
from pgtrial.hosts.base import LOCAL, Account, Completed, HostProcess
from pgtrial.hosts.operations import Operations
from pgtrial.hosts.processes import MARK, ProcessId, identify


def server_account() -> Account | None:
    """User for the server's programs: they refuse to run as root. None when pgtrial itself is not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid)
    raise PreflightError(
        "the server cannot run as root, and there is no other user for it",
        detail="Neither a user postgres nor a user nobody exists.",
        hint="Run pgtrial as an ordinary user.",
    )


@dataclass(slots=True, kw_only=True)
class LocalHost:
    """Starts programs; ``on_start`` is told of each one, with its role, as soon as it has a process id.

    ``mark`` names the result folder; every program carries it in its environment, by which it is found again even
    if pgtrial was killed before it could write down the process id.
    """

    mark: str = ""
    on_start: Callable[[ProcessId, str], None] = field(default=lambda _process, _role: None)
    ops: Operations = field(default_factory=Operations)
    name: str = field(default=LOCAL, init=False)

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
        process = await self.start(
            argv,
            role=Path(argv[0]).name,
            account=account,
            environment=environment,
            directory=directory,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await process.communicate()
        except BaseException:
            await end_process(process)
            raise
        status = process.returncode
        assert status is not None  # communicate() has waited for the end
        completed = Completed(
            status=status, stdout=out.decode("utf-8", "replace"), stderr=err.decode("utf-8", "replace")
        )
        if check and status != 0:
            words = (completed.stderr.strip() or completed.stdout.strip()).splitlines()[-8:]
            raise HostCommandError(
                f"{Path(argv[0]).name} ended with status {status}",
                detail="\n".join(words) or "It printed nothing.",
            )
        return completed

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
    ) -> asyncio.subprocess.Process:
        """Start a program that the kernel ends (SIGQUIT) when pgtrial ends, however that happens.

        Its session is its own, so that Ctrl-C on the terminal reaches pgtrial alone, which then ends things in order.
        """
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *_guarded(argv, account, groups),
                cwd=directory,
                env={**_inherited(), MARK: self.mark, **(environment or {})},
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                limit=1 << 20,
            )
        )
        try:
            # Cancelled between the fork and the connection of the pipes, asyncio waits for ever for a process that has
            # long ended (seen with Python 3.11); so it is let come to its end, which is near.
            process = await asyncio.shield(starting)
        except OSError as err:
            raise HostCommandError(f'cannot start "{argv[0]}": {err.strerror or err}') from err
        except asyncio.CancelledError:
            with suppress(OSError):
                await end_process(await starting, with_signal=signal.SIGQUIT)
            raise
        identity = identify(process.pid)
        if identity is not None:
            try:
                self.on_start(identity, role)
            except BaseException:
                await end_process(process, with_signal=signal.SIGQUIT)  # nobody else knows of it
                raise
        return process


_ENTER = """
import os, sys
count = int(sys.argv[1])
for group in sys.argv[2 : 2 + count]:
    with open(group + "/cgroup.procs", "w") as file:
        file.write("0")
os.execvp(sys.argv[2 + count], sys.argv[2 + count :])
"""


def _inherited() -> dict[str, str]:
    """The caller's environment without what would change what the programs do or say.

    PostgreSQL's programs take settings from PG* (also the server: PGPORT, PGDATESTYLE, PGCLIENTENCODING), and their
    words, some of which are parsed, are translated as LANGUAGE says even where the locale is C.UTF-8.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": "C.UTF-8", "LANGUAGE": ""}


def _guarded(argv: Sequence[str | Path], account: Account | None, groups: Sequence[str] = ()) -> list[str]:
    """Command line that sets the death signal (prctl PR_SET_PDEATHSIG) after the change of user, which resets it."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise PreflightError(
            'the program "setpriv" is missing',
            hint="Install the package util-linux, which every Linux distribution has.",
        )
    command = [setpriv, "--pdeathsig", "QUIT"]
    if account is not None:
        command += ["--reuid", str(account.uid), "--regid", str(account.gid), "--clear-groups"]
    if groups:
        # A process enters a control group by itself, while it still may; what it starts begins there.
        command = [sys.executable, "-I", "-S", "-c", _ENTER, str(len(groups)), *groups, *command]
    # A program started in the background of a script inherits that it ignores SIGINT and SIGQUIT; it must not here.
    return [*command, "--", "env", "--default-signal=INT,QUIT", *(str(part) for part in argv)]


async def end_process(
    process: HostProcess, *, with_signal: signal.Signals = signal.SIGTERM, patience: float = 5.0
) -> int:
    """End a program and wait for it: ``with_signal``, then SIGKILL after ``patience`` seconds. Its exit status."""
    if process.returncode is None:
        with suppress(ProcessLookupError):  # it may just have ended by itself
            process.send_signal(with_signal)
        try:
            async with asyncio.timeout(patience):
                return await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # it leads its own session, and may have children in it
    return await process.wait()
