"""server.jsonl of a run: the server's log as PostgreSQL's jsonlog writes it, one object per line."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import tzinfo
from pathlib import Path

from pgtrial.errors import StoreError
from pgtrial.store.server_log.entry import LogEntry, format_time, parse_time
from pgtrial.store.server_log.facts import Kind, read_fact, replace_literals, replace_quoted, split_duration

_RAISED = "P0001"  # by RAISE: the text is the application's own, and may hold anything


def read_log(path: Path, zone: tzinfo | None) -> Iterator[LogEntry]:
    """Entries in the order of the log; a line that is damaged is left out. Raises StoreError.

    ``zone`` is log_timezone of the server; entries whose times cannot be told without it are left out.
    """
    try:
        # Only a line feed ends a line: messages may hold what else ends lines of a text.
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            yield from parse_json(file, zone)
    except OSError as err:
        raise StoreError(f'cannot read "{path}": {err.strerror}') from err


def write_log(entries: Iterable[LogEntry], path: Path) -> None:
    """Write the file. Raises StoreError."""
    try:
        with path.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            for entry in entries:
                file.write(f"{format_json(entry)}\n")
    except OSError as err:
        raise StoreError(f'cannot write "{path}": {err.strerror}') from err


def parse_json(lines: Iterable[str], zone: tzinfo | None) -> Iterator[LogEntry]:
    """Entries; a line that is none, or has no time, is left out. ``zone`` is log_timezone."""
    for line in lines:
        try:
            found = json.loads(line)
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
            severity=str(found.get("error_severity") or ""),
            sqlstate=str(found.get("state_code") or ""),
            database=str(found.get("dbname") or ""),
            application=str(found.get("application_name") or ""),
            backend_type=str(found.get("backend_type") or ""),
            message=str(found.get("message") or ""),
            detail=str(found.get("detail") or ""),
            statement=str(found.get("statement") or ""),
        )


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
                statement="" if fact.kind is Kind.OTHER_LANGUAGE else replace_literals(entry.statement),
            )


def _message(entry: LogEntry, kind: Kind, state: str) -> str:
    if kind is Kind.OTHER_LANGUAGE:
        return ""
    if kind is Kind.SLOW_STATEMENT and (parts := split_duration(entry.message)):
        return parts[0] + replace_literals(parts[1])
    if kind in (Kind.ERROR, Kind.DEADLOCK):
        return "" if state == _RAISED else replace_quoted(entry.message)
    return entry.message
