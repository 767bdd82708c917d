"""Log as CSV (log_destination = csvlog)."""

import csv
import re
from collections.abc import Iterable, Iterator
from datetime import tzinfo

from pgtrial.store.server_log.entry import LogEntry
from pgtrial.store.server_log.language import PLAIN, Language
from pgtrial.store.server_log.times import PATTERN, parse_time

# csvlog.c, 14 to 18; later versions may have more at the end.
COLUMNS = (
    *("log_time", "user_name", "database_name", "process_id", "connection_from", "session_id", "session_line_num"),
    *("command_tag", "session_start_time", "virtual_transaction_id", "transaction_id", "error_severity"),
    *("sql_state_code", "message", "detail", "hint", "internal_query", "internal_query_pos", "context", "query"),
    *("query_pos", "location", "application_name", "backend_type", "leader_pid", "query_id"),
)
_BEGIN = re.compile(rf"{PATTERN},")
_MOST_LINES = 100_000  # of one entry: beyond that a quotation mark is missing


def parse_csv(lines: Iterable[str], zone: tzinfo | None, language: Language = PLAIN) -> Iterator[LogEntry]:
    """Entries; what is before the first whole one, and what has no time, is left out. ``zone`` is log_timezone."""
    for record in _records(lines):
        try:
            values = next(csv.reader(record), [])
        except csv.Error:  # longer than any text that matters
            continue
        if len(values) < len(COLUMNS) - 1:  # query_id came later than the rest
            continue
        row = dict(zip(COLUMNS, values, strict=False))
        t = parse_time(row["log_time"], zone)
        if t is None:
            continue
        yield LogEntry(
            t=t,
            pid=int(row["process_id"]) if row["process_id"].isdecimal() else None,
            severity=language.severity(row["error_severity"]),
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
    for line in lines:
        if not record and not _BEGIN.match(line):
            continue
        record.append(f"{line}\n")
        is_open ^= line.count('"') % 2 == 1
        if not is_open or len(record) > _MOST_LINES:
            if not is_open:
                yield record
            record, is_open = [], False
