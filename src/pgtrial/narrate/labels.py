"""Labels with digits in a text: dates, times of day, versions, ids of facts, percentiles. Not amounts."""

import re

from pgtrial.narrate.quantity import Mention, Quantity
from pgtrial.narrate.units_in_text import read_unit

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)}|{'|'.join(name[:3] for name in _MONTHS if name != 'May')})\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})"
_DATES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<![\w.])\d{4}-\d{2}-\d{2}(?!\d)",
        rf"\b{_DAY}\s+(?:of\s+)?{_MONTH},?\s+{_YEAR}\b",
        rf"\b{_MONTH}\s+{_DAY},?\s+{_YEAR}\b",
        rf"\b{_MONTH}\s+{_YEAR}\b",
        rf"\b{_DAY}\s+(?:of\s+)?{_MONTH}(?!\w)",
        rf"\b{_MONTH}\s+{_DAY}(?![\w.])",
    )
)
_NAMED_VERSION = re.compile(
    r"\b(?:PostgreSQL|Postgres|PG|Linux|kernel|pgtrial|version)\s+v?((?>\d+(?:\.\d+)*(?:[-+~]\w+(?:\.\w+)*)*))(?!\w)",
    re.IGNORECASE,
)


def find_labels(text: str) -> list[Mention]:
    """In the order of their kinds; where two overlap the first is meant."""
    return [*_dates(text), *_clocks(text), *_versions(text), *_facts(text), *_percentiles(text)]


def _written(match: re.Match[str], quantity: Quantity, written: str, group: int | str = 0) -> Mention:
    return Mention(
        start=match.start(group),
        end=match.end(group),
        text=match[group],
        quantity=quantity,
        value=0.0,
        step=0.0,
        written=written,
    )


def _dates(text: str) -> list[Mention]:
    """Dates as far as they are written: "2026-01-20", "2026-01", "-01-20"; a year alone is a plain number."""
    return [_written(match, Quantity.DATE, _iso(match)) for pattern in _DATES for match in pattern.finditer(text)]


def _iso(match: re.Match[str]) -> str:
    found = match.groupdict()
    if found.get("month") is None:
        return match[0]
    month = next(number for number, name in enumerate(_MONTHS, start=1) if name.startswith(found["month"][:3]))
    day = f"-{int(found['day']):02d}" if found.get("day") else ""
    return f"{found.get('year') or ''}-{month:02d}{day}"


def _clocks(text: str) -> list[Mention]:
    return [
        _written(match, Quantity.DATE, f"{int(match[1]):02d}:{match[2]}")
        for match in re.finditer(r"(?<![\w.:])(\d{1,2}):(\d{2})(?::\d{2})?(?![\d:])", text)
    ]


def _versions(text: str) -> list[Mention]:
    """ "6.1.0-18-amd64", and what follows the name of a program."""
    found = []
    for match in _NAMED_VERSION.finditer(text):
        unit = read_unit(text, match.end())
        if unit is None or unit.quantity is Quantity.COUNT:
            found.append(_written(match, Quantity.VERSION, match[1], 1))
    alone = r"(?<![\w.])\d+\.\d+\.\d+(?:[.\-+~]\w+)*"
    return found + [_written(match, Quantity.VERSION, match[0]) for match in re.finditer(alone, text)]


def _facts(text: str) -> list[Mention]:
    return [_written(match, Quantity.FACT, match[0]) for match in re.finditer(r"\bF\d{1,4}\b", text)]


def _percentiles(text: str) -> list[Mention]:
    found = []
    for pattern in (r"\b[pP](\d{1,2}(?:\.\d+)?)\b", r"(?<![\w.])(\d{1,2}(?:\.\d+)?)(?:st|nd|rd|th)?[- ]percentile"):
        found += [
            Mention(
                start=match.start(),
                end=match.end(),
                text=match[0],
                quantity=Quantity.PERCENTILE,
                value=float(match[1]),
                step=0.0,
            )
            for match in re.finditer(pattern, text)
        ]
    return found
