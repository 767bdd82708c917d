"""server.jsonl of a run: the server's log as JSON, one entry per line."""

from collections.abc import Iterable, Iterator
from datetime import tzinfo
from pathlib import Path

from pgtrial.errors import StoreError
from pgtrial.store.server_log.entry import LogEntry
from pgtrial.store.server_log.json_lines import format_json, parse_json


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
