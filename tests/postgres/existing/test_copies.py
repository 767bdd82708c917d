import psycopg
import pytest

from pgtrial.errors import PreflightError, TargetError
from pgtrial.hosts.operations import Operations
from pgtrial.model.change import Outcome
from pgtrial.postgres.existing.copies import Copied, apply_copy, plan_copy, undo_copy

_OPEN = "SELECT datallowconn FROM pg_database WHERE datname = 'shop_copy'"


@pytest.fixture
def shop(foreign):
    foreign.sql("CREATE DATABASE shop OWNER maker")
    yield foreign
    foreign.sql("ALTER DATABASE shop IS_TEMPLATE false")  # else it could not be dropped


@pytest.mark.parametrize("user", ["boss", "maker"])
def test_a_whole_copy_is_its_makers(shop, runner, user):
    server = runner.run(shop.open(user))
    shop.sql("ALTER DATABASE shop SET log_statement = 'all'")  # which not every role may
    change = runner.run(plan_copy(server, "shop", "shop_copy"))
    copied = Copied.from_got(runner.run(apply_copy(server, change)))

    undone = runner.run(undo_copy(server.control, shop.entry(change)))

    assert copied.size > 1_000_000
    assert copied.left_out == (() if user == "boss" else ("log_statement",))
    assert (undone.outcome, undone.text) == (
        Outcome.CHANGED,
        "The copy is whole, and is left as it is. By hand: dropdb shop_copy",
    )
    assert shop.sql("SELECT datdba::regrole::text FROM pg_database WHERE datname = 'shop_copy'") == [("maker",)]
    assert shop.sql(_OPEN) == [(True,)]


_OPTIONS = """
    SELECT datconnlimit, datistemplate, datacl::text, shobj_description(oid, 'pg_database')
    FROM pg_database WHERE datname = 'shop_copy'
"""
_ACL = "SELECT datacl::text FROM pg_database WHERE datname = 'shop'"


@pytest.mark.parametrize("user", ["boss", "maker"])
@pytest.mark.parametrize("limit", [-1, 7])
def test_a_copy_lets_in_whom_and_as_many_as_the_original(shop, runner, user, limit):
    shop.sql(f"ALTER DATABASE shop IS_TEMPLATE true CONNECTION LIMIT {limit}")
    shop.sql("REVOKE ALL ON DATABASE shop FROM PUBLIC; GRANT CONNECT ON DATABASE shop TO watcher")
    shop.sql("REVOKE TEMPORARY ON DATABASE shop FROM maker; COMMENT ON DATABASE shop IS 'the one that counts'")
    server = runner.run(shop.open(user))
    change = runner.run(plan_copy(server, "shop", "shop_copy"))

    runner.run(apply_copy(server, change))

    # A template could be copied by everybody, and not be dropped.
    ((acl,),) = shop.sql(_ACL)
    assert acl == "{maker=Cc/maker,watcher=c/maker}"
    assert shop.sql(_OPTIONS) == [(limit, False, acl, 'A copy of database "shop", made by "pgtrial copy".')]


@pytest.mark.parametrize(
    "then",
    [
        "ALTER DATABASE shop_copy ALLOW_CONNECTIONS true",
        "COMMENT ON DATABASE shop_copy IS 'mine'",
        "ALTER DATABASE shop_copy RENAME TO shop_mine",
    ],
)
def test_what_somebody_has_taken_up_is_left(shop, runner, then):
    server = runner.run(shop.open("maker"))
    change = runner.run(plan_copy(server, "shop", "shop_copy"))
    shop.sql(f"CREATE DATABASE shop_copy OID {change.new['oid']} OWNER maker ALLOW_CONNECTIONS false")
    shop.sql(then)

    undone = runner.run(undo_copy(server.control, shop.entry(change)))

    assert undone.outcome is Outcome.CHANGED
    assert undone.text.startswith("Somebody has taken up what there was of the copy")
    assert shop.sql("SELECT count(*) FROM pg_database WHERE datname LIKE 'shop\\__%'") == [(1,)]


def test_a_database_that_only_has_the_name_is_left(shop, runner):
    server = runner.run(shop.open("maker"))
    change = runner.run(plan_copy(server, "shop", "shop_copy"))
    shop.sql("CREATE DATABASE shop_copy OWNER maker ALLOW_CONNECTIONS false")

    undone = runner.run(undo_copy(server.control, shop.entry(change)))

    assert undone.outcome is Outcome.CHANGED
    assert undone.text == 'The database "shop_copy" is not the one that pgtrial made; it is left as it is.'
    assert shop.sql(_OPEN) == [(False,)]


@pytest.mark.parametrize("limit", [-1, -2], ids=["closed", "whose drop was broken off"])
def test_what_is_not_whole_is_dropped_by_who_made_it(shop, runner, limit):
    server = runner.run(shop.open("maker"))
    change = runner.run(plan_copy(server, "shop", "shop_copy"))
    statement = f"CREATE DATABASE shop_copy OID {change.new['oid']} ALLOW_CONNECTIONS false"
    shop.sql(statement)
    refused = runner.run(undo_copy(server.control, shop.entry(change)))
    shop.sql("ALTER DATABASE shop_copy OWNER TO maker")
    shop.sql(f"UPDATE pg_database SET datconnlimit = {limit} WHERE datname = 'shop_copy'")

    undone = [runner.run(undo_copy(server.control, shop.entry(change))).outcome for _ in range(2)]

    assert refused.outcome is Outcome.FAILED
    assert refused.text.endswith('By hand: DROP DATABASE "shop_copy";')
    assert undone == [Outcome.RESTORED, Outcome.ALREADY]


def test_who_may_not_copy_leaves_nothing(shop, runner):
    server = runner.run(shop.open("nobody_special"))
    change = runner.run(plan_copy(server, "shop", "shop_copy"))

    with pytest.raises(PreflightError, match='role "nobody_special" may not copy database "shop"'):
        runner.run(apply_copy(server, change))
    assert shop.sql(_OPEN) == []


def test_why_the_server_cannot_copy_is_said_with_another_way(shop, runner):
    shop.sql("UPDATE pg_database SET datcollversion = '0' WHERE datname = 'shop'")  # as after an upgrade of libc
    server = runner.run(shop.open("maker"))
    change = runner.run(plan_copy(server, "shop", "shop_copy"))

    with pytest.raises(TargetError, match=r'cannot copy database "shop": template database .*collation version') as err:
        runner.run(apply_copy(server, change))

    assert "--dump" in err.value.hint
    assert shop.sql(_OPEN) == []


@pytest.mark.parametrize("name", ["x" * 64, "é" * 32])
def test_a_name_that_the_server_would_cut_off_is_refused(shop, runner, name):
    server = runner.run(shop.open("maker"))

    with pytest.raises(PreflightError, match=r"is too long for the copy: 64 bytes") as refused:
        runner.run(plan_copy(server, "shop", name))

    assert "63" in refused.value.hint
    assert "--as" in refused.value.hint
    assert runner.run(plan_copy(server, "shop", "x" * 63)).new["name"] == "x" * 63


@pytest.fixture
def looked(monkeypatch):
    """Places whose room was asked for: there is 1 GB everywhere."""
    places = []
    monkeypatch.setattr(Operations, "space", lambda _, path: (places.append(path), (1 << 40, 1 << 30))[1])
    return places


def test_a_copy_that_would_fill_the_servers_disk_is_refused(shop, runner, looked):
    server = runner.run(shop.open("boss"))

    with pytest.raises(PreflightError, match=r'^not enough space for a copy of database "shop": 1 GB free') as refused:
        runner.run(plan_copy(server, "shop", "shop_copy"))

    assert "--dump" in refused.value.hint
    assert looked == [str(shop.data)]


@pytest.fixture
def wide(shop):
    with shop.connect() as connection:
        connection.execute("SET allow_in_place_tablespaces = on")
        connection.execute("CREATE TABLESPACE wide LOCATION ''")
    shop.sql("ALTER DATABASE shop SET TABLESPACE wide")
    ((place,),) = shop.sql("SELECT pg_tablespace_location(oid) FROM pg_tablespace WHERE spcname = 'wide'")
    yield place
    shop.sql("ALTER DATABASE shop SET TABLESPACE pg_default")
    shop.sql("DROP TABLESPACE wide")


def test_room_is_looked_for_where_the_database_is(shop, wide, runner, looked):
    with pytest.raises(PreflightError, match="not enough space"):
        runner.run(plan_copy(runner.run(shop.open("boss")), "shop", "shop_copy"))

    assert looked == [f"{shop.data}/{wide}"]


def test_of_a_database_in_several_tablespaces_nobody_knows_what_room_it_needs(shop, runner, looked):
    with shop.connect() as connection:
        connection.execute("SET allow_in_place_tablespaces = on")
        connection.execute("CREATE TABLESPACE wide LOCATION ''")
    shop.sql("CREATE TABLE archive (i int) TABLESPACE wide", database="shop")
    try:
        assert runner.run(plan_copy(runner.run(shop.open("boss")), "shop", "shop_copy")).new["name"] == "shop_copy"
    finally:
        shop.sql("DROP TABLE archive", database="shop")
        shop.sql("DROP TABLESPACE wide")

    assert looked == []


def test_a_copy_that_shares_blocks_with_the_original_needs_no_room(shop, runner, looked):
    try:
        shop.sql("ALTER SYSTEM SET file_copy_method = clone")
    except (psycopg.errors.UndefinedObject, psycopg.errors.InvalidParameterValue):
        pytest.skip("before PostgreSQL 18, or built without clones of files")
    shop.set_auto_conf(shop.auto_conf.read_text())

    assert runner.run(plan_copy(runner.run(shop.open("boss")), "shop", "shop_copy")).new["name"] == "shop_copy"
    assert looked == []


@pytest.mark.parametrize(("user", "elsewhere"), [("boss", True), ("maker", False)])
def test_where_nobody_may_look_no_room_is_asked_for(shop, runner, looked, user, elsewhere):
    server = runner.run(shop.open(user, elsewhere=elsewhere))

    assert runner.run(plan_copy(server, "shop", "shop_copy")).new["name"] == "shop_copy"
    assert looked == []
