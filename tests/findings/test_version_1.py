"""Findings that were written before there were codes: they are read, shown, exported in their own words."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgtrial.export.tables import tables_of
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.language import find_language, speak
from pgtrial.report.html import render_html
from pgtrial.report.text import render_text
from pgtrial.store import layout
from pgtrial.store.findings_file import read_findings, write_findings
from support.html import Page

FOLDER = Path(__file__).parent / "v1"


@pytest.fixture(scope="module")
def written() -> dict[str, Any]:
    data: dict[str, Any] = json.loads((FOLDER / layout.FINDINGS).read_text(encoding="utf-8"))
    assert data["schema_version"] == 1
    return data


@pytest.fixture(scope="module")
def findings() -> Findings:
    return read_findings(FOLDER)


def sentences(value: object, key: str = "") -> Iterator[str]:
    """Texts and hints, wherever they stand."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from sentences(part, name)
    elif isinstance(value, list):
        for part in value:
            yield from sentences(part, key)
    elif key in {"text", "hint", "reason"} and isinstance(value, str) and value:
        yield value


def test_every_sentence_is_as_it_was_written(written: dict[str, Any], findings: Findings) -> None:
    read = findings.model_dump(mode="json")

    assert set(sentences(written)) <= set(sentences(read))
    assert [(caveat.code, caveat.text, caveat.hint) for caveat in findings.caveats] == [
        (caveat["code"], caveat["text"], caveat["hint"]) for caveat in written["caveats"]
    ]


def test_what_differs_is_told_with_its_place(findings: Findings) -> None:
    (difference,) = findings.fingerprint.differences

    assert [(say(placed.where), say(placed.value)) for placed in difference.values] == [
        ("runs 1–2", "performance"),
        ("run 3", "powersave"),
    ]


@pytest.mark.parametrize("language", ["en", "ru"])
def test_page_and_summary_keep_the_words(written: dict[str, Any], findings: Findings, language: str) -> None:
    with speak(find_language(language)):
        page, summary = " ".join(Page(render_html(findings)).text.split()), render_text(findings)

    for caveat in written["caveats"]:
        assert caveat["text"] in page.replace("\u00a0", " ")
        assert caveat["text"][:40] in " ".join(summary.split())


def test_tables_have_the_words(written: dict[str, Any], findings: Findings) -> None:
    tables = {table.name: table for table in tables_of(findings)}

    names = [column.name for column in tables["caveats"].columns]
    assert [dict(zip(names, row, strict=True))["text"] for row in tables["caveats"].rows] == [
        caveat["text"] for caveat in written["caveats"]
    ]


def test_written_anew_they_are_the_same(findings: Findings, tmp_path: Path) -> None:
    shutil.copy(FOLDER / layout.FINDINGS, tmp_path)
    write_findings(findings, tmp_path)

    assert read_findings(tmp_path) == findings
