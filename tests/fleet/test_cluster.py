"""The scheduler and the workers that pgtrial starts itself."""

import asyncio
from collections.abc import Iterator
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
        async with Cluster(own / ".cluster") as made:
            await made.add_worker("a")
            return list(shared.iterdir())

    assert asyncio.run(start()) == []
    assert list(own.iterdir()) == []


@pytest.fixture
def as_the_user_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Settings in variables and in a file by which nodes and clients tell that they heed them, and workers end; the
    file in which they tell it.
    """
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")
    told, module, file = tmp_path / "told", tmp_path / "tells.py", tmp_path / "config" / "own.yaml"
    module.write_text(f"def dask_setup(*_):\n    open({str(told)!r}, 'a').write('one\\n')\n")
    file.parent.mkdir()
    file.write_text("distributed: {worker: {lifetime: {duration: 1h}}}\n")
    monkeypatch.setenv("DASK_CONFIG", str(file.parent))
    for kind in ("WORKER", "SCHEDULER", "CLIENT"):
        monkeypatch.setenv(f"DASK_DISTRIBUTED__{kind}__PRELOAD", f"['{module}']")
    dask.config.refresh(paths=[str(file.parent)])
    yield told
    monkeypatch.undo()
    dask.config.refresh()


def test_what_the_user_has_set_for_dask_is_not_heeded(as_the_user_has_it: Path, tmp_path: Path) -> None:
    from dask import config

    async def lifetimes() -> dict[str, object]:
        async with Cluster(tmp_path / ".cluster") as made:
            assert made.client is not None
            await made.add_worker("a")
            found: dict[str, object] = await made.client.run(config.get, "distributed.worker.lifetime.duration")
            return found

    assert [*asyncio.run(lifetimes()).values()] == [None]
    assert not as_the_user_has_it.exists()
