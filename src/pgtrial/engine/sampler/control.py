"""What the engine calls: start and stop the sampler process; learn what is missing in what it wrote."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from pgtrial.engine.sampler.clock import HostClock
from pgtrial.engine.sampler.config import (
    Disks,
    RemoteReader,
    SamplerConfig,
    find_disks,
    find_server,
    remote_reader,
)
from pgtrial.engine.sampler.convert import convert
from pgtrial.engine.sampler.spool import END, REMARK, TROUBLE, Header, read_header, read_records, read_times
from pgtrial.errors import TargetError
from pgtrial.hosts.base import Host, HostProcess
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.processes import ends_within
from pgtrial.model.caveat import Caveat, Severity

__all__ = [
    "Disks",
    "Gap",
    "HostClock",
    "RemoteReader",
    "Sampler",
    "SamplerConfig",
    "SamplerReport",
    "convert",
    "find_disks",
    "find_gaps",
    "find_server",
    "remote_reader",
]

_GAP = 2.5  # intervals without a reading
_START_PATIENCE = 20.0  # s
_STOP_PATIENCE = 20.0  # s, for the last readings; that of all shared buffers may take a while


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A stretch (seconds since the epoch) in which a source was not read for more than 2.5 intervals."""

    source: str
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerReport:
    """``ticks`` were read and ``late`` ones skipped; ``late`` is None when the sampler was killed."""

    gaps: tuple[Gap, ...]
    errors: tuple[str, ...]
    ticks: int
    late: int | None
    caveats: tuple[Caveat, ...]


class Sampler:
    """One sampler process, started through ``host``, which is this machine also where the server is on another one.

    Start and stop it once.
    """

    def __init__(self, host: Host | None = None) -> None:
        self._host = host or LocalHost()
        self._process: HostProcess | None = None
        self._spool = Path()
        self._caveats: tuple[Caveat, ...] = ()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self, config: SamplerConfig) -> None:
        """Start the process and wait until the first readings are on disk. Raises TargetError with its reason."""
        self._spool = Path(config.spool)
        self._caveats = config.disks.caveats
        options = {
            "conninfo": config.conninfo,
            "version_num": config.version_num,
            "database": config.database,
            "spool": config.spool,
            "interval": config.interval,
            "session_interval": config.session_interval,
            "devices": config.disks.names,
            "groups": config.groups,
            "machine": config.machine,
            "remote": config.remote and asdict(config.remote),
            "server_pid": config.server_pid,
            "generators": config.generators,
            "load_conninfo": config.load_conninfo,
            "parent": os.getpid(),
        }
        self._process = process = await self._host.start(
            [sys.executable, "-m", "pgtrial.engine.sampler"],
            role="sampler",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        ready = b""
        try:
            with suppress(TimeoutError, ConnectionError):
                process.stdin.write(json.dumps(options).encode() + b"\n")
                async with asyncio.timeout(_START_PATIENCE):
                    await process.stdin.drain()
                    ready = await process.stdout.readline()
        finally:
            if not ready:
                complaint = await self._end()
        if not ready:
            raise TargetError("the sampler does not start", detail=complaint or "It did not say why.")

    async def stop(self, *, clock: HostClock | None = None) -> SamplerReport:
        """End the process in order, and say what is missing in what it wrote. Raises StoreError.

        ``clock`` is that of the machine of a remote reader, as for ``convert``.
        """
        end = time.time()
        complaint = await self._end()
        header = read_header(self._spool)
        times = _times(self._spool, header, clock or HostClock.constant(header.clock_offset))
        errors = [payload for _, _, payload in read_records(self._spool, TROUBLE)]
        remarks = [payload for _, _, payload in read_records(self._spool, REMARK)]
        closing = [payload for _, _, payload in read_records(self._spool, END)]
        if not closing:
            errors.append(f"the sampler ended before its time: {complaint or 'it was killed'}")
        return SamplerReport(
            gaps=find_gaps(times, end=end, interval=header.interval),
            errors=tuple(errors),
            ticks=closing[0]["ticks"] if closing else max((len(found) for found in times.values()), default=0),
            late=closing[0]["late"] if closing else None,
            caveats=(
                *self._caveats,
                *(_absent(reason, header) for reason in header.absent.values()),
                *map(_without, remarks),
            ),
        )

    async def _end(self) -> str:
        """Let the process write what it has and go; returns what it said on standard error."""
        process = self._process
        if process is None:
            return ""
        assert process.stdin is not None
        process.stdin.close()
        complaint = asyncio.ensure_future(process.communicate())  # both outputs are read, or it could not end
        if not await ends_within(process, _STOP_PATIENCE):
            with suppress(ProcessLookupError):
                process.kill()
        return (await complaint)[1].decode(errors="replace").strip()


def _times(spool: Path, header: Header, clock: HostClock) -> dict[str, list[float]]:
    """Times of the readings of each source, by our clock."""
    times: dict[str, list[float]] = {source: [] for source in header.sources}
    for t, source in read_times(spool):
        if source in times:
            times[source].append(clock.ours(t) if source in header.foreign else t)
    return times


def find_gaps(times: Mapping[str, Sequence[float]], *, end: float, interval: float) -> tuple[Gap, ...]:
    """Gaps of each source between the first reading of all and ``end``; times ascend, in seconds since the epoch."""
    start = min((found[0] for found in times.values() if found), default=end)
    return tuple(
        Gap(source=source, start=before, end=after)
        for source, found in times.items()
        for before, after in pairwise((start, *found, end))
        if after - before > _GAP * interval
    )


def _absent(reason: str, header: Header) -> Caveat:
    where = "The machine of the server" if header.foreign else "This machine"
    return _without(f"{where} does not offer {reason}.")


def _without(sentence: str) -> Caveat:
    return Caveat(
        code="no-source",
        severity=Severity.INFO,
        text=sentence,
        hint="The metrics from there are missing; nothing else depends on them.",
    )
