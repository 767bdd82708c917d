from collections.abc import Sequence

from psycopg.pq.abc import PGresult

from pgtrial.engine.sampler.link import SessionSums, columns_of, rows_of
from pgtrial.model.load_sessions import beginning_of_names
from support.libpq import made_result


def answer(*rows: Sequence[bytes | None]) -> PGresult:
    return made_result(["state", "query", "query_id", "application"], *((*row, None, None)[:4] for row in rows))


def test_alike_sessions_of_several_polls_are_one_row() -> None:
    sums = SessionSums()

    sums.add(1.0, answer((b"active", None), (b"active", None), (None, None)), count=1)
    sums.add(2.0, answer((b"active", None)), count=1)

    assert (sums.t, len(sums.polls)) == (1.0, 2)
    assert sums.drain() == {
        "polls": 2,
        "late": 0,
        "columns": ("state", "query", "query_id", "application", "sessions"),
        "rows": [["active", None, None, None, "3"], [None, None, None, None, "1"]],
    }
    assert sums.polls == []


def test_answer_that_came_late_counts_for_all_moments_it_was_due_at() -> None:
    sums = SessionSums()

    sums.add(1.0, answer((b"active", None)), count=3)
    sums.add(2.0, answer((b"idle", None)), count=1)

    found = sums.drain()
    assert (found["polls"], found["late"]) == (4, 2)
    assert found["rows"] == [["active", None, None, None, "3"], ["idle", None, None, None, "1"]]


def test_statements_that_the_server_counts_as_one_have_one_text() -> None:
    sums = SessionSums()
    sums.add(1.0, answer((b"active", b"SELECT 1 /* a */", b"7"), (b"active", b"SELECT  2 /* b */", b"7")), count=1)

    assert sums.drain()["rows"] == [["active", "SELECT ?", "7", None, "2"]]
    sums.add(2.0, answer((b"active", b"SELECT 3 /* c */", b"7")), count=1)
    assert sums.drain()["rows"] == [["active", "SELECT ?", "7", None, "1"]]


def test_several_statements_sent_at_once_keep_their_own_text() -> None:
    sums = SessionSums()
    sums.add(
        1.0,
        answer((b"active", b"UPDATE a SET n = 1; COMMIT;", b"9"), (b"active", b"UPDATE b SET n = 2; COMMIT", b"9")),
        count=1,
    )

    assert [row[1] for row in sums.drain()["rows"]] == ["UPDATE a SET n = ?; COMMIT;", "UPDATE b SET n = ?; COMMIT"]


def test_statements_that_differ_in_literals_are_one_and_none_is_kept() -> None:
    sums = SessionSums()

    sums.add(
        1.0,
        answer(
            (b"active", b"SELECT 'a''b', $1, col1 WHERE n = 17.5"), (b"active", b"SELECT 'c', $1, col1 WHERE n = 2")
        ),
        count=1,
    )

    assert sums.drain()["rows"] == [["active", "SELECT ?, ?, col1 WHERE n = ?", None, None, "2"]]


def test_sessions_of_another_experiment_are_not_the_loads() -> None:
    own, other = (beginning_of_names("machine", folder, "before") for folder in ("/results/own", "/results/other"))
    sums = SessionSums(load=own)
    names = (f"{own}read", f"{other}read", "pgtrial", "psql")

    sums.add(1.0, answer(*((b"idle", None, None, name.encode()) for name in names)), count=1)

    assert [row[3] for row in sums.drain()["rows"]] == ["pgtrial/read", f"{other}read", "pgtrial", "psql"]


def test_next_second_begins_anew() -> None:
    sums = SessionSums()
    sums.add(1.0, answer((b"active", None)), count=1)
    sums.drain()

    sums.add(2.0, answer((b"idle", None)), count=1)

    assert (sums.t, sums.drain()["rows"]) == (2.0, [["idle", None, None, None, "1"]])


def test_result_is_texts() -> None:
    result = answer((b"\xc3\xa9", None), (b"\xff", b"1"))

    assert columns_of(result) == ("state", "query", "query_id", "application")
    assert rows_of(result) == [["é", None, None, None], ["�", "1", None, None]]
