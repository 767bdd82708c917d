"""Check that settings of an existing server can be changed and put back, before anything is touched."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, Error

from pgtrial.errors import SettingError
from pgtrial.knobs.postgresql import LISTS
from pgtrial.postgres.auto_conf import is_setting_name, setting_key
from pgtrial.postgres.connect import connect
from pgtrial.postgres.existing.rights import Rights
from pgtrial.postgres.existing.server import ExistingServer
from pgtrial.postgres.settings import SECRET, Setting, is_alike
from pgtrial.safe_text import sql_name

# What overrides the configuration files, by its name in pg_settings.source.
_OVERRIDES: Mapping[str, str] = {
    "command line": "the server's command line",
    "global": "ALTER ROLE ALL SET",
    "database": "ALTER DATABASE SET",
    "user": "ALTER ROLE SET",
    "database user": "ALTER ROLE … IN DATABASE … SET",
    "client": "PGOPTIONS, or options in the connection string",
}
_IN_DATABASE = ("database", "database user")

# Errors that keep the server from loading anything at all; a value that is refused concerns its own setting only.
_ERRORS = """
    SELECT sourcefile, sourceline, error FROM pg_catalog.pg_file_settings
    WHERE error IS NOT NULL AND error <> 'setting could not be applied' ORDER BY seqno
"""
# The time of a file is told in whole seconds.
_CHANGED_FILES = """
    SELECT sourcefile FROM (SELECT DISTINCT sourcefile FROM pg_catalog.pg_file_settings) AS files
    WHERE (pg_catalog.pg_stat_file(sourcefile)).modification
        OPERATOR(pg_catalog.>=) pg_catalog.date_trunc('second', pg_catalog.pg_conf_load_time())
"""
_IN_FILES = """
    SELECT name, setting FROM pg_catalog.pg_file_settings WHERE applied AND sourcefile = ANY (%s) ORDER BY seqno
"""


def setting_refused(name: str, value: str, err: Error) -> SettingError:
    """The error where the server does not take a setting, in its own words."""
    return SettingError(
        f'the server refuses {name} = "{value}": {err.diag.message_primary or err}',
        detail=err.diag.message_detail or "",
        hint=err.diag.message_hint or "",
    )


def check_names(wanted: Mapping[str, str], actual: Mapping[str, Setting]) -> None:
    """Raise SettingError for a setting or a value that ALTER SYSTEM cannot write, or cannot write safely."""
    for name, value in wanted.items():
        key = setting_key(name)
        if not is_setting_name(name) or not name.isascii():
            raise SettingError(
                f'setting "{name}" cannot be set on an existing server',
                detail="A configuration file takes names of ASCII letters with at most one dot.",
            )
        if key not in actual and "." not in name:
            raise SettingError(f'unrecognized setting "{name}"')
        if key in actual and actual[key].context == "internal":
            raise SettingError(f'setting "{name}" cannot be changed')
        if key in SECRET:
            raise SettingError(
                f'setting "{name}" is not changed on an existing server',
                detail="It may contain a password, which pgtrial would have to store to put it back.",
            )
        if "\n" in value or not value.isascii():
            raise SettingError(f'setting "{name}": ALTER SYSTEM accepts only a single line of ASCII')
        if key in LISTS and not value.strip():
            raise SettingError(
                f'setting "{name}" cannot be set to an empty value with ALTER SYSTEM',
                detail="PostgreSQL writes a list of one element without a name for it.",
                hint="Leave it out in all arms, and empty it in postgresql.conf.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A right that is lacking, as a clause; the statement that gives it, "" where there is none to advise, and the
    ``database`` to give it in, "" for the one that was connected to; and what else can be done, a sentence.
    """

    text: str
    grant: str = ""
    database: str = ""
    hint: str = ""


def find_missing(
    rights: Rights, *, system: Sequence[str] = (), session: Sequence[str] = (), own_database: bool = False
) -> tuple[Missing, ...]:
    """Every right that an experiment lacks. ``system`` are the settings that are to change for the whole server, and
    ``rights`` were asked for all these; ``session`` those that a session of the role was refused; ``own_database``: one
    is to be made.
    """
    user, fixed = rights.user, _fixed(rights)
    found = []
    if own_database and not rights.create_database:
        found.append(
            Missing(
                text=f'role "{user}" may not create a database',
                grant=f"ALTER ROLE {sql_name(user)} CREATEDB",
                hint="Or name an existing database with database in [target], which is then read only.",
            )
        )
    if session:
        found.append(
            Missing(
                text=f'role "{user}" may not set {_quoted(session)} in its sessions',
                grant=f"GRANT SET ON PARAMETER {', '.join(session)} TO {sql_name(user)}",
            )
        )
    if not system:
        return tuple(found)
    if not rights.alter_system_allowed:
        text = "the server does not allow ALTER SYSTEM: its allow_alter_system is off"
        return (*found, Missing(text=text, hint=fixed))
    refused = [name for name in system if not rights.settings.get(name, rights.superuser)]
    if refused:
        grant = "" if fixed else f"GRANT ALTER SYSTEM ON PARAMETER {', '.join(refused)} TO {sql_name(user)}"
        text = f'role "{user}" may not change {_quoted(refused)} with ALTER SYSTEM'
        found.append(Missing(text=text, grant=grant, hint=fixed))
    if not rights.reload:
        found.append(
            Missing(
                text=f'role "{user}" may not make the server reload its configuration, in database "{rights.database}"',
                grant=f"GRANT EXECUTE ON FUNCTION pg_reload_conf() TO {sql_name(user)}",
            )
        )
    if not rights.read_auto_conf:
        # The function that reads it for a role reads every other file of the server as well, passwords among them.
        found.append(
            Missing(
                text=f'role "{user}" may not read postgresql.auto.conf, so it could not be put back as it was',
                hint=fixed
                or "Run pgtrial as the server's operating-system user on its machine, or leave the setting out of the "
                'arms, or try them on a copy ("pgtrial copy").',
            )
        )
    return tuple(found)


def refuse_missing(rights: Rights, missing: Sequence[Missing]) -> SettingError:
    """One error that names all that is lacking, and all that would give it."""
    hints = list(dict.fromkeys(one.hint for one in missing if one.hint))
    grants: dict[str, list[str]] = {}
    for one in missing:
        if one.grant:
            grants.setdefault(one.database or rights.database, []).append(one.grant)
    if len(missing) == 1:
        (only,) = missing
        where = f' in database "{only.database}"' if only.database else ""
        allow = [f"A superuser can allow it{where}: {only.grant}."] if grants else []
        return SettingError(only.text, hint=" ".join((*allow, *hints)))
    allow = []
    for database, statements in grants.items():
        lines = "\n".join(f"{statement};" for statement in statements)
        allow.append(f'A superuser can allow it, connected to database "{database}":\n{lines}')
    return SettingError(
        f'role "{rights.user}" lacks {len(missing)} rights that the experiment needs',
        detail="\n".join(f"{one.text[:1].upper()}{one.text[1:]}." for one in missing),
        hint="\n".join((*allow, *hints)),
    )


def check_rights(names: Sequence[str], rights: Rights) -> None:
    """Raise SettingError for what the role may not do; ``rights`` were asked for all these settings."""
    if missing := find_missing(rights, system=names):
        raise refuse_missing(rights, missing)


def check_sources(names: Sequence[str], actual: Mapping[str, Setting], *, in_database: bool) -> None:
    """Raise SettingError for a setting that something stronger than the configuration files sets.

    ``in_database``: ``actual`` is what a session in the load's own database sees.
    """
    for name in names:
        setting = actual.get(setting_key(name))
        if setting is None or setting.source not in _OVERRIDES:
            continue
        if setting.source not in _IN_DATABASE or in_database:
            raise SettingError(
                f'setting "{name}" is set by {_OVERRIDES[setting.source]}, which ALTER SYSTEM does not override',
                detail=f"It is {setting.shown} from there.",
                hint="Remove it there for the duration of the experiment, or leave it out of the arms.",
            )


def check_restart(names: Sequence[str], server: ExistingServer, actual: Mapping[str, Setting]) -> bool:
    """Whether one of the settings needs a restart. SettingError if it does and there can be none."""
    needing = [name for name in names if (found := actual.get(setting_key(name))) and found.context == "postmaster"]
    if not needing:
        return False
    needs = f"{_quoted(needing)} {'needs' if len(needing) == 1 else 'need'} a restart"
    if not server.control.restart_command:
        raise SettingError(
            f"{needs}, and the file gives no restart command",
            hint='Declare it in [target]: restart = ["systemctl", "restart", "postgresql"], or leave the setting out.',
        )
    if not server.facts.files:
        raise SettingError(
            f"{needs}, and pgtrial cannot reach the server's files",
            detail="If the server did not come back with it, postgresql.auto.conf could not be put back.",
            hint="Run pgtrial as root or as the server's operating-system user on the server's machine, or name the "
            'machine with host = "ssh://…" in [target].',
        )
    waiting = sorted(setting.name for setting in actual.values() if setting.pending)
    if waiting:
        raise SettingError(
            f"{_quoted(waiting)} are waiting for a server restart that somebody else must decide on",
            detail="A restart for an arm would apply them, and they would stay.",
            hint="Restart the server first, or put them back.",
        )
    return True


async def check_files(server: ExistingServer, actual: Mapping[str, Setting], rights: Rights) -> None:
    """Raise SettingError if loading the configuration fails, or brings in what somebody else has not loaded yet."""
    if not rights.read_files:
        return  # said once, as a caveat
    async with connect(server.conninfo()) as connection:
        row = await (await connection.execute(_ERRORS)).fetchone()
        if row is not None:
            raise SettingError(
                "the server cannot load its configuration files", detail=f'"{row[0]}", line {row[1]}: {row[2]}.'
            )
        waiting = await _not_loaded(connection, actual)
    if waiting:
        raise SettingError(
            f"{_quoted(waiting)} have values in a configuration file that have not been loaded",
            detail="Loading the settings of an arm would load them too, and they would stay.",
            hint="Load them first (SELECT pg_reload_conf()), or put them back.",
        )


async def _not_loaded(connection: "AsyncConnection[tuple[Any, ...]]", actual: Mapping[str, Setting]) -> Sequence[str]:
    """Settings whose value in a file that was changed since it was loaded is not the one in force."""
    files = [row[0] for row in await (await connection.execute(_CHANGED_FILES)).fetchall()]
    rows = await (await connection.execute(_IN_FILES, [files])).fetchall()
    waiting = []
    for key, value in {setting_key(name): value for name, value in rows}.items():  # the last one holds
        setting = None if key in SECRET else actual.get(key)  # of those the value in force is not read
        if setting is not None and setting.source not in _OVERRIDES and not is_alike(value, setting):
            waiting.append(setting.name)
    return sorted(waiting)


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _fixed(rights: Rights) -> str:
    """What to do where a provider keeps the right."""
    if not rights.provider:
        return ""
    return f"The server looks like one of {rights.provider}: set it there, the same for all arms."
