import logging
from pathlib import Path

import pytest

from pgtrial.cli.main import main
from support import EXPERIMENT, write_result_folder

pytestmark = pytest.mark.usefixtures("analysed_once")

SMALL = EXPERIMENT.replace("placebo = true", "placebo = false")


def test_a_finished_experiment_is_only_reported_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_result_folder(tmp_path / "finished", text=SMALL)

    assert main(["resume", str(folder)]) == 0

    captured = capsys.readouterr()
    assert captured.err == "all 12 runs are done; nothing to run\n"
    assert captured.out.startswith("✔ SUPPORTED")
    assert captured.out.endswith(f"report: {folder}/report.html\n")


def test_quiet_leaves_standard_error_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_result_folder(tmp_path / "finished", text=SMALL)

    assert main(["resume", "--quiet", str(folder)]) == 0
    assert capsys.readouterr().err == ""


def test_a_folder_that_does_not_exist_is_not_announced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", str(tmp_path / "nowhere")]) == 1

    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert captured.out == ""


def test_a_folder_that_is_removed_again_is_not_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["run", "-s", "work_mem=1MB,2MB", "--postgres", "99"]) == 1

    assert capsys.readouterr().err.startswith("error: no PostgreSQL 99 programs found\n")
    assert list((tmp_path / "results").iterdir()) == []


def test_a_bug_before_the_first_run_leaves_its_traceback_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pgtrial.engine.experiment.prepare_target", lambda *_, **_options: 1 // 0)
    assert main(["run", "-s", "work_mem=1MB,2MB"]) == 1
    said = capsys.readouterr().err
    (folder,) = (tmp_path / "results").iterdir()

    assert "error: this is a bug in pgtrial: ZeroDivisionError" in said
    assert "traceback.txt. " in said
    assert "finished runs" not in said
    assert f'"pgtrial resume results/{folder.name}" goes on.' in said
    assert "ZeroDivisionError" in (folder / "traceback.txt").read_text()


def test_steps_of_the_analysis_and_files_written_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write_result_folder(tmp_path / "finished", text=SMALL, runs=2)
    with caplog.at_level(logging.INFO, logger="pgtrial"):
        assert main(["report", str(folder)]) == 0

    assert f"wrote {folder}/findings.json" in caplog.messages
    assert f"wrote {folder}/report.html" in caplog.messages
    assert any(message.startswith("reduced transactions, samples and waits in ") for message in caplog.messages)


def test_a_bug_after_the_runs_leaves_its_traceback_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_result_folder(tmp_path / "finished", text=SMALL)
    with monkeypatch.context() as patch:
        patch.setattr("pgtrial.report.html.write_html", lambda *_: 1 // 0)
        assert main(["resume", str(folder)]) == 1
    said = capsys.readouterr().err

    assert "error: this is a bug in pgtrial: ZeroDivisionError" in said
    assert f'"pgtrial report {folder}"' in said
    assert "--debug" not in said
    assert "ZeroDivisionError" in (folder / "traceback.txt").read_text()
    assert main(["resume", str(folder)]) == 0
