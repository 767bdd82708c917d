import json

import pytest
from click.testing import CliRunner

from pgtrial.cli.report import command
from pgtrial.errors import StoreError


@pytest.fixture
def analyzed(monkeypatch, sample):
    monkeypatch.setattr("pgtrial.analysis.analyze.analyze", lambda folder: sample)


@pytest.mark.usefixtures("analyzed")
def test_report_writes_both_files_and_prints_the_summary(tmp_path):
    result = CliRunner().invoke(command, [str(tmp_path)], catch_exceptions=False)

    assert result.exit_code == 0
    assert result.output.startswith("✔ SUPPORTED")
    assert result.output.endswith(f"report: {tmp_path / 'report.html'}\n")
    assert json.loads((tmp_path / "findings.json").read_text())["schema_version"] == 1
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["findings.json", "report.html"]


@pytest.mark.usefixtures("analyzed")
def test_output_and_json_are_followed(tmp_path):
    folder, page = tmp_path / "results", tmp_path / "page.html"
    folder.mkdir()
    result = CliRunner().invoke(command, [str(folder), "--output", str(page), "--json"], catch_exceptions=False)

    assert json.loads(result.stdout)["experiment"]["name"] == "synchronous-commit"
    assert page.exists()
    assert not (folder / "report.html").exists()


@pytest.mark.usefixtures("analyzed")
def test_a_page_that_cannot_be_written_is_an_error_of_the_user(tmp_path):
    with pytest.raises(StoreError, match="cannot write"):
        CliRunner().invoke(
            command, [str(tmp_path), "--output", str(tmp_path / "missing" / "page.html")], catch_exceptions=False
        )


def test_a_folder_that_does_not_exist_is_a_usage_error(tmp_path):
    assert CliRunner().invoke(command, [str(tmp_path / "nothing")]).exit_code == 2
