import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.safe_text import hide_secrets, without_literals


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("SELECT 'a''b', 12.5, t1.x FROM t1 WHERE y = $1", "SELECT ?, ?, t1.x FROM t1 WHERE y = ?"),
        (r"SELECT E'it\'s secret', e'\\', 'C:\' FROM t", "SELECT ?, ?, ? FROM t"),
        ("DO $$BEGIN PERFORM 'x'; secret; END$$; SELECT $a$it's$$secret$a$, 1", "DO ?; SELECT ?, ?"),
        ("SELECT a1 FROM \"t 1\" WHERE b = 'it''s' AND c > 4711.5", 'SELECT a1 FROM "t 1" WHERE b = ? AND c > ?'),
        ("SELECT E'a\\'b', $x$ secret $x$ -- secret", "SELECT ?, ? "),
        ("SELECT U&'d\\0061t' UESCAPE '!', B'101', x'1F', N'secret'", "SELECT ? UESCAPE ?, ?, ?, ?"),
        ("SELECT 1e5, 1.5e-10, .5, 1_000, 0x1F, 5.", "SELECT ?, ?, ?, ?, ?, ?"),
        ("SELECT t_2024_01.c$1, straße2, a[1:2] FROM s.t3", "SELECT t_2024_01.c$1, straße2, a[?:?] FROM s.t3"),
        ("SELECT 1 FROM t WHERE a IN('secret')", "SELECT ? FROM t WHERE a IN(?)"),
        # A sign belongs to its number where the server's parser takes it so.
        ("UPDATE a SET b = b + -5, c = -1", "UPDATE a SET b = b + ?, c = ?"),
        (
            "SELECT -3, a - 5, a -7, b - -2 WHERE x BETWEEN -1 AND -2",
            "SELECT ?, a - ?, a -?, b - ? WHERE x BETWEEN ? AND ?",
        ),
    ],
)
def test_a_statement_keeps_none_of_its_values(statement: str, shown: str) -> None:
    assert without_literals(statement) == shown


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("SELECT a /* don't */ FROM t WHERE b = 'secret'", "SELECT a  FROM t WHERE b = ?"),
        ("SELECT a -- it's\nFROM t WHERE b = 'secret'", "SELECT a \nFROM t WHERE b = ?"),
        ("SELECT a /* b /* secret */ 'secret */ FROM t", "SELECT a  FROM t"),
        ("SELECT/* secret */a FROM t", "SELECT a FROM t"),
        ("SELECT '/*', a, '--', b FROM \"/* t\"", 'SELECT ?, a, ?, b FROM "/* t"'),
        ("SELECT a AS \"it's -- $$\", 'secret' FROM t", 'SELECT a AS "it\'s -- $$", ? FROM t'),
        ('SELECT a AS "b""\'", \'secret\' FROM t', 'SELECT a AS "b""\'", ? FROM t'),
        ("SELECT E'\\\\' /* ' */, 'secret'", "SELECT ? , ?"),
        ("/* secret */ SELECT a", " SELECT a"),
    ],
)
def test_comments_are_left_out_and_hide_no_values(statement: str, shown: str) -> None:
    assert without_literals(statement) == shown


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("SELECT $body$secret that is cut", "SELECT ?"),
        ("SELECT $a$secret$a", "SELECT ?"),
        ("SELECT 'secret that is cut", "SELECT ?"),
        ("SELECT 'secret''", "SELECT ?"),
        ("SELECT E'secret that is cut\\", "SELECT ?"),
        ("UPDATE t /* secret */ SET a = 'cut of", "UPDATE t  SET a = ?"),
        ("SELECT a /* secret /* that */ is cut", "SELECT a "),
        ("SELECT a -- secret that is cut", "SELECT a "),
        ('SELECT a FROM "name that is cut', 'SELECT a FROM "name that is cut'),
        ("SELECT a FROM t WHERE b = 4711.", "SELECT a FROM t WHERE b = ?"),
    ],
)
def test_what_is_cut_off_goes_on_to_the_end(statement: str, shown: str) -> None:
    assert without_literals(statement) == shown


def test_the_mark_is_the_callers() -> None:
    assert without_literals("SELECT a WHERE b > -5 AND c = 'x'", mark="…") == "SELECT a WHERE b > … AND c = …"


# Parts of a statement in which the secret is a value, or in a comment; and others beside them.
_PARTS = ["'secret'", r"E'\'secret'", "$$secret'$$", "$a$ $$ secret $a$", "/* secret ' */", "/* /* ' */ secret */"]
_CODE = ["SELECT a1", '"it\'s"', "-- don't\n", "t.b2 =", "4711", "$1", "- 5", "FROM t", "U&'secret'", "a /", "* b"]


@given(st.lists(st.sampled_from([*_PARTS, *_CODE]), max_size=8), st.integers(min_value=0, max_value=80))
def test_wherever_a_statement_is_cut_nothing_is_told(parts: list[str], length: int) -> None:
    shown = without_literals(" ".join(parts)[:length])

    assert not re.search("sec|4711|711", shown)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("+ PGPASSWORD=hunter2xyz psql -h db7", "+ PGPASSWORD=*** psql -h db7"),
        (
            "cannot connect to postgresql://alice:hunter2xyz@db7/shop",
            "cannot connect to postgresql://alice:***@db7/shop",
        ),
        ("dsn: host=db7 password='hunter 2'", "dsn: host=db7 password='***'"),
        ("> Authorization: Bearer XYZ", "> Authorization: Bearer ***"),
        ("Proxy-authorization: basic dTpw, try again", "Proxy-authorization: basic ***, try again"),
        ("{'Authorization': 'hunter2xyz'}", "{'Authorization': '***'}"),
        ('Authorization: Digest username="u", response="6629"\nnext', "Authorization: Digest ***\nnext"),
        ("map[Authorization:[Token abc] Accept:[*/*]]", "map[Authorization:[Token ***] Accept:[*/*]]"),
        (
            "left out 3 of the statements: COPY has data of its own",
            "left out 3 of the statements: COPY has data of its own",
        ),
    ],
)
def test_secrets_that_a_text_gives_away_are_hidden(text: str, hidden: str) -> None:
    assert hide_secrets(text) == hidden
