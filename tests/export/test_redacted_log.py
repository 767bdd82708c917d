import json
from datetime import UTC
from pathlib import Path

import pytest

from pgtrial.export.redacted_files import learn_log, redact_log
from pgtrial.export.redaction import Names, PrivateNames, Redaction
from pgtrial.store.server_log.facts import LogEventKind, read_fact
from pgtrial.store.server_log.stored import read_log

TIME = "2026-01-20 10:15:00.123 UTC"
LINES: list[dict[str, object]] = [
    {
        "timestamp": TIME,
        "error_severity": "LOG",
        "backend_type": "checkpointer",
        "message": "checkpoint starting: time",
    },
    {
        "timestamp": TIME,
        "error_severity": "LOG",
        "backend_type": "autovacuum worker",
        "message": 'automatic vacuum of table "pgtrial.public.customers": index scans: 1\n'
        "pages: 1 removed, 2 remain, 3 scanned (50.00% of total)\n"
        'index "customers_pkey": pages: 2 in total, 0 newly deleted, 0 currently deleted, 0 reusable\n'
        "buffer usage: 10 hits, 2 misses, 1 dirtied",
    },
    {
        "timestamp": TIME,
        "error_severity": "LOG",
        "user": "alice",
        "remote_host": "10.1.2.3",
        "application_name": "psql on db7.corp.example",
        "message": "duration: 1234.5 ms  statement: SELECT name FROM customers WHERE id = 4711",
    },
    {
        "timestamp": TIME,
        "error_severity": "ERROR",
        "state_code": "23505",
        "message": 'duplicate key value violates unique constraint "customers_pkey"',
        "detail": "Key (id)=(4711) already exists.",
        "statement": "INSERT INTO customers VALUES (4711, 'Miller')",
    },
    {"timestamp": TIME, "error_severity": "LOG", "message": "connection authorized: user=alice host=db7.corp.example"},
    {"timestamp": TIME, "error_severity": "LOG", "message": "statement: ALTER ROLE app PASSWORD 'hunter2xyz'"},
]
TOLD = ("customers", "alice", "10.1.2.3", "db7", "4711", "Miller", "hunter2xyz")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES) + "damaged\n[1]\n", encoding="utf-8")
    return path


def redact(log: Path, *kinds: Redaction) -> str:
    known = PrivateNames(kinds=frozenset(kinds))
    learn_log(log, known)
    out = log.with_name("out.jsonl")
    redact_log(log, out, Names(known=known), UTC)
    return out.read_text(encoding="utf-8")


def test_nothing_of_what_the_log_told_is_left(log: Path) -> None:
    text = redact(log, *Redaction)

    assert [word for word in TOLD if word in text] == []


def test_what_is_concluded_from_it_stays_the_same_but_for_names(log: Path) -> None:
    redact(log, *Redaction)

    before = [fact for entry in read_log(log, UTC) if (fact := read_fact(entry))]
    after = [fact for entry in read_log(log.with_name("out.jsonl"), UTC) if (fact := read_fact(entry))]

    assert [(fact.kind, fact.numbers, fact.is_over) for fact in after] == [
        (fact.kind, fact.numbers, fact.is_over) for fact in before
    ]
    assert [fact.kind for fact in after] == [
        LogEventKind.CHECKPOINT,
        LogEventKind.AUTOVACUUM,
        LogEventKind.SLOW_STATEMENT,
        LogEventKind.ERROR,
    ]
    assert after[1].object == "pgtrial.public.relation1"
    assert after[2].text == "query1"
    assert after[3].object == "23505"


def test_without_hosts_every_line_stays(log: Path) -> None:
    found = [json.loads(line) for line in redact(log, Redaction.HOSTS).splitlines()]

    assert len(found) == len(LINES)
    assert "user" not in found[2]
    assert "remote_host" not in found[2]
    assert found[2]["application_name"] == "psql on host1"
    assert found[3]["statement"] == LINES[3]["statement"]
    assert found[4]["message"] == "connection authorized: user=user host=host1"


def test_without_secrets_the_rest_stays(log: Path) -> None:
    found = [json.loads(line) for line in redact(log, Redaction.SECRETS).splitlines()]

    assert found[5]["message"] == "statement: ALTER ROLE app PASSWORD 'secret1'"
    assert found[2]["user"] == "alice"
