"""Sessions of a load that has ended are ended, and no others."""

import asyncio
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from pgtrial.engine.measure import end_sessions
from pgtrial.model.load_sessions import beginning_of_names
from pgtrial.postgres.throwaway import ThrowawayCluster

OWN = beginning_of_names("this machine", "/results/own", "before")
OTHER = beginning_of_names("this machine", "/results/other", "before")


def in_front_of(served: ThrowawayCluster, *, pooler: object) -> Any:
    return SimpleNamespace(is_there=True, control=served.conninfo("template1"), database="postgres", pooler=pooler)


def test_idle_sessions_of_a_pooler_stay_for_the_next_client(served: ThrowawayCluster) -> None:
    with psycopg.connect(served.conninfo(), application_name=f"{OWN}read", autocommit=True) as idle:
        asyncio.run(end_sessions(in_front_of(served, pooler=object()), OWN))

        assert idle.execute("SELECT 1").fetchone() == (1,)


def test_another_experiments_load_in_the_same_database_goes_on(served: ThrowawayCluster) -> None:
    with (
        psycopg.connect(served.conninfo(), application_name=f"{OTHER}read", autocommit=True) as other,
        psycopg.connect(served.conninfo(), application_name=f"{OWN}read", autocommit=True) as own,
    ):
        asyncio.run(end_sessions(in_front_of(served, pooler=None), OWN))

        assert other.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg.OperationalError, match="terminating connection"):
            own.execute("SELECT 1")
