"""Logs as a server of 15.18 wrote them in four languages, each with another log_line_prefix.

In each the same was done: CHECKPOINT, a sort in temporary files, a statement of 0.2 s, a division by zero, a duplicate
key, and a deadlock of two sessions.
"""

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from pgtrial.postgres.existing.log_formats import parse_text
from pgtrial.store.server_log.entry import LogEntry
from pgtrial.store.server_log.facts import Fact, LogEventKind, read_fact
from pgtrial.store.server_log.stored import keep_entries

FOLDER = Path(__file__).with_name("captured")
PREFIXES = {
    "en": "%m [%p] %q%u@%d ",
    "de": "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
    "ru": "%n|%p|%e|%b|",
    "fr": "%m %5p %-12a %i:",
}
VERBOSE = {"fr"}  # log_error_verbosity
BEGUN = datetime(2026, 11, 22, 0, 4, tzinfo=UTC).timestamp()


def parse(name: str) -> list[LogEntry]:
    lines = (FOLDER / f"{name}.log").read_text(encoding="utf-8").splitlines()
    zone = ZoneInfo("Europe/Berlin")
    return list(parse_text(lines, prefix=PREFIXES[name], zone=zone, verbose=name in VERBOSE))


def facts(name: str) -> list[Fact]:
    known = (read_fact(entry) for entry in keep_entries(parse(name), since=0.0))
    return [fact for fact in known if fact is not None]


@pytest.fixture(params=PREFIXES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_every_message_is_an_entry_of_its_own(name):
    entries = parse(name)

    text = (FOLDER / f"{name}.log").read_text(encoding="utf-8")
    # Of a connection that broke the server says so in English, whatever its language.
    messages = [entry for entry in entries if entry.severity in ("LOG", "СООБЩЕНИЕ")]
    assert len(messages) == text.count("LOG:") + text.count("СООБЩЕНИЕ:")
    assert all(BEGUN < entry.t < BEGUN + 120 for entry in entries)
    assert all(entry.pid for entry in entries)


def test_checkpoints_are_found_in_every_language(name):
    checkpoints = [fact for fact in facts(name) if fact.kind is LogEventKind.CHECKPOINT][:2]

    assert [(fact.object, fact.is_over) for fact in checkpoints] == [("immediate force wait", False), ("", True)]
    assert checkpoints[1].numbers["buffers"] == 30


def test_everything_is_found_in_english():
    found = facts("en")

    sizes = [fact.numbers["bytes"] for fact in found if fact.kind is LogEventKind.TEMPORARY_FILE]
    assert sizes == [303104, 280000]
    slow = next(fact for fact in found if fact.kind is LogEventKind.SLOW_STATEMENT)
    assert slow.text == "SELECT pg_sleep(?), ?"
    assert 0.2 <= slow.numbers["seconds"] < 0.3
    waits = [fact for fact in found if fact.kind is LogEventKind.LOCK_WAIT]
    assert [(fact.object, fact.is_over) for fact in waits] == [
        ("ShareLock", False),
        ("ShareLock", True),
        ("ShareLock", True),
    ]
    assert waits[0].pid == waits[2].pid != waits[1].pid
    assert waits[0].text == waits[2].text
    states = [fact.object for fact in found if fact.kind in (LogEventKind.ERROR, LogEventKind.DEADLOCK)][:3]
    # Without a SQLSTATE in the log it is known by the text, for those errors that matter.
    assert states == ["", "23505", "40P01"]
    tables = [fact for fact in found if fact.kind in (LogEventKind.AUTOVACUUM, LogEventKind.AUTOANALYZE)]
    assert tables
    assert all(fact.object.startswith("template1.") for fact in tables)
    assert all(
        {"seconds", "CPU seconds", "blocks hit", "blocks read", "blocks dirtied"} <= set(fact.numbers)
        for fact in tables
    )
    assert not any(fact.kind is LogEventKind.OTHER_LANGUAGE for fact in found)


@pytest.mark.parametrize("other", ["de", "fr", "ru"])
def test_errors_in_another_language_are_not_known_but_that_there_is_something_is(other):
    found = facts(other)

    assert {fact.kind for fact in found} <= {LogEventKind.CHECKPOINT, LogEventKind.OTHER_LANGUAGE, LogEventKind.ERROR}
    assert sum(fact.kind is LogEventKind.OTHER_LANGUAGE for fact in found) >= 3


def test_details_and_statements_belong_to_their_message():
    deadlock = next(
        entry for entry in parse("en") if entry.severity == "ERROR" and entry.statement == "UPDATE t SET x=1 WHERE id=1"
    )

    assert len(deadlock.detail.split("\n")) == 4
    assert deadlock.detail.endswith(": UPDATE t SET x=1 WHERE id=2")
