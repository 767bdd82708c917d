"""Values in base units for people, in the language in use."""

import math

from pgtrial.language import ptr
from pgtrial.units import format_bytes, format_count, format_duration, format_percent


def format_value(value: float | None, unit: str) -> str:
    """A value in a base unit for people: "93.0 %" of a share, "1.42 ms", "12.3 MB/s", "3 k/s", "2.5 sessions"."""
    if value is None or not math.isfinite(value):
        return "–"
    match unit:
        case "share":
            return format_percent(value)
        case "s":
            return format_duration(value)
        case "B":
            return ("−" if value < 0 else "") + format_bytes(abs(value))
        case "1/s":
            return ptr("unit", "{size}/s", size=format_count(value))
        case "1/min":
            return ptr("unit", "{size}/min", size=format_count(value))
        case "":
            return format_count(value)
        case "sessions":
            return ptr("unit", "{count} sessions", count=format_count(value))
        case "clients":
            return ptr("unit", "{count} clients", count=format_count(value))
    if unit.endswith("/s") and unit != "s/s":  # a second of each second, by many at once, is a number
        return ptr("unit", "{size}/s", size=format_value(value, unit.removesuffix("/s")))
    return f"{format_count(value)} {unit}"


def format_signed(value: float | None, unit: str) -> str:
    """The same of a difference: "+1.2 ms", "−340 µs"."""
    text = format_value(value, unit)
    return f"+{text}" if value is not None and value > 0 else text
