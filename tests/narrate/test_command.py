"""The command: text, Markdown, JSON, a model through a stand-in, the pack for use by hand, and every error."""

import json
import re
from pathlib import Path

import pytest

from pgtrial.cli.main import main
from pgtrial.narrate.endpoint import KEY, OPENAI_KEY, OPENAI_URL, URL
from pgtrial.store.findings_file import write_findings
from support import EXPERIMENT, write_result_folder

SECRET = "sk-very-secret-0123456789"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, story) -> Path:
    """A result folder of which only the findings are left."""
    found = tmp_path_factory.mktemp("narrate")
    write_findings(story, found)
    return found


@pytest.fixture(autouse=True)
def _no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (URL, KEY, OPENAI_URL, OPENAI_KEY):
        monkeypatch.delenv(name, raising=False)


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main(["narrate", *map(str, arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_without_a_model_it_tells_the_story(folder, capsys) -> None:
    status, out, err = run(capsys, folder)

    assert (status, err) == (0, "")
    assert out.startswith("synchronous-commit\n\nWhat was asked\n")
    assert "What to do next" in out
    assert "model" not in out


def test_a_folder_that_was_never_reported_is_told_and_left_alone(tmp_path, capsys) -> None:
    text = EXPERIMENT.replace("blocks = 6", "blocks = 3").replace("placebo = true", "placebo = false")
    fresh = write_result_folder(tmp_path / "fresh", text=text, runs=5)
    before = sorted(fresh.iterdir())
    status, out, _ = run(capsys, fresh)

    assert status == 0
    assert "The experiment is not finished" in " ".join(out.split())
    assert sorted(fresh.iterdir()) == before


def test_markdown_and_sources(folder, capsys) -> None:
    status, out, _ = run(capsys, folder, "--format", "markdown", "--sources")

    assert status == 0
    assert out.startswith("# synchronous-commit\n\n## What was asked\n")
    assert "← `hypothesis.margin`" in out


def test_json_has_the_place_of_every_number(folder, capsys) -> None:
    status, out, _ = run(capsys, folder, "--json")
    found = json.loads(out)

    assert status == 0
    assert found["experiment"] == "synchronous-commit"
    assert any(item["paths"] == ["hypothesis.margin"] for item in found["paragraphs"][0]["cited"])
    assert "model" not in found


def test_output_goes_to_a_file(folder, tmp_path, capsys) -> None:
    path = tmp_path / "story.md"
    status, out, err = run(capsys, folder, "--format", "markdown", "--output", path)

    assert (status, out, err) == (0, "", f"wrote {path}\n")
    assert path.read_text(encoding="utf-8").startswith("# synchronous-commit\n")
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_is_an_error(folder, tmp_path, capsys) -> None:
    status, _, err = run(capsys, folder, "--output", tmp_path / "no" / "story.md")

    assert status == 1
    assert err.startswith("error: cannot write ")


def test_a_models_text_is_added_with_facts_put_in_and_labelled(folder, capsys, monkeypatch, stand_in) -> None:
    monkeypatch.setenv(URL, stand_in.url)
    monkeypatch.setenv(KEY, SECRET)
    stand_in.say("The margin is 5 %.")
    stand_in.say("The margin is {{claim.margin}}, with {{blocks.complete}}.")
    status, out, err = run(capsys, folder, "--model", "tiny")

    assert status == 0
    assert err == "warning: the model's text is refused for 3 reasons; it is told why and asked again\n"
    assert "What to do next" in out
    assert "== Text of a model (stand-in), not of pgtrial ==" in out
    assert "| The margin is 3 %, with 6 blocks." in out
    assert SECRET not in out


def test_the_transcript_of_the_documentation_is_what_happens(
    make_story, tmp_path, capsys, monkeypatch, stand_in
) -> None:
    page = Path(__file__).parents[2] / "docs" / "narrate.md"
    facts, refused, reasons, answer, shown = re.findall(r"```text\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    write_findings(make_story(("on", "off", "placebo")), tmp_path)
    monkeypatch.setenv(URL, stand_in.url)
    stand_in.say(refused)
    stand_in.say(answer)
    _, out, _ = run(capsys, tmp_path, "--model", "llama3.3")
    first, second = (json.loads(body)["messages"] for _, _, body in stand_in.requests)

    assert set(facts.splitlines()) <= set(first[1]["content"].splitlines())
    assert second[3]["content"] == reasons.rstrip()
    assert out.endswith(shown)


def test_the_key_is_nowhere_in_the_folder_or_the_question(folder, capsys, monkeypatch, stand_in) -> None:
    monkeypatch.setenv(URL, stand_in.url)
    monkeypatch.setenv(KEY, SECRET)
    stand_in.say("Fine, {{arms}}.")
    run(capsys, folder, "--model", "tiny")
    files = [path for path in folder.rglob("*") if path.is_file()]

    assert all(SECRET.encode() not in path.read_bytes() for path in files)
    assert SECRET.encode() not in stand_in.requests[0][2]


def test_json_holds_the_models_text_with_the_places_of_its_facts(folder, capsys, monkeypatch, stand_in) -> None:
    monkeypatch.setenv(OPENAI_URL, stand_in.url)
    stand_in.say("The margin is {{claim.margin}}.")
    status, out, _ = run(capsys, folder, "--model", "tiny", "--json")
    model = json.loads(out)["model"]

    assert status == 0
    assert model["is_model_text"] is True
    assert model["text"] == "The margin is 3 %."
    assert model["facts"] == [{"id": "claim.margin", "path": "hypothesis.margin", "start": 14, "end": 17}]


def test_a_model_that_insists_on_its_own_numbers_is_one_error_and_no_story(
    folder, capsys, monkeypatch, stand_in
) -> None:
    monkeypatch.setenv(URL, stand_in.url)
    stand_in.say("The margin is 5 %.")
    status, out, err = run(capsys, folder, "--model", "tiny")

    assert (status, out) == (1, "")
    assert "error: the model's text is refused" in err
    assert '"5": a numeral' in err
    assert len(stand_in.requests) == 2


def test_an_unencrypted_way_to_another_machine_is_warned_of(folder, capsys, monkeypatch) -> None:
    monkeypatch.setenv(URL, "http://192.0.2.1:9/v1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setattr("pgtrial.narrate.endpoint.TRIES", 1)
    status, _, err = run(capsys, folder, "--model", "tiny", "--timeout", "1s")

    assert status == 1
    assert err.startswith("warning: the endpoint's address begins with http://")


def test_an_endpoint_that_fails_is_one_error_and_no_story(folder, capsys, monkeypatch, stand_in) -> None:
    monkeypatch.setenv(URL, stand_in.url)
    stand_in.reply(b"", 401)
    status, out, err = run(capsys, folder, "--model", "tiny")

    assert (status, out) == (1, "")
    assert "refuses the key (HTTP 401)" in err
    assert "Traceback" not in err


def test_without_an_address_it_is_a_usage_error(folder, capsys) -> None:
    status, out, err = run(capsys, folder, "--model", "tiny")

    assert (status, out) == (2, "")
    assert err.startswith("error: no endpoint for the model is configured\n")


def test_a_text_got_by_hand_is_checked_too(folder, tmp_path, capsys) -> None:
    answer = tmp_path / "answer.txt"
    answer.write_text("The margin is {{claim.margin}}.\n", encoding="utf-8")
    status, out, _ = run(capsys, folder, "--answer", answer, "--sources")

    assert status == 0
    assert "Text of a model (from answer.txt)" in out
    assert "| The margin is 3 %.\n" in out
    assert "3 % ← hypothesis.margin" in out


def test_a_text_got_by_hand_with_own_numbers_is_refused(folder, tmp_path, capsys) -> None:
    answer = tmp_path / "answer.txt"
    answer.write_text("The margin is 5 %.\n", encoding="utf-8")
    status, out, err = run(capsys, folder, "--answer", answer)

    assert (status, out) == (1, "")
    assert '"5": a numeral' in err


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_a_text_that_cannot_be_read_is_an_error(folder, tmp_path, capsys, content) -> None:
    answer = tmp_path / "answer.txt"
    if content is not None:
        answer.write_bytes(content)
    status, _, err = run(capsys, folder, "--answer", answer)

    assert status == 1
    assert err.startswith("error: cannot read ")


def test_the_pack_is_written_for_use_by_hand(folder, tmp_path, capsys) -> None:
    pack = tmp_path / "pack.md"
    status, out, _ = run(capsys, folder, "--dossier", pack)

    assert (status, out) == (0, "")
    text = pack.read_text(encoding="utf-8")
    assert text.startswith("# Prompt pack\n")
    assert "| `claim.margin` | smallest change that matters | 3 % |" in text
    assert "experiment_A" in text


def test_the_pack_goes_to_standard_output(folder, capsys) -> None:
    status, out, _ = run(capsys, folder, "--dossier", "-", "--no-redact")

    assert status == 0
    assert out.startswith("# Prompt pack\n")
    assert "synchronous_commit = off is faster for small updates" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ("--model", "a", "--dossier", "-"),
        ("--no-redact", "--redact-arms"),
        ("--json", "--format", "markdown"),
        ("--timeout", "0"),
        ("--timeout", "soon"),
        ("--format", "html"),
    ],
)
def test_options_that_do_not_go_together_are_refused(folder, capsys, arguments) -> None:
    status, out, err = run(capsys, folder, *arguments)

    assert (status, out) == (2, "")
    assert err.startswith("error: ")


def test_a_folder_that_is_none_is_an_error(tmp_path, capsys) -> None:
    status, _, err = run(capsys, tmp_path / "nowhere")

    assert status == 1
    assert err.startswith("error: ")


def test_findings_of_a_newer_version_are_refused(folder, tmp_path, capsys) -> None:
    newer = tmp_path / "newer"
    newer.mkdir()
    data = json.loads((folder / "findings.json").read_text(encoding="utf-8"))
    (newer / "findings.json").write_text(json.dumps({**data, "schema_version": 99}), encoding="utf-8")
    status, _, err = run(capsys, newer)

    assert status == 1
    assert "schema version 99" in err
