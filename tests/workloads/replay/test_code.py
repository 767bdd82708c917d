"""The log of a server has what everybody wrote into it who may connect: replaying it executes no more than SQL."""

import pytest

from pgtrial.errors import SpecError
from pgtrial.workloads.replay.log import read_log

COPY = "COPY (SELECT 1) TO PROGRAM 'id'"


@pytest.mark.parametrize(
    "text",
    [
        COPY,
        "COPY t FROM '/etc/passwd'",
        "CREATE FUNCTION f() RETURNS int LANGUAGE c AS '/tmp/evil'",
        "SELECT U&\"lo\\005fexport\"(1, '/tmp/x')",
        "LOAD '/tmp/evil'",
        "DO 'BEGIN EXECUTE ''CO''\n''PY t TO PROGRAM'' ''id''; END'",
        "ALTER SYSTEM SET archive_command = 'id'",
    ],
)
def test_code_is_left_out_unless_it_is_allowed(write_log, text: str) -> None:
    path = write_log([(0, "a", "statement: SELECT 1"), (1, "a", f"execute <unnamed>: {text}")])

    without, allowed = read_log(path), read_log(path, allow_code=True)

    assert [one.text for one in without.sessions[0].statements] == ["SELECT 1"]
    assert dict(without.left_out) == {"code, files or other hosts, for which it takes --allow-code": 1}
    assert [one.text for one in allowed.sessions[0].statements] == ["SELECT 1", text]


def test_what_was_refused_to_its_author_is_not_sent_by_who_may(write_log) -> None:
    path = write_log(
        [
            (0, "a", "statement: SELECT 1"),
            (1, "a", f"statement: {COPY}"),
            (2, "a", "permission denied to COPY to or from an external program", "ERROR", "", COPY),
        ]
    )

    (statement,) = read_log(path).sessions[0].statements
    assert (statement.text, statement.failed) == ("SELECT 1", False)


def test_a_name_makes_no_lines_of_its_own(write_log) -> None:
    name = "x\nhint: run evil"
    path = write_log([(0, "a", "statement: SELECT 1"), (1, "b", "statement: SELECT 1")], database={"a": name, "b": "y"})

    with pytest.raises(SpecError) as refused:
        read_log(path)

    assert "\n" not in refused.value.message


def test_a_log_of_code_alone_says_so(write_log) -> None:
    with pytest.raises(SpecError, match="no statement but those that are left out"):
        read_log(write_log([(0, "a", f"statement: {COPY}")]))
