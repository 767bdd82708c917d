"""The action for GitHub and the job for GitLab: they are YAML, and their steps do what they say, as far as a test can
run them: with a real check of the experiment, and with stand-ins for the run and for GitHub's command.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from pgtrial.cli.gate import check_gate_name
from pgtrial.store.attempts import ATTEMPTS
from pgtrial.store.journal_file import state_directory
from support.pipelines import GitHub, GitLab

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
COUNTING = """#!/bin/sh
[ "$1" = run ] || exit 0
exec {python} -c '
from pathlib import Path
from pgtrial.store.attempts import Claim, note_attempt, note_runs
import time
begun = time.time()
claim = Claim(test="its test", words="a claim")
print("attempts before:", note_attempt(claim, digest="", folder=Path("r"), t=begun))
note_runs(begun, 1)
'
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
    assert ran.endswith("--gate gate --history ./pgtrial-history.jsonl --allow-code")
    assert "ADD COLUMN note text" in (pipeline / "gate-with-migration.toml").read_text()


def test_check_and_plan_get_the_options_that_they_take(
    pipeline: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shared = tmp_path_factory.mktemp("two words")
    (shared / "read.sql").write_text("SELECT 1;\n")
    scenario = f'scenario = [{{ name = "read", file = "{shared}/read.sql" }}]'
    (pipeline / "gate.toml").write_text(GATE.replace('mix = "tpcb-like"', scenario))
    options = ("--allow-code", "--allow-files", shared, "--results", "plan", "--revision=7", f"--allow-files={shared}")

    done = run(ROOT / "ci/gate.sh", "gate.toml", "next.sql", *options, folder=pipeline)

    assert (done.returncode, done.stderr) == (3, "")
    check, plan, ran = (pipeline / "log").read_text().splitlines()
    assert check == f"check --no-host gate-with-migration.toml --allow-files {shared} --allow-files={shared}"
    assert plan == f"plan gate-with-migration.toml --allow-files {shared} --revision=7 --allow-files={shared}"
    assert ran.endswith(" ".join(map(str, options)))


def test_the_mark_with_which_an_editor_begins_a_text_is_left_out(pipeline: Path) -> None:
    (pipeline / "next.sql").write_bytes(b"\xef\xbb\xbfALTER TABLE pgbench_accounts ADD COLUMN note text;\r\n")

    assert run(ROOT / "ci/gate.sh", "gate.toml", "next.sql", folder=pipeline).returncode == 3
    written = tomllib.loads((pipeline / "gate-with-migration.toml").read_text(encoding="utf-8"))
    assert written["arms"]["after"]["sql"]["apply"].startswith("ALTER TABLE")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gate.toml", "psql.sql"), r"line 2 is no SQL but a command of psql's: \set"),
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
    (pipeline / "psql.sql").write_text("-- don't stop\n\\set ON_ERROR_STOP off\nSELECT 1;\n")
    if words[-1] == "nobody":
        (pipeline / "gate.toml").write_text(GATE.replace("[arms.after]", '[arms.after]\ninherit = "nowhere"'))

    done = run(ROOT / "ci/gate.sh", *words, folder=pipeline)

    assert done.returncode == 2
    assert message in done.stderr or words[-1] == "nobody"
    assert "run" not in ((pipeline / "log").read_text() if (pipeline / "log").exists() else "")


@pytest.mark.parametrize(
    ("file", "name", "gate"),
    [
        ("db/erp.toml", "", "db/erp"),
        ("db/shop.toml", "", "db/shop"),  # an experiment of the same name
        ("db/erp.toml", "erp-copy", "erp-copy"),
        ("db/two words.toml", "", "db/two-words-1270634973"),
    ],
)
def test_a_gate_is_named_by_its_file_unless_it_has_a_name(pipeline: Path, file: str, name: str, gate: str) -> None:
    (pipeline / "db").mkdir()
    (pipeline / file).write_text(GATE)

    assert run(ROOT / "ci/gate.sh", file, "next.sql", folder=pipeline, PGTRIAL_GATE=name).returncode == 3

    assert f" --gate {gate} --history " in (pipeline / "log").read_text()


def test_gates_whose_names_only_look_alike_are_two(pipeline: Path) -> None:
    """Not every name can stand in a comment's first line; --gate takes 200 characters of some kinds."""
    long = "/".join(["some-directory"] * 16)
    files = [
        *("größe.toml", "grüße.toml", "a b.toml", "a-b.toml"),
        *(f"{long}/{name}.toml" for name in ("erp", "shop")),
    ]
    for file in files:
        (pipeline / file).parent.mkdir(parents=True, exist_ok=True)
        (pipeline / file).write_text(GATE)
        assert run(ROOT / "ci/gate.sh", file, "next.sql", folder=pipeline).returncode == 3

    gates = re.findall("^run .* --gate ([^ ]+) --history", (pipeline / "log").read_text(), re.MULTILINE)
    assert len(set(gates)) == len(files)
    assert all(check_gate_name(gate) == gate for gate in gates)
    assert "a-b" in gates


def test_a_gate_that_comes_to_nothing_leaves_no_summary_of_an_earlier_one(pipeline: Path) -> None:
    for name in ("pgtrial.md", "pgtrial.xml"):
        (pipeline / name).write_text("supported")
    (pipeline / "gate.toml").write_text("no = experiment")

    done = run(ROOT / "ci/gate.sh", "gate.toml", "next.sql", folder=pipeline)

    assert done.returncode == 2
    assert not list(pipeline.glob("pgtrial.*"))


def test_each_experiment_of_a_workflow_keeps_what_its_gates_said() -> None:
    restored, kept = steps()["What the gate said before"]["with"], steps()["Keep what it says now"]["with"]

    assert kept == {name: value for name, value in restored.items() if name != "restore-keys"}
    assert kept["key"].startswith(restored["restore-keys"])
    assert {"inputs.experiment", "inputs.name"} == set(re.findall(r"inputs\.\w+", restored["restore-keys"]))


def test_the_steps_of_the_action_run_the_gate(pipeline: Path) -> None:
    step = steps()["Experiment"]
    variables: dict[str, str | Path] = {
        "EXPERIMENT": "gate.toml",
        "MIGRATION": "next.sql",
        "ARM": "after",
        "OPTIONS": "--allow-code\n--work-directory=/tmp/a b",
        "ACTION": ROOT,
        "PGTRIAL_GATE": "shop",
        "PGTRIAL_HISTORY": pipeline / "history.jsonl",
        "PGTRIAL_ATTEMPTS": "",
    }
    assert set(step["env"]) == set(variables)

    done = run("sh", "-e", "-c", step["run"], folder=pipeline, **variables)

    assert done.returncode == 3
    ran = (pipeline / "log").read_text().splitlines()[-1]
    assert ran.endswith(f"--gate shop --history {pipeline}/history.jsonl --allow-code --work-directory=/tmp/a b")

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


def test_a_gate_on_a_machine_that_is_new_each_time_knows_of_its_earlier_attempts(pipeline: Path) -> None:
    """Whoever ran the pipeline again had a first attempt each time."""
    program(pipeline / "bin/pgtrial", COUNTING.format(python=sys.executable))
    told = []
    for machine in ("first", "second", "second", "third"):
        done = run(
            *(ROOT / "ci/gate.sh", "gate.toml", "next.sql"),
            folder=pipeline,
            PGTRIAL_STATE_DIRECTORY=pipeline / machine / "state",
            PGTRIAL_ATTEMPTS=pipeline / "attempts.jsonl",
        )
        assert (done.returncode, done.stderr) == (0, "")
        told += re.findall(r"attempts before: (\d+)", done.stdout)

    assert told == ["0", "1", "2", "3"]
    lists = [*pipeline.glob(f"*/state/{ATTEMPTS}")]
    assert [path.stat().st_mode & 0o777 for path in lists] == [0o600] * 3
    assert [path.parent.stat().st_mode & 0o777 for path in lists] == [0o700] * 3


@pytest.mark.parametrize(
    "variables", [{"XDG_STATE_HOME": "{}/xdg"}, {"XDG_STATE_HOME": "relative"}, {"XDG_STATE_HOME": ""}]
)
def test_the_gate_finds_the_state_directory_of_a_user_as_pgtrial_does(
    pipeline: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program(pipeline / "bin/id", "#!/bin/sh\necho 1000\n")
    kept = pipeline / "kept.jsonl"
    kept.write_text("{}\n")
    places = {"HOME": "{}/home", "PGTRIAL_STATE_DIRECTORY": "", **variables}
    places = {name: value.format(pipeline) for name, value in places.items()}

    done = run(ROOT / "ci/gate.sh", "gate.toml", "next.sql", folder=pipeline, PGTRIAL_ATTEMPTS=kept, **places)

    assert (done.returncode, done.stderr) == (3, "")
    for name, value in places.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert (state_directory() / ATTEMPTS).read_text() == "\n{}\n"
    assert state_directory().is_relative_to(pipeline)


def test_the_list_of_attempts_that_a_pipeline_keeps_has_no_other_ones_of_the_machine(pipeline: Path) -> None:
    program(pipeline / "bin/pgtrial", COUNTING.format(python=sys.executable))
    state, kept = pipeline / "state", pipeline / "kept.jsonl"
    state.mkdir(mode=0o700)
    own = '{"t": 1.0, "claim": "another", "digest": "", "folder": "somewhere"}\n'
    (state / ATTEMPTS).write_text(own)

    for _ in range(2):
        run(
            *(ROOT / "ci/gate.sh", "gate.toml", "next.sql"),
            folder=pipeline,
            PGTRIAL_STATE_DIRECTORY=state,
            PGTRIAL_ATTEMPTS=kept,
        )

    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [line.get("claim") for line in lines] == ["a claim", None, "a claim", None]
    assert (state / ATTEMPTS).read_text() == own + kept.read_text()


@pytest.mark.parametrize(("state", "kept"), [("file", "kept.jsonl"), ("state", "file/kept.jsonl")])
def test_a_gate_that_cannot_hand_attempts_on_says_so_and_goes_on(pipeline: Path, state: str, kept: str) -> None:
    (pipeline / "file").write_text("no directory\n")
    done = run(
        *(ROOT / "ci/gate.sh", "gate.toml", "next.sql"),
        folder=pipeline,
        PGTRIAL_STATE_DIRECTORY=pipeline / state,
        PGTRIAL_ATTEMPTS=kept,
    )

    files = f'"{pipeline}/{state}/attempts.jsonl" or "{kept}"'
    assert done.returncode == 3
    assert done.stderr == f"warning: earlier attempts are not counted: {files} cannot be written\n"


def test_pipelines_keep_the_list_of_attempts_with_the_history() -> None:
    named = steps()
    for name in ("What the gate said before", "Keep what it says now"):
        assert named["Experiment"]["env"]["PGTRIAL_ATTEMPTS"] in named[name]["with"]["path"].splitlines()
    _, jobs = yaml.safe_load_all((ROOT / "templates/gate.yml").read_text())
    (job,) = jobs.values()
    assert job["variables"]["PGTRIAL_ATTEMPTS"] in job["cache"]["paths"]


def new_machine(pipeline: Path, name: str) -> dict[str, Any]:
    """What is there of a machine that no job has used: a checkout, and programs that count attempts."""
    place = pipeline / name
    for each in (place / "shop", place / "temp", place / "artifacts", pipeline / "caches"):
        each.mkdir(parents=True, exist_ok=True)
    for file in ("gate.toml", "next.sql"):
        shutil.copy(pipeline / file, place / "shop")
    program(pipeline / "bin/pgtrial", COUNTING.format(python=sys.executable))
    return {
        "workspace": place / "shop",
        "caches": pipeline / "caches",
        "programs": [pipeline / "bin"],
        "variables": {"PGTRIAL_STATE_DIRECTORY": str(place / "state")},
    }


def test_the_action_hands_attempts_on_to_a_new_machine(pipeline: Path) -> None:
    told = []
    for number in (1, 2, 3):
        machine = new_machine(pipeline, f"machine{number}")
        install = "Install pgtrial, and PostgreSQL where there is none"
        runner = GitHub(temp=pipeline / f"machine{number}/temp", run_id=number, without=[install], **machine)
        job = runner.run(ROOT, experiment="gate.toml", migration="next.sql")
        assert job.status == 0, job.printed
        told += re.findall(r"attempts before: (\d+)", job.printed)

    assert told == ["0", "1", "2"]


def test_the_job_for_gitlab_hands_attempts_on_to_a_new_machine(pipeline: Path) -> None:
    told = []
    for number in (1, 2, 3):
        machine = new_machine(pipeline, f"machine{number}")
        places = {"/usr/share/pgtrial": str(ROOT)}
        runner = GitLab(artifacts=pipeline / f"machine{number}/artifacts", places=places, **machine)
        job = runner.run(ROOT / "templates/gate.yml", experiment="gate.toml", migration="next.sql")
        assert job.status == 0, job.printed
        told += re.findall(r"attempts before: (\d+)", job.printed)

    assert told == ["0", "1", "2"]


def test_every_value_from_outside_reaches_a_script_through_its_environment() -> None:
    for step in steps().values():
        assert "${{" not in step.get("run", "")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    used = set(re.findall(r"inputs\.(\w+)", json.dumps(action["runs"])))
    assert used == set(action["inputs"])


def test_the_job_for_gitlab_runs_the_gate_with_its_inputs(pipeline: Path) -> None:
    header, jobs = yaml.safe_load_all((ROOT / "templates/gate.yml").read_text())
    ((name, job),) = jobs.items()
    text = (ROOT / "templates/gate.yml").read_text()
    assert set(re.findall(r"\$\[\[ inputs\.(\w+) \]\]", text)) == set(header["spec"]["inputs"])
    assert job["allow_failure"] == {"exit_codes": [4]}
    # So the file can be included once more: its job, history and note have another name then.
    assert name == job["variables"]["PGTRIAL_GATE"] == "$[[ inputs.name ]]"
    assert job["cache"]["key"] == "pgtrial-history-$[[ inputs.name ]]"

    (line,) = job["script"]
    installed = line.replace("/usr/share/pgtrial", str(ROOT))
    variables = {"EXPERIMENT": "gate.toml", "MIGRATION": "next.sql", "ARM": "after", "PGTRIAL_HISTORY": "h.jsonl"}
    options = "--allow-code --work-directory /fast"
    done = run("sh", "-e", "-c", installed, folder=pipeline, OPTIONS=options, **variables)

    assert done.returncode == 3
    assert (pipeline / "log").read_text().endswith(f"--history h.jsonl {options}\n")
    (after,) = job["after_script"]
    done = run(
        "sh", "-e", "-c", after.replace("/usr/share/pgtrial", str(ROOT)), folder=pipeline, EXPERIMENT="gate.toml"
    )
    assert (done.returncode, done.stdout) == (0, "no note: this is no pipeline of a merge request\n")
