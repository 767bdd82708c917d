"""Whether a load finds room on an existing server, of which others have a part."""

import contextlib

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
