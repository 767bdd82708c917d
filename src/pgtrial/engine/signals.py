"""An orderly end when Ctrl-C, SIGTERM or SIGHUP comes."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

_T = TypeVar("_T")


async def until_signalled(
    work: Awaitable[_T], *, on_signal: Callable[[], None] = lambda: None, on_second: Callable[[], None] = lambda: None
) -> _T:
    """Await ``work``, which is cancelled at a signal and cleans up; a further one does not disturb that. A further
    Ctrl-C calls ``on_second``: a session that ends sends SIGTERM and SIGHUP together. Raises KeyboardInterrupt where
    one came.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None  # this is a coroutine that runs
    signalled = False

    def stop(number: signal.Signals) -> None:
        nonlocal signalled
        if signalled:  # a second Ctrl-C must not break the orderly stop
            if number == signal.SIGINT:
                on_second()
            return
        signalled = True
        task.cancel()
        on_signal()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # as after nohup
            loop.add_signal_handler(number, stop, number)
    try:
        return await work
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def undisturbed(work: Awaitable[_T], *, breakable: bool = False) -> _T:
    """Await ``work`` to its end, however often this is cancelled meanwhile; then the cancellation takes effect. An
    error of the work itself is raised in place of it. Where it is ``breakable``, a second cancellation breaks it off.
    """
    task, cancelled = asyncio.ensure_future(work), None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as err:
            if cancelled is not None and breakable:
                task.cancel()
            cancelled = err
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result
