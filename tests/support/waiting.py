"""Waiting for a state, on a machine that may be busy."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 180.0  # s; only a state that is never reached takes as long


def wait_until(read: Callable[[], T], is_reached: Callable[[T], object] = bool) -> T:
    """What ``read`` gives once ``is_reached`` holds for it; AssertionError with its last value if it never does."""
    deadline = time.monotonic() + PATIENCE
    while not is_reached(value := read()):
        assert time.monotonic() < deadline, f"still {value!r} after {PATIENCE:.0f} s"
        time.sleep(0.01)
    return value


async def reached(read: Callable[[], T], is_reached: Callable[[T], object] = bool) -> T:
    """The same beside other tasks."""
    deadline = time.monotonic() + PATIENCE
    while not is_reached(value := read()):
        assert time.monotonic() < deadline, f"still {value!r} after {PATIENCE:.0f} s"
        await asyncio.sleep(0.01)
    return value
