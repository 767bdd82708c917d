import json
import sqlite3
import zipfile
from pathlib import Path

import duckdb
import pytest

from pgtrial.cli.main import main
from pgtrial.engine.folder import lock_folder
from pgtrial.store import layout
from support import EXPERIMENT, write_result_folder

pytestmark = pytest.mark.usefixtures("analysed_once")

NAME = "commit-20260120T101500Z"
TEXT = EXPERIMENT


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_result_folder(tmp_path_factory.mktemp("results") / NAME, text=TEXT)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("form", "start"),
    [
        ("markdown", "## ✔ commit: supported\n"),
        ("prometheus", "# HELP pgtrial_experiment_info "),
        ("jsonl", '{"table": "experiment"'),
    ],
)
def test_texts_go_to_standard_output_or_into_a_file(
    made: Path, here: Path, capsysbinary: pytest.CaptureFixture[bytes], form: str, start: str
) -> None:
    assert main(["export", str(made), "--format", form]) == 0
    printed = capsysbinary.readouterr().out.decode()
    assert main(["export", str(made), "--format", form, "-o", "out.txt"]) == 0

    assert printed.startswith(start)
    assert (here / "out.txt").read_bytes().decode() == printed
    assert capsysbinary.readouterr().err == b"wrote out.txt\n"
    assert sorted(path.name for path in here.iterdir()) == ["out.txt"]


def test_a_spreadsheet_is_named_after_the_folder(made: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(made), "--format", "xlsx"]) == 0

    assert capsys.readouterr().err == f"wrote {NAME}.xlsx\n"
    assert zipfile.ZipFile(here / f"{NAME}.xlsx").testzip() is None


def test_csv_and_parquet_have_a_file_for_each_table(made: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("csv", "parquet"):
        assert main(["export", str(made), "--format", form]) == 0

    files = {form: sorted(path.stem for path in (here / f"{NAME}-{form}").iterdir()) for form in ("csv", "parquet")}
    assert files["csv"] == files["parquet"]
    assert {"effects", "runs", "observations", "columns"} <= set(files["csv"])
    assert f"wrote {len(files['csv'])} files in {NAME}-csv\n" in capsys.readouterr().err
    for stem in files["csv"]:
        rows = {
            form: duckdb.sql(f"SELECT count(*) FROM '{NAME}-{form}/{stem}.{form}'").fetchall()
            for form in ("csv", "parquet")
        }
        assert rows["csv"] == rows["parquet"], stem
    types = duckdb.sql(f"DESCRIBE SELECT * FROM '{NAME}-parquet/runs.parquet'").fetchall()
    assert {name: kind for name, kind, *_ in types}["started"] == "TIMESTAMP"


def test_a_single_table_can_be_printed(made: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["export", str(made), "--format", "csv", "--table", "arms"]) == 0
    assert capsysbinary.readouterr().out.decode().splitlines()[0].startswith("arm,role,version")

    assert main(["export", str(made), "--format", "jsonl", "--table", "arms", "--table", "time"]) == 0
    lines = capsysbinary.readouterr().out.decode().splitlines()
    assert {json.loads(line)["table"] for line in lines} == {"arms", "time"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "error: give either --format or --bundle\n"),
        (["--format", "csv", "--bundle"], "error: give either --format or --bundle\n"),
        (["--format", "csv", "--redact", "hosts"], "error: --redact works only with --bundle\n"),
        (["--format", "xlsx", "--table", "runs"], "error: --table works only with --format csv, parquet, jsonl\n"),
        (["--format", "csv", "--table", "efects"], 'error: there is no table "efects"\n'),
        (["--format", "ods"], 'error: invalid value for "--format"'),
    ],
)
def test_options_that_say_nothing_are_refused(
    made: Path, here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["export", str(made), *arguments]) == 2
    assert capsys.readouterr().err.startswith(message)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("output", ["missing/out.md", "."])
def test_a_place_that_cannot_be_written_is_named(
    made: Path, here: Path, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    status = main(["export", str(made), "--format", "markdown", "-o", output])

    assert status in (1, 2)
    assert capsys.readouterr().err.startswith("error: ")
    assert list(here.iterdir()) == []


def test_an_experiment_in_which_nothing_has_run_is_exported_as_invalid(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    folder = write_result_folder(tmp_path / "none", runs=0)

    assert main(["export", str(folder), "--format", "markdown"]) == 0
    assert capsysbinary.readouterr().out.decode().startswith("## ! commit: invalid\n")


def test_a_folder_of_a_newer_pgtrial_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_result_folder(tmp_path / "newer", runs=0)
    with sqlite3.connect(folder / layout.STATE) as db:
        db.execute("UPDATE meta SET value = '99' WHERE key = 'format'")

    for arguments in (["--format", "markdown"], ["--bundle", "-o", str(tmp_path / "out.zip")]):
        assert main(["export", str(folder), *arguments]) == 1
        assert "has format 99" in capsys.readouterr().err


def test_a_bundle_says_what_it_is_and_is_unpacked_again(
    made: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(made), "--bundle", "--redact", "all"]) == 0
    told = capsys.readouterr()
    assert f"bundle: {NAME}.pgtrial.zip (" in told.out
    assert "SHA-256: " in told.out
    assert "Taken out: secrets, hosts, queries." in told.err

    assert main(["unpack", f"{NAME}.pgtrial.zip", "--check"]) == 0
    assert not (here / "results").exists()
    assert main(["unpack", f"{NAME}.pgtrial.zip"]) == 0
    assert main(["report", f"results/{NAME}"]) == 0
    assert "SUPPORTED" in capsys.readouterr().out

    assert main(["unpack", f"{NAME}.pgtrial.zip"]) == 1
    assert "already exists" in capsys.readouterr().err


def test_a_bundle_that_was_changed_is_refused(made: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(made), "--bundle", "-o", "b.zip"]) == 0
    content = (here / "b.zip").read_bytes()
    place = content.index(b"PAR1") + 20
    (here / "b.zip").write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])

    assert main(["unpack", "b.zip"]) == 1
    assert 'error: "b.zip" is damaged: the checksum of "runs/' in capsys.readouterr().err
    assert not (here / "results").exists()


def test_a_folder_in_use_is_not_packed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_result_folder(tmp_path / "busy", runs=0)

    with lock_folder(folder):
        assert main(["export", str(folder), "--bundle", "-o", str(tmp_path / "b.zip")]) == 1

    assert "is in use by another pgtrial" in capsys.readouterr().err
