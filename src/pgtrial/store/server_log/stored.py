"""server.jsonl of a run: the server's log as PostgreSQL's jsonlog writes it, one object per line."""

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import tzinfo
from pathlib import Path
from typing import IO, AnyStr

from pgtrial.errors import StoreError
from pgtrial.safe_files import new_file, open_file
from pgtrial.safe_text import parse_json
from pgtrial.store.server_log.entry import LogEntry, format_time, parse_time
from pgtrial.store.server_log.facts import LogEventKind, read_fact, replace_literals, replace_quoted, split_duration

LONGEST_ENTRY = 8 << 20  # characters; or bytes, as they come
_RAISED = "P0001"  # by RAISE: the text is the application's own, and may hold anything


def read_log(path: Path, zone: tzinfo | None) -> Iterator[LogEntry]:
    """Entries in the order of the log; a line that is damaged is left out. Raises StoreError.

    ``zone`` is log_timezone of the server; entries whose times cannot be told without it are left out.
    """
    try:
        yield from parse_entries(read_lines(path), zone)
    except OSError as err:
        raise StoreError(f'cannot read "{path}": {err.strerror}') from err


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a log, without those that are too long to be an entry of a server's log. Raises OSError."""
    # Only a line feed ends a line: messages may hold what else ends lines of a text.
    with io.TextIOWrapper(open_file(path), encoding="utf-8", errors="replace", newline="\n") as file:
        yield from short_lines(file, "\n")


def short_lines(file: IO[AnyStr], end: AnyStr) -> Iterator[AnyStr]:
    """The lines of a file without those that are too long to be an entry of a server's log. Raises OSError."""
    is_rest = False
    while line := file.readline(LONGEST_ENTRY):
        is_part = not line.endswith(end) and len(line) == LONGEST_ENTRY
        if not is_part and not is_rest:
            yield line
        is_rest = is_part


def write_log(entries: Iterable[LogEntry], path: Path) -> None:
    """Write the file. Raises StoreError."""
    try:
        with new_file(path) as file:
            for entry in entries:
                file.write(f"{format_json(entry)}\n".encode(errors="replace"))
    except OSError as err:
        raise StoreError(f'cannot write "{path}": {err.strerror}') from err


def parse_entries(lines: Iterable[str], zone: tzinfo | None) -> Iterator[LogEntry]:
    """Entries; a line that is none, or has no time, is left out. ``zone`` is log_timezone."""
    for line in lines:
        try:
            found = parse_json(line)
        except ValueError:
            continue
        t = parse_time(str(found.get("timestamp")), zone) if isinstance(found, dict) else None
        if t is None:
            continue
        pid = found.get("pid")
        # One by one and not in a loop: a log may have millions of lines.
        yield LogEntry(
            t=t,
            pid=pid if isinstance(pid, int) else None,
            severity=_text(found.get("error_severity")),
            sqlstate=_text(found.get("state_code")),
            database=_text(found.get("dbname")),
            application=_text(found.get("application_name")),
            backend_type=_text(found.get("backend_type")),
            message=_text(found.get("message")),
            detail=_text(found.get("detail")),
            statement=_text(found.get("statement")),
        )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def format_json(entry: LogEntry) -> str:
    """An entry as a line of JSON, with the names that PostgreSQL gives them and without what it does not have."""
    found = {
        "timestamp": format_time(entry.t),
        "pid": entry.pid,
        "error_severity": entry.severity,
        "state_code": entry.sqlstate,
        "dbname": entry.database,
        "application_name": entry.application,
        "backend_type": entry.backend_type,
        "message": entry.message,
        "detail": entry.detail,
        "statement": entry.statement,
    }
    return json.dumps({key: value for key, value in found.items() if value not in (None, "")}, ensure_ascii=False)


def keep_entries(entries: Iterable[LogEntry], *, since: float) -> Iterator[LogEntry]:
    """Entries from ``since`` on that tell something: what a result folder keeps of the log of a server that others use
    too, without their data.

    Values in statements and texts in quotation marks in messages of errors become "?"; details are left out, and so are
    messages in another language that tell nothing but that they are there. Entries of other kinds, such as those of
    log_statement, are left out altogether.
    """
    for entry in entries:
        fact = read_fact(entry) if entry.t >= since else None
        if fact is not None:
            yield replace(
                entry,
                message=_message(entry, fact.kind, fact.object),
                detail="",
                statement="" if fact.kind is LogEventKind.OTHER_LANGUAGE else replace_literals(entry.statement),
            )


def _message(entry: LogEntry, kind: LogEventKind, state: str) -> str:
    if kind is LogEventKind.OTHER_LANGUAGE:
        return ""
    if kind is LogEventKind.SLOW_STATEMENT and (parts := split_duration(entry.message)):
        return parts[0] + replace_literals(parts[1])
    if kind in (LogEventKind.ERROR, LogEventKind.DEADLOCK):
        return "" if state == _RAISED else replace_quoted(entry.message)
    return entry.message
