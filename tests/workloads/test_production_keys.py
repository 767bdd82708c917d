"""Values that no row may have twice: a load draws none for them that would end it."""

import asyncio
import os
import re
import subprocess
from dataclasses import replace

import pytest

from pgtrial.postgres.connect import connect, execute, execute_script, fetch
from pgtrial.postgres.production import _SEQUENCES, Column, Load, Statement, Table
from pgtrial.postgres.production_effects import Effects
from pgtrial.workloads.production.draws import DRAWS
from pgtrial.workloads.production.keys import is_fresh
from pgtrial.workloads.production.scripts import derive_scripts, write_files
from support.loading import empty_database

INT, TEXT = "integer", "text"
TABLES = {
    ("public", "account"): Table(
        rows=100, pages=1, columns={"id": Column(type=INT, is_unique=True)}, unique=(("id",),)
    ),
    ("public", "sess"): Table(
        rows=100,
        pages=1,
        columns={
            "id": Column(type=INT, is_unique=True),
            "token": Column(type=TEXT, is_unique=True),
            "mail": Column(type=TEXT, is_unique=True, is_checked=True),
            "account": Column(type=INT, is_unique=True, references=(("public", "account"), "id")),
            "old": Column(type="date", is_unique=True, nulls=0.5),
            "room": Column(type=TEXT),
            "place": Column(type=INT),
            "day": Column(type="date"),
            "span": Column(type="daterange"),
            "n": Column(type=INT),
            "state": Column(type=TEXT),
            "second": Column(type="timestamp(0) with time zone"),
            "moment": Column(type="timestamp(6) without time zone"),
            "small": Column(type="smallint"),
            "short": Column(type="numeric(8,2)"),
            "long": Column(type="numeric(20,2)"),
            "rank": Column(type=INT, is_checked=True),
            "low": Column(type=INT, is_checked=True),
            "high": Column(type=INT, is_checked=True),
        },
        unique=(
            *(("id",), ("token",), ("mail",), ("account",), ("old",), ("day", "place"), ("second",), ("moment",)),
            *(("small",), ("short",), ("long",), ("room", "rank")),
        ),
        excluded=((("room", "span"), ("room",)),),
        conditions=frozenset({"state"}),
        checks=(("low", "high"),),
    ),
}


# Of a room and a place there is a row elsewhere.
ELSEWHERE = ("public", "elsewhere")
OF_PART = {"room": Column(type=TEXT, joint=(ELSEWHERE, "room")), "place": Column(type=INT, joint=(ELSEWHERE, "place"))}
TABLES["public", "part"] = Table(rows=100, pages=1, columns=OF_PART, unique=(("room", "place"),))
TABLES["public", "seat"] = Table(
    rows=100, pages=1, columns={**OF_PART, "seat": Column(type=INT)}, unique=(("room", "seat", "place"),)
)


ROWS_OF_LIKES = """
CREATE TABLE likes (usr int, post int, PRIMARY KEY (usr, post));
INSERT INTO likes SELECT DISTINCT n, n * 7 % 10007 FROM generate_series(1, 20000) AS n;
CREATE TABLE note (token text PRIMARY KEY, usr int);
INSERT INTO note SELECT 'note ' || n, n FROM generate_series(1, 2000) AS n;
"""


def derived(*texts: str):
    statements = [
        Statement(text=text, calls=10, rows=10, hit=30, read=0, time=1.0, types=(TEXT,) * _number(text))
        for text in texts
    ]
    load = Load(statements=tuple(statements), tables=TABLES, path=("public",), effects=Effects(), hidden=0)
    return derive_scripts(load, with_values=False), load


def _number(text: str) -> int:
    return max(map(int, re.findall(r"\$(\d+)", text)), default=0)


@pytest.mark.parametrize(
    ("text", "fresh"),
    [
        ("UPDATE sess SET token = $1 WHERE id = $2", ["token"]),
        ("UPDATE sess SET token = lower(($1)::text), n = $2 WHERE id = $3", ["token"]),
        ("WITH x AS (UPDATE sess SET token = $1 WHERE id = $2 RETURNING n) SELECT n FROM x", ["token"]),
        ("UPDATE sess SET (token, n) = ($1, $2) WHERE id = $3", ["token"]),
        ("UPDATE sess SET place = $1 WHERE id = $2", ["place"]),
        ("INSERT INTO seat (room, seat, place) VALUES ($1, $2, $3)", ["seat"]),
        ("UPDATE sess SET day = $1, place = $2 WHERE token = $3", ["place"]),
        ("UPDATE sess SET room = $1, span = $2 WHERE id = $3", ["room"]),
        ("UPDATE sess SET moment = $1 WHERE id = $2", ["moment"]),
        ("INSERT INTO sess (id, long) VALUES ($1, $2)", ["id", "long"]),
        ("INSERT INTO sess (id, room, rank) VALUES ($1, $2, $3)", ["id", "room"]),
        ("UPDATE sess SET rank = $1 WHERE id = $2", ["rank"]),
        ("INSERT INTO sess (id, n, state) VALUES ($1, $2, $3)", ["id"]),
        ("UPDATE sess SET n = $1, token = gen_random_uuid()::text WHERE id = $2", []),
        ("INSERT INTO sess (id, n) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET token = $3", ["token"]),
        ("INSERT INTO sess (id, token) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET token = EXCLUDED.token", []),
        ("INSERT INTO sess (n, token) VALUES ($1, upper($2)) ON CONFLICT (id) DO NOTHING", ["token"]),
        ("INSERT INTO sess (n, token) VALUES ($1, $2) ON CONFLICT DO NOTHING", ["token"]),
        ("INSERT INTO sess (id, token) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING", ["id", "token"]),
        ("INSERT INTO sess (account) VALUES ($1) ON CONFLICT DO NOTHING", []),  # none can be made
        ("INSERT INTO sess (day, place) VALUES (now(), $1) ON CONFLICT (day, place) DO UPDATE SET n = $2", []),
    ],
)
def test_what_may_be_there_once_is_new_each_time(text, fresh):
    plan, load = derived(text)

    assert [each.reason for each in plan.left_out] == []
    ((member,),) = (script.members for script in plan.scripts)
    assert [use.column for use in member.shape.uses if is_fresh(use, load)] == fresh
    for draw in DRAWS:
        files = write_files(plan, load, draw)
        assert sum(" AS v0_" in line for line in files.scripts["s001.sql"].splitlines()) == bool(fresh)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("UPDATE sess SET token = $1", "several rows the same value of sess (token)"),
        ("UPDATE sess SET token = $1 WHERE n = $2", "several rows the same value of sess (token)"),
        ("UPDATE sess SET token = $1 WHERE id IN ($2, $3)", "several rows the same value of sess (token)"),
        ("UPDATE sess SET account = $1 WHERE n = $2", "a changed row needs a value of sess (account)"),
        ("UPDATE sess SET old = $1 WHERE id = $2", "a changed row needs a value of sess (old)"),
        ("UPDATE sess SET span = $1 WHERE n = $2", "a changed row needs a value of sess (room, span)"),
        ("INSERT INTO sess (second) VALUES ($1)", "a new row needs a value of sess (second)"),
        ("INSERT INTO sess (small) VALUES ($1)", "a new row needs a value of sess (small)"),
        ("INSERT INTO sess (short) VALUES ($1)", "a new row needs a value of sess (short)"),
        ("UPDATE sess SET token = md5($1) WHERE id = $2", "sess (token) may be there once"),
        ("UPDATE sess SET token = (SELECT x FROM y WHERE z = $1) WHERE id = $2", "sess (token) may be there once"),
        ("INSERT INTO sess (token) VALUES ($1 || $2)", "sess (token) may be there once"),
        ("INSERT INTO sess (mail) VALUES ($1)", "a new row needs a value of sess (mail)"),
        ("INSERT INTO sess (token, n) SELECT token, $1 FROM sess WHERE id = $2", "sess (token) may be there once"),
        ("INSERT INTO sess SELECT * FROM sess WHERE id = $1", "may be there once"),
        ("INSERT INTO part (room, place) VALUES ($1, $2)", "a new row needs a value of part (room, place)"),
        ("MERGE INTO sess USING x ON x.id = sess.id WHEN MATCHED THEN UPDATE SET token = $1", "value of sess (token)"),
        (
            "UPDATE sess SET token = $5 FROM (VALUES ($1, $2), ($3, $4)) v (id, n) WHERE v.id = sess.id",
            "several rows the same value of sess (token)",
        ),
    ],
)
def test_what_cannot_be_new_is_left_out(text, reason):
    plan, _ = derived(text)

    assert not plan.scripts
    assert [each.command for each in plan.left_out] == [text.split()[0]]
    assert reason in plan.left_out[0].reason


LIKES = Table(
    rows=100,
    pages=1,
    columns={
        "usr": Column(type=INT, distinct=100, references=(("public", "account"), "id")),
        "post": Column(type=INT, distinct=10, references=(("public", "sess"), "id")),
    },
    unique=(("usr", "post"),),
)
BOTH = "INSERT INTO likes (usr, post) VALUES ($1, $2) ON CONFLICT "
TOKEN = "INSERT INTO note (token, usr) VALUES ($1, $2) ON CONFLICT "
TWO = "INSERT INTO likes (usr, post) VALUES ($1, $2), ($3, $4) ON CONFLICT DO NOTHING"


def upserted(text: str, rows: int):
    """Of 1000 calls."""
    load = derived(text)[1]
    note = {"token": Column(type=TEXT, is_unique=True), "usr": Column(type=INT)}
    tables = {
        **TABLES,
        ("public", "likes"): LIKES,
        ("public", "note"): Table(rows=100, pages=1, columns=note, unique=(("token",),)),
    }
    asked = replace(
        load.statements[0], calls=1000, rows=rows, types=(INT if "likes" in text else TEXT,) * _number(text)
    )
    load = replace(load, statements=(asked,), tables=tables)
    return derive_scripts(load, with_values=False), load


@pytest.mark.parametrize(
    ("text", "rows", "told"),
    [
        (
            BOTH + "DO NOTHING",
            994,
            "likes.usr, as rows have it, of another row in 99.4 % of the calls, so that the key is new",
        ),
        (BOTH + "(usr, post) DO NOTHING", 250, "of another row in 25 % of the calls, so that the key is new"),
        (TWO, 500, "of another row in 25 % of the calls, so that the key is new"),
        (BOTH + "DO NOTHING", 0, "of a row that is there: no call made a new one"),
        (BOTH + "(usr, post) DO UPDATE SET post = EXCLUDED.post", 1000, "nothing tells how many calls made new ones"),
        ("WITH x AS (" + BOTH + "DO NOTHING RETURNING usr) SELECT usr FROM x", 1000, "nothing tells how many calls"),
        (TOKEN + "DO NOTHING", 1000, "$1: new each time"),
        (TOKEN + "(token) DO NOTHING", 250, "$1: new in 25 % of the calls, else new row note.token, as rows have it"),
        (
            "INSERT INTO sess (account) VALUES ($1) ON CONFLICT DO NOTHING",
            900,
            "of a row that is there: no new key can be made",
        ),
    ],
)
def test_rows_tell_how_many_calls_made_a_row_beside_one_in_the_way(text, rows, told):
    plan, load = upserted(text, rows)

    assert [each.reason for each in plan.left_out] == []
    for draw in DRAWS:
        said = write_files(plan, load, draw).how["s001"]
        assert told in " ".join(said[0])


def test_a_transaction_is_about_the_row_to_which_a_new_one_refers():
    """Of which the column is that of another row than the rest."""
    load = upserted(BOTH + "DO NOTHING", 1000)[1]
    (made,) = load.statements
    found = replace(made, text="SELECT id FROM account WHERE id = $1 FOR UPDATE", types=(INT,))
    begin, end = (replace(made, text=text, types=()) for text in ("BEGIN", "COMMIT"))
    load = replace(load, statements=(made, found, begin, end))

    files = write_files(derive_scripts(load, with_values=False), load, DRAWS[0])

    assert files.how["s001"] == (
        ("$1: new row likes.usr, as rows have it",),
        (
            (
                "$1: new row likes.usr, as rows have it, of another row in 100 % of the calls, so that the key is new, "
                "the same as of another statement"
            ),
            "$2: new row likes.post, as rows have it",
        ),
    )
    assert "coalesce(o1_0.v0_1, p.v0_1) AS v0_1" in files.scripts["s001.sql"]


@pytest.mark.parametrize(
    "case",
    [
        *((BOTH + "DO NOTHING", 994, draw) for draw in DRAWS),
        (BOTH + "DO NOTHING", 0, DRAWS[0]),
        (BOTH + "DO NOTHING", 300, DRAWS[0]),
        (TWO, 600, DRAWS[0]),
        (TOKEN + "(token) DO NOTHING", 1000, DRAWS[0]),
        (TOKEN + "DO NOTHING", 300, DRAWS[0]),
    ],
    ids=str,
)
def test_a_copy_gets_as_many_new_rows_as_the_original(served, programs, tmp_path, case):
    """Also when many sets of parameters have been used before. One who is asked for most of the time may come to have a
    row with each of the others.
    """
    text, rows, draw = case
    plan, load = upserted(text, rows)
    files = write_files(plan, load, draw)
    calls, count = 10_000, "SELECT (SELECT count(*) FROM public.likes) + (SELECT count(*) FROM public.note)"
    for name, script in files.scripts.items():
        (tmp_path / name).write_text(script)
    with empty_database(served) as conninfo:
        asyncio.run(execute_script(conninfo, ROWS_OF_LIKES + files.setup, name="set-up"))
        ((before,),) = asyncio.run(fetch(conninfo, count))
        words = ["-n", "-M", "extended", "-c", "2", "-t", str(calls // 2), "-f", tmp_path / "s001.sql", conninfo]
        environment = {**os.environ, "PGOPTIONS": "-c synchronous_commit=off"}
        done = subprocess.run(
            [programs.path("pgbench"), *words], capture_output=True, text=True, check=False, env=environment
        )
        assert (done.returncode, done.stderr) == (0, "")
        ((after,),) = asyncio.run(fetch(conninfo, count))
    assert (after - before) / calls == pytest.approx(rows / 1000, abs=0.03 if draw.zipf is None else 0.1)


@pytest.mark.parametrize("column", ["account", "mail", "state", "low"])
def test_a_row_keeps_a_value_that_cannot_be_new(column):
    plan, load = derived(
        "SELECT n FROM sess WHERE id = $1", f"UPDATE sess SET {column} = $1, n = $2 WHERE id = $3", "BEGIN", "COMMIT"
    )

    for draw in DRAWS:
        files = write_files(plan, load, draw)
        assert f'SELECT "{column}" AS c0, "id" AS c1 FROM "public"."sess"' in files.setup
        (text,) = (line for line in files.scripts["s001.sql"].splitlines() if line.startswith("UPDATE"))
        # In a transaction, too, it is not found by what another statement is about.
        assert re.fullmatch(rf"UPDATE sess SET {column} = :v(\d)_1, n = :v\1_2 WHERE id = :v\1_3;", text)


def test_statements_with_new_values_of_a_column_have_one_sequence():
    plan, load = derived(
        "INSERT INTO sess (id, token) VALUES ($1, $2), ($3, $4)", "UPDATE sess SET token = $1 WHERE id = $2"
    )

    for draw in DRAWS:
        files = write_files(plan, load, draw)
        assert files.setup.count("CREATE SEQUENCE") == 2  # of id and token
        texts = "".join(files.scripts.values())
        assert texts.count("nextval('pgtrial_workload.new_1')") == 2
        assert texts.count("'new' || nextval('pgtrial_workload.new_2')") == 3


def test_new_numbers_begin_behind_those_that_are_there(served):
    """Also where there are none, where an earlier load has made them, and where one is the largest that there is."""
    plan, load = derived("INSERT INTO sess (id, token) VALUES ($1, $2)")
    setup = write_files(plan, load, DRAWS[0]).setup
    sequences = [line for line in setup.splitlines() if "SCHEMA" in line or "pgtrial_workload.new_" in line]

    async def begin(conninfo: str, *commands: str) -> tuple[object, ...]:
        for command in (*commands, *sequences):
            await execute(conninfo, command)
        async with connect(conninfo) as connection:
            query = "SELECT nextval('pgtrial_workload.new_1'), nextval('pgtrial_workload.new_2')"
            (row,) = await (await connection.execute(query)).fetchall()
            return row

    with empty_database(served) as conninfo:
        assert asyncio.run(begin(conninfo, "CREATE TABLE sess (id numeric, token text)")) == (2, 2)
        rows = "INSERT INTO sess VALUES (7, 'new11'), (-9, 'new9'), (4, 'newer'), (3, NULL)"
        assert asyncio.run(begin(conninfo, rows)) == (8, 12)
        large = "INSERT INTO sess VALUES (1e30, 'new5000000000')"
        assert asyncio.run(begin(conninfo, large)) == (8, 5_000_000_001)


@pytest.mark.parametrize("kind", ["serial", "int GENERATED ALWAYS AS IDENTITY", "int DEFAULT nextval('numbers')"])
def test_new_numbers_are_those_that_the_table_gives_to_other_rows(served, kind):
    async def begin(conninfo: str) -> tuple[object, ...]:
        await execute(conninfo, "CREATE SEQUENCE numbers")
        await execute(conninfo, f"CREATE TABLE sess (id {kind} PRIMARY KEY, token text)")
        await execute(conninfo, "INSERT INTO sess OVERRIDING SYSTEM VALUE VALUES (7, 'x')")
        async with connect(conninfo) as connection:
            rows = await (await connection.execute(_SEQUENCES)).fetchall()
        (place, name, column, *sequence) = next(row for row in rows if row[1] == "sess")
        assert (place, name, column) == ("public", "sess", "id")
        table = TABLES["public", "sess"]
        numbered = replace(table.columns["id"], sequence=(sequence[0], sequence[1]))
        load = replace(
            derived("INSERT INTO sess (id, n) VALUES ($1, $2)")[1],
            tables={**TABLES, ("public", "sess"): replace(table, columns={**table.columns, "id": numbered})},
        )
        files = write_files(derive_scripts(load, with_values=False), load, DRAWS[0])
        for line in files.setup.splitlines():
            if "setval" in line:
                await execute(conninfo, line)
        (new,) = re.findall(r"(nextval\('[^']*'\)) AS v0_1", files.scripts["s001.sql"])
        async with connect(conninfo, as_user=True) as connection:
            await connection.execute("INSERT INTO sess (token) VALUES ('y')")
            await connection.execute(f"INSERT INTO sess OVERRIDING SYSTEM VALUE SELECT {new}, 'z'")
            await connection.execute("INSERT INTO sess (token) VALUES ('y')")
            (row,) = await (await connection.execute("SELECT array_agg(id ORDER BY id) FROM sess")).fetchall()
            return row

    with empty_database(served) as conninfo:
        assert asyncio.run(begin(conninfo)) == ([7, 8, 9, 10],)
