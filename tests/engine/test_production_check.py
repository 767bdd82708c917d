"""A load of production that is sent to a copy: what was counted counts, whatever fails beside it."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgtrial.engine import production_check
from pgtrial.engine.production import SETUP
from pgtrial.errors import TargetError
from pgtrial.postgres.existing.server import ExistingServer


def test_a_count_halfway_that_fails_costs_the_drifts_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The load has been sent for all of its time when that is told."""
    (tmp_path / "draw").mkdir()
    (tmp_path / "draw" / SETUP).write_text("SELECT 1;")
    server = SimpleNamespace(conninfo=lambda database: f"dbname={database}", environment=lambda _database: {})
    counts, told = iter([True, False, True]), list[str]()

    async def try_it() -> Any:
        failed = asyncio.Event()

        async def count(_conninfo: str) -> tuple[Any, ...]:
            if next(counts):
                return ()
            failed.set()
            raise TargetError("the server closed the connection")

        async def send(*_args: object, **_options: object) -> tuple[str, ...]:
            await failed.wait()
            return ()

        async def execute(*_args: object, **_options: object) -> None:
            pass

        monkeypatch.setattr(production_check, "count_statements", count)
        monkeypatch.setattr(production_check, "_send", send)
        monkeypatch.setattr(production_check, "execute_script", execute)
        return await production_check._try(
            cast("ExistingServer", server),
            "shop",
            folder=tmp_path,
            draw="draw",
            record={"scripts": []},
            clients=1,
            seconds=0,
            tell=told.append,
        )

    truth = asyncio.run(try_it())

    assert (truth.draw, truth.drifts) == ("draw", ())
    assert told[-1] == (
        "draw: what was counted halfway cannot be read, so it is not known whether blocks of a call change while it is "
        "sent: the server closed the connection"
    )
