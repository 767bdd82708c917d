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
LOOKS = 15  # of the watch, with several of the guard's between two of them


@pytest.fixture
def shop(foreign) -> Iterator[object]:
    foreign.sql("CREATE DATABASE shop")
    with psycopg.connect(foreign.conninfo(database="shop"), application_name="the load", autocommit=True):
        yield foreign


async def watch_until(
    is_over: Callable[[WriteWatch], bool], server: ExistingServer, work: Callable[[WriteWatch], Awaitable[object]]
) -> Seen:
    """What is seen while the work is done again and again."""
    watch = WriteWatch(control=server.control, database="shop", names=["the load"], seed="1")
    watch.start()
    async with asyncio.timeout(120):
        while not is_over(watch):
            await work(watch)
            await asyncio.sleep(0.2)  # as a guard, which asks once a second
    return await watch.stop()


def test_who_looks_after_the_server_is_nobody_else(shop, runner) -> None:
    server = runner.run(shop.open())
    ask = asking(server.conninfo("shop"))

    def is_over(watch: WriteWatch) -> bool:
        return watch._others is not None and watch._looks >= LOOKS

    assert runner.run(watch_until(is_over, server, lambda _: ask())).others is False


def test_somebody_who_comes_once_is_seen_beside_who_looks_after_the_server(shop, runner) -> None:
    server, place, come = runner.run(shop.open()), shop.conninfo(database="shop"), []
    ask = asking(place)

    async def work(watch: WriteWatch) -> None:
        await ask()
        if watch._others is False and not come:  # until then nobody else was there
            psycopg.connect(place).close()
            come.append(True)

    assert runner.run(watch_until(lambda watch: watch._others is True, server, work)).others is True
    assert come


def test_sessions_of_pgtrial_are_no_other_sessions(shop, runner) -> None:
    control = runner.run(shop.open()).control
    place = shop.conninfo(database="shop")
    own = ("pgtrial", "pgtrial sampler", "pgtrial watch")
    with contextlib.ExitStack() as stack:
        for name in own:
            stack.enter_context(psycopg.connect(place, application_name=name))
        assert runner.run(read_inventory(control, "shop")).others == 1  # the load
