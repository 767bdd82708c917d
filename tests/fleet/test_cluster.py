"""The scheduler and the workers that pgtrial starts itself."""

import asyncio
from pathlib import Path

import pytest

from pgtrial.fleet.cluster import Cluster


def test_nothing_is_made_in_the_directory_that_all_users_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """dask's own choice is a directory of a fixed name there, from which it then imports."""
    pytest.importorskip("distributed")
    shared, own = tmp_path / "shared", tmp_path / "own"
    shared.mkdir()
    own.mkdir()
    monkeypatch.setenv("TMPDIR", str(shared))

    async def start() -> list[Path]:
        async with Cluster(own / ".cluster") as cluster:
            await cluster.add_worker("a")
            return list(shared.iterdir())

    assert asyncio.run(start()) == []
    assert list(own.iterdir()) == []
