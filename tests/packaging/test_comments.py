"""The comment of a pull request and the note of a merge request: written once, then replaced, by the programs that
pipelines call, against a stand-in for the forge's API on loopback.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.forge import TOKEN, Forge, open_forge
from support.programs import needs_gh

ROOT = Path(__file__).parents[2]
MARK = "<!-- pgtrial gate -->"
FIRST, SECOND = f"{MARK}\n## gate: refuted\n\n| a | b |\n", f"{MARK}\n## gate: supported ✔\n"


@pytest.fixture
def forge() -> Iterator[Forge]:
    with open_forge() as opened:
        yield opened


@pytest.fixture
def summary(tmp_path: Path) -> Path:
    return tmp_path / "pgtrial.md"


def execute(words: list[str], variables: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CI_", "GH_", "GITHUB_"))}
    return subprocess.run(words, env={**kept, **variables}, capture_output=True, text=True, check=False)


def comment(forge: Forge, summary: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """As the action's step calls it, with GitHub's own command."""
    words = [str(ROOT / "ci/comment.sh"), str(summary), "owner/shop", "7"]
    return execute(words, {"GH_TOKEN": TOKEN, **forge.for_gh(summary.parent), **variables})


def note(forge: Forge, summary: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """As the template's job calls it."""
    given = {"CI_API_V4_URL": f"{forge.address}/api/v4", "CI_PROJECT_ID": "3", "CI_MERGE_REQUEST_IID": "7"}
    words = [sys.executable, str(ROOT / "ci/note.py"), str(summary)]
    return execute(words, {**given, "PGTRIAL_GITLAB_TOKEN": TOKEN, **variables})


WRITERS = [pytest.param(comment, "PATCH", marks=needs_gh, id="github"), pytest.param(note, "PUT", id="gitlab")]
writers = pytest.mark.parametrize(("write", "change"), WRITERS)


@writers
def test_the_first_run_writes_and_the_second_replaces(forge, summary, write, change) -> None:
    forge.comments = [("somebody", "a word"), ("gate", "<!-- pgtrial other -->\nof another"), ("somebody", "more")]
    for text in (FIRST, SECOND):
        summary.write_text(text)
        done = write(forge, summary)
        assert (done.returncode, done.stderr) == (0, "")

    assert [method for method, _ in forge.changes] == ["POST", change]
    assert forge.changes[1][1].endswith("/103")  # on the second page
    assert forge.comments[3:] == [("gate", SECOND)]
    assert forge.comments[1] == ("gate", "<!-- pgtrial other -->\nof another")


@writers
def test_gates_of_one_request_have_a_comment_each(forge, summary, write, change) -> None:
    texts = {name: f"<!-- pgtrial {name} -->\n## gate: refuted\n" for name in ("db/erp.v2", "db/erp-v2", "erp")}
    for text in [*texts.values(), *texts.values()]:
        summary.write_text(text)
        done = write(forge, summary)
        assert (done.returncode, done.stderr) == (0, "")

    assert [method for method, _ in forge.changes] == ["POST"] * 3 + [change] * 3
    assert forge.comments == [("gate", text) for text in texts.values()]


@writers
def test_what_somebody_else_wrote_in_our_form_stays_theirs(forge, summary, write, change) -> None:
    """They could change it after us."""
    forge.comments = [("mallory", FIRST)]
    summary.write_text(SECOND)

    assert write(forge, summary).returncode == 0
    assert forge.comments == [("mallory", FIRST), ("gate", SECOND)]


@writers
def test_a_forge_that_fails_gets_no_second_comment(forge, summary, write, change) -> None:
    summary.write_text(FIRST)
    forge.breaks = True

    assert write(forge, summary).returncode == 1
    assert forge.comments == []
    assert forge.changes == []


@needs_gh
def test_a_workflows_own_token_may_not_ask_who_it_is(forge: Forge, summary: Path) -> None:
    forge.user = ""
    for text in (FIRST, SECOND):
        summary.write_text(text)
        assert comment(forge, summary).returncode == 0

    assert forge.comments == [("github-actions[bot]", SECOND)]


@pytest.mark.parametrize(
    ("variables", "text", "said"),
    [
        ({"CI_MERGE_REQUEST_IID": ""}, FIRST, "no note: this is no pipeline of a merge request\n"),
        ({"PGTRIAL_GITLAB_TOKEN": ""}, FIRST, "no note: the variable PGTRIAL_GITLAB_TOKEN is not set\n"),
        ({}, None, "no note: there is no "),
    ],
)
def test_without_request_token_or_summary_there_is_nothing_to_do(
    forge: Forge, summary: Path, variables: dict[str, str], text: str | None, said: str
) -> None:
    if text is not None:
        summary.write_text(text)
    done = note(forge, summary, **variables)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(said)
    assert forge.asked == []


def test_a_wrong_token_is_one_clear_error(forge: Forge, summary: Path) -> None:
    summary.write_text(FIRST)
    done = note(forge, summary, PGTRIAL_GITLAB_TOKEN="wrong")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: the summary is not in the merge request: HTTP Error 401: Unauthorized\n"


def test_a_note_without_a_mark_is_not_written(forge: Forge, summary: Path) -> None:
    summary.write_text("## anything\n")
    done = note(forge, summary)

    assert done.returncode == 1
    assert "does not begin with the mark of pgtrial" in done.stderr
    assert forge.asked == []
