"""Statements of pgbench scripts, as a server can plan them."""

import pytest

from pgtrial.workloads.statements import planned_statements


def test_variables_become_parameters_and_pgbenchs_own_commands_go() -> None:
    script = (
        "\\set a random(1, \\\n  100)\n-- about an account\nBEGIN;\n"
        "UPDATE t SET b = b + :delta::int -- by that\nWHERE a = :a AND a <> :a;\n\\sleep 1 ms\nEND;\n"
        "select ':a', \":a\", '{1,2}'::int[];"
    )

    first, second = planned_statements(script)

    assert first.text == "UPDATE t SET b = b + :delta::int WHERE a = :a AND a <> :a"
    assert (first.prepared, first.parameters) == ("UPDATE t SET b = b + $1::int WHERE a = $2 AND a <> $2", 2)
    assert (second.prepared, second.parameters) == ("select ':a', \":a\", '{1,2}'::int[]", 0)


@pytest.mark.parametrize("script", ["", "BEGIN; COMMIT;", "VACUUM t; CREATE TABLE u (a int);", "\\set a 1"])
def test_what_has_no_plan_is_left_out(script: str) -> None:
    assert list(planned_statements(script)) == []
