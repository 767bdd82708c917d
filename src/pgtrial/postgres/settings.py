"""PostgreSQL settings: write them as a configuration file, read them back, say whether they took."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pgtrial.postgres.connect import connect

_QUERY = """
    SELECT name, setting, coalesce(unit, ''), vartype, source, coalesce(sourcefile, ''), current_setting(name),
        context, pending_restart
    FROM pg_catalog.pg_settings
"""
_HIDDEN_QUERY = """
    SELECT name, value, '', 'string', 'not shown', '', value, '', false
    FROM (SELECT name, current_setting(name, true) AS value FROM unnest(%s::text[]) AS name) AS custom
    WHERE value IS NOT NULL
"""

# These can hold a password: of a standby for its primary, in a command line, of a key.
SECRET = (
    "archive_cleanup_command",
    "archive_command",
    "primary_conninfo",
    "recovery_end_command",
    "restore_command",
    "ssl_passphrase_command",
)
_NOTHING = ("", "(disabled)")
_NOT_SHOWN = "(not shown)"

# In units of bytes and of microseconds; PostgreSQL's own names and steps (guc.c).
_BYTES = {"B": 1, "kB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
_TIME = {"us": 1, "ms": 1000, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}
_TRUE = ("on", "true", "yes", "1", "t", "y", "tr", "tru", "ye")
_FALSE = ("off", "false", "no", "0", "f", "n", "of", "fa", "fal", "fals")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A row of pg_settings; ``shown`` is the value as SHOW prints it, ``value`` in the setting's own ``unit``.

    ``context`` says when it can change ("postmaster": at server start), "" where that is not known; ``pending``: it has
    been given another value, which waits for a restart.
    """

    name: str
    value: str
    unit: str
    vartype: str
    source: str
    source_file: str
    shown: str
    context: str = ""
    pending: bool = False


async def read_settings(conninfo: str, *, also: Iterable[str] = ()) -> dict[str, Setting]:
    """Every setting the server shows, by lower-case name.

    ``also`` names settings that pg_settings leaves out although they are set: custom ones of no loaded extension. Those
    that can hold a password are "(not shown)" unless they are named there, as an experiment file names them.
    """
    async with connect(conninfo) as connection:
        rows = await (await connection.execute(_QUERY)).fetchall()
        known = {str(row[0]).lower() for row in rows}
        hidden = [name for name in also if name.lower() not in known]
        if hidden:
            rows += await (await connection.execute(_HIDDEN_QUERY, [hidden])).fetchall()
    named = {name.lower() for name in also}
    found = {}
    for name, value, unit, vartype, source, source_file, shown, context, pending in rows:
        key = str(name).lower()
        is_hidden = key in SECRET and key not in named and value not in _NOTHING
        found[key] = Setting(
            name=name,
            value=_NOT_SHOWN if is_hidden else value,
            unit=unit,
            vartype=vartype,
            source=source,
            source_file=source_file,
            shown=_NOT_SHOWN if is_hidden else shown,
            context=context,
            pending=pending,
        )
    return found


def render_settings(settings: Mapping[str, str]) -> str:
    """Text of a configuration file."""
    return "".join(f"{name} = '{_quoted(value)}'\n" for name, value in settings.items())


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''")


def find_mismatches(
    wanted: Mapping[str, str], actual: Mapping[str, Setting], *, source_file: str
) -> tuple[tuple[str, str, str], ...]:
    """(name, wanted, what the server has and why) of the settings that did not take.

    A setting took when its value is the wanted one, as the server writes it, and it came from ``source_file``.
    """
    mismatches = []
    for name, value in wanted.items():
        setting = actual.get(name.lower())
        if setting is None:
            mismatches.append((name, value, "a setting that the server does not show"))
        elif not is_alike(value, setting):
            mismatches.append((name, value, f"{setting.shown} (source: {setting.source})"))
        elif setting.source_file and setting.source_file != source_file:
            mismatches.append((name, value, f"{setting.shown} (from {setting.source_file})"))
    return tuple(mismatches)


def is_same(wanted: str, setting: Setting) -> bool:
    """Whether a value as written means what the server has."""
    match setting.vartype:
        case "bool":
            text = wanted.strip().lower()
            return (text in _TRUE) == (setting.value == "on") and (text in _TRUE or text in _FALSE)
        case "enum":
            text, value = wanted.strip().lower(), setting.value.lower()
            # Several enums also take boolean words: "true" for huge_pages = on, and the like; wal_compression = on
            # reads back as the method that it means.
            return text == value or (text in _TRUE and value in ("on", "pglz")) or (text in _FALSE and value == "off")
        case "integer" | "real":
            number = _in_unit(wanted, setting.unit)
            if number is None:
                return False
            # -1 (and 0 for a few) asks the server to choose; what it chose is then shown, with another source.
            if number <= 0 and setting.source in ("override", "dynamic default"):
                return True
            actual = float(setting.value)
            rounding = 0.5 if setting.vartype == "integer" else 0.0
            return abs(number - actual) <= rounding + 1e-9 * max(abs(number), abs(actual))
    return wanted == setting.value


def is_alike(wanted: str, setting: Setting) -> bool:
    """As ``is_same``, but the server may have tidied a text (DateStyle): the case of letters, blanks, quotes."""
    return is_same(wanted, setting) or (setting.vartype in ("string", "enum") and _tidy(wanted) == _tidy(setting.value))


def _tidy(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter not in " \t\"'")


def _in_unit(text: str, unit: str) -> float | None:
    """A number with an optional unit, in the setting's unit, such as "8kB" (blocks), "ms", "" (plain)."""
    match = re.fullmatch(
        r"\s*(?P<number>[-+]?(?:0x[0-9a-fA-F]+|[0-9.]+(?:[eE][-+]?[0-9]+)?))\s*(?P<unit>[A-Za-z]*)\s*", text
    )
    if match is None:
        return None
    try:
        written = match["number"]
        number = float(int(written, 16)) if "0x" in written else float(written)
    except ValueError:
        return None
    if not match["unit"]:
        return number
    step = re.fullmatch(r"(?P<count>\d*)(?P<unit>[A-Za-z]+)", unit)
    for units in (_BYTES, _TIME):
        if step is not None and match["unit"] in units and step["unit"] in units:
            return number * units[match["unit"]] / (units[step["unit"]] * int(step["count"] or 1))
    return None
