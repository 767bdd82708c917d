"""A load of production that is sent to a copy: what was counted counts, whatever fails beside it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgtrial.engine import production_check
from pgtrial.engine.production import SETUP
from pgtrial.errors import TargetError
from pgtrial.postgres.existing.server import ExistingServer
from pgtrial.workloads.production.record import Truth


@pytest.fixture
def send_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Truth, list[str]]]:
    """``send_load(send, counts)``: the truth about a load that ``send`` sends, while what is counted comes from
    ``counts``, one after the other; and what is told.
    """
    (tmp_path / "draw").mkdir()
    (tmp_path / "draw" / SETUP).write_text("SELECT 1;")
    server = SimpleNamespace(conninfo=lambda database: f"dbname={database}", environment=lambda _database: {})

    def send_load(
        send: Callable[[], Awaitable[None]], counts: Sequence[Callable[[], Awaitable[None]]]
    ) -> tuple[Truth, list[str]]:
        left, told = iter(counts), list[str]()

        async def count(_conninfo: str) -> tuple[Any, ...]:
            await next(left)()
            return ()

        async def send_all(*_args: object, **_options: object) -> tuple[str, ...]:
            await send()
            return ()

        async def execute(*_args: object, **_options: object) -> None:
            pass

        monkeypatch.setattr(production_check, "count_statements", count)
        monkeypatch.setattr(production_check, "_send", send_all)
        monkeypatch.setattr(production_check, "execute_script", execute)
        trying = production_check._try(
            cast("ExistingServer", server),
            "shop",
            folder=tmp_path,
            draw="draw",
            record={"scripts": []},
            clients=1,
            seconds=0,
            tell=told.append,
        )
        return asyncio.run(trying), told

    return send_load


async def at_once() -> None:
    pass


def test_a_count_halfway_that_fails_costs_the_drifts_alone(send_load: Callable[..., tuple[Truth, list[str]]]) -> None:
    """The load has been sent for all of its time when that is told."""
    failed = asyncio.Event()

    async def fail() -> None:
        failed.set()
        raise TargetError("the server closed the connection")

    truth, told = send_load(failed.wait, [at_once, fail, at_once])

    assert (truth.draw, truth.drifts) == ("draw", ())
    assert told[-1] == (
        "draw: what was counted halfway cannot be read, so it is not known whether blocks of a call change while it is "
        "sent: the server closed the connection"
    )


def test_a_load_that_ends_while_it_is_counted_halfway_is_no_interruption(
    send_load: Callable[..., tuple[Truth, list[str]]],
) -> None:
    """All sessions have failed, and the connection of the count takes a while to be closed."""
    counting = asyncio.Event()

    async def count_long() -> None:
        counting.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)

    truth, told = send_load(counting.wait, [at_once, count_long, at_once])

    assert (truth.draw, truth.drifts) == ("draw", ())
    assert len(told) == 1
