"""Parse a server's log as text (log_destination = stderr), whose lines begin with log_line_prefix, or as CSV.

Only English text is parsed. In another language each line is an entry whose severity is the line's first word; its
meaning is unknown unless its form shows that it is a checkpoint.

Sources: PostgreSQL's manual, "Error Reporting and Logging"; elog.c and csvlog.c for details.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo

from pgtrial.store.server_log.entry import SEVERITIES, TIME, LogEntry, parse_time
from pgtrial.store.server_log.stored import LONGEST_ENTRY
from pgtrial.units import read_count

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

_UNKNOWN = "[unknown]"  # of a session that has not said its name yet
# Of the lines that belong to the message before them.
_LABELS = ("DETAIL", "HINT", "QUERY", "CONTEXT", "STATEMENT", "BACKTRACE", "LOCATION")
_PARTS: Mapping[str, str] = {"DETAIL": "detail", "STATEMENT": "statement"}

# csvlog.c, 14 to 18; later versions may have more at the end.
CSV_COLUMNS = (
    *("log_time", "user_name", "database_name", "process_id", "connection_from", "session_id", "session_line_num"),
    *("command_tag", "session_start_time", "virtual_transaction_id", "transaction_id", "error_severity"),
    *("sql_state_code", "message", "detail", "hint", "internal_query", "internal_query_pos", "context", "query"),
    *("query_pos", "location", "application_name", "backend_type", "leader_pid", "query_id"),
)
_RECORD = re.compile(rf"{TIME},")
_MOST_LINES = 100_000  # of one entry: beyond that a quotation mark is missing


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


@dataclass(slots=True, kw_only=True)
class _Message:
    """A message whose lines are still being read."""

    head: Mapping[str, str]
    parts: dict[str, list[str]] = field(default_factory=dict)
    size: int = 0

    def add(self, part: str, line: str) -> None:
        """Lines without end are cut."""
        self.size += len(line) + 1
        if self.size <= LONGEST_ENTRY:
            self.parts.setdefault(part, []).append(line)

    def entry(self, zone: tzinfo | None) -> LogEntry | None:
        t = _time(self.head, zone)
        if t is None:
            return None
        pid = self.head.get("pid", "")
        texts = {name: "\n".join(self.parts.get(name, ())) for name in ("message", "detail", "statement")}
        return LogEntry(
            t=t,
            pid=int(pid) if pid else None,
            severity=self.head["severity"],
            sqlstate=self.head.get("state") or self.head.get("sqlstate", ""),
            database=_known(self.head.get("database", "")),
            application=_known(self.head.get("application", "")),
            backend_type=self.head.get("backend_type", "").strip(),
            **texts,
        )


def parse_text(lines: Iterable[str], *, prefix: str, zone: tzinfo | None, verbose: bool = False) -> Iterator[LogEntry]:
    """Entries of a log whose lines begin with ``prefix`` (log_line_prefix), in the order of the log.

    ``zone`` is log_timezone, ``verbose`` says that log_error_verbosity is verbose. Lines that are no message's, such as
    those of an archive command, are left out, and so are messages without a time.
    """
    english = _beginning(prefix, "|".join(SEVERITIES), verbose=verbose)
    # A word of another language is taken for a severity. Tried last: an application's name has words too.
    other = _beginning(prefix, r"[^\W\d_]+", verbose=verbose)
    message: _Message | None = None
    part = ""
    for line in lines:
        if line.startswith("\t") and message is not None:  # the server begins further lines of a text with it
            message.add(part, line[1:])
            continue
        part = ""
        match = english.match(line) or other.match(line)
        if match is None:
            continue
        head = {name: text for name, text in match.groupdict().items() if text is not None}
        if label := head.get("label"):
            if message is not None and message.head.get("pid") == head.get("pid"):
                part = _PARTS.get(label, "")
                message.add(part, head["text"])
            continue
        if message is not None and (entry := message.entry(zone)):
            yield entry
        if head["severity"] not in SEVERITIES:  # it may be a message's detail: with the SQLSTATE that would be an error
            head |= {"sqlstate": "", "state": ""}
        message = _Message(head=head)
        part = "message"
        message.add(part, head["message"])
    if message is not None and (entry := message.entry(zone)):
        yield entry


def _beginning(prefix: str, severities: str, *, verbose: bool) -> re.Pattern[str]:
    """Pattern of a line with the prefix: of a message, or of what belongs to the one before."""
    state = r"(?:(?P<state>[0-9A-Z]{5}): )?" if verbose else ""
    return re.compile(
        rf"{prefix_pattern(prefix)}(?:(?P<label>{'|'.join(_LABELS)}):[ \t]*(?P<text>.*)"
        rf"|(?P<severity>{severities}):  {state}(?P<message>.*))",
        re.DOTALL,
    )


def _time(head: Mapping[str, str], zone: tzinfo | None) -> float | None:
    if "epoch" in head:
        return float(head["epoch"])
    return parse_time(head.get("time_ms") or head.get("time") or "", zone)


def _known(name: str) -> str:
    name = name.strip()
    return "" if name == _UNKNOWN else name


def parse_csv(lines: Iterable[str], zone: tzinfo | None) -> Iterator[LogEntry]:
    """Entries; what is before the first whole one, and what has no time, is left out. ``zone`` is log_timezone."""
    for record in _records(lines):
        try:
            values = next(csv.reader(record), [])
        except csv.Error:  # longer than any text that matters
            continue
        if len(values) < len(CSV_COLUMNS) - 1:  # query_id came later than the rest
            continue
        row = dict(zip(CSV_COLUMNS, values, strict=False))
        t = parse_time(row["log_time"], zone)
        if t is None:
            continue
        yield LogEntry(
            t=t,
            pid=read_count(row["process_id"]),
            severity=row["error_severity"],
            sqlstate=row["sql_state_code"],
            database=row["database_name"],
            application=row["application_name"],
            backend_type=row["backend_type"],
            message=row["message"],
            detail=row["detail"],
            statement=row["query"],
        )


def _records(lines: Iterable[str]) -> Iterator[list[str]]:
    """The lines of each record: texts in quotation marks may have several. A record begins with a time."""
    record: list[str] = []
    is_open = False
    size = 0
    for line in lines:
        if not record and not _RECORD.match(line):
            continue
        record.append(f"{line}\n")
        size += len(line) + 1
        is_open ^= line.count('"') % 2 == 1
        if not is_open or len(record) > _MOST_LINES or size > LONGEST_ENTRY:
            if not is_open:
                yield record
            record, is_open, size = [], False, 0
