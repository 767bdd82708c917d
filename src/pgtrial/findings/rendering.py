"""From a template and named values to a sentence in the language in use.

A template names its values with the way to write them: ``{share:percent}``, ``{parts:list}``, ``{arms:and}``. Without
one a value is a text, a whole number, or a message of its own. ``list percent`` writes each part of a list.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from string import Formatter
from typing import Any

from pgtrial.findings.catalogue.base import Plural, Template
from pgtrial.language import ENGLISH, find_language, find_plural, find_text, ptr, speak, tr
from pgtrial.units import (
    format_bytes,
    format_change,
    format_count,
    format_decimal,
    format_duration,
    format_percent,
    format_share,
    format_significant,
    format_times,
)

_MOST_NAMED = 5  # of a list in one sentence
UNKNOWN = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a value is written, and the base unit in which it is given: "s", "B", "ratio", … or "" for none."""

    unit: str
    write: Callable[[Any], str]


def _decimal(digits: int) -> Way:
    return Way(unit="", write=lambda value: format_decimal(value, digits))


def _significant(digits: int) -> Way:
    return Way(unit="", write=lambda value: format_significant(value, digits))


def join_and(parts: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return _join(parts, tr("{words} and {last}"))


def _join_or(parts: Sequence[str]) -> str:
    return _join(parts, tr("{words} or {last}"))


def _join(parts: Sequence[str], template: str) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return template.format(words=", ".join(parts[:-1]), last=parts[-1])


def _first(parts: Sequence[str]) -> str:
    left = len(parts) - _MOST_NAMED
    names = ", ".join(parts[:_MOST_NAMED])
    return names if left <= 0 else tr("{names} and {number} more", names=names, number=left)


def _short_percent(share: float) -> str:
    return f"{format_decimal(share * 100, 0 if abs(share) >= 0.0995 else 1)} %"


def _short(value: float) -> str:
    return format_decimal(value, 0) if abs(value) >= 10 else format_significant(value, 2)


def _as_in_file(seconds: float) -> str:
    """As an experiment file has it, which is the same in all languages."""
    with speak(find_language(ENGLISH)):
        return format_duration(seconds).replace(" ", "")


WAYS = {
    "percent": Way(unit="ratio", write=format_percent),  # what was measured: "12.3 %"
    "whole_percent": Way(unit="ratio", write=lambda share: format_decimal(share * 100, 0) + " %"),
    "short_percent": Way(unit="ratio", write=_short_percent),  # "72 %", "6.1 %"
    "short": Way(unit="", write=_short),  # "0.35", "6.1", "120"
    "difference": Way(unit="ratio", write=lambda share: format_percent(share, signed=True)),  # "+12.3 %"
    "share": Way(unit="ratio", write=format_share),  # what somebody chose, or may be far below 0.1 %: "95 %"
    "change": Way(unit="ratio", write=format_change),  # arm / control: 1.068 is "+6.8 %"
    "times": Way(unit="ratio", write=format_times),  # the same: "2.3 times"
    "duration": Way(unit="s", write=format_duration),
    "file_duration": Way(unit="s", write=_as_in_file),
    "bytes": Way(unit="B", write=format_bytes),
    "bytes_per_second": Way(unit="B/s", write=format_bytes),  # in a sentence that says "per second"
    "byte_rate": Way(unit="B/s", write=lambda rate: ptr("unit", "{size}/s", size=format_bytes(rate))),
    "count": Way(unit="", write=format_count),  # "12.3 k"
    "per_second": Way(unit="1/s", write=format_count),
    "name": Way(unit="", write=find_text),  # of a criterion, in English, which is translated
    **{f"decimal{digits}": _decimal(digits) for digits in range(5)},
    **{f"significant{digits}": _significant(digits) for digits in range(1, 7)},
}
# Ways to write a sentence inside of another one.
CLAUSES: dict[str, Callable[[str], str]] = {"lowered": lambda text: f"{text[:1].lower()}{text[1:]}"}
# Ways to write a list, whose parts may have a way of their own.
LISTS: dict[str, Callable[[Sequence[str]], str]] = {
    "list": ", ".join,
    "items": "; ".join,
    "beside": " / ".join,
    "sentences": " ".join,
    "first": _first,
    "and": join_and,
    "or": _join_or,
}


def render(template: Template, values: Mapping[str, Any]) -> str:
    """The sentence. Raises ValueError for a value that is missing, or that has no way to be written."""
    if isinstance(template, tuple):
        return " ".join(render(sentence, values) for sentence in template)
    if isinstance(template, Plural):
        text = find_plural(template.one, template.many, values[template.by])
    else:
        text = find_text(template)
    ratios = [values.get(name) for name, way in _parse(text) if way == "change"]
    parts = []
    for literal, name, way, _ in Formatter().parse(text):
        parts.append(literal)
        if name is not None:
            if name not in values:
                raise ValueError(f'"{template}" needs a value for "{name}"')
            if way == "change" and values[name] is not None:
                parts.append(format_change(values[name], *ratios))  # in one form, as one sentence names them
            else:
                parts.append(write_value(values[name], way or ""))
    return "".join(parts)


def write_value(value: Any, way: str = "") -> str:
    """A value as it stands in a sentence."""
    shape, _, rest = way.partition(" ")
    if shape in LISTS:
        return LISTS[shape]([write_value(part, rest) for part in value])
    if shape in CLAUSES:
        return CLAUSES[shape](write_value(value, rest))
    if way:
        return UNKNOWN if value is None else WAYS[way].write(value)
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if hasattr(value, "say"):
        return str(value.say())
    raise ValueError(f"there is no way to write {value!r}: the template must name one")


def placeholders(template: Template) -> dict[str, str]:
    """Names of a template's values, with their ways."""
    if isinstance(template, tuple):
        return {name: way for sentence in template for name, way in _parse(sentence)}
    if isinstance(template, Plural):
        return {template.by: "", **placeholders(template.one), **placeholders(template.many)}
    return dict(_parse(template))


@cache
def _parse(template: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, way or "") for _, name, way, _ in Formatter().parse(template) if name is not None)


def unit_of(way: str) -> str:
    """Base unit of what a way writes."""
    last = way.rpartition(" ")[2]
    return WAYS[last].unit if last in WAYS else ""
