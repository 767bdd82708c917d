"""Servers of every version there is, for the SQL of the collectors.

The environment variable PGTRIAL_TEST_POSTGRES may name more directories with programs, separated by colons.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pgtrial.errors import PreflightError
from pgtrial.postgres.programs import Programs, find_programs
from pgtrial.postgres.throwaway import ThrowawayCluster


def _programs() -> dict[str, Programs]:
    named = [directory for directory in os.environ.get("PGTRIAL_TEST_POSTGRES", "").split(":") if directory]
    found: dict[str, Programs] = {}
    for wanted in (*named, "15", "16", "17", "18"):
        try:
            programs = find_programs(wanted)
        except PreflightError:
            if wanted in named:
                raise
        else:
            found.setdefault(str(programs.major), programs)
    return found


PROGRAMS = _programs()


@pytest.fixture(scope="session", params=sorted(PROGRAMS))
def server(request: pytest.FixtureRequest, run_cluster: Callable[..., Any]) -> Iterator[ThrowawayCluster]:
    """A running server of one major version."""
    with (
        asyncio.Runner() as runner,
        run_cluster(PROGRAMS[request.param], runner, settings={"autovacuum": "off"}) as cluster,
    ):
        yield cluster
