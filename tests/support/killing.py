"""A pgtrial that is killed while it changes a host and while it undoes that: properties of whole knobs."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st

from pgtrial.model.change import Outcome

# What changes a host, of the operations that simulated ones have.
CHANGING = ("write", "make_directory", "remove_directory", "mount", "unmount")

KILLS = st.lists(st.integers(0, 10), max_size=3)
MOMENTS = st.none() | st.integers(0, 10)


class Killed(BaseException):
    """In place of SIGKILL: nothing may catch it."""


def kill_at(ops: Any, moment: int) -> None:
    """End the process at a moment: 2 n before the change number n takes effect, 2 n + 1 after it."""
    left = [moment]

    def killing(original: Callable[..., None]) -> Callable[..., None]:
        def change(*args: Any, **more: Any) -> None:
            if left[0] == 0:
                raise Killed
            original(ops, *args, **more)
            if left[0] == 1:
                raise Killed
            left[0] -= 2

        return change

    for name in CHANGING:
        vars(ops)[name] = killing(getattr(type(ops), name))


def live_on(ops: Any) -> None:
    for name in CHANGING:
        vars(ops).pop(name, None)


def run_killed(bench: Any, wanted: Mapping[str, str], applying: int | None, undoing: list[int]) -> None:
    """Apply until it is killed, undo until that is killed, again and again, and at last undo to the end."""
    ops = bench.host.ops
    if applying is not None:
        kill_at(ops, applying)
    with suppress(Killed):
        bench.apply(wanted)
    live_on(ops)
    for moment in undoing:
        kill_at(ops, moment)
        with suppress(Killed):
            bench.undo()
    live_on(ops)
    for entry in reversed(bench.entries):
        assert bench.undo(entry).outcome in (Outcome.RESTORED, Outcome.ALREADY)
