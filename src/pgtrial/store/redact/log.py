"""The server's log of a run without secrets, hosts and statements."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import tzinfo
from pathlib import Path
from typing import Any

from pgtrial.errors import StoreError
from pgtrial.store.redact.known import Known, Redaction
from pgtrial.store.redact.names import Names
from pgtrial.store.redact.tree import strings, with_strings
from pgtrial.store.server_log.entry import LogEntry
from pgtrial.store.server_log.facts import Kind, read_fact, split_duration
from pgtrial.store.server_log.stored import keep_entries, read_log, write_log

_TABLE = re.compile(r'(?P<before> table "(?:[^".]*\.){0,2})(?P<name>[^"]*)"')
_PERSONAL = ("user", "remote_host", "remote_port")  # nothing is concluded from them


def learn_log(path: Path, known: Known) -> None:
    """Secrets and hosts that the log gives away."""
    for found in _lines(path):
        for key, text in strings(found):
            known.learn(text, key)


def redact_log(path: Path, to: Path, names: Names, zone: tzinfo | None) -> None:
    """Write a log without what ``names`` takes out. Without queries, only entries are kept from which something is
    concluded, as from the log of a server that others use too. ``zone`` is log_timezone.
    """
    if Redaction.QUERIES in names.known.kinds:
        entries = keep_entries(read_log(path, zone), since=float("-inf"))
        write_log((_without_queries(entry, names) for entry in entries), to)
        return
    is_hidden = Redaction.HOSTS in names.known.kinds
    try:
        with to.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            for found in _lines(path):
                kept = {key: value for key, value in found.items() if not (is_hidden and key in _PERSONAL)}
                file.write(json.dumps(with_strings(kept, names.clean), ensure_ascii=False) + "\n")
    except OSError as err:
        raise StoreError(f'cannot write "{to}": {err.strerror}') from err


def _without_queries(entry: LogEntry, names: Names) -> LogEntry:
    """The entry with names in place of its statement and of the tables that it names."""
    fact, message = read_fact(entry), entry.message
    if fact is not None and fact.kind is Kind.SLOW_STATEMENT and (parts := split_duration(message)):
        message = names.clean(parts[0]) + names.query(parts[1])
    elif fact is not None and fact.kind in (Kind.AUTOVACUUM, Kind.AUTOANALYZE):
        # What follows the first line may name indexes, as the table's own name stands in them.
        head, *lines = message.split("\n")
        head = _TABLE.sub(lambda match: f'{match["before"]}{names.relation(match["name"])}"', head)
        message = "\n".join([head, *(line for line in lines if '"' not in line)])
    return replace(
        entry,
        message=names.clean(message),
        statement=names.query(entry.statement),
        database=names.clean(entry.database),
        application=names.clean(entry.application),
    )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines; lines that are none are left out, as by whoever reads the log."""
    try:
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            for line in file:
                try:
                    found = json.loads(line)
                except ValueError:
                    continue
                if isinstance(found, dict):
                    yield found
    except OSError as err:
        raise StoreError(f'cannot read "{path}": {err.strerror}') from err
