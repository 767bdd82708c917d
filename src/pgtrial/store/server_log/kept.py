"""What a result folder keeps of the log of a server that others use too: what matters for it, without their data."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pgtrial.store.server_log.entry import LogEntry
from pgtrial.store.server_log.facts import Kind, read_fact, split_duration
from pgtrial.store.server_log.language import Language
from pgtrial.store.server_log.literals import replace_literals, replace_quoted

_RAISED = "P0001"  # by RAISE: the text is the application's own, and may hold anything


def keep_entries(entries: Iterable[LogEntry], language: Language, *, since: float) -> Iterator[LogEntry]:
    """Entries from ``since`` on that tell something, in English where the server's ``language`` is known.

    Values in statements and texts in quotation marks in messages of errors become "?", details are left out: they can
    hold what users have entered. Entries of other kinds, such as those of log_statement, are left out altogether.
    """
    for entry in entries:
        if entry.t < since:
            continue
        english = replace(entry, message=language.to_english(entry.message))
        fact = read_fact(english)
        if fact is not None:
            yield replace(
                english,
                message=_message(english, fact.kind, fact.object),
                detail="",
                statement=replace_literals(entry.statement),
            )


def _message(entry: LogEntry, kind: Kind, state: str) -> str:
    if kind is Kind.SLOW_STATEMENT and (parts := split_duration(entry.message)):
        return parts[0] + replace_literals(parts[1])
    if kind in (Kind.ERROR, Kind.DEADLOCK):
        return "" if state == _RAISED else replace_quoted(entry.message)
    return entry.message
