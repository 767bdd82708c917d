import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.postgres.connect import split_statements


def texts(script: str) -> list[str]:
    return [text.strip() for _, text in split_statements(script)]


@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("", []),
        (" ; ;\n-- nothing; at all\n/* neither; */", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;SELECT 2 ;", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';', 'it''s;', \";\", E'\\';', $$;$$, $a$ $$; $a$; SELECT $1", None),
        ("SELECT /* a /* nested; */ still; */ 1; SELECT 2", ["SELECT /* a /* nested; */ still; */ 1", "SELECT 2"]),
        ("SELECT 1 -- one; two\n; SELECT 2", ["SELECT 1 -- one; two", "SELECT 2"]),
        ("CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2); SELECT 3", None),
        (
            "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END; SELECT 3",
            None,
        ),
        ("BEGIN; SELECT 1; END; SELECT 2", ["BEGIN", "SELECT 1", "END", "SELECT 2"]),
        ("SELECT 'never closed; and on", ["SELECT 'never closed", "and on"]),
    ],
)
def test_statements_end_where_psql_ends_them(script: str, statements: list[str] | None) -> None:
    found = texts(script)

    if statements is None:  # two statements, the second begins with the script's last SELECT
        last = script.rindex("SELECT")
        statements = [script[:last].strip().removesuffix(";"), script[last:].strip()]
    assert found == statements


@given(st.text(alphabet="a;'\"$(/*)-\nE ", max_size=60))
def test_nothing_is_lost_and_offsets_are_true(script: str) -> None:
    kept = [(offset, text) for offset, text in split_statements(script)]

    assert all(script[offset : offset + len(text)] == text for offset, text in kept)
    assert [offset for offset, _ in kept] == sorted(offset for offset, _ in kept)
