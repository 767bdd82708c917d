"""Store the part of an existing server's log written during a run as server.jsonl."""

import asyncio
import itertools
import math
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from psycopg import AsyncConnection, Error

from pgtrial.errors import StoreError
from pgtrial.postgres.connect import connect
from pgtrial.postgres.existing.log_formats import parse_csv, parse_text
from pgtrial.postgres.existing.log_place import LogFormat, LogPlace, find_log, server_chunk, server_size
from pgtrial.postgres.existing.server import ExistingServer
from pgtrial.store.server_log.entry import LogEntry, find_zone
from pgtrial.store.server_log.stored import keep_entries, parse_entries, short_lines, write_log

_SIZE = 1 << 20
_LULL = 0.25  # s; a collector of logs writes down a moment later what it is told
_LONGEST = 5.0  # s to wait for it; others may write to the log without end
_CURRENT = "SELECT pg_catalog.pg_current_logfile(%s)"
_CLOCK = "SELECT extract(epoch FROM pg_catalog.clock_timestamp())::float8"
# The server tells when a file was changed in whole seconds.
_CHANGED = """
    SELECT name, size FROM pg_catalog.pg_ls_logdir()
    WHERE modification > pg_catalog.to_timestamp(%s) - interval '2 seconds' ORDER BY modification, name
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMark:
    """The end of the log at a moment; ``t`` is the moment by the server's clock, which is ``ahead`` of ours by s.

    ``ends``: bytes of the current file and of those that were written to shortly before, by path.
    """

    place: LogPlace
    ends: Mapping[str, int]
    t: float
    ahead: float


async def mark_log(server: ExistingServer) -> LogMark | None:
    """The log's end now, None where the log cannot be read. Raises ConnectError, TargetError."""
    place = await find_log(server)
    if isinstance(place, str):
        return None
    async with connect(server.conninfo()) as connection:
        size = await _measure(connection, server, place.path, by_host=place.by_host)
        if size is None:
            return None
        before = time.time()
        row = await (await connection.execute(_CLOCK)).fetchone()
        assert row is not None  # it has no FROM
        ahead = row[0] - (before + time.time()) / 2
        changed = [] if place.is_output else await _changed_since(connection, place, row[0])
    return LogMark(place=place, ends={**dict(changed), place.path: size}, t=row[0], ahead=ahead)


async def keep_since(server: ExistingServer, mark: LogMark, destination: Path) -> None:
    """Write what the log has since ``mark``; times are by our clock.

    Raises ConnectError, TargetError, StoreError.
    """
    try:
        # Without a name: what others write to their log must not stay if pgtrial is killed.
        with tempfile.TemporaryFile() as spool:
            async with connect(server.conninfo()) as connection:
                async for chunk in _read_since(connection, server, mark):
                    spool.write(chunk)
            spool.seek(0)
            await asyncio.to_thread(_write, spool, mark, destination)
    except OSError as err:
        raise StoreError(f"cannot keep the server's log: {err.strerror}") from err


def _write(spool: IO[bytes], mark: LogMark, destination: Path) -> None:
    entries = _parse(_decode(short_lines(spool, b"\n"), mark.place.encoding), mark.place)
    # Some logs have times in whole seconds; what is before the mark in the file of the mark has not been read.
    kept = keep_entries(entries, since=math.floor(mark.t))
    write_log((replace(entry, t=entry.t - mark.ahead) for entry in kept), destination)


def _decode(lines: Iterable[bytes], encoding: str) -> Iterator[str]:
    """Texts of lines, most of which are UTF-8 on most servers; sessions write in their database's encoding."""
    for line in lines:
        bare = line.rstrip(b"\r\n")
        try:
            yield bare.decode()
        except UnicodeDecodeError:
            yield bare.decode(encoding, errors="replace")


def _parse(lines: Iterable[str], place: LogPlace) -> Iterator[LogEntry]:
    zone = find_zone(place.settings["log_timezone"])
    match place.format:
        case LogFormat.JSON:
            return parse_entries(lines, zone)
        case LogFormat.CSV:
            return parse_csv(lines, zone)
        case LogFormat.TEXT:
            verbose = place.settings["log_error_verbosity"] == "verbose"
            prefix = place.settings["log_line_prefix"]
            return parse_text(lines, prefix=prefix, zone=zone, verbose=verbose)


async def _read_since(
    connection: "AsyncConnection[tuple[Any, ...]]", server: ExistingServer, mark: LogMark
) -> AsyncIterator[bytes]:
    """The log from the mark on, through all files that the server has begun since, until nothing more comes."""
    place = mark.place
    offsets = dict(mark.ends)
    end = time.monotonic() + _LONGEST
    for is_first in itertools.chain([True], itertools.repeat(False)):
        has_grown = is_first
        for path in await _files_since(connection, mark):
            size = await _measure(connection, server, path, by_host=place.by_host)
            if size is not None and size < offsets.setdefault(path, 0):
                offsets[path] = 0  # begun anew under the same name
            while chunk := await _read(connection, server, path, offsets[path], by_host=place.by_host):
                yield chunk
                offsets[path] += len(chunk)
                has_grown = True
        if place.is_output or not has_grown or time.monotonic() > end:
            return
        await asyncio.sleep(_LULL)


async def _files_since(connection: "AsyncConnection[tuple[Any, ...]]", mark: LogMark) -> tuple[str, ...]:
    """Paths of the log's files since the mark, in order; the collector may have begun several."""
    place = mark.place
    if place.is_output:
        return (place.path,)
    row = await (await connection.execute(_CURRENT, [place.format.value])).fetchone()
    current = row and row[0]
    if not current or place.path.endswith(f"/{current}") or place.path == current:
        return (place.path,)
    newest = _beside(place, current.rpartition("/")[2])
    changed = [path for path, _ in await _changed_since(connection, place, mark.t)]
    between = [path for path in changed if Path(path).suffix == Path(newest).suffix]
    return (place.path, *(path for path in between if path not in (place.path, newest)), newest)


async def _changed_since(
    connection: "AsyncConnection[tuple[Any, ...]]", place: LogPlace, t: float
) -> list[tuple[str, int]]:
    """(path, bytes) of files written to since shortly before ``t``, in order; none where they may not be listed."""
    with suppress(Error):
        rows = await (await connection.execute(_CHANGED, [t])).fetchall()
        return [(_beside(place, name), size) for name, size in rows]
    return []


def _beside(place: LogPlace, name: str) -> str:
    """Path of a file in the same directory."""
    directory, slash, _ = place.path.rpartition("/")
    return f"{directory}{slash}{name}"


async def _measure(
    connection: "AsyncConnection[tuple[Any, ...]]", server: ExistingServer, path: str, *, by_host: bool
) -> int | None:
    """Bytes of a file, None if it is not there."""
    if not by_host:
        return await server_size(connection, path)
    try:
        return int(server.host.ops.output(["stat", "-L", "-c", "%s", "--", path]))
    except (OSError, ValueError):
        return None


async def _read(
    connection: "AsyncConnection[tuple[Any, ...]]", server: ExistingServer, path: str, offset: int, *, by_host: bool
) -> bytes:
    """A part of a file, empty at its end or where it is not there any more."""
    if not by_host:
        return await server_chunk(connection, path, offset, _SIZE) or b""
    try:
        return server.read_log_chunk(path, offset, _SIZE)
    except OSError:
        return b""
