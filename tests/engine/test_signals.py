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
