"""Expressions that label the ticks of axes in the reader's units and language; Vega evaluates them.

The decimal sign is none of theirs: the page sets it for all numbers of its charts (script_words.py).
"""

from pgtrial.language import ptr

# From counts per second, with a decimal prefix, and from shares.
COUNT_LABEL = "format(datum.value, '.3~s')"
SHARE_LABEL = "format(datum.value * 100, '.3~r') + ' %'"
_SMALL_COUNT_LABEL = "format(datum.value, datum.value < 1000 ? '.3~g' : '.3~s')"  # sessions are often less than one


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


def value_label(unit: str) -> str:
    """Of an axis in a base unit of the findings."""
    match unit:
        case "share":
            return SHARE_LABEL
        case "s":
            return duration_label()
        case "B":
            return bytes_label()
        case "B/s":
            per_second = ptr("unit", "{size}/s").removeprefix("{size}")
            return f"datum.value == 0 ? '0' : ({bytes_label()}) + '{per_second}'"
        case _:
            return _SMALL_COUNT_LABEL
