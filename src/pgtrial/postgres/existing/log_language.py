"""The message catalogue of an existing server, read as the server's file or as one of its machine."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from psycopg import AsyncConnection, Error

from pgtrial.postgres.existing.log_place import server_chunk
from pgtrial.postgres.existing.server import ExistingServer, read_bytes
from pgtrial.store.server_log.catalogue import CatalogueError, catalogue_paths, is_english, read_catalogue
from pgtrial.store.server_log.language import PLAIN, Language, language_of

_DIRECTORY = "SELECT setting FROM pg_catalog.pg_config WHERE name = 'LOCALEDIR'"
_LARGEST = 1 << 24  # bytes; the catalogues of PostgreSQL 18 have about 1.5 MB
_DIRECTORIES = (
    "/usr/share/locale",  # Debian, Ubuntu
    "/usr/pgsql-{major}/share/locale",  # PGDG on Red Hat, SUSE
    "/usr/local/share/locale",  # the official container images
    "/usr/local/pgsql/share/locale",  # built from source
)


async def read_language(
    connection: "AsyncConnection[tuple[Any, ...]]", server: ExistingServer, languages: Sequence[str]
) -> Language | None:
    """The language that the server writes its messages in: the first of ``languages`` that it has, English if none is
    needed; None if no catalogue can be read.
    """
    major = server.facts.major
    directories = [each.format(major=major) for each in _DIRECTORIES]
    with suppress(Error):  # may not ask: then one of the usual places
        row = await (await connection.execute(_DIRECTORY)).fetchone()
        if row and row[0]:
            directories.insert(0, row[0])
    for language in languages:
        if is_english(language):
            return PLAIN
        for name in catalogue_paths(language, major):
            for directory in dict.fromkeys(directories):
                content = await _read(connection, server, f"{directory}/{name}")
                if content:
                    with suppress(CatalogueError):
                        return language_of(read_catalogue(content))
    return None


async def _read(connection: "AsyncConnection[tuple[Any, ...]]", server: ExistingServer, path: str) -> bytes | None:
    if server.facts.local:
        with suppress(OSError):
            return read_bytes(server.host, path)
    with suppress(Error):
        return await server_chunk(connection, path, 0, _LARGEST)
    return None
