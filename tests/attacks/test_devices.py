"""The name of a file to write is that of a device: the machine loses it, where root puts a file in its place."""

import os
import stat
from pathlib import Path

import pytest

from pgtrial.cli.main import main
from support import write_result_folder

WRITERS = [
    ["report", "FOLDER", "--output", "PLACE"],
    ["export", "FOLDER", "--format", "xlsx", "--output", "PLACE"],
    ["export", "FOLDER", "--bundle", "--output", "PLACE"],
    ["init", "--force", "PLACE"],
]
IDS = ["report", "export --format", "export --bundle", "init"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_result_folder(tmp_path_factory.mktemp("devices") / "r")


def _write(command: list[str], folder: Path, place: Path) -> int:
    return main([{"FOLDER": str(folder), "PLACE": str(place)}.get(word, word) for word in command])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device")
@pytest.mark.parametrize("command", WRITERS, ids=IDS)
def test_a_device_stays_one(
    command: list[str], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "null"
    os.mknod(place, stat.S_IFCHR | 0o666, os.makedev(1, 3))

    status = _write(command, folder, place)

    assert stat.S_ISCHR(place.lstat().st_mode)
    assert status in (1, 2)
    assert "bug" not in capsys.readouterr().err


@pytest.mark.parametrize("command", WRITERS, ids=IDS)
def test_what_the_machine_calls_its_output_stays(
    command: list[str], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "stdout"
    place.symlink_to("/proc/self/fd/1")

    status = _write(command, folder, place)

    assert place.is_symlink()
    assert status in (1, 2)
    assert "it is an open file of a process" in capsys.readouterr().err
