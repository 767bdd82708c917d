"""Reports in other languages: every text goes through a catalogue, and no conclusion depends on the language."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pgtrial import __version__
from pgtrial.analysis.analyze import analyze
from pgtrial.findings.findings import Findings
from pgtrial.language import ENGLISH, LANGUAGES, Language, find_language, speak
from pgtrial.report.html import render_html
from pgtrial.report.narrative.story import tell_story
from pgtrial.report.narrative.write import write_text
from pgtrial.report.text import render_text
from report import pseudo
from report.pseudo import PSEUDO
from support import EXPERIMENT, detailed_simulation, write_result_folder

# Arms, settings and texts that are no words of a sentence, so that no word hides behind a name.
TEXT = (
    EXPERIMENT.replace("Without waiting for the disk at commit, throughput is higher", "Qclaim")
    .replace('name = "commit"', 'name = "qname"')
    .replace("[arms.on.", "[arms.qon.")
    .replace("[arms.off.", "[arms.qoff.")
    .replace('synchronous_commit = "on"', 'work_mem = "4MB"')
    .replace('synchronous_commit = "off"', 'work_mem = "8MB"')
    .replace("clients = 4", "clients = [4, 16]")
    .replace("blocks = 6", "blocks = 3")
)
METHODS = {
    "blocks": TEXT,
    "interleaved": TEXT.replace("[design]\n", '[design]\nmethod = "interleaved"\n'),
    "duet": TEXT.replace("[design]\n", '[design]\nmethod = "duet"\n')
    .replace("placebo = true", "placebo = false")
    .replace("blocks = 3", "blocks = 4"),
}
NAMES = {"qon", "qoff", "placebo", "Qclaim", "qname", "vda"}  # the placebo's arm is called so
PRODUCTS = {"PostgreSQL", "pgtrial", "pgbench"}
WAITS = {"LWLock", "WALWrite", "IO", "WALSync", "Client", "ClientRead"}  # as PostgreSQL calls them
SIGNS = {"k", "M", "G", "i", "p", "q", "s", "λ", "σ", "κ", "UTC"}  # prefixes of numbers, p50, Greek ones of the law
TERMS = {"CPU", "CPUs", "OLTP", "iowait"}  # the same in all languages
# Words of the experiment file, facts of the fingerprint as docs/fingerprint.md names them, and sources of settings, as
# PostgreSQL does.
VALUES = {
    "simple",
    "throwaway",
    "machine",
    "kernel",
    "release",
    "version",
    "memory",
    "configuration",
    "file",
    "default",
}
ALLOWED = NAMES | PRODUCTS | WAITS | SIGNS | TERMS | VALUES
# "work_mem", "samples.parquet", "simple-update": what is written in code, wherever it stands.
IDENTIFIER = re.compile(r"\w+(?:[_.]+\w+)+|\bsimple-update\b|\bsynchronous-commit\b|/[\w/-]+|\d+[kM]B\b")


# Keys of the findings by which programs decide.
CODES = {
    *{
        "verdict",
        "decision",
        "severity",
        "code",
        "arm",
        "control",
        "role",
        "metric",
        "scenario",
        "load_level",
        "expect",
    },
    *{"name", "kind", "event", "level", "resource", "standing", "state", "method", "restore", "unit", "id", "file"},
}


@pytest.fixture(scope="module", params=METHODS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    simulation = replace(detailed_simulation(), tps={"qon": 500.0, "qoff": 1000.0})
    # Eight of nine runs, so that what is said of an experiment that was stopped is said.
    runs = 8 if request.param == "blocks" else None
    path = tmp_path_factory.mktemp("languages") / request.param
    return write_result_folder(path, text=METHODS[request.param], simulation=simulation, runs=runs)


@pytest.fixture(scope="module")
def english(folder: Path) -> Findings:
    return analyze(folder)


def show(findings: Findings, language: Language) -> dict[str, list[str]]:
    """Texts of the three things that people read."""
    with speak(language):
        summary, page = render_text(findings), render_html(findings)
        story = write_text(tell_story(findings))
    return {
        "summary": [" ".join(part.split()) for part in summary.split("\n\n")],
        "narrative": [" ".join(part.split()) for part in story.split("\n\n")],
        "page": pseudo.texts_of_page(page),
    }


@pytest.fixture(scope="module")
def shown(english: Findings) -> dict[str, list[str]]:
    return show(english, PSEUDO)


def find_forgotten(texts: list[str], allowed: set[str]) -> list[str]:
    """Texts with words that went through no catalogue, and these words."""
    found = []
    for text in texts:
        words = [word for word in pseudo.words_outside(IDENTIFIER.sub("", text)) if word not in allowed]
        if words:
            found.append(f"{' '.join(words)} — in: {text}")
    return found


def test_every_word_of_a_report_went_through_a_catalogue(shown: dict[str, list[str]]) -> None:
    assert {name: found for name, texts in shown.items() if (found := find_forgotten(texts, ALLOWED))} == {}


def test_every_number_of_a_report_has_the_decimal_sign_of_the_language(shown: dict[str, list[str]]) -> None:
    version = re.compile(rf"15\.7|6\.1\.0|{re.escape(__version__)}")

    wrong = [
        text
        for texts in shown.values()
        for text in texts
        if re.search(r"(?<![\w.])\d+\.\d", version.sub("", re.sub("⟦[^⟧]*⟧", "", text)))
    ]

    assert wrong == []


def wrap_texts(value: object, key: str = "") -> object:
    """Findings as an analysis in the pseudo language would give them: what has a blank in it is a text."""
    if isinstance(value, dict):
        return {name: wrap_texts(item, name) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [wrap_texts(item, key) for item in value]
    is_text = isinstance(value, str) and (" " in value or key in {"title", "near"}) and key not in CODES - {"name"}
    return f"⟦{value}⟧" if is_text else value


SAMPLE_NAMES = ("qa", "qb", "qc")
SAMPLE_WAITS = {"WalSync", "DataFileRead", "DataFileWrite", "Lock", "tuple", "Timeout", "checkpointer"}
SAMPLE_VALUES = {"on", "off", "update", "read", "hdd", "ssd", "ceph", "loop", "amd", "storage", "serialization", "run"}
SAMPLE_ALLOWED = {*ALLOWED, *SAMPLE_NAMES, *SAMPLE_WAITS, *SAMPLE_VALUES}


def test_every_word_of_a_report_with_all_there_can_be_went_through_a_catalogue(sample_of) -> None:
    data = sample_of(names=SAMPLE_NAMES).model_dump(mode="json")
    sample = Findings.model_validate(wrap_texts(data))

    shown = show(sample, PSEUDO)

    assert {name: found for name, texts in shown.items() if (found := find_forgotten(texts, SAMPLE_ALLOWED))} == {}


def test_every_word_of_a_report_without_results_went_through_a_catalogue(minimal: Findings) -> None:
    sample = Findings.model_validate(wrap_texts(minimal.model_dump(mode="json")))
    names = {"a", "b", "nothing", "yet"}

    shown = show(sample, PSEUDO)

    assert {name: found for name, texts in shown.items() if (found := find_forgotten(texts, ALLOWED | names))} == {}


def test_english_is_what_it_is_without_any_language(folder: Path, english: Findings) -> None:
    with speak(find_language(ENGLISH)):
        findings = analyze(folder)
        spoken = render_text(findings), render_html(findings), write_text(tell_story(findings), with_sources=True)

    assert findings == english
    assert spoken == (
        render_text(english),
        render_html(english),
        write_text(tell_story(english), with_sources=True),
    )


def test_findings_do_not_depend_on_the_language(folder: Path, english: Findings) -> None:
    with speak(PSEUDO):
        analysed = analyze(folder)

    assert analysed.model_dump(mode="json") == english.model_dump(mode="json")


def test_the_page_says_its_language_and_its_scripts_have_their_texts(sample: Findings) -> None:
    with speak(PSEUDO):
        page = render_html(sample)
    assert '<html lang="pseudo">' in page
    assert '<script type="application/json" id="words">' in page
    assert '"Copy table":"\\u27e6Copy table\\u27e7"' in page
    assert '"numbers":{"decimal":",","thousands":"\\u00a0"' in page


def test_the_page_in_english_has_no_texts_for_its_scripts(sample: Findings) -> None:
    page = render_html(sample)

    assert '<html lang="en">' in page
    assert 'id="words"' not in page


HOSTILE = ("{control}{0}<expect>", "</script><img src=x onerror=alert(1)>", "<expect>\x1b[31m\u202e</expect>")


@pytest.mark.parametrize("language", [PSEUDO, *map(find_language, LANGUAGES)], ids=["pseudo", *LANGUAGES])
def test_names_stay_names_in_every_language(sample_of, language: Language) -> None:
    sample = sample_of(names=HOSTILE)
    with speak(language):
        page, summary, story = render_html(sample), render_text(sample), write_text(tell_story(sample))

    assert "<img src=x" not in page
    assert "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;" in page
    for text in (summary, story):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "{control}{0}" in text
    assert "{control}{0}<expect>" in " ".join(story.split())


def test_words_that_a_template_cites_keep_their_place(sample: Findings) -> None:
    with speak(PSEUDO):
        asked = tell_story(sample)[0]

    assert [part.paths for part in asked.parts if getattr(part, "text", "") == "⟦better than⟧"] == [
        ("hypothesis.expect",)
    ]
