"""Facts of a running server: its version, and how it was built."""

from pgtrial.engine.fingerprint.read import VERSION_FACT
from pgtrial.postgres.connect import fetch

_VERSION = "SELECT version(), current_setting('server_version')"
_MAY_ASK = "SELECT has_function_privilege('pg_catalog.pg_config()', 'EXECUTE')"
_BUILD = "SELECT name, setting FROM pg_catalog.pg_config() WHERE name IN ('CC', 'CFLAGS', 'CONFIGURE')"
_NAMES = {"CC": "compiler", "CFLAGS": "compiler flags", "CONFIGURE": "configured with"}


async def read_server(conninfo: str) -> dict[str, str]:
    """Group "PostgreSQL"; settings are read elsewhere. How it was built is told to superusers only."""
    ((version, number),) = await fetch(conninfo, _VERSION)
    facts = {VERSION_FACT: number.split()[0], "PostgreSQL/build": version}
    if (await fetch(conninfo, _MAY_ASK))[0][0]:
        facts |= {f"PostgreSQL/{_NAMES[name]}": value for name, value in await fetch(conninfo, _BUILD)}
    return facts
