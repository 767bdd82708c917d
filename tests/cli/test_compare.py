"""pgtrial compare: what it takes, what it prints, and what it says of wrong input."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pgtrial.cli.main import main
from pgtrial.store import layout
from support import EXPERIMENT, Simulation, write_result_folder

pytestmark = pytest.mark.usefixtures("analysed_once")

SHORT = EXPERIMENT.replace('"10s"', '"3s"').replace("blocks = 6", "blocks = 2")


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("results")
    one, other = (
        write_result_folder(place / name, text=SHORT, simulation=Simulation(seed=seed))
        for name, seed in (("monday", 1), ("tuesday", 2))
    )
    return one, other


def test_experiments_are_compared_and_the_folders_stay_as_they_were(folders, capsys):
    before = {path: path.stat().st_mtime_ns for folder in folders for path in folder.rglob("*") if path.is_file()}

    assert main(["compare", *map(str, folders)]) == 0

    output = capsys.readouterr().out
    assert output.startswith("off against on, throughput: +")
    assert "What is combined and what is not" in output
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_the_page_is_written_where_it_was_asked_for(folders, tmp_path, capsys):
    page = tmp_path / "compare.html"

    assert main(["compare", *map(str, folders), "-o", str(page)]) == 0

    assert capsys.readouterr().out.endswith(f"page: {page}\n")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["compare.html"]


def test_json_has_everything_and_nothing_else_is_printed(folders, capsys):
    assert main(["compare", *map(str, folders), "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert (found["schema_version"], found["kind"]) == (2, "experiments")
    assert [one["key"] for one in found["experiments"]] == ["A", "B"]
    assert found["contrasts"][0]["pooled"]["experiments"] == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "a comparison needs at least two result folders"),
        (["{one}"], "a comparison needs at least two result folders"),
        (["{one}", "{one}"], "is given twice"),
        (["{one}", "{one}/../monday"], "is given twice"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(folders, arguments, told, capsys):
    places = {"one": folders[0]}

    assert main(["compare", *(word.format(**places) for word in arguments)]) == 2
    assert told in capsys.readouterr().err


def test_a_missing_folder_is_named(folders, tmp_path, capsys):
    assert main(["compare", str(folders[0]), str(tmp_path / "gone")]) == 1
    assert f'folder "{tmp_path / "gone"}" does not exist' in capsys.readouterr().err


def test_a_folder_of_something_else_is_told(folders, tmp_path, capsys):
    assert main(["compare", str(folders[0]), str(tmp_path)]) == 1
    assert "is not a result folder" in capsys.readouterr().err


def test_a_folder_of_a_newer_version_is_told(folders, tmp_path, capsys):
    newer = write_result_folder(tmp_path / "newer", text=SHORT, runs=4)
    with closing(sqlite3.connect(newer / layout.STATE)) as db, db:
        db.execute("UPDATE meta SET value = '99' WHERE key = 'format'")

    assert main(["compare", str(folders[0]), str(newer)]) == 1
    assert "has format 99" in capsys.readouterr().err


def test_a_folder_without_runs_is_told(folders, tmp_path, capsys):
    empty = write_result_folder(tmp_path / "empty", text=SHORT, runs=0)

    assert main(["compare", str(folders[0]), str(empty)]) == 1
    error = capsys.readouterr().err
    assert "has no finished run" in error
    assert "pgtrial resume" in error


@pytest.mark.parametrize("given", ["old/pgbench_log.7", "old"])
def test_logs_of_pgbench_are_refused_and_it_is_said_what_to_do_instead(folders, tmp_path, given, capsys):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "pgbench_log.7").write_text("0 1 1500 0 1795232577 0\n")

    assert main(["compare", str(tmp_path / given), str(folders[0])]) == 2

    error = " ".join(capsys.readouterr().err.split())
    assert "a pgbench log, not a result folder" in error
    assert "experiment file with the two settings" in error


def test_a_page_without_a_place_is_told_before_anything_is_read(tmp_path, capsys):
    page = tmp_path / "missing" / "compare.html"

    assert main(["compare", "a", "b", "-o", str(page)]) == 1
    assert "cannot write" in capsys.readouterr().err


def test_hostile_names_of_folders_are_written_out(folders, tmp_path, capsys):
    name = "a\x1b[31m<script>alert(1)<"
    hostile = write_result_folder(tmp_path / name, text=SHORT, simulation=Simulation(seed=3))
    page = tmp_path / "compare.html"

    assert main(["compare", str(folders[0]), str(hostile), "-o", str(page)]) == 0

    assert "\x1b" not in capsys.readouterr().out
    assert "<script>alert" not in page.read_text(encoding="utf-8")
