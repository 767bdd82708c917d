"""The action for GitHub and the job for GitLab: they are YAML, and their steps do what they say, as far as a test can
run them: with a real check of the experiment, and with stand-ins for the run and for GitHub's command.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GATE = """
format = 1
[experiment]
name = "gate"
[dataset]
scale = 1
[workload]
mix = "tpcb-like"
[arms.before]
[arms.after]
"""
PGTRIAL = """#!/bin/sh
printf '%s\\n' "$*" >> {log}
case $1 in
check) exec {python} -m pgtrial "$@" ;;
run) echo '<!-- pgtrial gate -->' > "$(dirname "$2")/pgtrial.md"; echo measured > "$6/findings.json"
    mkdir "$6/gate" && echo told > "$6/gate/report.html"; exit {status} ;;
esac
"""
GH = """#!/bin/sh
printf '%s\\n' "$*" >> {log}
case $* in
*--jq*) cat {comments} ;;
esac
"""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def run(*words: str | Path, folder: Path, **variables: str | Path) -> "subprocess.CompletedProcess[str]":
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, **{name: str(value) for name, value in variables.items()}}
    return subprocess.run([*map(str, words)], cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    (tmp_path / "gate.toml").write_text(GATE)
    (tmp_path / "next.sql").write_text("ALTER TABLE pgbench_accounts ADD COLUMN note text;\n")
    text = PGTRIAL.format(log=tmp_path / "log", python=sys.executable, status=3)
    program(tmp_path / "bin/pgtrial", text)
    return tmp_path


def steps() -> dict[str, dict[str, Any]]:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    return {step["name"]: step for step in action["runs"]["steps"]}


def test_the_gate_adds_the_migration_and_exits_by_the_verdict(pipeline: Path) -> None:
    done = run(ROOT / "ci/gate.sh", "gate.toml", "next.sql", "after", "--allow-code", folder=pipeline)

    assert (done.returncode, done.stderr) == (3, "")
    check, plan, ran = (pipeline / "log").read_text().splitlines()
    assert check == "check --no-host gate-with-migration.toml"
    assert plan == "plan gate-with-migration.toml"
    assert ran.startswith("run gate-with-migration.toml --quiet --assert --results /")
    assert " --junit ./pgtrial.xml " in ran
    assert not Path(ran.split()[5]).exists()  # a directory that only the user changes, while it measures
    assert (pipeline / "results/findings.json").read_text() == "measured\n"
    assert done.stdout.splitlines()[-1] == "kept: ./results/gate/report.html"  # what pgtrial named is gone by now
    assert ran.endswith("--history ./pgtrial-history.jsonl --allow-code")
    assert "ADD COLUMN note text" in (pipeline / "gate-with-migration.toml").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gate.toml",), "usage: ci/gate.sh EXPERIMENT MIGRATION"),
        (("gate.toml", "next.sql", "after.sql]"), "is no name of an arm"),
        (("gate.toml", "quotes.sql"), "three quotation marks"),
        (("gate.toml", "next.sql", "nobody"), 'arm "nobody"'),
    ],
)
def test_the_gate_refuses_what_would_make_another_experiment(
    pipeline: Path, words: tuple[str, ...], message: str
) -> None:
    (pipeline / "quotes.sql").write_text("SELECT ''''a''';\n")
    if words[-1] == "nobody":
        (pipeline / "gate.toml").write_text(GATE.replace("[arms.after]", '[arms.after]\ninherit = "nowhere"'))

    done = run(ROOT / "ci/gate.sh", *words, folder=pipeline)

    assert done.returncode == 2
    assert message in done.stderr or words[-1] == "nobody"
    assert "run" not in ((pipeline / "log").read_text() if (pipeline / "log").exists() else "")


def test_the_steps_of_the_action_run_the_gate(pipeline: Path) -> None:
    step = steps()["Experiment"]
    variables: dict[str, str | Path] = {
        "EXPERIMENT": "gate.toml",
        "MIGRATION": "next.sql",
        "ARM": "after",
        "OPTIONS": "--allow-code\n--work-directory=/tmp/a b",
        "ACTION": ROOT,
        "PGTRIAL_HISTORY": pipeline / "history.jsonl",
    }
    assert set(step["env"]) == set(variables)

    done = run("sh", "-e", "-c", step["run"], folder=pipeline, **variables)

    assert done.returncode == 3
    ran = (pipeline / "log").read_text().splitlines()[-1]
    assert ran.endswith(f"--history {pipeline}/history.jsonl --allow-code --work-directory=/tmp/a b")

    summary = pipeline / "summary"
    run(
        "sh",
        "-e",
        "-c",
        steps()["Summary"]["run"],
        folder=pipeline,
        EXPERIMENT="gate.toml",
        GITHUB_STEP_SUMMARY=summary,
    )
    assert summary.read_text() == "<!-- pgtrial gate -->\n"


@pytest.mark.parametrize(
    ("comments", "call"),
    [
        ("7 hello\n", "api --method POST repos/o/r/issues/5/comments --field body=@pgtrial.md"),
        (
            "7 hello\n8 <!-- pgtrial gate -->\n",
            "api --method PATCH repos/o/r/issues/comments/8 --field body=@pgtrial.md",
        ),
        ("9 <!-- pgtrial other -->\n", "api --method POST repos/o/r/issues/5/comments --field body=@pgtrial.md"),
    ],
)
def test_the_comment_is_written_once_and_then_replaced(tmp_path: Path, comments: str, call: str) -> None:
    (tmp_path / "comments").write_text(comments)
    (tmp_path / "pgtrial.md").write_text("<!-- pgtrial gate -->\n## gate: supported\n")
    program(tmp_path / "bin/gh", GH.format(log=tmp_path / "log", comments=tmp_path / "comments"))

    done = run(ROOT / "ci/comment.sh", "pgtrial.md", "o/r", "5", folder=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "log").read_text().splitlines()[-1] == call


def test_a_comment_without_a_mark_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "pgtrial.md").write_text("## anything\n")
    program(tmp_path / "bin/gh", GH.format(log=tmp_path / "log", comments="/dev/null"))

    done = run(ROOT / "ci/comment.sh", "pgtrial.md", "o/r", "5", folder=tmp_path)

    assert done.returncode == 1
    assert not (tmp_path / "log").exists()


def test_every_value_from_outside_reaches_a_script_through_its_environment() -> None:
    for step in steps().values():
        assert "${{" not in step.get("run", "")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    used = set(re.findall(r"inputs\.(\w+)", json.dumps(action["runs"])))
    assert used == set(action["inputs"])


def test_the_job_for_gitlab_runs_the_gate_with_its_inputs(pipeline: Path) -> None:
    header, jobs = yaml.safe_load_all((ROOT / "templates/gate.yml").read_text())
    (job,) = jobs.values()
    text = (ROOT / "templates/gate.yml").read_text()
    assert set(re.findall(r"\$\[\[ inputs\.(\w+) \]\]", text)) == set(header["spec"]["inputs"])
    assert job["allow_failure"] == {"exit_codes": [4]}

    (line,) = job["script"]
    installed = line.replace("/usr/share/pgtrial", str(ROOT))
    variables = {"EXPERIMENT": "gate.toml", "MIGRATION": "next.sql", "ARM": "after", "PGTRIAL_HISTORY": "h.jsonl"}
    done = run("sh", "-e", "-c", installed, folder=pipeline, **variables)

    assert done.returncode == 3
    assert "--history h.jsonl" in (pipeline / "log").read_text()
    (after,) = job["after_script"]
    done = run(
        "sh", "-e", "-c", after.replace("/usr/share/pgtrial", str(ROOT)), folder=pipeline, EXPERIMENT="gate.toml"
    )
    assert (done.returncode, done.stdout) == (0, "no note: this is no pipeline of a merge request\n")
