"""A user of an existing database who makes names of his own: pgtrial, which may have more rights, does not use them."""

import time
from collections.abc import Iterator

import pytest

from pgtrial.engine.sampler.link import ServerLink
from pgtrial.postgres.connect import ONLY_CATALOG, connect, execute, execute_script, fetch, own_session
from pgtrial.postgres.settings import read_settings

OWN = """
CREATE TABLE public.trapped (who text);
CREATE FUNCTION public.trap(text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN INSERT INTO public.trapped VALUES (session_user); RETURN 'trap'; END $$;
CREATE FUNCTION public.current_setting(text) RETURNS text LANGUAGE sql AS $$ SELECT public.trap($1) $$;
CREATE FUNCTION public.lower(varchar) RETURNS text LANGUAGE sql AS $$ SELECT public.trap($1) $$;
CREATE VIEW public.pg_stat_activity AS SELECT public.trap('x') AS datname, 1 AS pid;
CREATE TABLE public.own (a int);
ALTER DATABASE shared SET search_path = public, pg_catalog;
"""


@pytest.fixture
def shared(served, runner) -> Iterator[str]:
    """How a superuser reaches a database in which somebody has made such names."""
    runner.run(execute(served.conninfo(), "CREATE DATABASE shared"))
    conninfo = served.conninfo("shared")
    runner.run(execute_script(conninfo, OWN, name="own.sql"))
    yield conninfo
    runner.run(execute(served.conninfo(), "DROP DATABASE shared"))


def trapped(runner, conninfo: str) -> list[tuple[str]]:
    return runner.run(fetch(conninfo, "SELECT who FROM public.trapped"))


def test_statements_of_pgtrial_mean_what_the_server_has(shared, runner) -> None:
    ((version, low),) = runner.run(
        fetch(shared, "SELECT current_setting('server_version_num'), lower('A'::varchar) FROM pg_stat_activity LIMIT 1")
    )

    assert (version.isdecimal(), low) == (True, "a")
    assert trapped(runner, shared) == []


def test_settings_are_those_of_the_database_and_read_by_the_server_s_own_functions(shared, runner) -> None:
    settings = runner.run(read_settings(shared, also=["my.own"]))

    assert settings["search_path"].value == "public, pg_catalog"
    assert trapped(runner, shared) == []


def test_the_sampler_reads_what_the_server_has(shared, runner) -> None:
    link = ServerLink(shared)
    statement = "SELECT datname, current_setting('port') FROM pg_stat_activity WHERE pid = pg_backend_pid()"
    link.connect({"read": statement}, deadline=time.monotonic() + 60)
    try:
        answer = link.run("read", (), deadline=time.monotonic() + 60)
    finally:
        link.close()

    assert answer is not None
    assert answer.get_value(0, 0) == b"shared"
    assert trapped(runner, shared) == []


def test_statements_of_the_user_have_his_names(shared, runner) -> None:
    runner.run(execute_script(shared, "INSERT INTO own VALUES (1);", name="s.sql"))

    assert runner.run(fetch(shared, "SELECT a FROM public.own")) == [(1,)]


def test_a_session_that_a_pooler_shares_is_left_as_it_is(shared, runner) -> None:
    async def read() -> str:
        async with connect(shared, as_user=True) as connection:
            await connection.execute(own_session(connection.info.backend_pid + 1, ONLY_CATALOG).encode())
            row = await (await connection.execute("SHOW search_path")).fetchone()
            assert row is not None
            return str(row[0])

    assert runner.run(read()) == "public, pg_catalog"
