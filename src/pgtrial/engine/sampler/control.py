"""The engine's side of the sampler: configure, start and stop the process; find gaps in what it wrote."""

import asyncio
import os
import shlex
import time
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path

from pgtrial.collectors import COLLECTORS
from pgtrial.collectors.base import QueryCollector
from pgtrial.collectors.sessions import SessionCollector
from pgtrial.engine.sampler.config import LoopConfig, RemoteReader
from pgtrial.engine.sampler.files import reader_argv
from pgtrial.engine.sampler.spool import (
    END,
    REMARK,
    TROUBLE,
    UNANSWERED,
    Header,
    read_header,
    read_records,
    read_times,
)
from pgtrial.errors import TargetError
from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.hosts.base import Host, HostProcess
from pgtrial.hosts.clock import HostClock
from pgtrial.hosts.linux.devices import DeviceTree, devices_under
from pgtrial.hosts.local import LocalHost, own_program
from pgtrial.hosts.operations import Operations
from pgtrial.hosts.processes import ends_within, forget_input

_GAP = 2.7  # intervals without a reading; two that follow each other are up to 1.2 apart
_SILENCE = 3  # ticks in a row without an answer; a server that is stopped between two slices may miss one
_TOLD = {each.name for each in COLLECTORS if isinstance(each, QueryCollector | SessionCollector)}  # by the server
_START_PATIENCE = 20.0  # s
_READ_PATIENCE = 3.0  # s; a server that stands still holds up a reading until the next one is due
_STOP_PATIENCE = 20.0  # s, for the last readings; that of all shared buffers may take a while


@dataclass(frozen=True, slots=True, kw_only=True)
class Disks:
    """Names of the disks ("vda") under some directories, and a caveat for each directory without any."""

    names: tuple[str, ...] = ()
    caveats: tuple[CaveatFinding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerConfig(LoopConfig):
    """``caveats`` are about the disks that could not be found; see ``find_disks``."""

    caveats: tuple[CaveatFinding, ...] = ()


def find_disks(ops: Operations, directories: Iterable[str]) -> Disks:
    """The disks under directories of a host.

    Of a loop device it is the loop device itself: its limits are its own, and the disk that holds its file has other
    work as well. Both together would count everything twice.
    """
    found = [devices_under(ops, directory) for directory in dict.fromkeys(directories)]
    return Disks(
        names=tuple(dict.fromkeys(name for under in found for d in under.devices for name in _observed(d))),
        caveats=tuple(
            caveat("no-device", reason=reason)
            for reason in dict.fromkeys(under.reason for under in found if not under.devices)
        ),
    )


def _observed(device: DeviceTree) -> tuple[str, ...]:
    return (device.name,) if device.is_loop else device.disks


def find_server(ops: Operations, directories: Sequence[str]) -> int | None:
    """Number of the first process of the server with these directories, its data first; None if it cannot be read."""
    for data in directories[:1]:
        with suppress(OSError, ValueError, IndexError):
            return int(ops.read_plain(f"{data}/postmaster.pid", 8192).splitlines()[0])
    return None


def remote_reader(host: Host, *, clock_offset: float) -> RemoteReader | None:
    """The reader for a host, whose clock is ahead of ours by so many seconds; None when it is this machine."""
    if not host.session_argv:
        return None
    return RemoteReader(command=(*host.session_argv, f"exec {shlex.join(reader_argv())}"), clock_offset=clock_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A stretch (seconds since the epoch) in which a source was not read for more than _GAP intervals."""

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
    caveats: tuple[CaveatFinding, ...]


class Sampler:
    """One sampler process, started through ``host``, which is this machine also where the server is on another one.

    Start and stop it once.
    """

    def __init__(self, host: Host | None = None) -> None:
        self._host = host or LocalHost()
        self._process: HostProcess | None = None
        self._spool = Path()
        self._caveats: tuple[CaveatFinding, ...] = ()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self, config: SamplerConfig) -> None:
        """Start the process and wait until the first readings are on disk. Raises TargetError with its reason."""
        self._spool = Path(config.spool)
        self._caveats = config.caveats
        self._process = process = await self._host.start(
            own_program("pgtrial.engine.sampler"),
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
                process.stdin.write(replace(config, parent=os.getpid()).line)
                async with asyncio.timeout(_START_PATIENCE):
                    await process.stdin.drain()
                    ready = await process.stdout.readline()
        finally:
            if not ready:
                complaint = await self._end()
        if not ready:
            raise TargetError("the sampler does not start", detail=complaint or "It gave no reason.")

    async def read_now(self) -> float:
        """Have it read what is counted, and wait until it has; not for long where it does not answer.

        Returns when that was, in seconds since the epoch: what it reads later is of a later time.
        """
        process, asked = self._process, time.time()
        assert process is not None  # it was started
        assert process.stdin is not None  # both were asked for as pipes
        assert process.stdout is not None
        with suppress(TimeoutError, ConnectionError):
            process.stdin.write(b"\n")
            async with asyncio.timeout(_READ_PATIENCE):
                await process.stdin.drain()
                while told := await process.stdout.readline():
                    if float(told) >= asked:  # and no answer that came too late the last time
                        return float(told)
        return time.time()

    async def stop(self, *, clock: HostClock | None = None) -> SamplerReport:
        """Stop the process in order, and report gaps in what it wrote. Raises StoreError.

        ``clock`` is that of the machine of a remote reader, as for ``convert``.
        """
        end = time.time()
        complaint = await self._end()
        header = read_header(self._spool)
        times = _times(self._spool, header, clock or HostClock.constant(header.clock_offset))
        told = sorted(chain.from_iterable(times[source] for source in _TOLD & times.keys()))
        unanswered = [t for t, source in read_times(self._spool) if source == UNANSWERED]
        errors = [payload for _, _, payload in read_records(self._spool, TROUBLE)]
        remarks = [payload for _, _, payload in read_records(self._spool, REMARK)]
        closing = [payload for _, _, payload in read_records(self._spool, END)]
        if not closing:
            errors.append(f"the sampler ended before its time: {complaint or 'it was killed'}")
        return SamplerReport(
            gaps=find_gaps(_asked(times, unanswered), end=end, interval=header.interval),
            errors=tuple(errors),
            ticks=closing[0]["ticks"] if closing else max((len(found) for found in times.values()), default=0),
            late=closing[0]["late"] if closing else None,
            caveats=(
                *self._caveats,
                *(
                    caveat("no-source.there" if header.foreign else "no-source.here", source=source)
                    for source in header.absent.values()
                ),
                *(caveat("no-source", what=remark) for remark in remarks),
                *([caveat("unanswered")] if is_silent(told, unanswered) else []),
            ),
        )

    async def _end(self) -> str:
        """Let the process flush its spool and end; return its standard error."""
        process = self._process
        if process is None:
            return ""
        assert process.stdin is not None
        process.stdin.close()
        complaint = asyncio.ensure_future(process.communicate())  # both outputs are read, or it could not end
        if not await ends_within(process, _STOP_PATIENCE):
            with suppress(ProcessLookupError):
                process.kill()
        said = (await complaint)[1].decode(errors="replace").strip()
        await forget_input(process)
        return said


def _times(spool: Path, header: Header, clock: HostClock) -> dict[str, list[float]]:
    """Times of the readings of each source, by our clock."""
    times: dict[str, list[float]] = {source: [] for source in header.sources}
    for t, source in read_times(spool):
        if source in times:
            times[source].append(clock.ours(t) if source in header.foreign else t)
    return times


def _asked(times: Mapping[str, Sequence[float]], unanswered: Sequence[float]) -> dict[str, Sequence[float]]:
    """``times``, and also of what the server tells, the times at which it was asked and did not answer.

    Its silence is no gap: thrown away with the run, the stalls that an arm causes would make that arm look good.
    """
    return {source: sorted((*found, *unanswered)) if source in _TOLD else found for source, found in times.items()}


def is_silent(answered: Sequence[float], unanswered: Sequence[float]) -> bool:
    """Whether _SILENCE of the times ``unanswered`` follow each other with none of the times ``answered`` between."""
    return max(Counter(bisect(answered, t) for t in unanswered).values(), default=0) >= _SILENCE


def find_gaps(times: Mapping[str, Sequence[float]], *, end: float, interval: float) -> tuple[Gap, ...]:
    """Gaps of each source between the first reading of all and ``end``; times ascend, in seconds since the epoch."""
    start = min((found[0] for found in times.values() if found), default=end)
    return tuple(
        Gap(source=source, start=before, end=after)
        for source, found in times.items()
        for before, after in pairwise((start, *found, end))
        if after - before > _GAP * interval
    )
