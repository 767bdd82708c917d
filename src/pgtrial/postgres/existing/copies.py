"""Copy a database within an existing server, where nobody is connected to it."""

from psycopg import Error, sql
from psycopg.errors import DuplicateDatabase, InsufficientPrivilege, ObjectInUse

from pgtrial.errors import PreflightError, TargetError
from pgtrial.postgres.connect import connect, fetch
from pgtrial.postgres.existing.server import ExistingServer

_SIZE = "SELECT pg_catalog.pg_database_size(%s::name)"
_CONNECTED = """
    SELECT coalesce(usename, 'somebody') || coalesce(' (' || nullif(application_name, '') || ')', ''), count(*)
    FROM pg_catalog.pg_stat_activity WHERE datname = %s GROUP BY 1 ORDER BY 2 DESC
"""
_DUMP = 'Copy it through a dump instead: "pgtrial copy FILE --dump NAME.dump".'


async def copy_database(server: ExistingServer, database: str, name: str) -> int:
    """Make database ``name`` a copy of another one, and return its size in bytes. Raises PreflightError, TargetError.

    Sessions of others are never ended for it.
    """
    place = server.conninfo("postgres" if database != "postgres" else "template1")
    connected = await fetch(place, _CONNECTED, [database])
    if connected:
        raise _refuse_connected(database, [f"{who}: {count}" for who, count in connected])
    async with connect(place) as connection:
        try:
            await connection.execute("SET statement_timeout = 0")
            await connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(
                    sql.Identifier(name), sql.Identifier(database)
                )
            )
            comment = f'A copy of database "{database}", made by "pgtrial copy".'
            await connection.execute(
                sql.SQL("COMMENT ON DATABASE {} IS {}").format(sql.Identifier(name), sql.Literal(comment))
            )
        except ObjectInUse as err:
            raise _refuse_connected(database, []) from err
        except DuplicateDatabase as err:
            raise PreflightError(
                f'database "{name}" already exists', hint="Name another one with --as, or drop it with dropdb."
            ) from err
        except InsufficientPrivilege as err:
            user = server.control.address.user
            raise PreflightError(
                f'role "{user}" may not copy database "{database}"',
                detail=f"The server says: {err.diag.message_primary or err}.",
                hint=f'It needs CREATEDB (ALTER ROLE "{user}" CREATEDB) and to be the owner of the database. {_DUMP}',
            ) from err
        except Error as err:
            raise TargetError(f'cannot copy database "{database}": {err.diag.message_primary or err}') from err
    ((size,),) = await fetch(place, _SIZE, [name])
    return int(size)


def _refuse_connected(database: str, who: list[str]) -> PreflightError:
    return PreflightError(
        f'database "{database}" cannot be copied within its server while somebody is connected to it',
        detail=f"Connected: {', '.join(who)}." if who else "",
        hint=f"Wait until nobody is. {_DUMP}",
    )
