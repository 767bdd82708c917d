"""A folder from elsewhere may say that its runs took hours: what takes long to read is read only when it is wanted."""

import shutil
from pathlib import Path

import pytest

from pgtrial.analysis import large
from pgtrial.analysis.analyze import analyze
from pgtrial.errors import StoreError
from pgtrial.export.bundle import write_bundle
from pgtrial.store.belongings import Belongings
from support import write_result_folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One with more readings than are read unasked."""
    monkeypatch.setattr(large, "MOST_READINGS", 1000)
    monkeypatch.setenv("PGTRIAL_STATE_DIRECTORY", str(tmp_path / "state"))
    return write_result_folder(tmp_path / "folder", runs=2)


def test_it_is_refused_and_the_hint_says_how_to_read_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match="readings, and was not measured here") as refused:
        analyze(folder)

    name, _, number = refused.value.hint.partition("set ")[2].partition(" ")[0].partition("=")
    monkeypatch.setenv(name, number)
    assert analyze(folder).runs


def test_logs_count_by_their_bytes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "MOST_READINGS", 1_000_000)
    assert analyze(folder).runs
    run = next(path for path in sorted(folder.glob("runs/*")) if path.is_dir())
    (run / "server.jsonl").write_text("{}\n" * 2_500_000)

    with pytest.raises(StoreError, match="was not measured here"):
        analyze(folder)


def test_it_is_not_packed_either(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match="was not measured here"):
        write_bundle(folder, out=tmp_path / "x.zip")

    monkeypatch.setenv(large.VARIABLE, "1000000")
    assert write_bundle(folder, out=tmp_path / "x.zip").packed


def test_what_was_measured_here_is_read_and_its_copy_is_not(folder: Path, tmp_path: Path) -> None:
    Belongings.of(folder).add_measured()
    Belongings.of(folder).forget()  # as at the end of an experiment

    assert analyze(folder).runs
    copy = shutil.copytree(folder, tmp_path / "copy")
    with pytest.raises(StoreError, match="was not measured here"):
        analyze(copy)
