"""The operations of a remote host: every call goes over the connection."""

from collections.abc import Callable
from typing import Any

from pgtrial.hosts.operations import Operations
from pgtrial.hosts.ssh.agent import encode
from pgtrial.hosts.ssh.connection import ANSWER_LIMIT, Connection

# s; for large data, and for dirty pages that are written out first
_LIMITS = {"remove": 600.0, "mount": 120.0, "unmount": 120.0}


class RemoteOperations(Operations):
    """Answers as the agent's own Operations do. Raises the same OSError, and ConnectError where there is no answer."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._boot_id = ""

    def boot_id(self) -> str:
        # A connection does not outlive the boot of either end.
        self._boot_id = self._boot_id or self._call("boot_id")
        return self._boot_id

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        limit = _LIMITS.get(name, ANSWER_LIMIT)
        message = {"call": name, "args": encode(list(args)), "kwargs": encode(kwargs)}
        return self._connection.ask(message, limit=limit)


def _forwarded(name: str) -> Callable[..., Any]:
    def call(self: RemoteOperations, *args: Any, **kwargs: Any) -> Any:
        return self._call(name, *args, **kwargs)

    return call


for _name in vars(Operations):
    if not _name.startswith("_") and _name not in vars(RemoteOperations):
        setattr(RemoteOperations, _name, _forwarded(_name))
