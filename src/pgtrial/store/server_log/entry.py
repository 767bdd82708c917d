"""One message of a server's log, whatever the log's format was, and times as PostgreSQL writes them there.

Times are local times of log_timezone, with the zone's abbreviation.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

# Year to second, milliseconds where there are any, abbreviation.
TIME = r"\d{4,}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})? [\w+\-:<>/]+"
_PARTS = re.compile(r"(?P<second>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(?P<milli>\d{3}))? (?P<zone>[\w+\-:<>/]+)")
_OFFSET = re.compile(r"<?(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)?>?")
_UNIVERSAL = ("UTC", "GMT", "UCT", "Z", "Universal", "Zulu")

# Classes of SQLSTATE that are no errors: successful completion, warning, no data.
_NO_ERROR = ("00", "01", "02")
_ERRORS = ("ERROR", "FATAL", "PANIC")
SEVERITIES = (*_ERRORS, "LOG", "WARNING", "NOTICE", "INFO", "DEBUG")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """``t`` in seconds since the epoch. A text is "" where the log does not have it.

    ``severity`` is as it was printed: "LOG", "ERROR", or a word of another language. ``backend_type`` is as in
    pg_stat_activity ("client backend", "checkpointer").
    """

    t: float
    pid: int | None = None
    severity: str = ""
    sqlstate: str = ""
    database: str = ""
    application: str = ""
    backend_type: str = ""
    message: str = ""
    detail: str = ""
    statement: str = ""

    @property
    def is_english(self) -> bool:
        """By its severity; an entry without one is taken for English."""
        return not self.severity or self.severity in SEVERITIES

    @property
    def is_error(self) -> bool:
        """By the severity, and where that is in another language by the SQLSTATE."""
        if self.is_english:
            return self.severity in _ERRORS
        return bool(self.sqlstate) and self.sqlstate[:2] not in _NO_ERROR


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
