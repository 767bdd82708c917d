import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from psycopg.pq.abc import PGresult

from pgtrial.engine.sampler.link import LinkError, ServerLink
from pgtrial.postgres.throwaway import ThrowawayCluster

STATEMENTS = {
    "one": "SELECT 1",
    "number": "SELECT $1::int",
    "sleep": "SELECT pg_sleep(0.3)",
    "now": "SELECT now()",
    "fail": "SELECT 1 / $1::int",
    "end": "SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(10)",
}


def soon() -> float:
    return time.monotonic() + 10


def values(answers: Sequence[PGresult | LinkError] | None) -> list[bytes | None]:
    assert answers is not None
    results = [answer for answer in answers if not isinstance(answer, LinkError)]
    assert len(results) == len(answers), answers
    return [result.get_value(0, 0) for result in results]


@pytest.fixture
def link(throwaway: ThrowawayCluster) -> Iterator[ServerLink]:
    link = ServerLink(throwaway.conninfo())
    link.connect(STATEMENTS, deadline=soon())
    yield link
    link.close()


def test_server_that_says_nothing_is_not_waited_for(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / ".s.PGSQL.5432"))
        listener.listen()
        link = ServerLink(f"host={tmp_path} port=5432 user=postgres")
        before = time.monotonic()

        with pytest.raises(LinkError, match="the connection timed out"):
            link.connect({}, deadline=before + 0.2)

    assert time.monotonic() >= before + 0.2
    assert not link.is_connected


def test_link_that_is_not_connected_has_no_answer(tmp_path: Path) -> None:
    link = ServerLink(f"host={tmp_path}")

    assert link.run("pg_stat_wal", (), deadline=time.monotonic() + 10) is None


def test_server_that_is_not_there_is_an_error_in_its_own_words(tmp_path: Path) -> None:
    link = ServerLink(f"host={tmp_path} port=5432 user=postgres")

    with pytest.raises(LinkError, match=r"No such file or directory"):
        link.connect({}, deadline=time.monotonic() + 10)


@pytest.mark.pg
def test_statements_of_a_batch_are_answered_in_their_order(link: ServerLink) -> None:
    assert values(link.run_all([("one", []), ("number", [b"2"]), ("number", [b"3"])], deadline=soon())) == [
        b"1",
        b"2",
        b"3",
    ]


@pytest.mark.pg
def test_batch_is_one_transaction(link: ServerLink) -> None:
    first, second = values(link.run_all([("now", []), ("now", [])], deadline=soon()))

    assert first == second


@pytest.mark.pg
def test_after_a_statement_that_fails_the_rest_of_its_batch_is_left_out(link: ServerLink) -> None:
    answers = link.run_all([("one", []), ("fail", [b"0"]), ("one", [])], deadline=soon())

    assert answers is not None
    assert values(answers[:1]) == [b"1"]
    assert [str(answer) for answer in answers[1:]] == [
        "division by zero",
        "skipped after another statement failed",
    ]
    assert values(link.run_all([("one", [])], deadline=soon())) == [b"1"]


@pytest.mark.pg
def test_answer_to_a_batch_that_comes_too_late_is_thrown_away(link: ServerLink) -> None:
    assert link.run_all([("sleep", []), ("number", [b"7"])], deadline=time.monotonic() + 0.05) is None

    assert values(link.run_all([("number", [b"8"])], deadline=soon())) == [b"8"]
    answer = link.run("number", [b"9"], deadline=soon())
    assert answer is not None
    assert answer.get_value(0, 0) == b"9"


@pytest.mark.pg
def test_what_was_asked_is_taken_once_and_when_it_has_come(link: ServerLink) -> None:
    assert link.ask("sleep", [])
    assert link.take() is None
    assert not link.ask("one", [])
    assert link.take(deadline=soon()) is not None
    assert link.take() is None
    assert link.ask("one", [])


@pytest.mark.pg
def test_connection_that_ends_within_a_batch_is_an_error(link: ServerLink) -> None:
    with pytest.raises(LinkError, match=r"terminat|closed"):
        link.run_all([("one", []), ("end", []), ("one", [])], deadline=soon())

    assert not link.is_connected
    assert link.run_all([("one", [])], deadline=soon()) is None


@pytest.mark.pg
def test_late_answer_of_a_batch_is_not_taken_for_that_of_a_statement(link: ServerLink) -> None:
    assert link.run_all([("sleep", []), ("one", [])], deadline=time.monotonic()) is None

    assert link.take(deadline=soon()) is None
    assert link.ask("number", [b"7"])
    answer = link.take(deadline=soon())

    assert answer is not None
    assert answer.get_value(0, 0) == b"7"
