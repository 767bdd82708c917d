import os
from pathlib import Path

import pytest

from pgtrial.errors import SpecError
from pgtrial.workloads.replay.log import Statement, read_log


def test_statements_are_those_of_each_session_since_the_first_one(write_log) -> None:
    log = read_log(
        write_log(
            [
                (1.5, "a", "connection authorized: user=app database=app"),
                (2.0, "a", "statement: SELECT 1"),
                (2.25, "b", "statement: BEGIN"),
                (3.5, "a", "statement: SELECT\n  2"),
                (4.0, "b", "statement: COMMIT"),
                (5.0, "a", "disconnection: session time: 0:00:03.500 user=app database=app host=[local]"),
            ]
        )
    )

    first, second = log.sessions
    assert [(one.due, one.text) for one in first.statements] == [(0.0, "SELECT 1"), (1.5, "SELECT\n  2")]
    assert [(one.due, one.text) for one in second.statements] == [(0.25, "BEGIN"), (2.0, "COMMIT")]
    assert not log.left_out


def test_what_is_logged_at_its_end_is_due_at_its_beginning(write_log) -> None:
    log = read_log(
        write_log(
            [
                (2.0, "a", "duration: 250.000 ms  statement: SELECT pg_sleep(0.25)"),
                (1.9, "b", "duration: 100.000 ms  execute <unnamed>: SELECT 1"),
                (2.1, "b", "duration: 0.010 ms"),
                (2.2, "b", "duration: 0.010 ms  parse <unnamed>: SELECT 2"),
            ]
        )
    )

    assert [[one.due for one in session.statements] for session in log.sessions] == [
        [0.0],
        [pytest.approx(0.05, abs=1e-6)],
    ]


def test_statements_of_a_session_stay_in_order_where_whole_milliseconds_say_otherwise(write_log) -> None:
    log = read_log(
        write_log(
            [
                (1.0, "a", "duration: 0.010 ms  statement: BEGIN"),
                (1.0, "a", "duration: 0.400 ms  statement: INSERT INTO t VALUES (1)"),
                (1.0, "a", "duration: 0.200 ms  statement: COMMIT"),
            ]
        )
    )

    assert [one.text for one in log.sessions[0].statements] == ["BEGIN", "INSERT INTO t VALUES (1)", "COMMIT"]
    assert [one.due for one in log.sessions[0].statements] == [pytest.approx(0.00039, abs=1e-6)] * 3


@pytest.mark.parametrize("word", ["parameters", "Parameters"])
def test_parameters_are_those_of_the_detail(write_log, word) -> None:
    detail = f"{word}: $1 = '7', $2 = NULL, $3 = 'it''s, $4 = ''x'', and so on', $4 = ''"
    log = read_log(write_log([(0, "a", "execute s1/p2: SELECT $1, $2, $3, $4", "LOG", detail)]))

    assert log.sessions[0].statements[0].parameters == ("7", None, "it's, $4 = 'x', and so on", "")


def test_what_failed_is_marked_and_what_could_not_be_parsed_is_there(write_log) -> None:
    log = read_log(
        write_log(
            [
                (0, "a", "statement: SELECT 1/0"),
                (0.1, "a", "division by zero", "ERROR", "", "SELECT 1/0"),
                (1, "a", "statement: SELECT 1"),
                (2, "a", 'syntax error at or near "SELEC"', "ERROR", "", "SELEC 1"),
                (3, "a", "statement: SELECT pg_sleep(9)"),
                (4, "a", "terminating connection due to administrator command", "FATAL"),
            ]
        )
    )

    assert log.sessions[0].statements == [
        Statement(due=0.0, text="SELECT 1/0", parameters=(), failed=True),
        Statement(due=1.0, text="SELECT 1", parameters=()),
        Statement(due=2.0, text="SELEC 1", parameters=(), failed=True),
        Statement(due=3.0, text="SELECT pg_sleep(9)", parameters=(), failed=True),
    ]


def test_a_session_that_was_ended_while_it_was_idle_had_not_failed(write_log) -> None:
    ended = "terminating connection due to administrator command"
    log = read_log(write_log([(0, "a", "statement: SELECT 1"), (9, "a", ended, "FATAL", "", "", "idle")]))

    assert not log.sessions[0].statements[0].failed


def test_what_cannot_be_parsed_in_an_idle_session_had_failed(write_log) -> None:
    syntax = 'syntax error at or near "SELEC"'
    log = read_log(
        write_log(
            [
                (0, "a", "statement: BEGIN"),
                (1, "a", syntax, "ERROR", "", "SELEC 1", "idle in transaction"),
                (2, "a", syntax, "ERROR", "", "SELEC 1", "idle in transaction"),
            ]
        )
    )

    assert [(one.due, one.text, one.failed) for one in log.sessions[0].statements] == [
        (0.0, "BEGIN", False),
        (1.0, "SELEC 1", True),
        (2.0, "SELEC 1", True),
    ]


def test_what_is_logged_at_its_end_had_not_failed_though_the_same_failed_next(write_log) -> None:
    insert = "INSERT INTO t VALUES (1)"
    log = read_log(
        write_log(
            [
                (1, "a", f"duration: 0.000 ms  statement: {insert}"),
                (2, "a", "duplicate key value", "ERROR", "", insert, "INSERT"),
            ]
        )
    )

    assert [(one.due, one.failed) for one in log.sessions[0].statements] == [(0.0, False), (1.0, True)]


@pytest.mark.parametrize("command", ["BIND", "PARSE"])
def test_what_was_refused_before_it_began_is_not_the_one_before_it_that_has_its_text(write_log, command) -> None:
    text = "SELECT * FROM t WHERE id = $1::int"
    log = read_log(
        write_log(
            [
                (0, "a", f"execute <unnamed>: {text}", "LOG", "parameters: $1 = '3'"),
                (1, "a", 'invalid input syntax for type integer: "x"', "ERROR", "", text, command),
                (2, "a", f"execute <unnamed>: {text}", "LOG", "parameters: $1 = '4'"),
            ]
        )
    )

    assert [(one.due, one.parameters, one.failed) for one in log.sessions[0].statements] == [
        (0.0, ("3",), False),
        (1.0, (), True),
        (2.0, ("4",), False),
    ]


def test_how_long_a_cancelled_statement_had_run_is_known_where_its_beginning_is(write_log) -> None:
    user, timeout = (f"canceling statement due to {each}" for each in ("user request", "statement timeout"))
    log = read_log(
        write_log(
            [
                (0, "a", "statement: SELECT pg_sleep(9)"),
                (0.5, "a", user, "ERROR", "", "SELECT pg_sleep(9)", "SELECT"),
                (1, "a", timeout, "ERROR", "", "SELECT pg_sleep(8)", "SELECT"),
                (2, "a", "statement: SELECT 1"),
                (2, "a", "division by zero", "ERROR", "", "SELECT 1", "SELECT"),
            ]
        )
    )

    statements = log.sessions[0].statements
    assert [(one.due, one.failed, one.cancelled) for one in statements] == [
        (0, True, 0.5),
        (1, True, 0),
        (2, True, None),
    ]


def test_more_rows_of_a_statement_are_not_the_statement_again(write_log) -> None:
    log = read_log(
        write_log(
            [
                (0, "a", "execute S_1/C_2: SELECT * FROM t"),
                (1, "a", "execute fetch from S_1/C_2: SELECT * FROM t"),
                (2, "a", "duration: 1.000 ms  execute fetch from S_1/C_2: SELECT * FROM t"),
            ]
        )
    )

    assert [one.due for one in log.sessions[0].statements] == [0.0]
    assert log.left_out == {"an earlier one had begun it, and more of its rows were asked for": 2}


def test_only_what_was_prepared_in_the_log_is_deallocated(write_log) -> None:
    log = read_log(
        write_log(
            [
                (0, "a", "execute pdo_stmt_00000002: SELECT 1"),
                (1, "a", "statement: DEALLOCATE pdo_stmt_00000001"),
                (2, "a", "statement: PREPARE One AS SELECT 1"),
                (3, "a", 'statement: DEALLOCATE PREPARE "one"'),
                (4, "a", "statement: DEALLOCATE ALL"),
            ]
        )
    )

    assert [one.due for one in log.sessions[0].statements] == [0.0, 2.0, 3.0, 4.0]
    assert log.left_out == {"it deallocates what no statement of its session had prepared": 1}


def test_what_a_driver_prepared_has_a_name_until_it_is_deallocated_or_another_text_has_it(write_log) -> None:
    one = (0, "a", "execute S_1/C_2: SELECT $1", "LOG", "parameters: $1 = '1'")
    two, three = (1, "a", "duration: 0.1 ms  execute by:id: SELECT 2"), (1, "a", "execute by:id: SELECT 'a: b'")
    log = read_log(
        write_log(
            [
                *(one, two, three, one, two, three),
                (2, "b", "execute S_1: SELECT 2"),
                (3, "a", 'statement: DEALLOCATE "S_1"'),
                one,
                (4, "a", 'statement: /* now */ DEALLOCATE "S_1"'),
                (5, "a", "statement: DEALLOCATE ALL"),
                *(three, three, two),
                (7, "a", "statement: discard all"),
                *(two, two),
                (8, "a", "execute <unnamed>: SELECT 2"),
                *((9, "a", "execute S_1: SELECT $1"),) * 2,
            ]
        )
    )

    of_a, of_b = ([(one.name, one.forgets) for one in session.statements] for session in log.sessions)
    assert of_a == [
        *(("S_1", ()), ("by:id", ()), ("pgtrial 1", ())) * 2,
        ("", ("S_1",)),
        ("S_1", ()),  # once, but it has to be there for what follows
        ("", ("S_1",)),
        ("", ("by:id", "pgtrial 1")),
        *(("by:id", ()), ("by:id", ()), ("", ())),
        ("", ("by:id", "pgtrial 2")),
        *(("by:id", ()), ("by:id", ())),
        ("", ()),
        *(("", ()), ("", ())),  # whose parameters the log does not have
    ]
    assert of_b == [("", ())]
    assert [one.text for one in log.sessions[0].statements][1:3] == ["SELECT 2", "SELECT 'a: b'"]
    assert log.left_out == {}


@pytest.mark.parametrize(
    "text",
    [
        "/* of: the app */ COPY t FROM STDIN",
        "-- a\n  /* b ** c *//**/copy t(id) from stdin with csv",
        "BEGIN; COPY t FROM STDIN; COMMIT",
    ],
)
def test_copy_is_found_behind_comments_and_other_statements(write_log, text) -> None:
    rows = [
        (0, "a", f"statement: {text}"),
        (1, "a", "bad data", "ERROR", "", text, "COPY"),
        (2, "a", "statement: SELECT 1"),
    ]
    log = read_log(write_log(rows))

    assert [one.text for one in log.sessions[0].statements] == ["SELECT 1"]


def test_many_comments_are_passed_over_in_no_time(write_log) -> None:
    text = "/**/ " * 20_000 + "SELECT 1"

    assert read_log(write_log([(0, "a", f"statement: {text}")])).sessions[0].statements[0].text == text


def test_copy_of_data_that_the_log_does_not_have_is_left_out_and_told(write_log) -> None:
    log = read_log(
        write_log(
            [
                (0, "a", "statement: COPY t FROM STDIN"),
                (1, "a", "statement: copy (SELECT 1)\nto stdout"),
                (2, "a", "statement: SELECT 1 -- COPY"),
            ]
        )
    )

    assert [one.text for one in log.sessions[0].statements] == ["copy (SELECT 1)\nto stdout", "SELECT 1 -- COPY"]
    assert log.left_out == {"COPY has data of its own": 1}


def test_of_several_databases_one_has_to_be_named(write_log) -> None:
    path = write_log(
        [(0, "a", "statement: SELECT 1"), (5, "b", "statement: SELECT 2"), (6, "c", "connection received: host=x")],
        database={"a": "shop", "b": "erp", "c": ""},
    )

    with pytest.raises(SpecError, match="of several databases: erp, shop"):
        read_log(path)
    assert [one.statements[0] for one in read_log(path, database="erp").sessions] == [
        Statement(due=0.0, text="SELECT 2", parameters=())
    ]
    with pytest.raises(SpecError, match="no statement of database other"):
        read_log(path, database="other")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has no statement"),
        (b"2026-01-20 10:00:00 UTC LOG: statement: SELECT 1\n", "record 1 .*it is no csvlog"),
        (b"," * 25 + b"\n", '"" .* is no time of a csvlog'),
        (b'"half', "is no csvlog after record 0"),
        (
            b'2026-01-20 10:00:00 UTC,a,b,,,s,,,,,,LOG,,"statement: SELECT 1"' + b"," * 12 + b"\n2026-",
            "record 2 .*, in line 2, has 1 columns",
        ),
        (b"\xff" * 9, "record 1 .*it is no csvlog"),
    ],
)
def test_what_is_no_csvlog_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "app.csv"
    path.write_bytes(content)

    with pytest.raises(SpecError, match=said):
        read_log(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('2026-01-20 10:00:00 UTC,a,b,,,s,,,,,,LOG,,"Anweisung: SELECT 1"' + "," * 12 + "\n", "lc_messages = C"),
        ('{"timestamp":"2026-01-20 10:00:00 UTC"}\n', "log_destination = csvlog"),
    ],
)
def test_a_log_in_other_words_or_another_form_is_told_what_is_wanted(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "app.csv"
    path.write_text(content)

    with pytest.raises(SpecError) as caught:
        read_log(path)

    assert said in str(caught.value.hint)


def test_a_log_in_which_the_clock_was_changed_is_refused(write_log) -> None:
    """The last hour of summer comes again; which one is meant a name of a zone does not say."""
    path = write_log([(0, "a", "statement: SELECT 1"), (1, "b", "statement: SELECT 2")])
    path.write_text(path.read_text().replace("UTC", "CEST", 1).replace("UTC", "CET"))

    with pytest.raises(SpecError, match=r"two zones, CEST and from 2026-01-20 10:00:01\.000 CET on another"):
        read_log(path)


def test_a_record_that_was_cut_off_among_others_is_found(write_log) -> None:
    path = write_log([(number, "a", f"statement: SELECT {number},\n 9") for number in range(3)])
    path.write_text(path.read_text().replace(' 9"', "", 2).replace("0,\n", '0,\n 9"', 1))

    with pytest.raises(SpecError, match="after record 1, from line 3 on") as refused:
        read_log(path)
    assert "begins there" in str(refused.value.hint)


def test_only_statements_that_are_replayed_have_to_be_utf_8(write_log) -> None:
    path = write_log(
        [
            (0, "a", "statement: SELECT 'grün'"),
            (1, "b", 'role "grau" does not exist', "FATAL", "", "", "startup"),
            (2, "c", "statement: SELECT 'grau'"),
        ],
        database={"a": "app", "b": "app", "c": "other"},
    )
    path.write_bytes(path.read_text().replace("grau", "gr\udcff").encode(errors="surrogateescape"))

    with pytest.raises(SpecError, match="of several databases: app, other"):
        read_log(path)
    (session,) = read_log(path, database="app").sessions
    assert [one.text for one in session.statements] == ["SELECT 'grün'"]
    with pytest.raises(SpecError, match=r"the statement in record 3 of .* is not UTF-8"):
        read_log(path, database="other")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "app.csv")

    with pytest.raises(SpecError, match="is no file"):
        read_log(tmp_path / "app.csv")


def test_a_log_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"cannot read .*no\.csv.*No such file"):
        read_log(tmp_path / "no.csv")
