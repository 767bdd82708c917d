from dataclasses import replace
from pathlib import Path

import pytest

from pgtrial.collectors import proc_loadavg
from pgtrial.engine import sampler_readings
from pgtrial.engine.sampler_readings import open_files


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only file that the sampler knows."""
    path = tmp_path / "loadavg"
    collector = replace(proc_loadavg.COLLECTOR, path=str(path))
    monkeypatch.setattr(sampler_readings, "COLLECTORS", (collector,))
    return path


def test_open_file_is_read_anew_each_time(path: Path) -> None:
    path.write_text("1")
    (file,), absent = open_files()

    first = file.read()
    path.write_text("22")

    assert (first, file.read(), absent) == ("1", "22", {})


def test_file_longer_than_one_read_is_read_whole(path: Path) -> None:
    path.write_text("x" * 200_000)
    (file,), _ = open_files()

    assert file.read() == "x" * 200_000


def test_file_that_is_not_there_is_named_with_the_reason(path: Path) -> None:
    assert open_files() == ([], {"proc_loadavg": f"{path}: No such file or directory"})
