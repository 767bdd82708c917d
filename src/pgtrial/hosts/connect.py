"""Connect to a host named in the experiment file or the journal."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from pgtrial.hosts.base import LOCAL, Host
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.processes import ProcessId
from pgtrial.hosts.ssh.host import SshHost


@asynccontextmanager
async def open_host(
    address: str | None,
    *,
    mark: str = "",
    on_start: Callable[[ProcessId, str], None] = lambda _process, _role: None,
) -> AsyncIterator[Host]:
    """The host at an ssh:// address, or (None or "local") this machine; what was started there ends with it.

    Raises PreflightError for what is no address, ConnectError when it cannot be reached.
    """
    if address in (None, LOCAL):
        yield LocalHost(mark=mark, on_start=on_start)
        return
    assert address is not None
    host = await SshHost.open(address, mark=mark, on_start=on_start)
    try:
        yield host
    finally:
        await host.close()
