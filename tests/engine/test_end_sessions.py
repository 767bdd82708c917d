"""Sessions of a load that has ended are ended, and no others."""

import asyncio
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from pgtrial.engine.measure import end_sessions
from pgtrial.postgres.connect import execute
from pgtrial.postgres.throwaway import ThrowawayCluster


def in_front_of(served: ThrowawayCluster, *, pooler: object) -> Any:
    return SimpleNamespace(is_there=True, control=served.conninfo("template1"), database="postgres", pooler=pooler)


def test_idle_sessions_of_a_pooler_stay_for_the_next_client(served: ThrowawayCluster) -> None:
    with psycopg.connect(served.conninfo(), application_name="pgtrial/read", autocommit=True) as idle:
        asyncio.run(end_sessions(in_front_of(served, pooler=object())))

        assert idle.execute("SELECT 1").fetchone() == (1,)


def test_a_load_in_another_database_goes_on(served: ThrowawayCluster) -> None:
    asyncio.run(execute(served.conninfo(), "CREATE DATABASE other"))
    running = in_front_of(served, pooler=None)
    try:
        with (
            psycopg.connect(served.conninfo("other"), application_name="pgtrial/read", autocommit=True) as other,
            psycopg.connect(served.conninfo(), application_name="pgtrial/read", autocommit=True) as own,
        ):
            asyncio.run(end_sessions(running))

            assert other.execute("SELECT 1").fetchone() == (1,)
            with pytest.raises(psycopg.OperationalError, match="terminating connection"):
                own.execute("SELECT 1")
    finally:
        asyncio.run(execute(served.conninfo(), "DROP DATABASE other WITH (FORCE)"))
