"""--assert and the files for a pipeline, on simulated result folders."""

import json
import os
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from pgtrial.cli.gate import pipeline_commit
from pgtrial.cli.main import main
from support import EXPERIMENT, Simulation, write_result_folder

pytestmark = pytest.mark.usefixtures("analysed_once")

# Two arms in as few blocks as can decide.
TEXT = EXPERIMENT.replace("placebo = true", "placebo = false")
# Claim about "off" against "on", and true throughputs: what the verdict must be.
EQUAL = {"on": 500.0, "off": 500.0}
FASTER = {"on": 500.0, "off": 1000.0}


def make_folder(
    folder: Path,
    *,
    expect: str = "better",
    tps: dict[str, float] = FASTER,
    runs: int | None = None,
    noise: float = 0.02,
) -> Path:
    return write_result_folder(
        folder,
        text=TEXT.replace('expect = "better"', f'expect = "{expect}"'),
        simulation=Simulation(tps=tps, run_sd=noise),
        runs=runs,
    )


@pytest.mark.parametrize(
    ("expect", "tps", "noise", "verdict", "status"),
    [
        ("better", FASTER, 0.02, "supported", 0),
        ("worse", FASTER, 0.02, "refuted", 3),
        ("not-worse", {"on": 500.0, "off": 250.0}, 0.5, "inconclusive", 4),
    ],
)
def test_report_and_resume_exit_by_the_verdict_if_asked_to(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    expect: str,
    tps: dict[str, float],
    noise: float,
    verdict: str,
    status: int,
) -> None:
    folder = make_folder(tmp_path / "finished", expect=expect, tps=tps, noise=noise)

    assert main(["report", str(folder), "--json", "--assert"]) == status
    assert json.loads(capsys.readouterr().out)["hypothesis"]["verdict"] == verdict
    assert main(["resume", str(folder), "--assert"]) == status
    assert main(["report", str(folder)]) == 0


def test_no_whole_block_is_invalid(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "stopped", runs=1)

    assert main(["report", str(folder), "--assert"]) == 5
    assert main(["report", str(folder)]) == 0


def test_an_unfinished_experiment_passes_no_gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_folder(tmp_path / "stopped", runs=4)

    assert main(["report", str(folder), "--assert"]) == 4

    captured = capsys.readouterr()
    assert captured.out.startswith("? INCONCLUSIVE, PROVISIONAL")
    assert captured.err == "not finished: 2 of 6 blocks complete, which --assert takes as inconclusive\n"


def test_files_are_written_beside_the_report(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "finished")
    junit, summary = tmp_path / "pgtrial.xml", tmp_path / "pgtrial.md"

    assert main(["report", str(folder), "--junit", str(junit), "--summary-markdown", str(summary)]) == 0

    suite = ET.parse(junit).getroot()[0]
    assert (suite.get("name"), suite.get("failures"), suite.get("errors")) == ("commit", "0", "0")
    assert summary.read_text(encoding="utf-8").startswith("## ✔ commit: supported\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["finished", "pgtrial.md", "pgtrial.xml"]


def test_resume_writes_them_as_well(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "finished")
    junit = tmp_path / "pgtrial.xml"

    assert main(["resume", str(folder), "--quiet", "--junit", str(junit)]) == 0
    assert ET.parse(junit).getroot().get("name") == "pgtrial"


def test_the_summary_is_added_to_what_github_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_folder(tmp_path / "finished")
    page = tmp_path / "step.md"
    page.write_text("# Before\n\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))

    for _ in range(2):
        assert main(["report", str(folder), "--github-summary"]) == 0

    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Before\n\n## ✔ commit: supported\n")
    assert text.count("\n\n## ✔ commit: supported\n") == 2


@pytest.mark.parametrize("command", ["report", "resume", "run"])
def test_github_without_its_variable_is_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, command: str
) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("e.toml").write_text(EXPERIMENT, encoding="utf-8")

    assert main([command, "e.toml" if command == "run" else "results/none", "--github-summary"]) == 2
    assert capsys.readouterr().err == (
        "error: --github-summary: the environment variable GITHUB_STEP_SUMMARY is not set\n"
        f'hint: Try "pgtrial {command} --help".\n'
    )
    assert [path.name for path in tmp_path.iterdir()] == ["e.toml"]


@pytest.mark.parametrize("option", ["--junit", "--summary-markdown"])
def test_a_file_that_cannot_be_written_is_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, option: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("e.toml").write_text(EXPERIMENT, encoding="utf-8")

    assert main(["run", "e.toml", option, "nowhere/file"]) == 1
    assert capsys.readouterr().err == 'error: cannot write "nowhere/file": No such file or directory\n'
    assert [path.name for path in tmp_path.iterdir()] == ["e.toml"]


def test_what_an_earlier_call_left_is_gone_when_the_analysis_fails(tmp_path: Path) -> None:
    junit = tmp_path / "pgtrial.xml"
    junit.write_text("<testsuites/>", encoding="utf-8")

    assert main(["report", str(tmp_path / "nothing"), "--junit", str(junit)]) == 1
    assert not junit.exists()


def test_what_is_not_a_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "finished")
    reader, writer = os.pipe()

    assert main(["report", str(folder), "--junit", f"/dev/fd/{writer}"]) == 0
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read().startswith(b"<?xml")


def test_no_link_leads_what_is_written_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_folder(tmp_path / "r")
    os.mkfifo(tmp_path / "device")
    device = os.open(tmp_path / "device", os.O_RDONLY | os.O_NONBLOCK)
    precious = tmp_path / "precious"
    precious.write_text("precious\n")
    for name in ("junit", "summary"):
        (tmp_path / name).symlink_to("device")
    (tmp_path / "github").symlink_to(precious)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "github"))
    files = ["--junit", str(tmp_path / "junit"), "--summary-markdown", str(tmp_path / "summary")]

    assert main(["report", str(tmp_path / "r"), *files]) == 0
    assert os.read(device, 1) == b""
    os.close(device)
    assert (tmp_path / "junit").read_text().startswith("<?xml")
    assert not (tmp_path / "summary").is_symlink()

    assert main(["report", str(tmp_path / "r"), "--github-summary"]) == 1
    assert "symbolic links" in capsys.readouterr().err
    assert precious.read_text() == "precious\n"


def test_the_summary_shows_what_the_pipeline_said_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI_COMMIT_SHA", raising=False)
    history, summary = tmp_path / "history.jsonl", tmp_path / "summary.md"
    history.write_text("not an entry\n")
    for number, (name, tps) in enumerate({"first": FASTER, "second": EQUAL}.items()):
        monkeypatch.setenv("GITHUB_SHA", f"{number}" * 40)
        folder = make_folder(tmp_path / name, tps=tps)
        options = ["--summary-markdown", str(summary), "--history", str(history)]
        assert main(["report", str(folder), *options]) == 0

    lines = history.read_text().splitlines()
    assert [(entry["verdict"], entry["commit"]) for entry in map(json.loads, lines)] == [
        ("supported", "0" * 40),
        ("refuted", "1" * 40),
    ]
    text = summary.read_text()
    assert text.startswith("<!-- pgtrial ")
    _, before = text.split("### Before")
    assert "`000000000000`" in before
    assert "supported" in before
    assert "111111111111" not in before


def test_gates_of_one_experiment_have_a_comment_and_a_history_each(tmp_path: Path) -> None:
    """The same file for two databases, or two files with an experiment of the same name."""
    history = tmp_path / "history.jsonl"
    comments: dict[str, str] = {}
    for number, (gate, tps) in enumerate([("db/shop", FASTER), ("db/erp", EQUAL), ("db/shop", FASTER)]):
        folder, summary = make_folder(tmp_path / str(number), tps=tps), tmp_path / f"{number}.md"
        junit = tmp_path / f"{number}.xml"
        options = ["--summary-markdown", str(summary), "--history", str(history), "--junit", str(junit)]
        assert main(["report", str(folder), *options, "--gate", gate]) == 0
        comments[gate] = summary.read_text()
        assert f"({gate})" in junit.read_text()

    assert comments["db/shop"].startswith("<!-- pgtrial db/shop -->\n## ")
    assert comments["db/erp"].startswith("<!-- pgtrial db/erp -->\n## ")
    assert "\nGate: `db/shop`\n" in comments["db/shop"]
    _, before = comments["db/shop"].split("### Before")
    assert ("supported" in before, "refuted" in before) == (True, False)
    assert "### Before" not in comments["db/erp"]


def test_a_gate_has_what_was_said_before_gates_had_names(tmp_path: Path) -> None:
    history, summary = tmp_path / "history.jsonl", tmp_path / "summary.md"
    history.write_text(json.dumps({"experiment": "another", "verdict": "invalid"}) + "\n")
    options = ["--summary-markdown", str(summary), "--history", str(history)]
    faster, equal = make_folder(tmp_path / "faster"), make_folder(tmp_path / "equal", tps=EQUAL)
    comments = []
    # The last but one is of a gate that has no name still.
    for folder, gate in ((faster, ""), (faster, "db/shop"), (equal, ""), (faster, "db/shop")):
        assert main(["report", str(folder), *options, *(["--gate", gate] if gate else [])]) == 0
        comments.append(summary.read_text().partition("### Before")[2])

    assert [each.count("supported") for each in comments] == [0, 1, 1, 2]
    assert not any("refuted" in each or "invalid" in each for each in comments)


def test_the_name_of_a_gate_starts_no_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(make_folder(tmp_path / "folder")), "--gate", "a --> <b>"]) == 2
    assert "only letters A to Z, digits" in " ".join(capsys.readouterr().err.split())


def test_a_history_of_somebody_else_starts_no_markup(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "folder")
    assert main(["report", str(folder), "--json"]) == 0
    name = json.loads((folder / "findings.json").read_text())["experiment"]["name"]
    history, summary = tmp_path / "history.jsonl", tmp_path / "summary.md"
    history.write_text(json.dumps({"experiment": name, "verdict": "<b>@all|x", "commit": "`|"}) + "\n")

    assert main(["report", str(folder), "--summary-markdown", str(summary), "--history", str(history)]) == 0

    assert "&lt;b&gt;@&#8288;all&#124;x" in summary.read_text()


def test_a_history_that_nothing_would_show_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(make_folder(tmp_path / "folder")), "--history", str(tmp_path / "h")]) == 2
    assert "--summary-markdown" in capsys.readouterr().err


MERGE, HEAD = "a" * 40, "b" * 40


@pytest.mark.parametrize(
    ("event", "commit"),
    [
        ({"pull_request": {"head": {"sha": HEAD}}}, HEAD),
        ({"pull_request": {"head": {"sha": "; rm"}}}, ""),
        ({"pull_request": None}, MERGE),
        ({"ref": "refs/heads/main"}, MERGE),
        ([], MERGE),
        (None, MERGE),
    ],
)
def test_a_pull_request_is_about_the_last_commit_of_its_branch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: object, commit: str
) -> None:
    monkeypatch.setenv("GITHUB_SHA", MERGE)
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(tmp_path / "event.json"))
    if event is not None:
        (tmp_path / "event.json").write_text(json.dumps(event))

    assert pipeline_commit() == commit
