"""Ctrl-C ends what runs in order; who presses it again is heard, and breaks nothing."""

import asyncio
import os
import signal

import pytest

from pgtrial.engine.signals import undisturbed, until_signalled


def test_the_first_signal_ends_the_work_and_the_second_one_is_heard_while_it_cleans_up():
    heard: list[str] = []
    second = asyncio.Event()

    async def clean_up() -> None:
        os.kill(os.getpid(), signal.SIGHUP)  # as the end of a session does
        os.kill(os.getpid(), signal.SIGINT)
        await second.wait()
        heard.append("cleaned up")

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            await undisturbed(clean_up())

    def on_second() -> None:
        heard.append("second")
        second.set()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(until_signalled(work(), on_signal=lambda: heard.append("first"), on_second=on_second))
    assert heard == ["first", "second", "cleaned up"]


@pytest.mark.parametrize(("breakable", "ended"), [(False, "done"), (True, "broken off")])
def test_a_second_cancellation_breaks_off_only_what_may_be(breakable: bool, ended: str) -> None:
    heard: list[str] = []

    async def clean_up(go_on: asyncio.Event) -> None:
        try:
            await go_on.wait()
            heard.append("done")
        except asyncio.CancelledError:
            heard.append("broken off")
            raise

    async def cancel_twice() -> None:
        go_on = asyncio.Event()
        task = asyncio.create_task(undisturbed(clean_up(go_on), breakable=breakable))
        for _ in range(2):
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_twice())
    assert heard == [ended]
