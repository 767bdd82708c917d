"""--lang and PGTRIAL_LANG: what people read is in the language, what programs read is in English."""

import gettext
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pgtrial.cli.main import main
from pgtrial.cli.session import write_report
from pgtrial.language import ENGLISH, Language, find_language
from pgtrial.report.text import render_text
from support import EXPERIMENT, write_result_folder

pytestmark = pytest.mark.usefixtures("analysed_once")

COMMANDS = ("run", "resume", "report", "demo", "narrate")


class Bracketed(gettext.NullTranslations):
    """Every text in brackets, so that a test needs no translation."""

    def gettext(self, message: str) -> str:
        return f"⟦{message}⟧"

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return f"⟦{super().ngettext(msgid1, msgid2, n)}⟧"

    def pgettext(self, context: str, message: str) -> str:
        return f"⟦{message}⟧"


RUSSIAN = Language(code="ru", decimal=",", catalogue=Bracketed())


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_result_folder(tmp_path_factory.mktemp("lang") / "results", text=EXPERIMENT)


@pytest.fixture(autouse=True)
def _no_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGTRIAL_LANG", raising=False)
    monkeypatch.setattr(
        "pgtrial.cli.options.find_language", lambda code: RUSSIAN if code == "ru" else find_language(code)
    )


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(list(map(str, arguments)))
        return status, *capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def english(simulated: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, str, str]:
    """findings.json, page and summary without any language."""
    page = tmp_path_factory.mktemp("english") / "page.html"
    reported = write_report(simulated, output=page)
    return (simulated / "findings.json").read_bytes(), page.read_text(), render_text(reported.findings)


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_that_tell_a_result_have_the_option(name: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")

    assert "--lang [en|ru|es]" in run(name, "--help")[1]


def test_a_report_is_in_the_language_and_its_findings_are_in_english(simulated, english, run, tmp_path) -> None:
    findings, page, summary = english
    status, out, err = run("report", simulated, "--lang", "ru", "--output", tmp_path / "page.html")

    assert (status, err) == (0, "")
    assert out.startswith("✔ ⟦SUPPORTED⟧\n")
    assert (simulated / "findings.json").read_bytes() == findings
    assert '<html lang="ru">' in (tmp_path / "page.html").read_text()
    assert "⟦" not in page + summary


@pytest.fixture
def analyses(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that are analysed, one entry each time."""
    from pgtrial.analysis import analyze

    folders: list[Path] = []
    once = analyze.analyze

    def count(folder: Path, *, rules: int | None = None) -> object:
        folders.append(folder)
        return once(folder, rules=rules)

    monkeypatch.setattr(analyze, "analyze", count)
    return folders


@pytest.mark.parametrize("code", [ENGLISH, "ru"])
def test_a_report_in_any_language_takes_one_analysis(code: str, simulated, run, tmp_path, analyses) -> None:
    assert run("report", simulated, "--lang", code, "-o", tmp_path / "page.html")[0] == 0
    assert analyses == [simulated]


@pytest.mark.parametrize("code", [ENGLISH, "ru"])
def test_a_narrative_in_any_language_takes_none_where_there_are_findings(
    code: str, simulated, english, run, analyses
) -> None:
    assert run("narrate", simulated, "--lang", code)[0] == 0
    assert analyses == []


def test_findings_of_version_1_are_made_anew_for_another_language(simulated, english, run, tmp_path, analyses) -> None:
    folder = shutil.copytree(simulated, tmp_path / "old")
    data = json.loads((folder / "findings.json").read_text(encoding="utf-8"))
    (folder / "findings.json").write_text(json.dumps({**data, "schema_version": 1}), encoding="utf-8")

    run("narrate", folder)
    assert analyses == []
    run("narrate", folder, "--lang", "ru")
    assert analyses == [folder]


def test_the_variable_stands_for_the_option_which_wins(simulated, english, run, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PGTRIAL_LANG", "ru")
    page = tmp_path / "page.html"

    assert run("report", simulated, "-o", page)[1].startswith("✔ ⟦SUPPORTED⟧\n")
    assert run("report", simulated, "-o", page, "--lang", "en")[1].startswith(english[2])
    assert page.read_text() == english[1]


@pytest.mark.parametrize("name", ["resume", "report", "narrate"])
def test_a_wrong_variable_is_one_error(name: str, simulated, run, monkeypatch) -> None:
    monkeypatch.setenv("PGTRIAL_LANG", "klingon")

    status, out, err = run(name, simulated)

    assert (status, out) == (2, "")
    assert err.splitlines() == [
        'error: invalid value for "--lang" (env var: "PGTRIAL_LANG"): "klingon" is not one of "en", "ru", "es"',
        f'hint: Try "pgtrial {name} --help".',
    ]


def test_an_empty_variable_is_none(simulated, english, run, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PGTRIAL_LANG", "")

    assert run("report", simulated, "-o", tmp_path / "page.html")[1].startswith(english[2])


def test_what_programs_read_is_the_same_in_every_language(simulated, run, tmp_path) -> None:
    written: dict[str, list[object]] = {}
    for code in (ENGLISH, "ru"):
        files = {name: tmp_path / f"{code}.{name}" for name in ("html", "xml", "md")}
        options = (
            "-o",
            files["html"],
            "--junit",
            files["xml"],
            "--summary-markdown",
            files["md"],
            "--json",
            "--assert",
        )
        status, out, err = run("report", simulated, "--lang", code, *options)
        written[code] = [status, json.loads(out), err, files["xml"].read_text(), files["md"].read_text()]

    assert written["ru"] == written[ENGLISH]


def test_the_narrative_is_in_the_language_and_for_programs_in_english(simulated, run) -> None:
    status, story, err = run("narrate", simulated, "--lang", "ru")

    assert (status, err) == (0, "")
    assert story.startswith("commit\n\n⟦What was asked⟧\n")
    assert run("narrate", simulated, "--lang", "ru", "--format", "markdown")[1].startswith(
        "# commit\n\n## ⟦What was asked⟧\n"
    )
    assert run("narrate", simulated, "--lang", "ru", "--json") == run("narrate", simulated, "--json")


def test_a_model_is_told_facts_in_the_language_that_it_is_to_write_in(simulated, run) -> None:
    _, pack, _ = run("narrate", simulated, "--lang", "ru", "--dossier", "-")

    assert "| `claim.verdict` | ⟦verdict on the claim⟧ | ⟦supported⟧ |" in pack
    assert "Write in русский." in pack


def test_what_is_said_of_a_models_text_is_in_the_language_of_its_facts(simulated, run, tmp_path) -> None:
    answer = tmp_path / "answer.txt"
    answer.write_text("Итог: {{claim.verdict}}.", encoding="utf-8")
    status, told, _ = run("narrate", simulated, "--answer", answer, "--lang", "ru")

    assert status == 0
    assert "⟦Text of a model (from answer.txt), not of pgtrial⟧" in told
    assert "| Итог: ⟦supported⟧." in told
    assert told.rstrip().endswith("== ⟦End of the model's text⟧ ==")


@pytest.mark.parametrize("code", [ENGLISH, "ru"])
def test_an_experiment_that_goes_on_is_reported_in_the_language(simulated, run, monkeypatch, code) -> None:
    monkeypatch.setattr("pgtrial.engine.experiment.run_experiment", lambda *_, **__: None)
    status, out, _ = run("resume", simulated, "--lang", code, "--quiet")

    assert status == 0
    assert out.startswith("✔ ⟦SUPPORTED⟧\n" if code == "ru" else "✔ SUPPORTED\n")
    assert f'<html lang="{code}">' in (simulated / "report.html").read_text()
