"""Statements of pgbench scripts, as a server can plan them."""

import pytest

from pgtrial.workloads.statements import planned_statements, unset_variables


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


@pytest.mark.parametrize(
    ("script", "unset"),
    [
        ("\\set a random(1, 9)\nSELECT :a, :b;\n", {"b"}),
        ("\\set a :c * 2\n\\if :d\nSELECT 1;\n\\endif\n", {"c", "d"}),
        ("SELECT :scale, :client_id, :given, :random_seed, :default_seed;\n", set()),
        ("SELECT x::int, '12:ab', \":d\", a[1:n], a[i:n] FROM t; -- :e\n/* :f */", set()),
        ("SELECT 1 AS a \\gset p_\nSELECT :p_a;\n", set()),
        ("SELECT f(a := 1, b => :b);\n", {"b"}),
    ],
)
def test_variables_that_nothing_sets_are_found(script: str, unset: set[str]) -> None:
    assert unset_variables(script, {"given": "1"}) == unset


def test_a_command_of_pgbench_ends_a_statement_wherever_it_stands() -> None:
    script = (
        "SELECT 1; \\sleep 10 \\\n ms\nSELECT 2 AS a \\gset\nSELECT '\n\\sleep 3';\n/* \\if */ SELECT $$\n\\set a$$;\n"
    )

    found = [statement.text for statement in planned_statements(script)]

    assert found == ["SELECT 1", "SELECT 2 AS a", "SELECT ' \\sleep 3'", "SELECT $$ \\set a$$"]
