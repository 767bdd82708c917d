"""What a sampler's loop reads: told where a server is reached, and to a process of its own as a line of JSON."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from pgtrial.model.load_sessions import LOAD


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteReader:
    """How files of another machine are read: ``command`` runs Python there, with its standard input and output here.

    ``clock_offset`` is by how many seconds that machine's clock is ahead of ours.
    """

    command: Sequence[str]
    clock_offset: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """What to read, and where to. ``version_num`` is server_version_num; intervals are seconds.

    ``database`` is the load's; ``conninfo`` better names another one, for the sampler's own transactions count in it;
    without it ("") no server is asked. ``devices`` are the disks under the data and the WAL, ``groups`` the directories
    of the control groups that are the server's own, ``spool`` is an empty directory, of a process that writes one.
    Without ``machine`` no files of a host are read: nobody knows where the server is. ``remote`` is needed where it is
    on another machine.

    ``server_pid`` is the server's first process, whose children do its work; None where that is not known.
    ``generators`` is what the environment of this server's load generators has ("NAME=value"; "": all that pgtrial,
    the ``parent``, has started are its own), None where those are not to be read. ``load_conninfo`` names the load's
    database, in which extensions may be that are worth reading, ``load_sessions`` how the names of the load's sessions
    begin. Without ``views`` only the sessions of the server are read: what it counts is of others as well. ``traced``:
    the kernel counts for this experiment what it does not count by itself; another one's sampler that held the file
    open would keep it from being put back. ``console`` is that of the pooler in front of the server, "" where there is
    none.
    """

    conninfo: str
    version_num: int
    database: str
    devices: Sequence[str] = ()
    spool: str = ""
    groups: Sequence[str] = ()
    machine: bool = True
    traced: bool = False
    remote: RemoteReader | None = None
    server_pid: int | None = None
    generators: str | None = ""
    parent: int = field(default_factory=os.getpid)
    load_conninfo: str = ""
    load_sessions: str = LOAD
    views: bool = True
    console: str = ""
    interval: float = 1.0
    session_interval: float = 0.1

    @property
    def line(self) -> bytes:
        """As the process takes it."""
        told: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(LoopConfig)}
        return json.dumps({**told, "remote": self.remote and asdict(self.remote)}).encode() + b"\n"

    @classmethod
    def of_line(cls, line: bytes) -> "LoopConfig":
        told = json.loads(line)
        return cls(**{**told, "remote": told["remote"] and RemoteReader(**told["remote"])})
