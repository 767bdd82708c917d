"""Which dials of a load are turned: those of statements that make its time."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pgtrial.engine import production_fit
from pgtrial.engine.production import SETUP


def test_dials_of_statements_that_take_hardly_any_time_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search takes seconds to minutes, and 20 of them would be of 5 % of the time."""
    times = {"s001": 60.0, "s002": 33.0, "s003": 2.5, **{f"s{number:03}": 0.25 for number in range(4, 22)}}
    counts = {"text": "SELECT a FROM t", "calls": 10, "rows": 10, "hit": 100, "read": 0}
    record = {
        "scripts": [
            {"name": name, "calls": 10, "statements": [{**counts, "seconds": seconds}]}
            for name, seconds in times.items()
        ]
    }
    folder = tmp_path / production_fit.FIRST
    folder.mkdir()
    for file in (SETUP, *(f"{name}.sql" for name in times)):
        (folder / file).write_text("")
    searched: list[str] = []

    async def execute(*_args: object, **_options: object) -> None:
        pass

    async def search(_conninfo: str, _setup: str, name: str, *_rest: Any) -> list[Any]:
        searched.append(name)
        return []

    monkeypatch.setattr(production_fit, "execute_script", execute)
    monkeypatch.setattr(production_fit, "_fit_script", search)

    asyncio.run(production_fit.fit_dials("dbname=copy", tmp_path, record, []))

    assert searched == ["s001", "s002", "s003"]
