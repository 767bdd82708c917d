"""Formats of C's printf as patterns: what was printed with a format is taken apart by the same format.

A server's messages are such formats, in its own language and in English, so the values of a message in one language
can be put into the format of the other. Length modifiers ("%lld", "%zu") are left out of all formats: they differ
between versions and platforms, and say nothing about the text.
"""

import re
from collections.abc import Mapping

_CONVERSION = re.compile(
    r"%(?:(?P<position>\d+)\$)?(?P<flags>[-+ #0']*)(?P<width>\d*)(?P<precision>\.\d*)?"
    r"(?:hh|h|ll|l|q|j|z|t|L)?(?P<type>[diouxXeEfFgGcspm%])"
)
_NUMBERS = {
    **dict.fromkeys("di", r"-?\d+"),
    "u": r"\d+",
    "o": r"[0-7]+",
    **dict.fromkeys("xXp", r"(?:0x)?[0-9A-Fa-f]+"),
    **dict.fromkeys("eEfFgG", r"(?:-?\d+(?:[.,]\d+)?(?:[eE][+-]?\d+)?|-?inf(?:inity)?|-?nan|-?Infinity|NaN)"),
    "c": r".",
}


def without_lengths(text: str) -> str:
    """The format without length modifiers and without the line's end: by this it is known in all versions."""

    def shorten(match: re.Match[str]) -> str:
        position = f"{match['position']}$" if match["position"] else ""
        return f"%{position}{match['flags']}{match['width']}{match['precision'] or ''}{match['type']}"

    return _CONVERSION.sub(shorten, text).rstrip("\n")


def literal_length(text: str) -> int:
    """Characters of the format that are printed as they stand: the more, the fewer other texts fit it."""
    return len(_CONVERSION.sub("", text))


def compile_format(text: str) -> re.Pattern[str]:
    """Pattern of what is printed with a format. Group "v1" is its first argument, and so on, also where the format
    takes them in another order ("%2$s"). The texts of "%s" are as short as the rest allows.
    """
    pattern, last, number = "", 0, 0
    for match in _CONVERSION.finditer(text):
        pattern += re.escape(text[last : match.start()])
        last = match.end()
        kind = match["type"]
        if kind == "%":
            pattern += "%"
            continue
        number += 1
        place = match["position"] or str(number)
        value = _NUMBERS.get(kind, r".*?")
        padding = r"\s*" if match["width"] and "0" not in match["flags"] else ""
        group = f"(?P<v{place}>{value})" if f"(?P<v{place}>" not in pattern else f"(?P=v{place})"
        pattern += f"{padding}{group}{padding}"
    return re.compile(pattern + re.escape(text[last:]), re.DOTALL)


def fill(text: str, values: Mapping[str, str | None]) -> str:
    """The format with texts in place of its conversions: "v1" for the first, and so on, "" for what is missing."""
    number = 0

    def put(match: re.Match[str]) -> str:
        nonlocal number
        if match["type"] == "%":
            return "%"
        number += 1
        return values.get(f"v{match['position'] or number}") or ""

    return _CONVERSION.sub(put, text)
