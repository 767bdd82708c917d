"""PostgreSQL settings: write them as a configuration file, read them back, and check that they took effect."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pgtrial.postgres.auto_conf import escaped
from pgtrial.postgres.connect import connect
from pgtrial.units import format_bytes

_QUERY = """
    SELECT name, setting, coalesce(unit, ''), vartype, source, coalesce(sourcefile, ''),
        pg_catalog.current_setting(name), context, pending_restart
    FROM pg_catalog.pg_settings
"""
_HIDDEN_QUERY = """
    SELECT name, value, '', 'string', 'not shown', '', value, '', false
    FROM (
        SELECT name, pg_catalog.current_setting(name, true) AS value
        FROM pg_catalog.unnest(%s::pg_catalog.text[]) AS name
    ) AS custom
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
    # As the load's sessions have them, search_path among them.
    async with connect(conninfo, as_user=True) as connection:
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
    return "".join(f"{name} = '{escaped(value)}'\n" for name, value in settings.items())


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


# Whether a text is a value that PostgreSQL takes for a setting: the rules of its guc.c, without a server.


_MICROSECONDS = {"us": 1, "ms": 1000, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}
_TRUE_WORDS = ("on", "true", "yes", "1")
_FALSE_WORDS = ("off", "false", "no", "0")
# strtol with base 0, or strtod where that stops at a point or an exponent; then blanks and a unit.
_NUMBER = re.compile(
    r"\s*(?P<sign>[-+]?)(?:(?P<hexadecimal>0[xX][0-9a-fA-F]+)|(?P<octal>0[0-7]+(?![0-9.eE]))"
    r"|(?P<decimal>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?))\s*(?P<unit>[A-Za-z]*)\s*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingFacts:
    """What pg_settings says of a setting: ``unit`` such as "8kB" or "ms", ``low`` and ``high`` in that unit.

    ``context`` says when it can change ("postmaster": at server start); ``boot`` is the compiled-in default.
    """

    name: str
    vartype: str
    unit: str | None
    low: float | None
    high: float | None
    choices: tuple[str, ...]
    context: str
    boot: str | None

    @property
    def needs_restart(self) -> bool:
        return self.context == "postmaster"

    def read(self, text: str) -> str:
        """A value as the server keeps it, a number in the setting's own unit; as it is written if it is none."""
        word = text.strip().lower()
        match self.vartype:
            case "integer" | "real":
                number = read_number(self, text)
                return text if number is None else f"{number:.12g}"
            case "bool" if _is_boolean(text):
                return "on" if any(true.startswith(word) for true in _TRUE_WORDS) else "off"
            case "enum":
                words = {**dict.fromkeys(_TRUE_WORDS, "on"), **dict.fromkeys(_FALSE_WORDS, "off")}
                return word if word in self.choices else words.get(word, word)
        return text


def find_fault(facts: SettingFacts, text: str) -> tuple[str, str] | None:
    """Message and hint ("" for none) if the server would refuse ``text``; None if not, or if only it can know."""
    match facts.vartype:
        case "bool":
            return None if _is_boolean(text) else (_invalid(facts, text), "Available values: on, off.")
        case "enum":
            return _enum_fault(facts, text)
        case "integer" | "real":
            return _number_fault(facts, text)
    return None


def _to_float(digits: str, base: int) -> float:
    try:
        return float(int(digits, base))
    except OverflowError:
        return math.inf


def read_number(facts: SettingFacts, text: str) -> float | None:
    """The value in the setting's own unit, rounded as the server does; None if it is not one."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    if match["hexadecimal"]:
        number = _to_float(match["hexadecimal"], 16)
    elif match["octal"]:
        number = _to_float(match["octal"], 8)
    else:
        number = float(match["decimal"])
    if match["unit"]:
        factor = _factor(match["unit"], facts.unit)
        if factor is None:
            return None
        number *= factor
    number = -number if match["sign"] == "-" else number
    return float(round(number)) if facts.vartype == "integer" and abs(number) < 1e15 else number


def _is_boolean(text: str) -> bool:
    # As parse_bool: any unique beginning of a word. "o" alone could be on or off.
    word = text.strip().lower()
    return bool(word) and word != "o" and any(true.startswith(word) for true in (*_TRUE_WORDS, *_FALSE_WORDS))


def _enum_fault(facts: SettingFacts, text: str) -> tuple[str, str] | None:
    accepted = {choice.lower() for choice in facts.choices}
    # An enum that has grown out of a boolean still takes the boolean's words, without showing them.
    if "on" in accepted:
        accepted.update(_TRUE_WORDS)
    if "off" in accepted:
        accepted.update(_FALSE_WORDS)
    if text.lower() in accepted:
        return None
    return _invalid(facts, text), f"Available values: {', '.join(facts.choices)}."


def _number_fault(facts: SettingFacts, text: str) -> tuple[str, str] | None:
    number = read_number(facts, text)
    if number is None:
        return _invalid(facts, text), _unit_hint(facts)
    assert facts.low is not None, facts.name  # every number in pg_settings has a range
    assert facts.high is not None, facts.name
    if facts.low <= number <= facts.high:
        return None
    message = (
        f'{text} is outside the valid range for setting "{facts.name}" '
        f"({_in_units(facts.low, facts.unit)} .. {_in_units(facts.high, facts.unit)})"
    )
    bare = facts.unit is not None and not text.strip()[-1:].isalpha()
    return message, f"Without a unit the value counts in {_one(facts.unit)}." if bare else ""


def _invalid(facts: SettingFacts, text: str) -> str:
    return f'invalid value for setting "{facts.name}": "{text}"'


def _unit_hint(facts: SettingFacts) -> str:
    for units in (_BYTES, _MICROSECONDS):
        if facts.unit is not None and _base(facts.unit)[1] in units:
            return f"Give a number with a unit: {', '.join(units)}."
    return "Give a whole number without a unit." if facts.vartype == "integer" else "Give a number without a unit."


def _base(unit: str) -> tuple[int, str]:
    """(8, "kB") of "8kB"."""
    match = re.fullmatch(r"(\d*)([A-Za-z]+)", unit)
    assert match is not None, unit
    return int(match[1] or 1), match[2]


def _factor(written: str, unit: str | None) -> float | None:
    """How many of the setting's units one of the written units is."""
    if unit is None:
        return None
    count, base = _base(unit)
    for units in (_BYTES, _MICROSECONDS):
        if written in units and base in units:
            return units[written] / (units[base] * count)
    return None


def _one(unit: str | None) -> str:
    return {"8kB": "blocks of 8kB"}.get(unit or "", unit or "")


def _in_units(value: float, unit: str | None) -> str:
    """A limit as one would write it: 16 blocks of 8kB are "128kB", one of 2^31 - 1 kB is about "2TB"."""
    if unit is None or value <= 0:
        return f"{value:.12g}"
    count, base = _base(unit)
    units = _BYTES if base in _BYTES else _MICROSECONDS
    total = value * count * units[base]
    for name, size in reversed(units.items()):
        if total % size == 0 and total / size < 1e6:
            return f"{total / size:.12g}{name}"
    return format_bytes(total).replace(" ", "") if units is _BYTES else f"{value * count:.12g}{base}"
