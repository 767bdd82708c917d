"""Log in JSON (log_destination = jsonlog): one object per line; also the form in which a result folder keeps a log."""

import json
from collections.abc import Iterable, Iterator
from datetime import tzinfo

from pgtrial.store.server_log.entry import LogEntry
from pgtrial.store.server_log.language import PLAIN, Language
from pgtrial.store.server_log.times import format_time, parse_time


def parse_json(lines: Iterable[str], zone: tzinfo | None, language: Language = PLAIN) -> Iterator[LogEntry]:
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
            severity=language.severity(str(found.get("error_severity") or "")),
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
