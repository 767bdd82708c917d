"""What all hosts do alike with programs: run one to its end, and end one."""

import asyncio
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pgtrial.errors import HostCommandError
from pgtrial.hosts.base import Account, Completed, Host, HostProcess


async def run_program(
    host: Host,
    argv: Sequence[str | Path],
    *,
    account: Account | None,
    environment: Mapping[str, str] | None,
    directory: Path | None,
    check: bool,
) -> Completed:
    """Run a program to its end; it is ended when that is cancelled."""
    process = await host.start(
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
    completed = Completed(status=status, stdout=out.decode("utf-8", "replace"), stderr=err.decode("utf-8", "replace"))
    if check and status != 0:
        words = (completed.stderr.strip() or completed.stdout.strip()).splitlines()[-8:]
        raise HostCommandError(
            f"{Path(argv[0]).name} ended with status {status}",
            detail="\n".join(words) or "It printed nothing.",
        )
    return completed


async def end_process(
    process: HostProcess, *, with_signal: signal.Signals = signal.SIGTERM, patience: float = 5.0
) -> int:
    """End a program and wait for it: ``with_signal``, then SIGKILL after ``patience`` seconds. Its exit status."""
    if process.returncode is None:
        with suppress(ProcessLookupError):  # it may just have ended by itself
            process.send_signal(with_signal)
        if not await ends_within(process, patience):
            with suppress(ProcessLookupError):
                process.kill_session()
    return await process.wait()


async def ends_within(process: HostProcess, seconds: float) -> bool:
    """Whether a program ends within some seconds.

    Not by asyncio.timeout: in a task that was cancelled before, as after Ctrl-C, Python 3.11 up to 3.11.2 raises
    CancelledError there when the time is over, and what is to be done then would not be done.
    """
    waiting = asyncio.ensure_future(process.wait())
    try:
        done, _ = await asyncio.wait({waiting}, timeout=seconds)
    finally:
        if not waiting.done():
            waiting.cancel()
    return bool(done)
