"""Who was connected to a read-only database beside its load, whatever pgtrial itself connects for meanwhile."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator

import psycopg
import pytest

from pgtrial.engine.guardrails import asking
from pgtrial.postgres.existing.inventory import read_inventory
from pgtrial.postgres.existing.server import ExistingServer
from pgtrial.postgres.existing.write_watch import Seen, WriteWatch

pytestmark = pytest.mark.parametrize("each_programs", ["any"], indirect=True, scope="session")
LOOKS = 15  # of the watch, of which the first few come too early to be compared


@pytest.fixture
def shop(foreign) -> Iterator[object]:
    foreign.sql("CREATE DATABASE shop")
    with psycopg.connect(foreign.conninfo(database="shop"), application_name="the load", autocommit=True):
        yield foreign


async def watch_while(server: ExistingServer, work: Callable[[], Awaitable[object]]) -> Seen:
    """What is seen while the work is done again and again."""
    watch = WriteWatch(control=server.control, database="shop", names=["the load"], seed="1")
    watch.start()
    while watch._looks < LOOKS:
        await work()
        await asyncio.sleep(0.2)  # as a guard, which asks once a second
    return await watch.stop()


def test_who_looks_after_the_server_is_nobody_else(shop, runner) -> None:
    server = runner.run(shop.open())

    seen = runner.run(watch_while(server, asking(server.conninfo("shop"))))

    assert seen.others is False


def test_somebody_who_comes_once_is_seen_beside_who_looks_after_the_server(shop, runner) -> None:
    server, place, asked = runner.run(shop.open()), shop.conninfo(database="shop"), []
    ask = asking(place)

    async def work() -> None:
        await ask()
        asked.append(1)
        if len(asked) == 12:  # the load has been there for long enough
            psycopg.connect(place).close()

    assert runner.run(watch_while(server, work)).others is True


def test_sessions_of_pgtrial_are_no_other_sessions(shop, runner) -> None:
    control = runner.run(shop.open()).control
    place = shop.conninfo(database="shop")
    own = ("pgtrial", "pgtrial sampler", "pgtrial watch")
    with contextlib.ExitStack() as stack:
        for name in own:
            stack.enter_context(psycopg.connect(place, application_name=name))
        assert runner.run(read_inventory(control, "shop")).others == 1  # the load
