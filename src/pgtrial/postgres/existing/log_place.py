"""Where an existing server writes its log, and by which way pgtrial can read it.

Nothing is changed for it: what the server does not log, or logs elsewhere, is said and left.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from psycopg import AsyncConnection, Error

from pgtrial.postgres.connect import connect
from pgtrial.postgres.existing.server import ExistingServer, find_parent, read_chunk
from pgtrial.store.server_log.prefix import has_time


class LogFormat(StrEnum):
    """As log_destination names them, the ones that lose least first."""

    JSON = "jsonlog"
    CSV = "csvlog"
    TEXT = "stderr"


_NAMES = (
    *("log_line_prefix", "log_timezone", "log_error_verbosity", "lc_messages", "log_destination"),
    *("log_checkpoints", "log_autovacuum_min_duration", "log_lock_waits", "log_temp_files"),
)
_SETTINGS = "SELECT name, setting FROM pg_catalog.pg_settings WHERE name = ANY (%s)"
_CURRENT = "SELECT pg_catalog.pg_current_logfile(%s)"
_SIZE = "SELECT (pg_catalog.pg_stat_file(%s, true)).size"
_CHUNK = "SELECT pg_catalog.pg_read_binary_file(%s, %s, %s, true)"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """``path`` is as the server names the file, relative to its data directory or absolute.

    ``by_host``: it is read as a file of the server's machine, and not through the server; ``path`` is absolute then.
    ``settings`` are those that the log depends on. ``languages`` are those of its messages, the first that there is
    counts; ``encoding`` is Python's name of the server's.
    """

    format: LogFormat
    path: str
    by_host: bool
    settings: Mapping[str, str]
    languages: tuple[str, ...]
    encoding: str

    @property
    def is_output(self) -> bool:
        """Whether it is the one file into which the server's processes write by themselves, without a collector."""
        return self.path.startswith("/proc/")


async def find_log(server: ExistingServer) -> LogPlace | str:
    """The place of the server's log, or, in a sentence, why it cannot be read. Raises ConnectError, TargetError."""
    async with connect(server.conninfo()) as connection:
        rows = await (await connection.execute(_SETTINGS, [list(_NAMES)])).fetchall()
        settings = {str(name): str(value) for name, value in rows}
        parent = find_parent(server.host, connection.info.backend_pid) if server.facts.local else None
        place = partial(
            LogPlace,
            settings=settings,
            languages=_languages(server, settings["lc_messages"], parent),
            encoding=connection.info.encoding,
        )
        trouble = ""
        for kind in LogFormat:
            if kind is LogFormat.TEXT and not has_time(settings["log_line_prefix"]):
                trouble = trouble or "Its lines do not say when they were written: log_line_prefix has no %m, %t or %n."
                continue
            try:
                row = await (await connection.execute(_CURRENT, [kind.value])).fetchone()
            except Error:
                trouble = f'The role "{server.control.address.user}" may not ask for the log\'s file.'
                break
            path = row and row[0]
            if not path:
                continue
            found = await _reach(connection, server, path)
            if found is not None:
                return place(format=kind, path=found[0], by_host=found[1])
            trouble = f'The role "{server.control.address.user}" may not read the log\'s file.'
    path = "" if parent is None else _output(server, parent)
    if path and "stderr" in settings["log_destination"] and has_time(settings["log_line_prefix"]):
        return place(format=LogFormat.TEXT, path=path, by_host=True)
    return trouble or f"It goes to {settings['log_destination']}, and not to a file that can be read from here."


async def _reach(
    connection: "AsyncConnection[tuple[Any, ...]]", server: ExistingServer, path: str
) -> tuple[str, bool] | None:
    """The path by which the file can be read, and whether as a file of the server's machine; None: not at all."""
    with suppress(Error):
        if await server_size(connection, path) is not None and await server_chunk(connection, path, 0, 1) is not None:
            return path, False
    data = server.facts.data_directory
    absolute = path if path.startswith("/") else f"{data}/{path}"
    if server.facts.local and (data or absolute == path):
        with suppress(OSError):
            read_chunk(server.host, absolute, 0, 1)
            return absolute, True
    return None


def _output(server: ExistingServer, parent: int) -> str:
    """The file into which the standard error of the server's process goes, "" if it is none within reach.

    pg_ctl -l and Debian's packages let it go to a file.
    """
    path = f"/proc/{parent}/fd/2"
    with suppress(OSError):
        if server.host.ops.is_file(path):
            read_chunk(server.host, path, 0, 1)
            return path
    return ""


def _languages(server: ExistingServer, lc_messages: str, parent: int | None) -> tuple[str, ...]:
    """As gettext chooses them: the variable LANGUAGE of the server's process, where there is one, comes before the
    setting, unless that is C or POSIX.
    """
    if parent is None or lc_messages in ("C", "POSIX"):
        return (lc_messages,)
    with suppress(OSError):
        variables = server.host.ops.read(f"/proc/{parent}/environ").split("\0")
        chosen = next((each.partition("=")[2] for each in variables if each.startswith("LANGUAGE=")), "")
        return (*filter(None, chosen.split(":")), lc_messages)
    return (lc_messages,)


async def server_size(connection: "AsyncConnection[tuple[Any, ...]]", path: str) -> int | None:
    """Bytes of a file of the server, None if it is not there. Raises psycopg's Error."""
    row = await (await connection.execute(_SIZE, [path])).fetchone()
    return None if row is None else row[0]


async def server_chunk(
    connection: "AsyncConnection[tuple[Any, ...]]", path: str, offset: int, size: int
) -> bytes | None:
    """At most ``size`` bytes of a file of the server, None if it is not there. Raises psycopg's Error.

    As bytes: a log may have lines in several encodings, and the server refuses text that is not in its own.
    """
    cursor = connection.cursor(binary=True)
    row = await (await cursor.execute(_CHUNK, [path, offset, size])).fetchone()
    return None if row is None or row[0] is None else bytes(row[0])
