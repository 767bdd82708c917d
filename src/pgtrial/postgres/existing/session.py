"""Settings of the load's own sessions: what only they feel, given to libpq when a session begins.

They need no right beyond that of SET, touch no file of the server, and end with the session.
"""

import functools
import re
from collections.abc import Collection, Mapping, Sequence

from psycopg import Error
from psycopg.errors import CantChangeRuntimeParam, InsufficientPrivilege

from pgtrial.errors import ConnectError, SettingError
from pgtrial.postgres.auto_conf import setting_key
from pgtrial.postgres.catalogue import VERSIONS, read_catalogue
from pgtrial.postgres.connect import connect
from pgtrial.postgres.existing.checks import setting_refused
from pgtrial.postgres.existing.server import ExistingServer
from pgtrial.postgres.settings import Setting, is_alike, read_settings

READ_ONLY = "default_transaction_read_only"
# A session can have these from its beginning on, as pg_settings.context names them.
_CONTEXTS = ("user", "superuser", "backend", "superuser-backend")
_ESCAPED = re.compile(r"([\\\s])")
_POOLER = "unsupported startup parameter"


def is_of_session(name: str, actual: Mapping[str, Setting] | None = None) -> bool:
    """Whether a session can have a setting of its own: by what the server says, or without a server, by what the newest
    version says. One that no version has is an extension's, which mostly can.
    """
    if actual is not None:
        setting = actual.get(setting_key(name))
        return setting is None or setting.context in (*_CONTEXTS, "")
    return setting_key(name) in session_settings() or setting_key(name) not in _contexts()


def session_settings() -> frozenset[str]:
    """Settings that a session can have of its own, by lower-case name."""
    return frozenset(name for name, context in _contexts().items() if context in _CONTEXTS)


@functools.cache
def _contexts() -> Mapping[str, str]:
    """The context of every setting in the newest version that has it."""
    return {name.lower(): facts.context for version in VERSIONS for name, facts in read_catalogue(version).items()}


def split_settings(
    wanted: Mapping[str, str], actual: Mapping[str, Setting] | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """(settings of the load's sessions, those that only the server as a whole can have)."""
    own = {name: value for name, value in wanted.items() if is_of_session(name, actual)}
    return own, {name: value for name, value in wanted.items() if name not in own}


def options_of(settings: Mapping[str, str]) -> str:
    """The same as command-line options, as libpq's parameter "options" and PGOPTIONS take them."""
    escaped = {name: _ESCAPED.sub(r"\\\1", value) for name, value in settings.items()}
    return " ".join(f"-c {name}={value}" for name, value in escaped.items())


async def find_refused(server: ExistingServer, database: str, settings: Mapping[str, str]) -> Sequence[str]:
    """Settings that the role may not set. Raises SettingError for a name or value that the server does not take."""
    refused = []
    async with connect(server.conninfo(database)) as connection:
        for name, value in settings.items():
            try:
                await connection.execute(
                    "SELECT pg_catalog.set_config(%s, %s, true)", [name, value]
                )  # a pooler keeps the session
            except InsufficientPrivilege:
                refused.append(name)
            except CantChangeRuntimeParam:
                continue  # only at the beginning of a session, where it is tried soon
            except Error as err:
                raise setting_refused(name, value, err) from err
    return refused


async def read_session(
    server: ExistingServer,
    database: str,
    settings: Mapping[str, str],
    *,
    also: Collection[str] = (),
    by_role: bool = False,
) -> dict[str, Setting]:
    """All settings as a session of the load has them, which begins with them ``by_role`` or by libpq's options.

    Raises SettingError where one is not as it should be.
    """
    options = "" if by_role else options_of(settings)
    try:
        actual = await read_settings(server.conninfo(database, options), also=(*settings, *also))
    except ConnectError as err:
        hint = (
            'A pooler stands between: connect to the server itself, or write settings = "role" in [target].'
            if _POOLER in err.detail
            else ""
        )
        raise SettingError(
            f"the server does not begin a session with {', '.join(settings)}", detail=err.detail, hint=hint
        ) from err
    for name, value in settings.items():
        setting = actual.get(setting_key(name))
        if setting is None or not is_alike(value, setting):
            shown = "not shown" if setting is None else f"{setting.shown} (source: {setting.source})"
            raise SettingError(f'setting "{name}" is {shown} in the load\'s sessions, expected {value}')
    return actual
