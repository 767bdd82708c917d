"""Logs as a server of 15.18 wrote them in four languages, each with another log_line_prefix.

In each the same was done: CHECKPOINT, a sort in temporary files, a statement of 0.2 s, a division by zero, a duplicate
key, and a deadlock of two sessions.
"""

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from pgtrial.store.server_log.entry import LogEntry
from pgtrial.store.server_log.facts import Fact, Kind, read_fact
from pgtrial.store.server_log.kept import keep_entries
from pgtrial.store.server_log.language import PLAIN, Language
from pgtrial.store.server_log.text_lines import parse_text

FOLDER = Path(__file__).with_name("captured")
PREFIXES = {
    "en": "%m [%p] %q%u@%d ",
    "de": "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
    "ru": "%n|%p|%e|%b|",
    "fr": "%m %5p %-12a %i:",
}
VERBOSE = {"fr"}  # log_error_verbosity
HAS_STATES = {"ru", "fr"}
BEGUN = datetime(2026, 11, 22, 0, 4, tzinfo=UTC).timestamp()


def parse(name: str, language: Language) -> list[LogEntry]:
    lines = (FOLDER / f"{name}.log").read_text(encoding="utf-8").splitlines()
    zone = ZoneInfo("Europe/Berlin")
    found = parse_text(lines, prefix=PREFIXES[name], zone=zone, verbose=name in VERBOSE, language=language)
    return list(found)


def facts(name: str, language: Language) -> list[Fact]:
    found = [read_fact(entry) for entry in keep_entries(parse(name, language), language, since=0.0)]
    return [fact for fact in found if fact is not None]


@pytest.fixture(params=PREFIXES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def language(name, languages) -> Language:
    return languages.get(name, PLAIN)


def test_every_message_is_an_entry_of_its_own(name, language):
    entries = parse(name, language)

    text = (FOLDER / f"{name}.log").read_text(encoding="utf-8")
    # Of a connection that broke the server says so in English, whatever its language.
    assert sum(entry.severity == "LOG" for entry in entries) == text.count("LOG:") + text.count("СООБЩЕНИЕ:")
    assert {entry.severity for entry in entries} <= {"LOG", "ERROR", "FATAL"}
    assert all(BEGUN < entry.t < BEGUN + 120 for entry in entries)
    assert all(entry.pid for entry in entries)


def test_the_same_is_found_in_every_language(name, language):
    found = facts(name, language)

    checkpoints = [fact for fact in found if fact.kind is Kind.CHECKPOINT][:2]
    assert [(fact.object, fact.is_over) for fact in checkpoints] == [("immediate force wait", False), ("", True)]
    assert checkpoints[1].numbers["buffers"] == 30
    sizes = [fact.numbers["bytes"] for fact in found if fact.kind is Kind.TEMPORARY_FILE]
    assert sizes == [303104, 280000]
    slow = next(fact for fact in found if fact.kind is Kind.SLOW_STATEMENT)
    assert slow.text == "SELECT pg_sleep(?), ?"
    assert 0.2 <= slow.numbers["seconds"] < 0.3
    waits = [fact for fact in found if fact.kind is Kind.LOCK_WAIT]
    assert [(fact.object, fact.is_over) for fact in waits] == [
        ("ShareLock", False),
        ("ShareLock", True),
        ("ShareLock", True),
    ]
    assert waits[0].pid == waits[2].pid != waits[1].pid
    assert waits[0].text == waits[2].text
    states = [fact.object for fact in found if fact.kind in (Kind.ERROR, Kind.DEADLOCK)][:3]
    # Without a SQLSTATE in the log it is known by the text, for those errors that matter.
    assert states == (["22012", "23505", "40P01"] if name in HAS_STATES else ["", "23505", "40P01"])
    tables = [fact for fact in found if fact.kind in (Kind.AUTOVACUUM, Kind.AUTOANALYZE)]
    assert tables
    assert all(fact.object.startswith("template1.") for fact in tables)
    assert all(
        {"seconds", "CPU seconds", "blocks hit", "blocks read", "blocks dirtied"} <= set(fact.numbers)
        for fact in tables
    )


def test_without_the_catalogue_checkpoints_and_errors_are_found(name):
    found = facts(name, PLAIN)

    checkpoints = [fact for fact in found if fact.kind is Kind.CHECKPOINT]
    assert checkpoints[1].numbers["buffers"] == 30
    assert sum(fact.kind in (Kind.ERROR, Kind.DEADLOCK) for fact in found) >= 3
    if name in HAS_STATES:
        assert [fact.object for fact in found if fact.kind is Kind.DEADLOCK] == ["40P01"]


def test_details_and_statements_belong_to_their_message(name, language):
    deadlock = next(
        entry
        for entry in parse(name, language)
        if entry.severity == "ERROR" and entry.statement == "UPDATE t SET x=1 WHERE id=1"
    )

    assert len(deadlock.detail.split("\n")) == 4
    assert deadlock.detail.endswith(": UPDATE t SET x=1 WHERE id=2")
