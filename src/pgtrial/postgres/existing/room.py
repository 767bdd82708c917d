"""Whether an existing server has room for the load's sessions beside those of others."""

from dataclasses import dataclass

from pgtrial.errors import PreflightError
from pgtrial.postgres.connect import fetch
from pgtrial.postgres.existing.server import ExistingServer
from pgtrial.safe_text import sql_name

_OWN = 4  # connections of pgtrial's: the sampler's three, and one of the engine's
_IN_DATABASE = 2  # of them are in the load's database
# Sessions of clients. Those of pgtrial itself come and go, and are counted with what it needs. A role without
# pg_monitor sees whose the sessions of others are and where, but not what: workers of parallel queries and of
# extensions, which need none of these connections, look like clients. Those of replication are named elsewhere.
# The limits are those of the role that logs in, whatever role its sessions take on then (ALTER ROLE … SET role).
_CONNECTED = """
    SELECT pg_catalog.current_setting('max_connections')::int,
        CASE WHEN r.rolsuper THEN 0 ELSE pg_catalog.current_setting('superuser_reserved_connections')::int END,
        CASE WHEN r.rolsuper OR EXISTS (
                SELECT FROM pg_catalog.pg_roles AS p
                WHERE p.rolname = 'pg_use_reserved_connections' AND pg_catalog.pg_has_role(r.oid, p.oid, 'USAGE')
            ) THEN 0 ELSE coalesce(pg_catalog.current_setting('reserved_connections', true), '0')::int END,
        CASE WHEN r.rolsuper THEN -1 ELSE r.rolconnlimit END,
        CASE WHEN r.rolsuper THEN -1 ELSE d.datconnlimit END,
        s.connected, s.of_role, s.of_database, s.unseen, s.unseen_of_database
    FROM pg_catalog.pg_roles AS r, pg_catalog.pg_database AS d,
        (
            SELECT count(*) AS connected, count(*) FILTER (WHERE usename = session_user) AS of_role,
                count(*) FILTER (WHERE datname = %(database)s) AS of_database,
                count(*) FILTER (WHERE backend_type IS NULL) AS unseen,
                count(*) FILTER (WHERE backend_type IS NULL AND datname = %(database)s) AS unseen_of_database
            FROM pg_catalog.pg_stat_activity
            WHERE usesysid IS NOT NULL AND datid IS NOT NULL AND pid <> pg_catalog.pg_backend_pid()
                AND coalesce(backend_type, 'client backend') = 'client backend'
                AND application_name IS DISTINCT FROM 'pgtrial'
                AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_replication AS w WHERE w.pid = pg_stat_activity.pid)
                AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_subscription AS w WHERE w.pid = pg_stat_activity.pid)
        ) AS s
    WHERE r.rolname = session_user AND d.datname = %(database)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Room:
    """Connections that the server allows, keeps for others than the role (``reserved``), and has with others; limits of
    the ``role`` and the ``database`` (-1: none) with what is in use of each. Of how many sessions the role does not see
    what they are is ``unseen``, in all and in the database.
    """

    allowed: int
    reserved: int
    connected: int
    role: tuple[int, int]
    database: tuple[int, int]
    unseen: tuple[int, int]


async def refuse_crowd(server: ExistingServer, database: str | None, *, clients: int) -> None:
    """Raise PreflightError where ``clients`` do not find room beside others; also ConnectError, TargetError.

    Without a ``database`` it is one that pgtrial makes, which has no limit.
    """
    address = server.control.address
    room = await _read_room(server, database or address.database)
    # A role sees what its own sessions are.
    limits = [(f'role "{address.user}"', f"ALTER ROLE {sql_name(address.user)}", *room.role, 0, _OWN)]
    if database is not None:
        alter = f"ALTER DATABASE {sql_name(database)}"
        own = _OWN if database == address.database else _IN_DATABASE
        limits.append((f'database "{database}"', alter, *room.database, room.unseen[1], own))
    for what, alter, limit, used, unseen, own in limits:
        needed = clients + own
        if 0 <= limit < used + needed:
            raise PreflightError(
                f"{needed} connections are needed, and {what} has {max(0, limit - used)} left",
                detail=f"It may have {limit}, and has {used}. {_unknown(unseen, address.user)}{_needs(clients, own)}",
                hint=f"Use fewer clients, or give it more: {alter} CONNECTION LIMIT {used + needed}.",
            )
    needed, free = clients + _OWN, room.allowed - room.reserved - room.connected
    if free < needed:
        kept = f", of which {room.reserved} are kept for superusers and others with a right to them"
        raise PreflightError(
            f"{needed} connections are needed, and the server has {max(0, free)} left",
            detail=f"max_connections is {room.allowed}{kept if room.reserved else ''}; {room.connected} are in use by "
            f"others. {_unknown(room.unseen[0], address.user)}{_needs(clients, _OWN)}",
            hint="Use fewer clients, or wait until others have left: they would be refused as well.",
        )


async def _read_room(server: ExistingServer, database: str) -> "_Room":
    rows = await fetch(server.conninfo(), _CONNECTED, {"database": database})
    ((allowed, reserved, also_reserved, of_role, of_database, connected, by_role, in_database, *unseen),) = rows
    return _Room(
        allowed=allowed,
        reserved=reserved + also_reserved,
        connected=connected,
        role=(of_role, by_role),
        database=(of_database, in_database),
        unseen=(unseen[0], unseen[1]),
    )


def _needs(clients: int, own: int) -> str:
    return f"The workload has up to {clients} clients; pgtrial itself needs {own} connections."


def _unknown(unseen: int, user: str) -> str:
    if not unseen:
        return ""
    return (
        f"Of {unseen} of these the role does not see whether they are clients; workers of parallel queries and of "
        f"extensions, which need no connection, would be counted as well. With GRANT pg_monitor TO {sql_name(user)} it "
        "does. "
    )
