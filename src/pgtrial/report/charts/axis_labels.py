"""Expressions that label the ticks of axes in the reader's units and language; Vega evaluates them.

The decimal sign is none of theirs: ``number_format`` sets it for every number that a chart prints.
"""

from typing import Any

from pgtrial.language import decimal_sign, ptr

# Axis labels from counts per second, with a decimal prefix.
COUNT_LABEL = "format(datum.value, '.3~s')"


def duration_label() -> str:
    """Of an axis in seconds."""
    us, ms, s = ptr("unit", "µs"), ptr("unit", "ms"), ptr("unit", "s")
    minutes, hours = ptr("unit", "min"), ptr("unit", "h")
    return (
        f"datum.value == 0 ? '0' : abs(datum.value) < 0.000999 ? format(datum.value * 1e6, '.3~r') + ' {us}'"
        f" : abs(datum.value) < 0.999 ? format(datum.value * 1e3, '.3~r') + ' {ms}'"
        f" : abs(datum.value) < 120 ? format(datum.value, '.3~r') + ' {s}'"
        f" : abs(datum.value) < 7200 ? format(datum.value / 60, '.3~r') + ' {minutes}'"
        f" : format(datum.value / 3600, '.3~r') + ' {hours}'"
    )


def bytes_label() -> str:
    """Of an axis in bytes, with PostgreSQL's units."""
    one, kilo, mega, giga = ptr("unit", "B"), ptr("unit", "kB"), ptr("unit", "MB"), ptr("unit", "GB")
    return (
        f"datum.value == 0 ? '0' : datum.value < 1024 ? format(datum.value, '.3~r') + ' {one}'"
        f" : datum.value < 1048576 ? format(datum.value / 1024, '.3~r') + ' {kilo}'"
        f" : datum.value < 1073741824 ? format(datum.value / 1048576, '.3~r') + ' {mega}'"
        f" : format(datum.value / 1073741824, '.3~r') + ' {giga}'"
    )


def number_format() -> dict[str, Any]:
    """What a chart's configuration says about numbers; nothing where they are written as in English."""
    if decimal_sign() == ".":
        return {}
    signs = {"decimal": decimal_sign(), "thousands": "\u00a0", "grouping": [3], "currency": ["", ""]}
    return {"locale": {"number": {**signs, "percent": "\u00a0%"}}}
