import stat
from pathlib import Path

import pytest

from pgtrial.errors import StoreError
from pgtrial.experiment_file.load import LoadedExperiment, parse_experiment
from pgtrial.store import layout
from pgtrial.store.calibrations import (
    calibration_key,
    identify_machine,
    keep_calibration,
    read_calibration,
    write_calibration,
)
from pgtrial.store.journal_file import VARIABLE

TEXT = """\
format = 1
[experiment]
name = "x"
[target.postgresql]
max_wal_size = "4GB"
[dataset]
scale = 5
[workload]
duration = "30s"
[[workload.scenario]]
name = "s"
file = "s.sql"
[arms.a.postgresql]
work_mem = "4MB"
[arms.b.postgresql]
work_mem = "64MB"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.sql").write_text("SELECT 1;\n")
    return tmp_path


def key(folder: Path, *change: str, machine: str | None = "m") -> str:
    text = TEXT.replace(*change) if change else TEXT
    assert not change or text != TEXT
    return calibration_key(parse_experiment(text, "x", folder, check_files=False), machine=machine)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('duration = "30s"', 'duration = "10min"\nwarmup = 0'),
        ('work_mem = "64MB"', 'work_mem = "1GB"'),
        ('name = "x"', 'name = "y"\n[hypothesis]\nmargin = "10%"\n[design]\nmethod = "duet"\nblocks = 40'),
    ],
)
def test_what_the_noise_does_not_depend_on_or_is_scaled_by_makes_no_difference(
    folder: Path, old: str, new: str
) -> None:
    assert key(folder, old, new) == key(folder)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scale = 5", "scale = 6"),
        ('work_mem = "4MB"', 'work_mem = "5MB"'),
        ('max_wal_size = "4GB"', 'max_wal_size = "5GB"'),
        ('duration = "30s"', 'duration = "30s"\nclients = 9'),
        ("[arms.b.postgresql]", '[design]\ncache = "warm"\n[arms.b.postgresql]'),
        ("[target.postgresql]", '[target]\npostgres = "16"\n[target.postgresql]'),
    ],
)
def test_what_the_noise_depends_on_makes_another_key(folder: Path, old: str, new: str) -> None:
    assert key(folder, old, new) != key(folder)


def test_another_script_or_machine_makes_another_key(folder: Path) -> None:
    before = key(folder)

    assert key(folder, machine="other") != before
    assert key(folder, machine=None) == key(folder, machine=None)
    (folder / "s.sql").write_text("SELECT 2;\n")
    assert key(folder) != before


def test_a_result_folder_whose_scripts_have_other_names_has_the_same_key(folder: Path) -> None:
    other = folder / "files"
    other.mkdir()
    (other / "renamed.sql").write_text((folder / "s.sql").read_text())

    loaded: LoadedExperiment = parse_experiment(TEXT.replace("s.sql", "renamed.sql"), "x", other, check_files=False)
    assert calibration_key(loaded, machine="m") == key(folder)


def test_a_script_that_is_missing_is_an_error(folder: Path) -> None:
    (folder / "s.sql").unlink()

    with pytest.raises(StoreError, match="cannot read"):
        key(folder)


def test_the_machine_keeps_its_identity_and_its_name_to_itself() -> None:
    assert identify_machine() == identify_machine()
    assert len(identify_machine()) == 32


def test_what_is_kept_is_found_by_its_key_and_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "lib" / "state"))

    assert read_calibration("k") is None
    keep_calibration("k", "{}\n")
    path = keep_calibration("k", '{"a": 1}\n')

    assert read_calibration("k") == '{"a": 1}\n'
    assert read_calibration("other") is None
    assert [each.name for each in path.parent.iterdir()] == ["k.json"]
    # The journal, which lies there too, refuses a directory that others can write to.
    assert not (tmp_path / "lib" / "state").stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def test_a_place_that_cannot_be_made_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file"))

    with pytest.raises(StoreError, match="cannot create"):
        keep_calibration("k", "{}\n")


def test_a_folder_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot write"):
        write_calibration(tmp_path / "gone", "{}\n")
    assert write_calibration(tmp_path, "{}\n").name != layout.FINDINGS
