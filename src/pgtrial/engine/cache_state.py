"""The state of the caches in which a run begins: cold, or warm."""

from pgtrial.errors import SettingError, TargetError
from pgtrial.hosts.base import Host
from pgtrial.postgres.connect import connect, execute

_DROP = "/proc/sys/vm/drop_caches"
# Small relations first: they are read often, and what no longer fits into shared_buffers pushes out what came before.
_RELATIONS = """
    SELECT c.oid FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'm', 'i', 't') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    ORDER BY pg_catalog.pg_relation_size(c.oid) DESC
"""


async def make_cold(host: Host) -> None:
    """Write out what is dirty and drop the host's whole page cache; it holds for everybody on the host.

    Raises SettingError without root. Source: Documentation/admin-guide/sysctl/vm.rst, drop_caches.
    """
    await host.run(["sync"])
    try:
        host.ops.write(_DROP, "3")
    except OSError as err:
        raise SettingError(
            f"cannot drop the page cache: {err.strerror}", hint='cache = "cold" in [design] needs root on the host.'
        ) from err


async def make_warm(conninfo: str) -> None:
    """Read all relations of the load's database into shared_buffers, as far as they fit, the small ones last.

    Raises TargetError if the server does not have the extension pg_prewarm.
    """
    try:
        await execute(conninfo, "CREATE EXTENSION IF NOT EXISTS pg_prewarm")
    except TargetError as err:
        raise TargetError(
            f"cannot fill the cache: {err.message}",
            hint='cache = "warm" in [design] needs the extension pg_prewarm (package postgresql-contrib).',
        ) from err
    async with connect(conninfo) as connection:
        await connection.execute("SET statement_timeout = 0")
        for (oid,) in await (await connection.execute(_RELATIONS)).fetchall():
            await connection.execute("SELECT pg_prewarm(%s::oid::regclass)", [oid])
