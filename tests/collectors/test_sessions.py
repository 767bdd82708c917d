import pytest

from pgtrial.collectors import sessions
from pgtrial.collectors.sessions import SessionGroup

COLUMNS = ["backend_type", "application", "state", "wait_type", "wait_event", "query", "sessions"]


def test_groups_that_differ_in_white_space_become_one() -> None:
    rows = [
        ["client backend", "a", "active", None, None, "SELECT  ?\n  FROM t", "2"],
        ["client backend", "a", "active", None, None, "SELECT ? FROM t", "3"],
    ]

    assert list(sessions.COLLECTOR.parse(COLUMNS, rows)) == [
        SessionGroup("client backend", "a", "active", "", "", "SELECT ? FROM t", 5)
    ]


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("SELECT 'a''b', 12.5, t1.x FROM t1 WHERE y = $1", "SELECT ?, ?, t1.x FROM t1 WHERE y = ?"),
        (r"SELECT E'it\'s secret', e'\\', 'C:\' FROM t", "SELECT E?, e?, ? FROM t"),
        ("DO $$BEGIN PERFORM 'x'; secret; END$$; SELECT $a$it's$$secret$a$, 1", "DO ?; SELECT ?, ?"),
        ("SELECT $body$secret that is cut", "SELECT ?"),
        ("SELECT 'secret that is cut", "SELECT ?"),
        ("SELECT E'secret that is cut\\", "SELECT E?"),
        # A sign belongs to its number where the server's parser takes it so.
        ("UPDATE a SET b = b + -5, c = -1", "UPDATE a SET b = b + ?, c = ?"),
        (
            "SELECT -3, a - 5, a -7, b - -2 WHERE x BETWEEN -1 AND -2",
            "SELECT ?, a - ?, a -?, b - ? WHERE x BETWEEN ? AND ?",
        ),
    ],
)
def test_a_statement_keeps_none_of_its_values(query: str, kept: str) -> None:
    assert sessions.without_literals(query) == kept


def test_query_text_is_cut_after_80_characters() -> None:
    rows = [["client backend", "a", "active", None, None, "x" * 200, "1"]]

    (group,) = sessions.COLLECTOR.parse(COLUMNS, rows)

    assert group.query == "x" * 80


def test_columns_are_known_by_name() -> None:
    row = ["walwriter", "", None, "Activity", "WalWriterMain", None, "10"]

    (group,) = sessions.COLLECTOR.parse(COLUMNS[::-1], [row[::-1]])

    assert group == SessionGroup("walwriter", "", "", "Activity", "WalWriterMain", "", 10)
