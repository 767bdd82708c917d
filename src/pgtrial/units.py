"""Convert human-readable units at the boundary: read "64MB" and "5min", write "1.42 ms" and "12.3 k/s"."""

import math
import re

from pgtrial.language import decimal_sign, ntr, ptr, tr

_NUMBER = r"([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
_DURATION = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"B": 1, "kB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
# In all languages: what is printed may be a mixture, as of a name and a translated sentence.
_TIES = re.compile(r"(?<=\d) (?=%|(?:[µm]?s|min|h|[kMGT]?B|м?к?с|мин|ч|[кМГТ]?Б)\b)|(?<=×) (?=\d)")
_FACTOR = 10  # times, from which on a change in per cent is no figure to read
_MOST_TIMES = 10_000  # as much; of more nobody wants the figure
_COUNT = re.compile(r"[0-9]{1,20}")  # 64 bits have no more digits
_NEARLY_WHOLE = 0.9999  # share


def parse_duration(text: str) -> float:
    """Seconds of "500ms", "30s", "10min", "2h", "1d"; ValueError with the allowed units otherwise."""
    return _parse(text, _DURATION, "a time such as 30s or 10min")


def parse_bytes(text: str) -> float:
    """Bytes of "8kB", "64MB", "2GB"; units as PostgreSQL writes them, in steps of 1024."""
    return _parse(text, _BYTES, "a size such as 64MB or 2GB")


def parse_ratio(text: str) -> float:
    """0.03 of "3%"."""
    match = re.fullmatch(_NUMBER + r"\s*%", text.strip())
    if match is None:
        raise ValueError(f'expected a percentage such as "3%", got "{text}"')
    share = float(match[1]) / 100
    if not math.isfinite(share):
        raise ValueError(f'"{text}" is too large')
    return share


def read_count(text: str) -> int | None:
    """A whole number as programs and /proc print it; None for other text, and for one that no counter can reach."""
    return int(text) if _COUNT.fullmatch(text) else None


def read_share(text: str) -> float:
    """0.5 of "50%" and of "0.5", the two ways in which a share may be written in an experiment file."""
    return parse_ratio(text) if "%" in text else float(text)


def _parse(text: str, factors: "dict[str, float] | dict[str, int]", what: str) -> float:
    match = re.fullmatch(_NUMBER + r"\s*([A-Za-z]*)", text.strip())
    if match is None or match[2] not in factors:
        raise ValueError(f'expected {what} (units: {", ".join(factors)}), got "{text}"')
    value = float(match[1]) * factors[match[2]]
    if not math.isfinite(value):
        raise ValueError(f'"{text}" is too large')
    return value


def format_duration(seconds: float) -> str:
    """Two leading parts at most: "1.42 ms", "12.3 s", "3 min 20 s", "2 h 5 min"."""
    if not math.isfinite(seconds):
        return "–"
    if seconds < 0:
        return "−" + format_duration(-seconds)
    # Each limit is where three digits round up to the next unit: 999.5 µs is written 1 ms.
    if 0 < seconds < 0.9995e-3:
        return _with_unit(f"{seconds * 1e6:.3g}", ptr("unit", "µs"))
    if 0 < seconds < 0.9995:
        return _with_unit(f"{seconds * 1e3:.3g}", ptr("unit", "ms"))
    if seconds < 59.95:
        return _with_unit(f"{seconds:.3g}", ptr("unit", "s"))
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return _two_parts(minutes, ptr("unit", "min"), rest, ptr("unit", "s"))
    hours, minutes = divmod(round(seconds / 60), 60)
    return _two_parts(hours, ptr("unit", "h"), minutes, ptr("unit", "min"))


def format_count(value: float) -> str:
    """Three significant digits with a decimal prefix: "950", "12.3 k", "4.56 M"."""
    if not math.isfinite(value):
        return "–"
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor * 0.9995:
            return f"{_minus(_significant(value / factor))} {prefix}"
    return _minus(_significant(value))


def format_bytes(value: float) -> str:
    """Three significant digits with PostgreSQL's units: "8 kB", "1.5 GB"."""
    if not math.isfinite(value):
        return "–"
    for unit, factor in reversed(_BYTES.items()):
        if abs(value) >= factor * 0.9995 or unit == "B":
            return f"{_significant(value / factor)} {_byte_unit(unit)}"
    raise AssertionError  # "B" ends the search


def format_percent(share: float, *, signed: bool = False) -> str:
    """A measured ratio: 0.123 is "12.3 %"; a difference has a plus sign."""
    if not math.isfinite(share):
        return "–"
    digits = 1 if abs(share) < 0.9995 else 0
    percent = round(share * 100, digits) + 0.0  # adding zero turns -0.0 into 0.0
    sign = "+" if signed and percent > 0 else ""
    return _minus(with_decimal_sign(f"{sign}{percent:.{digits}f} %"))


def format_share(share: float) -> str:
    """ "95 %", "2.5 %": a share that somebody chose, without superfluous digits; only a whole is "100 %"."""
    digits = 4 if share < _NEARLY_WHOLE else 8
    return with_decimal_sign(f"{share * 100:.{digits}g} %")


def format_change(ratio: float, *beside: float | None) -> str:
    """The ratio of arm to control as a signed change: 1.068 is "+6.8 %"; from ten times on as a factor: "× 12.3".

    ``beside`` are the ratios that are read together with it, as the other end of its interval: all have one form, so
    that 8.94 beside 13 is "× 8.94".
    """
    if ratio > _MOST_TIMES:
        return tr("more than × {times}", times=_MOST_TIMES)
    is_factor = math.isfinite(ratio) and any(one is not None and one >= _FACTOR for one in (ratio, *beside))
    if is_factor and ratio < 1 / _MOST_TIMES:
        return tr("less than × {times}", times=with_decimal_sign(f"{1 / _MOST_TIMES:.4f}"))
    return f"× {_significant(ratio)}" if is_factor else format_percent(ratio - 1, signed=True)


def format_times(ratio: float) -> str:
    """The same ratio in words: "2.3 times", "0.30 times", "12.3 times", "more than 10000 times"."""
    if ratio > _MOST_TIMES:
        return tr("more than {times} times", times=_MOST_TIMES)
    if ratio < 0.01:
        return tr("less than {times} times", times=with_decimal_sign("0.01"))
    times = _significant(ratio) if ratio >= 10 else with_decimal_sign(f"{ratio:.{1 if ratio >= 2 else 2}f}")
    # A number with a fraction takes the form that 2 takes, in each of the languages.
    return ntr("{times} time", "{times} times", int(times) if times.isdecimal() else 2, times=times)


def format_decimal(value: float, digits: int) -> str:
    """So many digits after the decimal sign: "0.054"."""
    return _minus(with_decimal_sign(f"{value:.{digits}f}"))


def format_significant(value: float, digits: int) -> str:
    """So many significant digits, with an exponent where a number is far from 1: "0.0123", "1.2e-05"."""
    return with_decimal_sign(f"{value:.{digits}g}")


def tie_units(text: str) -> str:
    """The same text with no-break spaces between numbers and their units."""
    return _TIES.sub("\u00a0", text)


def _significant(value: float) -> str:
    """At least three significant digits, without zeros at the end of the fraction and never with an exponent."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.2e}")
    digits = max(0, 2 - math.floor(math.log10(abs(rounded)) + 1e-12))
    text = f"{value:.{digits}f}"
    return with_decimal_sign(text.rstrip("0").rstrip(".") if "." in text else text)


def _byte_unit(unit: str) -> str:
    names = {
        "B": ptr("unit", "B"),
        "kB": ptr("unit", "kB"),
        "MB": ptr("unit", "MB"),
        "GB": ptr("unit", "GB"),
        "TB": ptr("unit", "TB"),
    }
    return names[unit]


def _with_unit(number: str, unit: str) -> str:
    return f"{with_decimal_sign(number)} {unit}"


def _two_parts(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first} {unit}" + (f" {second} {smaller}" if second else "")


def with_decimal_sign(number: str) -> str:
    """A number as Python writes it, with the decimal sign of the language in use."""
    return number.replace(".", decimal_sign())


def _minus(text: str) -> str:
    """With the sign that is as wide as a plus, and not a hyphen, at which a line may break."""
    return text.replace("-", "−")
