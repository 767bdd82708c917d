"""Units as people and models write them after a number."""

import re
from dataclasses import dataclass, replace

from pgtrial.narrate.quantity import Quantity

_KB = 1024.0

# Words that are counted, in the singular; whatever else follows a number is no unit.
NOUNS = (
    *("block", "run", "client", "arm", "session", "connection", "scenario", "slice", "look", "caveat", "sample"),
    *("replicate", "checkpoint", "dip", "CPU", "core", "load level", "statement", "query", "transaction", "warning"),
)
_SAME = {"core": "CPU", "load level": "level", "connection": "client", "query": "statement", "replicate": "block"}
_PLURALS = {"query": "quer(?:y|ies)"}
_BETWEEN = r"(?:(?!(?:of|and|or|to|in|with|for|at|by|than|from|the|is|was|were|are|as|per|but)\b)[A-Za-z-]+\s+){0,2}?"
_PER_SECOND = r"(?:(?:per|a|each|every)\s+sec(?:ond)?\b|/\s?s(?:ec(?:ond)?)?\b)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What follows a number: ``length`` characters of text; ``factor`` leads to base units."""

    quantity: Quantity
    factor: float
    length: int
    noun: str = ""


def _bytes(name: str, letter: str, power: int) -> tuple[tuple[str, Quantity, float], ...]:
    size = rf"(?:{letter}i?B|{name}bytes?)"
    return (
        (rf"{size}\s?(?:{_PER_SECOND}|ps\b)", Quantity.BYTE_RATE, _KB**power),
        (rf"{size}\b", Quantity.BYTES, _KB**power),
    )


# In the order in which they are tried; a longer one stands before what it begins with.
_UNITS: tuple[tuple[re.Pattern[str], Quantity, float], ...] = tuple(
    (re.compile(pattern), quantity, factor)
    for pattern, quantity, factor in (
        (r"(?:percentage|percent|%)[- ]?points?\b|pp\b|p\.p\.", Quantity.POINTS, 0.01),
        (r"%|percent\b|per cent\b|pct\b", Quantity.PERCENT, 0.01),
        *_bytes("tera", "T", 4),
        *_bytes("giga", "G", 3),
        *_bytes("mega", "M", 2),
        *_bytes("kilo", "[kK]", 1),
        (rf"(?:B|bytes?)\s?{_PER_SECOND}", Quantity.BYTE_RATE, 1.0),
        (r"(?:B|bytes?)\b", Quantity.BYTES, 1.0),
        (r"(?:ns|nanoseconds?)\b", Quantity.SECONDS, 1e-9),
        (r"(?:[µμu]s(?:ec)?|microseconds?)\b", Quantity.SECONDS, 1e-6),
        (r"(?:ms(?:ec)?|milliseconds?)\b", Quantity.SECONDS, 1e-3),
        (r"(?:s|secs?|seconds?)\b(?!/)", Quantity.SECONDS, 1.0),
        (r"(?:min|mins|minutes?)\b", Quantity.SECONDS, 60.0),
        (r"(?:h|hr|hrs|hours?)\b", Quantity.SECONDS, 3600.0),
        (r"(?:d|days?)\b", Quantity.SECONDS, 86400.0),
        (r"(?:tps|TPS|iops|IOPS)\b", Quantity.RATE, 1.0),
        (rf"(?:[A-Za-z]+[ -]){{0,3}}[A-Za-z]*\s?{_PER_SECOND}", Quantity.RATE, 1.0),
        (r"(?:[A-Za-z]+[ -]){0,3}(?:per|a)\s+minute\b|/\s?min\b", Quantity.RATE, 1 / 60),
        (r"(?:×|[xX]|times|fold)(?!\w)(?!\s?[\dA-Z])", Quantity.TIMES, 1.0),
    )
)
_NOUNS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(rf"{_BETWEEN}{_PLURALS.get(noun, f'{noun}s?')}\b"), _SAME.get(noun, noun)) for noun in NOUNS
)
_PREFIX = re.compile(r"(?:(?P<k>[kK]|thousand)|(?P<m>M|million)|(?P<g>G|billion))(?![A-Za-z])")
_PREFIXES = {"k": 1e3, "m": 1e6, "g": 1e9}
_GAP = re.compile(r"[\s\u00a0\u202f\u2009]?-?")


def read_unit(text: str, position: int) -> Unit | None:
    """The unit that begins at ``position``, behind a number; None where there is none."""
    gap = _gap(text, position)
    prefix = _PREFIX.match(text, position + gap)
    if prefix is None or prefix.lastgroup is None:
        return _unit_at(text, position + gap, skipped=gap)
    factor, length = _PREFIXES[prefix.lastgroup], gap + len(prefix[0])
    found = _unit_at(text, position + length + _gap(text, position + length), skipped=length)
    if found is None:
        return Unit(quantity=Quantity.PLAIN, factor=factor, length=length)
    return replace(found, factor=factor * found.factor, length=found.length + _gap(text, position + length))


def _gap(text: str, position: int) -> int:
    found = _GAP.match(text, position)
    return len(found[0]) if found else 0


def _unit_at(text: str, position: int, *, skipped: int) -> Unit | None:
    """The unit exactly at ``position``; its length counts the ``skipped`` characters before it."""
    for pattern, quantity, factor in _UNITS:
        found = pattern.match(text, position)
        if found:
            return Unit(quantity=quantity, factor=factor, length=skipped + len(found[0]))
    for pattern, noun in _NOUNS:
        found = pattern.match(text, position)
        if found:
            return Unit(quantity=Quantity.COUNT, factor=1.0, length=skipped + len(found[0]), noun=noun)
    return None
