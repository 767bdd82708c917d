import json

import pytest

from pgtrial.cli.main import main


@pytest.fixture
def analyzed(monkeypatch, sample):
    monkeypatch.setattr("pgtrial.analysis.analyze.analyze", lambda folder, rules: sample)


@pytest.mark.usefixtures("analyzed")
def test_report_writes_both_files_and_prints_the_summary(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 0

    output = capsys.readouterr().out
    assert output.startswith("✔ SUPPORTED")
    assert output.endswith(f"report: {tmp_path / 'report.html'}\n")
    assert json.loads((tmp_path / "findings.json").read_text())["schema_version"] == 2
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["findings.json", "report.html"]


@pytest.mark.usefixtures("analyzed")
def test_output_and_json_are_followed(tmp_path, capsys):
    folder, page = tmp_path / "results", tmp_path / "page.html"
    folder.mkdir()

    assert main(["report", str(folder), "--output", str(page), "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["experiment"]["name"] == "synchronous-commit"
    assert page.exists()
    assert not (folder / "report.html").exists()


@pytest.mark.usefixtures("analyzed")
def test_a_page_that_cannot_be_written_is_named_as_it_was_given(tmp_path, capsys):
    page = tmp_path / "missing" / "page.html"

    assert main(["report", str(tmp_path), "-o", str(page)]) == 1
    assert capsys.readouterr().err == f'error: cannot write "{page}": No such file or directory\n'


def test_a_folder_that_does_not_exist_is_an_error_of_the_user(tmp_path, capsys):
    assert main(["report", str(tmp_path / "nothing")]) == 1
    assert "is not a result folder" in capsys.readouterr().err
