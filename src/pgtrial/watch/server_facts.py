"""What a question needs to know of a watched server: its settings and indexes."""

import asyncio
from collections.abc import Mapping

from pgtrial.errors import PreflightError, SpecError
from pgtrial.postgres.connect import as_answered, fetch
from pgtrial.postgres.existing.address import find_server
from pgtrial.postgres.programs import OLDEST_MAJOR
from pgtrial.postgres.settings import read_settings
from pgtrial.watch.folder import Mark
from pgtrial.watch.question import CATEGORIES, LEADING, Facts

_TYPED = "the command"  # that names the server
# Without a literal: the server remembers it as a statement of the database, and what is drawn for it has to work.
_VERSION, _DATABASE = "SHOW server_version_num", "SELECT current_database()"


def read_facts(dsn: str, caller: Mapping[str, str], mark: Mark) -> Facts:
    """Only reads. Raises ConnectError, TargetError, SpecError where it is not the database that was watched, and
    PreflightError where its version is too old for an experiment.
    """
    return asyncio.run(_read(dsn, caller, mark))


async def _read(dsn: str, caller: Mapping[str, str], mark: Mark) -> Facts:
    address = await find_server(dsn, database=None, caller=caller, typed=_TYPED)
    conninfo = address.conninfo()
    with as_answered():
        ((version,),) = await fetch(conninfo, _VERSION)
        ((database,),) = await fetch(conninfo, _DATABASE)
        if database != mark.database:
            raise SpecError(
                f'--server is database "{database}", and the watch is of "{mark.database}"',
                hint="Name the database that was watched: its mix is what the question is about.",
            )
        if int(version) // 10000 < OLDEST_MAJOR:
            raise PreflightError(
                f"the server is PostgreSQL {int(version) // 10000}; the oldest that experiments know is {OLDEST_MAJOR}",
                hint="Its windows can be compared all the same: pgtrial compare-times.",
            )
        settings = await read_settings(conninfo)
        categories = {str(name).lower(): str(category) for name, category in await fetch(conninfo, CATEGORIES)}
        leading = frozenset((str(a), str(b), str(c)) for a, b, c in await fetch(conninfo, LEADING))
    return Facts(major=int(version) // 10000, settings=settings, categories=categories, leading=leading)
