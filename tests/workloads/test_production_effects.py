"""What statements do besides reading and writing rows, as far as the catalogue knows: of a real one."""

import asyncio

import pytest

from pgtrial.postgres.connect import connect, execute
from pgtrial.postgres.production import Load, Statement
from pgtrial.postgres.production_effects import _Catalogue, read_effects
from pgtrial.workloads.production.scripts import derive_scripts
from pgtrial.workloads.production.texts import Refusal, examine, triggers_of
from support.loading import empty_database

SCHEMA = (
    "CREATE TABLE item (id int PRIMARY KEY, n int, at timestamp)",
    "CREATE EXTENSION dblink",
    "CREATE EXTENSION file_fdw",
    "CREATE EXTENSION moddatetime",
    'CREATE EXTENSION "uuid-ossp"',
    "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw",
    "CREATE FOREIGN TABLE \"Far off\" (line text) SERVER files OPTIONS (filename '/dev/null')",
    "CREATE FUNCTION wipe() RETURNS int LANGUAGE plpgsql AS $$ BEGIN DELETE FROM item; RETURN 1; END $$",
    "CREATE FUNCTION tally(int) RETURNS int LANGUAGE sql AS 'SELECT count(*)::int FROM item WHERE n = $1'",
    "CREATE FUNCTION tally_too(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN tally($1); END $$",
    "CREATE FUNCTION wiped(item) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN wipe(); END $$",
    "CREATE FUNCTION hidden() RETURNS int LANGUAGE sql AS 'SELECT (x).wiped FROM item AS x'",
    "CREATE FUNCTION looks() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM \"Far off\"'",
    "CREATE FUNCTION makes() RETURNS void LANGUAGE sql AS 'SELECT 1 AS a INTO made'",
    "CREATE FUNCTION says() RETURNS int LANGUAGE plpgsql AS $$ BEGIN Execute $1; RETURN 1; END $$",
    "CREATE FUNCTION peek() RETURNS int LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN (SELECT wipe ()); END $$",
    "CREATE FUNCTION peek_again() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT Peek()'",
    "CREATE FUNCTION atomic() RETURNS int LANGUAGE sql STABLE RETURN wipe()",
    "CREATE FUNCTION calm(int) RETURNS int LANGUAGE sql STABLE AS 'SELECT abs($1)'",
    # Compiled, outside of an extension: it is taken at nobody's word.
    "CREATE FUNCTION compiled() RETURNS int LANGUAGE c IMMUTABLE AS '$libdir/dblink', 'dblink_get_notify'",
    "CREATE FUNCTION same(int, int) RETURNS bool LANGUAGE sql AS 'NOTIFY seen; SELECT $1 = $2'",
    "CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, FUNCTION = same)",
    "CREATE VIEW plain AS SELECT id, calm(n) AS n, random() AS r, uuid_generate_v4() AS u FROM item",
    "CREATE VIEW nosy AS SELECT id FROM item WHERE n = (SELECT wipe())",
    'CREATE VIEW "Nosy too" AS SELECT id FROM plain JOIN nosy USING (id)',
    "CREATE VIEW locking AS SELECT pg_try_advisory_lock(id) AS got FROM item",
    "CREATE VIEW wrapped AS SELECT peek_again() AS n",
    "CREATE VIEW compared AS SELECT id FROM item WHERE n === 3",
    "CREATE VIEW tables AS SELECT relname FROM pg_class",
    "CREATE MATERIALIZED VIEW kept AS SELECT * FROM nosy",
    "CREATE FOREIGN TABLE far (line text) SERVER files OPTIONS (filename '/dev/null')",
    "CREATE SCHEMA ext",
    "CREATE FOREIGN TABLE ext.status (line text) SERVER files OPTIONS (filename '/dev/null')",
    "CREATE VIEW far_too AS SELECT line FROM far",
    "CREATE TABLE ruled (id int)",
    "CREATE RULE also AS ON INSERT TO ruled DO ALSO INSERT INTO item (id) VALUES (NEW.id)",
    "CREATE TABLE guarded (id int)",
    "ALTER TABLE guarded ENABLE ROW LEVEL SECURITY",
    "CREATE POLICY mine ON guarded USING (id = wipe())",
    "CREATE FUNCTION log_it() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
    "CREATE FUNCTION sends() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM public.tell(); RETURN NEW; END $$",
    "CREATE FUNCTION tell() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM dblink_exec('x', 'y'); RETURN 1; END $$",
    "CREATE TABLE logged (id int PRIMARY KEY, at timestamp, n int DEFAULT wipe(), u uuid DEFAULT uuid_generate_v1())",
    "CREATE TRIGGER logs BEFORE INSERT ON logged FOR EACH ROW EXECUTE FUNCTION log_it()",
    "CREATE TRIGGER stamps BEFORE UPDATE ON logged FOR EACH ROW EXECUTE FUNCTION moddatetime(at)",
    "CREATE TRIGGER same BEFORE UPDATE ON logged FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "CREATE TABLE sent (id int REFERENCES logged ON DELETE CASCADE, k int) PARTITION BY LIST (k)",
    "CREATE TABLE sent_1 PARTITION OF sent FOR VALUES IN (1)",
    "CREATE TRIGGER sends AFTER INSERT OR DELETE ON sent_1 FOR EACH ROW EXECUTE FUNCTION sends()",
    "CREATE TABLE off (id int)",
    "CREATE TRIGGER sends AFTER INSERT ON off FOR EACH ROW EXECUTE FUNCTION sends()",
    "ALTER TABLE off DISABLE TRIGGER sends",
    "CREATE TABLE noted (id int)",
    "CREATE TRIGGER logs BEFORE INSERT ON noted FOR EACH ROW EXECUTE FUNCTION log_it()",
    "CREATE VIEW noted_view AS SELECT id FROM noted",
)
MORE = "which may do more than read and write rows"


@pytest.fixture(scope="module")
def load(served) -> Load:
    async def read(conninfo: str):
        for command in SCHEMA:
            await execute(conninfo, command)
        async with connect(conninfo) as connection:
            return await read_effects(connection)

    with empty_database(served) as conninfo:
        effects = asyncio.run(read(conninfo))
    return Load(statements=(), tables={}, path=("public",), effects=effects, hidden=0)


def asked(text: str) -> Statement:
    return Statement(text=text, calls=1, rows=1, hit=1, read=0, time=1.0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT wipe()", f"it calls wipe, {MORE}"),
        ("SELECT peek()", f"it calls peek, {MORE}"),
        ("SELECT id FROM item WHERE n = peek_again()", f"it calls peek_again, {MORE}"),
        ("SELECT atomic()", f"it calls atomic, {MORE}"),
        ("SELECT compiled()", f"it calls compiled, {MORE}"),
        ("SELECT hidden()", f"it calls hidden, {MORE}"),
        ("SELECT looks()", f"it calls looks, {MORE}"),
        ("SELECT makes()", f"it calls makes, {MORE}"),
        ("SELECT says()", f"it calls says, {MORE}"),
        ("SELECT tally($1), tally_too($2)", ""),
        ("SELECT dblink_exec($1, $2)", f"it calls dblink_exec, {MORE}"),
        ("SELECT id FROM nosy", f"it reads nosy, which calls wipe, {MORE}"),
        ('UPDATE item SET n = $1 FROM public."Nosy too" AS x WHERE x.id = item.id', "reads Nosy too, which calls wipe"),
        ("SELECT * FROM locking", f"it reads locking, which calls pg_try_advisory_lock, {MORE}"),
        ("SELECT * FROM wrapped", f"it reads wrapped, which calls wipe, {MORE}"),
        ("SELECT * FROM compared", f"it reads compared, which calls same, {MORE}"),
        ("SELECT * FROM tables", "it reads tables, which asks the server about itself"),
        ("SELECT * FROM far", "it reads far, a table of another server"),
        ("SELECT * FROM far_too", "it reads far_too, which reads a table of another server"),
        ("SELECT * FROM item JOIN ext.status AS s ON true", "it reads status, a table of another server"),
        ("SELECT s.line FROM item, status s", "it reads status, a table of another server"),
        ("SELECT * FROM (item CROSS JOIN ONLY status)", "it reads status, a table of another server"),
        ("SELECT i.status, n AS status FROM item AS i WHERE i.status = $1", ""),
        ("SELECT status FROM public.status AS status WHERE status = $1 ORDER BY status.line", ""),
        ("SELECT * FROM guarded", f"it reads guarded, whose policy mine calls wipe, {MORE}"),
        ("INSERT INTO ruled VALUES ($1)", "it writes to ruled, which has the rule also"),
        ("INSERT INTO sent_1 VALUES ($1)", f"whose trigger sends calls dblink_exec of extension dblink, {MORE}"),
        ("INSERT INTO public.sent VALUES ($1)", "to sent, and so to sent_1, whose trigger sends calls dblink_exec"),
        ("WITH x AS (DELETE FROM ONLY logged) SELECT FROM x", "it writes to logged, and so to sent_1, whose trigger"),
        ("MERGE INTO sent USING item ON k = n WHEN MATCHED THEN DELETE", "it writes to sent, and so to sent_1, whose"),
        ("SELECT * FROM plain", ""),
        ("SELECT * FROM kept", ""),
        ("SELECT * FROM sent_1 FOR UPDATE", ""),
        ("SELECT calm(id) FROM ruled", ""),
        ("INSERT INTO off VALUES ($1)", ""),
        ("UPDATE item SET n = $1 WHERE id = $2", ""),
    ],
)  # fmt: skip
def test_what_does_more_than_read_and_write_rows_is_left_out(text, reason, load):
    found = examine(asked(text), load, with_values=False)

    said = found.reason if isinstance(found, Refusal) else ""
    assert reason in said
    assert bool(said) == bool(reason)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("INSERT INTO noted VALUES ($1)", ["noted: trigger logs calls log_it"]),
        ("INSERT INTO noted_view VALUES ($1)", ["noted: trigger logs calls log_it"]),
        ("UPDATE item SET n = $1 WHERE id = $2", []),
        ("SELECT tally_too($1), abs($2)", ["a statement calls tally_too, VOLATILE and without a word that writes"]),
        ("SELECT * FROM noted FOR UPDATE", []),
    ],
)
def test_triggers_of_the_application_are_told(text, told, load):
    assert [*triggers_of(asked(text), load.effects)] == told


def test_defaults_are_told_as_triggers_are(load):
    assert load.effects.triggers["logged"] == ("logged: trigger logs calls log_it", "logged: default calls wipe")


def test_what_scripts_write_to_is_in_the_plan(load):
    statement = asked("INSERT INTO noted DEFAULT VALUES")

    plan = derive_scripts(
        Load(statements=(statement,) * 2, tables={}, path=("public",), effects=load.effects, hidden=0),
        with_values=False,
    )

    assert plan.triggers == ("noted: trigger logs calls log_it",)


def test_a_chain_of_tables_that_is_longer_than_any_stack_is_followed():
    number = 5000
    found = _Catalogue(
        functions=[],
        expressions=[],
        triggers=[],
        below=[(each, each + 1) for each in range(1, number)],
        relations=[(number, "last", "f", False, "public")],
    )

    assert [*found._writes(1, set())] == ["and so to last, a table of another server"]
