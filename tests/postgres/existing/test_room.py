"""Whether a load finds room on an existing server, of which others have a part."""

import contextlib

import psycopg
import pytest

from pgtrial.errors import PreflightError
from pgtrial.postgres.existing.room import refuse_crowd
from support import wait_until

_CONNECTED = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"


@pytest.fixture
def shop(foreign):
    foreign.sql("CREATE DATABASE shop")
    wait_until(lambda: foreign.sql(_CONNECTED) == [(1,)])  # a session that was closed is there for a moment
    yield foreign
    foreign.sql("ALTER ROLE nobody_special CONNECTION LIMIT -1")


def refused(shop, runner, *, clients: int, user: str) -> str:
    """What is said, in one line; "" if nothing."""
    try:
        runner.run(refuse_crowd(runner.run(shop.open(user=user)), "shop", clients=clients))
    except PreflightError as err:
        return f"{err.message}. {err.detail} {err.hint}"
    return ""


def test_connections_of_others_and_reserved_ones_are_no_room(shop, runner):
    """The server has 30, of which 3 are for superusers."""
    with contextlib.ExitStack() as others:
        for _ in range(10):
            others.enter_context(shop.connect())
        assert refused(shop, runner, clients=13, user="nobody_special") == ""
        assert refused(shop, runner, clients=16, user="boss") == ""

        said = refused(shop, runner, clients=14, user="nobody_special")
        assert said.startswith(
            "18 connections are needed, and the server has 17 left. max_connections is 30, of which 3 are kept for "
            "superusers and others with a right to them; 10 are in use by others."
        )
        assert "Of 10 of these the role does not see whether they are clients" in said
        assert 'GRANT pg_monitor TO "nobody_special"' in said
        assert "does not see" not in refused(shop, runner, clients=14, user="watcher")


def test_the_limit_of_the_role_is_told_with_what_alters_it(shop, runner):
    shop.sql("ALTER ROLE nobody_special CONNECTION LIMIT 8")

    assert refused(shop, runner, clients=4, user="nobody_special") == ""
    said = refused(shop, runner, clients=5, user="nobody_special")
    assert said.startswith('9 connections are needed, and role "nobody_special" has 8 left.')
    assert said.endswith('ALTER ROLE "nobody_special" CONNECTION LIMIT 9.')


def test_the_limit_of_the_database_counts_who_is_in_it(shop, runner):
    shop.sql("ALTER DATABASE shop CONNECTION LIMIT 8")

    with shop.connect(database="shop"):
        assert refused(shop, runner, clients=5, user="nobody_special") == ""
        said = refused(shop, runner, clients=6, user="nobody_special")
    assert said.startswith('8 connections are needed, and database "shop" has 7 left.')
    assert said.endswith('ALTER DATABASE "shop" CONNECTION LIMIT 9.')
    assert "Of 1 of these the role does not see whether they are clients" in said


def test_replication_of_others_takes_no_room(shop, runner):
    """A role without pg_monitor does not see what these sessions are, but the views of replication name them."""
    with contextlib.ExitStack() as others:
        for _ in range(3):
            place = f"host={shop.folder} port={shop.port} user=boss dbname=postgres replication=database"
            others.enter_context(psycopg.connect(place, autocommit=True))
        wait_until(lambda: shop.sql("SELECT count(*) FROM pg_stat_replication") == [(3,)])

        assert refused(shop, runner, clients=23, user="nobody_special") == ""
        assert refused(shop, runner, clients=24, user="nobody_special").startswith("28 connections are needed, and the")


def test_the_limit_is_that_of_the_role_that_logs_in(shop, runner):
    for statement in ("GRANT maker TO nobody_special", "ALTER ROLE nobody_special CONNECTION LIMIT 8"):
        shop.sql(statement)
    shop.sql("ALTER ROLE nobody_special SET role = maker")
    try:
        assert refused(shop, runner, clients=4, user="nobody_special") == ""
        said = refused(shop, runner, clients=5, user="nobody_special")
    finally:
        shop.sql("ALTER ROLE nobody_special RESET role")
        shop.sql("REVOKE maker FROM nobody_special")
    assert said.startswith('9 connections are needed, and role "nobody_special" has 8 left.')


@pytest.mark.parametrize("each_programs", ["18"], indirect=True)
def test_what_is_reserved_for_some_roles_is_room_for_them_alone(shop, runner):
    """The server has 30, of which 3 are for superusers, and from version 16 on some for who has a role."""
    shop.write_auto_conf("reserved_connections = 5\n")
    shop.run(*shop.ctl("restart"))

    assert refused(shop, runner, clients=18, user="nobody_special") == ""
    said = refused(shop, runner, clients=19, user="nobody_special")
    assert "max_connections is 30, of which 8 are kept for superusers and others with a right to them" in said
    shop.sql("GRANT pg_use_reserved_connections TO nobody_special")
    try:
        assert refused(shop, runner, clients=23, user="nobody_special") == ""
        assert "of which 3 are kept" in refused(shop, runner, clients=24, user="nobody_special")
    finally:
        shop.sql("REVOKE pg_use_reserved_connections FROM nobody_special")
