"""What the sampler is told: what to read, where it is, and where to write it."""

import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pgtrial.engine.sampler.remote import reader_argv
from pgtrial.hosts.base import Host
from pgtrial.hosts.linux.devices import BlockDevice, devices_under
from pgtrial.hosts.operations import Operations
from pgtrial.model.caveat import Caveat, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Disks:
    """Names of the disks ("vda") under some directories, and a caveat for each directory without any."""

    names: tuple[str, ...] = ()
    caveats: tuple[Caveat, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteReader:
    """How files of another machine are read: ``command`` runs Python there, with its standard input and output here.

    ``clock_offset`` is by how many seconds that machine's clock is ahead of ours.
    """

    command: tuple[str, ...]
    clock_offset: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerConfig:
    """What to read, and where to. ``version_num`` is server_version_num; intervals are seconds.

    ``database`` is the load's; ``conninfo`` better names another one, for the sampler's own transactions count in it;
    without it ("") no server is asked. ``disks`` are those under the data and the WAL, ``groups`` the directories of
    the control groups that are the server's own, ``spool`` is an empty directory. Without ``machine`` no files of
    a host are read: nobody knows where the server is. ``remote`` is needed where it is on another machine.

    ``server_pid`` is the server's first process, whose children do its work; None where that is not known.
    ``generators`` is what the environment of this server's load generators has ("NAME=value"; "": all that pgtrial has
    started are its own), None where those are not to be read. ``load_conninfo`` names the load's database, in which
    extensions may be that are worth reading.
    """

    conninfo: str
    version_num: int
    database: str
    disks: Disks
    spool: str
    groups: tuple[str, ...] = ()
    machine: bool = True
    remote: RemoteReader | None = None
    server_pid: int | None = None
    generators: str | None = ""
    load_conninfo: str = ""
    interval: float = 1.0
    session_interval: float = 0.1


def find_disks(ops: Operations, directories: Iterable[str]) -> Disks:
    """The disks under directories of a host.

    Of a loop device it is the loop device itself: its limits are its own, and the disk that holds its file has other
    work as well. Both together would count everything twice.
    """
    found = {directory: devices_under(ops, directory) for directory in dict.fromkeys(directories)}
    return Disks(
        names=tuple(dict.fromkeys(name for under in found.values() for d in under.devices for name in _observed(d))),
        caveats=tuple(_no_device(under.reason) for under in found.values() if not under.devices),
    )


def _observed(device: BlockDevice) -> tuple[str, ...]:
    return (device.name,) if device.is_loop else device.disks


def find_server(ops: Operations, directories: Sequence[str]) -> int | None:
    """Number of the first process of the server with these directories, its data first; None if it cannot be read."""
    for data in directories[:1]:
        with suppress(OSError, ValueError, IndexError):
            return int(ops.read(f"{data}/postmaster.pid").splitlines()[0])
    return None


def remote_reader(host: Host, *, clock_offset: float) -> RemoteReader | None:
    """The reader for a host, whose clock is ahead of ours by so many seconds; None when it is this machine."""
    if not host.session_argv:
        return None
    return RemoteReader(command=(*host.session_argv, f"exec {shlex.join(reader_argv())}"), clock_offset=clock_offset)


def _no_device(reason: str) -> Caveat:
    return Caveat(
        code="no-device",
        severity=Severity.INFO,
        text=f"{reason} There are no disk metrics for it.",
        hint="A network file system, tmpfs, overlay or a storage pool has no block device that could be read.",
    )
