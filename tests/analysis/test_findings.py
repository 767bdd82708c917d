import json
from pathlib import Path

import pytest

from pgtrial.errors import StoreError
from pgtrial.findings.findings import SCHEMA_VERSION, Findings
from pgtrial.store import layout
from pgtrial.store.findings_file import read_findings, write_findings


def test_findings_survive_the_round_trip(findings: Findings, tmp_path: Path) -> None:
    path = write_findings(findings, tmp_path)

    assert path == tmp_path / layout.FINDINGS
    assert read_findings(tmp_path) == findings
    assert [each.name for each in tmp_path.iterdir()] == [layout.FINDINGS]


def test_findings_replace_older_ones(findings: Findings, tmp_path: Path) -> None:
    (tmp_path / layout.FINDINGS).write_text("old")
    write_findings(findings, tmp_path)

    assert json.loads((tmp_path / layout.FINDINGS).read_text())["schema_version"] == SCHEMA_VERSION


def test_a_folder_that_cannot_be_written_is_an_error(findings: Findings, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot write .*findings\.json.*: No such file or directory"):
        write_findings(findings, tmp_path / "missing")


def test_missing_findings_say_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot read") as caught:
        read_findings(tmp_path)

    assert "pgtrial report" in caught.value.hint


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, "1"])
def test_a_newer_schema_is_refused(tmp_path: Path, version: object) -> None:
    (tmp_path / layout.FINDINGS).write_text(json.dumps({"schema_version": version}))

    with pytest.raises(StoreError, match=f"reads up to version {SCHEMA_VERSION}"):
        read_findings(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '"x"'])
def test_something_else_than_findings_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / layout.FINDINGS).write_text(text)

    with pytest.raises(StoreError, match="is damaged"):
        read_findings(tmp_path)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [("hypothesis", "margin", 2.0**64), ("hypothesis", "margin", -0.1), ("experiment", "rules", 10_000)],
)
def test_numbers_that_nothing_can_be_judged_by_are_damage(
    findings: Findings, tmp_path: Path, part: str, name: str, value: float
) -> None:
    data = json.loads(findings.model_dump_json())
    data[part][name] = value
    (tmp_path / layout.FINDINGS).write_text(json.dumps(data))

    with pytest.raises(StoreError, match=rf"is damaged: {part}\.{name}"):
        read_findings(tmp_path)


def test_findings_with_a_wrong_part_say_where(findings: Findings, tmp_path: Path) -> None:
    data = json.loads(findings.model_dump_json())
    data["noise"] = {"sd_log_ratio": "much"}
    (tmp_path / layout.FINDINGS).write_text(json.dumps(data))

    with pytest.raises(StoreError, match=r"is damaged: noise\."):
        read_findings(tmp_path)
