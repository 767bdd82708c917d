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


def test_a_statement_is_shown_without_values_comments_and_line_breaks() -> None:
    query = "/* user's page */ SELECT a\n  FROM t WHERE b = 'secret' AND c = 4711;"

    assert sessions.shown_query(query) == "SELECT a FROM t WHERE b = ? AND c = ?"


def test_query_text_is_cut_after_80_characters() -> None:
    rows = [["client backend", "a", "active", None, None, "x" * 200, "1"]]

    (group,) = sessions.COLLECTOR.parse(COLUMNS, rows)

    assert group.query == "x" * 80


def test_columns_are_known_by_name() -> None:
    row = ["walwriter", "", None, "Activity", "WalWriterMain", None, "10"]

    (group,) = sessions.COLLECTOR.parse(COLUMNS[::-1], [row[::-1]])

    assert group == SessionGroup("walwriter", "", "", "Activity", "WalWriterMain", "", 10)
