"""Times as PostgreSQL writes them into its log: local time of log_timezone, with the zone's abbreviation."""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

# Year to second, milliseconds where there are any, abbreviation.
PATTERN = r"\d{4,}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})? [\w+\-:<>/]+"
_PARTS = re.compile(r"(?P<second>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(?P<milli>\d{3}))? (?P<zone>[\w+\-:<>/]+)")
_OFFSET = re.compile(r"<?(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)?>?")
_UNIVERSAL = ("UTC", "GMT", "UCT", "Z", "Universal", "Zulu")


def find_zone(name: str) -> tzinfo | None:
    """The time zone of a name that log_timezone has, None where this machine does not know it."""
    if name in _UNIVERSAL:
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        return None


def parse_time(text: str, zone: tzinfo | None) -> float | None:
    """Seconds since the epoch of "2026-11-21 22:42:31.123 CET"; None if it is no time, or of an unknown zone.

    ``zone`` is log_timezone; an abbreviation alone says too little, but for that of universal time and numbers ("+03").
    It decides which of the two hours is meant when summer time ends.
    """
    match = _PARTS.fullmatch(text)
    if match is None:
        return None
    second = _parse_second(match["second"], match["zone"], zone)
    return None if second is None else second + int(match["milli"] or 0) / 1000


@lru_cache(maxsize=4096)
def _parse_second(text: str, abbreviation: str, zone: tzinfo | None) -> float | None:
    try:
        local = datetime.fromisoformat(text)
    except ValueError:
        return None
    if abbreviation in _UNIVERSAL:
        return local.replace(tzinfo=UTC).timestamp()
    if zone is not None:
        readings = [local.replace(tzinfo=zone, fold=fold) for fold in (0, 1)]
        fitting = [each for each in readings if each.tzname() == abbreviation]
        return (fitting or readings)[0].timestamp()
    offset = _OFFSET.fullmatch(abbreviation)
    if offset is None:
        return None
    ahead = timedelta(hours=int(offset["hours"]), minutes=int(offset["minutes"] or 0))
    return local.replace(tzinfo=timezone(-ahead if offset["sign"] == "-" else ahead)).timestamp()


def format_time(t: float) -> str:
    """ "2026-11-21 22:42:31.123 UTC": as a server with log_timezone = UTC writes it."""
    milliseconds = round(t * 1000)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03d} UTC"
