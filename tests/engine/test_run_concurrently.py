import asyncio

import pytest

from pgtrial.engine.target.base import run_concurrently
from pgtrial.errors import TargetError
from support import PATIENCE


def test_all_is_done_at_the_same_time():
    barrier = asyncio.Barrier(3)

    async def work() -> None:
        await barrier.wait()

    async def all_of_it() -> None:
        async with asyncio.timeout(PATIENCE):
            await run_concurrently(work(), work(), work())
            assert barrier.n_waiting == 0
            done.append(True)

    done: list[bool] = []
    asyncio.run(all_of_it())
    assert done == [True]


def test_the_first_error_ends_the_rest_and_is_raised_as_it_is():
    ended = []

    async def fail() -> None:
        raise TargetError("no")

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    with pytest.raises(TargetError, match="no"):
        asyncio.run(run_concurrently(wait(), fail()))
    assert ended == [True]


def test_whoever_is_cancelled_ends_all():
    ended = []

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    async def cancel() -> None:
        task = asyncio.ensure_future(run_concurrently(wait(), wait()))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert ended == [True, True]
