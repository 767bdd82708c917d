"""The privileges of pgtrial's role on an existing server, and what each missing one costs the analysis."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from psycopg import Error
from psycopg.rows import dict_row

from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.model.caveat import NO_ALL_SETTINGS
from pgtrial.postgres.connect import connect
from pgtrial.postgres.existing.server import ExistingServer
from pgtrial.safe_text import sql_name

# The role that a provider gives its customers instead of a superuser.
PROVIDERS: Mapping[str, str] = {
    "rds_superuser": "Amazon RDS or Aurora",
    "cloudsqlsuperuser": "Google Cloud SQL",
    "alloydbsuperuser": "Google AlloyDB",
    "azure_pg_admin": "Azure Database for PostgreSQL",
    "neon_superuser": "Neon",
    "supabase_admin": "Supabase",
    "avnadmin": "Aiven",
    "doadmin": "DigitalOcean",
    "tsdbadmin": "Timescale",
}

_ONLY_WRITES = "no-checkpoint"  # what has no meaning where nothing is written
_RIGHTS = """
    SELECT r.rolsuper AS superuser, r.rolsuper OR r.rolcreatedb AS create_database,
        pg_catalog.pg_has_role(r.oid, 'pg_read_all_stats', 'USAGE') AS read_statistics,
        pg_catalog.pg_has_role(r.oid, 'pg_read_all_settings', 'USAGE') AS read_settings,
        pg_catalog.pg_has_role(r.oid, 'pg_checkpoint', 'USAGE') AS checkpoint,
        pg_catalog.has_function_privilege(r.oid, 'pg_catalog.pg_reload_conf()', 'EXECUTE') AS reload,
        pg_catalog.has_table_privilege(r.oid, 'pg_catalog.pg_file_settings', 'SELECT')
            AND pg_catalog.has_function_privilege(r.oid, 'pg_catalog.pg_show_all_file_settings()', 'EXECUTE')
            AND pg_catalog.has_function_privilege(r.oid, 'pg_catalog.pg_stat_file(text)', 'EXECUTE') AS read_files,
        coalesce(pg_catalog.current_setting('allow_alter_system', true), 'on') = 'on' AS alter_system_allowed,
        ARRAY(SELECT p.rolname::text FROM pg_catalog.pg_roles AS p WHERE p.rolname = ANY (%s)) AS provider_roles
    FROM pg_catalog.pg_roles AS r WHERE r.rolname = current_user
"""
_ALTERABLE = """
    SELECT name, pg_catalog.has_parameter_privilege(name, 'ALTER SYSTEM') FROM pg_catalog.unnest(%s::text[]) AS name
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """``settings`` says of each setting asked for whether ALTER SYSTEM may change it; ``read_auto_conf`` whether
    postgresql.auto.conf can be read, in whichever way. ``provider`` is "" for a server that looks like no provider's.
    ``database`` is the one that was connected to: rights on functions are those in it.
    """

    user: str
    database: str
    superuser: bool
    create_database: bool
    read_statistics: bool
    read_settings: bool
    read_files: bool
    read_auto_conf: bool
    checkpoint: bool
    reload: bool
    alter_system_allowed: bool
    settings: Mapping[str, bool]
    provider: str
    in_recovery: bool
    local: bool

    def caveats(self, *, writes: bool = True) -> tuple[CaveatFinding, ...]:
        """What cannot be read or done, once each, with what it costs a load that ``writes`` or one that does not.

        What an arm cannot do without is an error instead, which its knob raises.
        """
        return tuple(found for found in _caveats(self) if writes or found.code != _ONLY_WRITES)


async def probe_rights(server: ExistingServer, settings: Collection[str] = ()) -> Rights:
    """Ask the server what the role may do; ``settings`` are those that the arms set. Changes nothing."""
    async with connect(server.conninfo()) as connection:
        cursor = connection.cursor(row_factory=dict_row)
        found = await (await cursor.execute(_RIGHTS, [list(PROVIDERS)])).fetchone()
        assert found is not None  # the role exists: it is connected
        alterable: dict[str, bool] = {}
        for name in settings:
            with suppress(Error):  # a setting that there is not
                answer = await (await connection.execute(_ALTERABLE, [[name]])).fetchone()
                alterable[name] = bool(answer and answer[1])
    roles = found.pop("provider_roles")
    return Rights(
        **found,
        user=server.control.address.user,
        database=server.control.address.database,
        read_auto_conf=await server.read_auto_conf() is not None,
        settings={name: alterable.get(name, bool(found["superuser"])) for name in settings},
        provider=PROVIDERS[roles[0]] if roles else "",
        in_recovery=server.facts.in_recovery,
        local=server.facts.local,
    )


def _caveats(rights: Rights) -> Iterator[CaveatFinding]:
    role, role_name = rights.user, sql_name(rights.user)
    if rights.provider:
        yield caveat("managed-server", provider=rights.provider)
    if not rights.local:
        yield caveat("no-host")
    if not rights.read_statistics:
        yield caveat("no-monitor", role=role, role_name=role_name)
    if not rights.read_settings:
        yield caveat(NO_ALL_SETTINGS, role=role, role_name=role_name)
    if not rights.checkpoint:
        yield caveat("no-checkpoint", role=role, role_name=role_name)
    if rights.settings and not rights.read_files:
        yield caveat("no-file-settings", role=role, role_name=role_name)
    if rights.in_recovery:
        yield caveat("standby")
