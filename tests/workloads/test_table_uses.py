"""What scripts are said to need on tables; what a server then refuses is tested where there is one."""

import pytest

from pgtrial.postgres.existing.table_rights import TableUse
from pgtrial.workloads.table_uses import possible_uses, table_uses


@pytest.mark.parametrize(
    ("script", "needed"),
    [
        ("SELECT * FROM a, b AS c JOIN s.d ON true;", {"a SELECT", "b SELECT", "s.d SELECT"}),
        ("SELECT 1; SELECT now(); SELECT * FROM generate_series(1, 2);", set()),
        ("WITH a AS (SELECT * FROM b) SELECT * FROM a;", {"b SELECT"}),
        ("UPDATE a SET x = :x;", {"a UPDATE"}),
        ("UPDATE a SET x = :x WHERE y = :y;", {"a UPDATE", "a SELECT"}),
        ("UPDATE a SET x = b.x FROM b WHERE b.y = :y;", {"a UPDATE", "b SELECT"}),
        ("DELETE FROM a;", {"a DELETE"}),
        ("DELETE FROM A WHERE id = :id;", {"a DELETE", "a SELECT"}),
        ('INSERT INTO "A" VALUES (:x);', {"A INSERT"}),
        ("INSERT INTO a SELECT * FROM b;", {"a INSERT", "b SELECT"}),
        ("INSERT INTO a (x) VALUES (1) ON CONFLICT (x) DO NOTHING;", {"a INSERT"}),
        ("INSERT INTO a (x) VALUES (1) ON CONFLICT (x) DO UPDATE SET x = 2;", {"a INSERT", "a UPDATE"}),
        ("\\\\set x 1\nSELECT count(*) FROM a -- , b\n;", {"a SELECT"}),
        # What gives names or rights another meaning.
        ("SET ROLE other; SELECT * FROM a;", set()),
        ("SET LOCAL search_path = s; SELECT * FROM a;", set()),
        ("CREATE TEMP TABLE a (x int); SELECT * FROM a;", set()),
        ("BEGIN; SET LOCAL work_mem = '8MB'; SELECT * FROM a; END;", {"a SELECT"}),
        ("MERGE INTO a USING b ON a.i = b.i WHEN MATCHED THEN UPDATE SET x = 1;", set()),
        # What is no SQL is the server's to refuse.
        ("SELECT FROM WHERE (;", set()),
    ],
)
def test_needs(script, needed):
    assert {f"{use.schema}{'.' if use.schema else ''}{use.name} {use.right}" for use in table_uses(script)} == needed


def test_an_insert_knows_the_columns_that_it_names():
    assert table_uses('INSERT INTO a (x, "Y", Z) VALUES (1, 2, 3);') == {TableUse("", "a", "INSERT", ("x", "Y", "z"))}
    assert table_uses("INSERT INTO a VALUES (1);") == {TableUse("", "a", "INSERT")}


@pytest.mark.parametrize(
    ("text", "possible"),
    [
        ("UPDATE base.s.a SET x = 1 WHERE y = 2", {"s.a UPDATE", "s.a SELECT"}),
        ("SELECT 1 AS create FROM a", {"a SELECT"}),
        (
            "MERGE INTO s.a USING b ON a.i = b.i WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (1)",
            {"s.a INSERT", "s.a UPDATE", "s.a DELETE", "b SELECT"},
        ),
        ("COPY (SELECT * FROM a) TO STDOUT", {"a SELECT"}),
        ("SELECT FROM WHERE (", set()),
        ("PREPARE q AS SELECT * FROM a", set()),
    ],
)
def test_possible_uses_are_also_those_that_are_not_sure(text, possible):
    assert {f"{use.schema}{'.' if use.schema else ''}{use.name} {use.right}" for use in possible_uses(text)} == possible
