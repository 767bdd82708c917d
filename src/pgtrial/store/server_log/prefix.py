"""log_line_prefix as a pattern. Source: PostgreSQL's manual, "Error Reporting and Logging", and elog.c for details."""

import re
from collections.abc import Mapping

from pgtrial.store.server_log.times import PATTERN as TIME

# What each escape prints; many are empty, or blanks, in the server's own processes.
_ESCAPES: Mapping[str, str] = {
    "a": r".*?",  # application name
    "u": r".*?",  # user
    "d": r".*?",  # database
    "r": r".*?",  # client: name or address, and port
    "h": r".*?",  # client: name or address
    "L": r".*?",  # local address, since 18
    "b": r".*?",  # backend type
    "i": r".*?",  # command tag
    "p": r"\d+",
    "P": r"\d*",  # process id of a parallel worker's leader
    "t": TIME,
    "m": TIME,
    "n": r"\d+\.\d{3}",
    "e": r"[0-9A-Z]{5}",
    "c": r"[0-9a-f]+\.[0-9a-f]+",
    "l": r"\d+",
    "s": TIME,
    "v": r"(?:-?\d+/\d+)?",
    "x": r"\d+",
    "Q": r"-?\d+",
}
_NAMES: Mapping[str, str] = {
    "a": "application",
    "d": "database",
    "b": "backend_type",
    "p": "pid",
    "t": "time",
    "m": "time_ms",
    "n": "epoch",
    "e": "sqlstate",
}
_ESCAPE = re.compile(r"%(?P<padding>-?\d*)(?P<letter>.?)", re.DOTALL)


def has_time(prefix: str) -> bool:
    """Whether the lines of a log with this prefix say when they were written."""
    return any(match["letter"] in ("t", "m", "n") for match in _ESCAPE.finditer(prefix))


def prefix_pattern(prefix: str) -> str:
    """Regular expression of what the server prints with log_line_prefix.

    Its groups, as far as the prefix has them: application, database, backend_type, pid, time, time_ms, epoch, sqlstate.
    """
    pattern, last, optional = "", 0, 0
    named: set[str] = set()
    for match in _ESCAPE.finditer(prefix):
        pattern += re.escape(prefix[last : match.start()])
        last = match.end()
        letter = match["letter"]
        if letter == "%":
            pattern += "%"
        elif letter == "q":  # processes that are no sessions stop here
            pattern += "(?:"
            optional += 1
        elif letter in _ESCAPES:
            value = _ESCAPES[letter]
            if letter in _NAMES and letter not in named:
                value = f"(?P<{_NAMES[letter]}>{value})"
                named.add(letter)
            pattern += _padded(value, match["padding"])
        # Anything else is printed as nothing.
    return pattern + re.escape(prefix[last:]) + ")?" * optional


def _padded(value: str, padding: str) -> str:
    if not padding.lstrip("-"):
        return value
    return f"{value}\\s*" if padding.startswith("-") else f"\\s*{value}"
