"""Whether a text is a value that PostgreSQL takes for a setting: the rules of its guc.c, without a server."""

import re
from dataclasses import dataclass

from pgtrial.units import format_bytes

_BYTES = {"B": 1, "kB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
_MICROSECONDS = {"us": 1, "ms": 1000, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}
_TRUE = ("on", "true", "yes", "1")
_FALSE = ("off", "false", "no", "0")
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


def read_number(facts: SettingFacts, text: str) -> float | None:
    """The value in the setting's own unit, rounded as the server does; None if it is not one."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    if match["hexadecimal"]:
        number = float(int(match["hexadecimal"], 16))
    elif match["octal"]:
        number = float(int(match["octal"], 8))
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
    return bool(word) and word != "o" and any(true.startswith(word) for true in (*_TRUE, *_FALSE))


def _enum_fault(facts: SettingFacts, text: str) -> tuple[str, str] | None:
    accepted = {choice.lower() for choice in facts.choices}
    # An enum that has grown out of a boolean still takes the boolean's words, without showing them.
    if "on" in accepted:
        accepted.update(_TRUE)
    if "off" in accepted:
        accepted.update(_FALSE)
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
