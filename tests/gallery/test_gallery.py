"""The published experiments: their files are right and small enough, and what the runner does with them."""

import os
import re
import socket
import subprocess
import sys
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from gallery import __main__ as runner
from gallery import entries, host, prospects, runs, translated
from pgtrial.cli.checked import check_file
from pgtrial.cli.main import main
from pgtrial.postgres.programs import Programs
from pgtrial.store import layout
from pgtrial.store.journal_file import VARIABLE
from support import wait_until, write_result_folder

ROOT = Path(__file__).parents[2]
LONGEST = 30 * 60  # s, of a quick file
ALL_OF_THEM = 6 * 60 * 60  # s
ROOM = 0.85  # of a time that may be planned: runs take a little longer, and the analysis comes on top
MIXES = ROOT / "src" / "pgtrial" / "workloads" / "mixes"


ENTRIES = {entry.name: entry for entry in entries.read_entries()}
QUICK = {name: entry.quick for name, entry in ENTRIES.items()}
FILES = sorted(entries.EXAMPLES.glob("*/*.toml"))
ENTRY = ENTRIES["b1-checkpoint-timeout"]
checked = cache(check_file)  # the files of the repository, which many tests look at
NO_CHANGES = {"servers": [{"missing": None}], "host_changes": []}
CHANGES = {
    "servers": [{"missing": None}],
    "host_changes": [{"knob": "sysctl", "problem": None}, {"knob": "cgroup", "problem": None}],
}


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_file_passes_the_check_and_is_planned(path, capsys):
    assert main(["check", "--no-host", str(path)]) == 0, capsys.readouterr().err
    assert main(["plan", str(path)]) == 0, capsys.readouterr().err


def test_the_page_caches_writers_are_watched_while_they_are_held_back():
    entry = ENTRIES["e-page-cache-write"]

    for path in (entry.quick, *entry.full):
        assert checked(path).loaded.experiment.target.tracing.throttling == "if-possible"


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_a_quick_file_is_over_after_half_an_hour_and_can_decide(entry):
    plan = checked(entry.quick).plan

    assert plan.estimate.total <= LONGEST
    assert plan.blocks >= plan.rules.fewest_blocks


def test_all_quick_files_together_are_over_in_time():
    seconds = sum(checked(entry.quick).plan.estimate.total for entry in ENTRIES.values())

    assert seconds <= ROOM * ALL_OF_THEM


def test_every_experiment_of_the_articles_is_there():
    articles = " ".join(entry.article for entry in ENTRIES.values()).split()

    assert {"A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "B1", "C", "D", "E"} <= set(articles)


def test_every_file_belongs_to_an_experiment():
    used = {file for entry in ENTRIES.values() for file in (entry.quick, *entry.full, *entry.scripts)}

    assert {path for path in entries.EXAMPLES.rglob("*") if path.is_file()} == used


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_both_sizes_ask_the_same(entry):
    quick = checked(entry.quick).loaded.experiment
    for path in entry.full:
        full = checked(path).loaded.experiment

        assert quick.experiment.name != full.experiment.name
        assert set(quick.factors) <= set(full.factors)
        assert bool(quick.arms) == bool(full.arms)
        assert len(quick.arms) <= len(full.arms)
        asked = {"metric", "scenario", "expect", "margin"}
        assert quick.hypothesis.model_dump(include=asked) == full.hypothesis.model_dump(include=asked)
        assert quick.workload.scenario_names == full.workload.scenario_names


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_names_of_experiments_say_where_they_belong(path):
    name = checked(path).loaded.experiment.experiment.name

    assert name.startswith(path.parent.name)
    assert name.endswith("-quick") == path.stem.startswith("quick")


@pytest.mark.parametrize("name", ["read", "insert", "update"])
def test_the_two_mixes_that_are_compared_are_those_of_pgtrial(name):
    script = (entries.EXAMPLES / "a5-oltp-against-olap" / f"{name}.sql").read_text()
    olap, oltp = script.partition("\\if :is_olap\n")[2].split("\\else\n")

    assert olap == (MIXES / "olap" / f"{name}.sql").read_text()
    assert oltp.removesuffix("\\endif\n") == (MIXES / "oltp" / f"{name}.sql").read_text()


def test_all_of_them_make_something_scarce_or_set_something_of_the_host():
    assert [name for name, entry in ENTRIES.items() if not entry.changes_host] == []


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_the_first_lines_of_a_file_say_whether_it_needs_root(entry):
    comment = entry.quick.read_text().partition("format = 1")[0]

    assert ("Needs root" in comment) == entry.changes_host


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('charts   = ["budget", "disk", "waits"]', 'charts   = ["budgets"]', "a5-oltp-against-olap.*budgets"),
        ('quick    = "quick-write.toml"', 'quick    = "slow.toml"', "e-page-cache-write.*slow.toml"),
        ('needs    = ["swap"]', 'needs    = ["tape"]', "a6-swappiness.*tape"),
    ],
)
def test_an_entry_that_makes_no_sense_is_refused(old, new, told, tmp_path):
    text = entries.ENTRIES.read_text()
    assert old in text
    (tmp_path / "gallery.toml").write_text(text.replace(old, new))

    with pytest.raises(ValueError, match=told):
        entries.read_entries(tmp_path / "gallery.toml")


def test_a_name_that_the_gallery_does_not_have_is_refused_before_anything_runs(capsys):
    with pytest.raises(SystemExit):
        runner.main(["--only", "a1-cache-against-work-mem", "nonsense"])

    assert "the gallery has no nonsense" in capsys.readouterr().err


def test_a_limit_that_is_no_time_is_refused(capsys):
    with pytest.raises(SystemExit):
        runner.main(["--limit", "soon"])

    assert "a time such as" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("plan", "is_root", "host_changes", "told"),
    [
        (NO_CHANGES, False, False, ""),
        (CHANGES, True, True, ""),
        (CHANGES, False, True, "it changes the host (sysctl, cgroup); run it as root"),
        (CHANGES, True, False, "it changes the host (sysctl, cgroup); allow that with --allow-host-changes"),
    ],
)
def test_what_stands_in_the_way_is_said(plan, is_root, host_changes, told):
    changes_host = bool(plan["host_changes"])

    found = prospects.find_hindrance(plan, changes_host=changes_host, is_root=is_root, host_changes=host_changes)

    assert found == told


def test_what_the_machine_cannot_do_is_said_once():
    problem = {"knob": "cgroup", "problem": "no mounted control group has the controller."}
    plan = {**CHANGES, "host_changes": [problem, problem]}

    found = prospects.find_hindrance(plan, changes_host=True, is_root=True, host_changes=True)

    assert found == "cgroup: no mounted control group has the controller."


def test_a_server_that_is_missing_is_said_first():
    plan = {**CHANGES, "servers": [{"missing": None}, {"missing": "there is no PostgreSQL 18"}]}

    found = prospects.find_hindrance(plan, changes_host=True, is_root=False, host_changes=False)

    assert found == "there is no PostgreSQL 18"


def test_without_root_what_changes_the_host_is_not_run(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    outcome = runner.run_or_skip(ENTRIES["d-huge-pages"], tmp_path, host_changes=True, deadline=1e12)

    assert outcome.state is runs.State.NOT_RUN
    assert "run it as root" in outcome.reason
    assert outcome.is_good
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_fit_into_the_time_is_not_begun():
    assert runs.judge_time(600, 720) == ""
    assert (
        runs.judge_time(600, 719) == "it is planned for 10 min, and 11 min 59 s are left; run it by itself with --only"
    )
    assert "0 s are left" in runs.judge_time(600, -5)


def test_the_newest_folder_is_found_by_its_time(tmp_path):
    for name in ("b-quick-20260102T000000Z", "a-quick-20260103T000000Z", "z-quick-20260101T000000Z"):
        (tmp_path / name).mkdir()
        (tmp_path / name / layout.FINDINGS).touch()
    (tmp_path / "c-quick-20260104T000000Z").mkdir()

    assert runs.newest_folder(tmp_path) == tmp_path / "a-quick-20260103T000000Z"
    assert runs.newest_folder(tmp_path / "none") is None


def test_files_of_the_kernel_that_are_not_as_before_are_told(tmp_path):
    queue = tmp_path / "sys" / "block" / "vda" / "queue"
    loop = tmp_path / "sys" / "block" / "loop0" / "queue"
    for folder in (queue, loop):
        folder.mkdir(parents=True)
        (folder / "read_ahead_kb").write_text("128\n")
    before = host.read_state(tmp_path, sys=tmp_path / "sys")
    (queue / "read_ahead_kb").write_text("4096\n")
    (loop / "read_ahead_kb").write_text("4096\n")

    found = host.find_changes(before, tmp_path, sys=tmp_path / "sys")

    assert [sentence for sentence in found if "queue" in sentence] == [
        "block/vda/queue/read_ahead_kb was 128 and is 4096"
    ]


def write_small(folder: Path, *, duration: str) -> Path:
    """An experiment of two arms, as short as one can be."""
    text = f"""\
format = 1
experiment = {{ name = "small-quick" }}
dataset    = {{ scale = 1 }}
workload   = {{ mix = "select-only", clients = 1, rate = 50, duration = "{duration}", warmup = 0 }}
design     = {{ blocks = 1 }}
[arms.a.postgresql]
work_mem = "4MB"
[arms.b.postgresql]
work_mem = "8MB"
"""
    path = folder / "quick.toml"
    path.write_text(text)
    return path


def test_an_experiment_is_run_and_leaves_its_folder(programs: Programs, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    entry = replace(ENTRY, quick=write_small(tmp_path, duration="1s"))

    outcome = runs.run_entry(entry, tmp_path / "results", left=120)

    assert (outcome.state, outcome.reason) == (runs.State.DONE, "")
    assert (outcome.folder / layout.REPORT).is_file()
    assert outcome.folder.parent == tmp_path / "results" / ENTRY.name


def test_an_experiment_is_ended_when_the_time_is_over(programs: Programs, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    entry = replace(ENTRY, quick=write_small(tmp_path, duration="100s"))

    outcome = runs.run_entry(entry, tmp_path / "results", left=4)

    assert outcome.state is runs.State.STOPPED
    assert not outcome.is_good
    assert outcome.folder is None


def test_an_experiment_that_fails_says_what_pgtrial_said(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    path = tmp_path / "quick.toml"
    path.write_text("format = 1\n")

    outcome = runs.run_entry(replace(ENTRY, quick=path), tmp_path / "results", left=60)

    assert outcome.state is runs.State.FAILED
    assert outcome.reason.startswith("error: ")
    assert "printed.txt" in outcome.reason


def test_pages_are_written_from_the_newest_folders(tmp_path, capsys):
    folder = write_result_folder(tmp_path / "results" / ENTRY.name / "commit-20260101T000000Z")
    assert main(["report", str(folder)]) == 0

    status = runner.main(["--pages", "--results", str(tmp_path / "results"), "--output", str(tmp_path / "pages")])

    assert status == 0
    assert sorted(path.name for path in (tmp_path / "pages").glob("*.md")) == sorted(
        ["index.md", *(f"{name}.md" for name in (*ENTRIES, *translated.CODES))]
    )
    assert "**✔ supported**" in (tmp_path / "pages" / f"{ENTRY.name}.md").read_text()


def test_what_is_made_of_it_is_part_of_the_makefile():
    text = (ROOT / "Makefile").read_text()

    assert "\t$(BIN)/python -m gallery --allow-host-changes $(GALLERY)\n" in text


@pytest.mark.parametrize("path", QUICK.values(), ids=QUICK)
def test_a_quick_file_asks_for_no_more_than_the_machine_that_it_is_for(path):
    text = tomllib.loads(path.read_text())
    knobs = [text.get("target", {}), *text.get("arms", {}).values()]
    scales = text.get("factors", {}).get("scale", {}).get("levels", [text.get("dataset", {}).get("scale", 0)])

    assert max(scales) <= 150
    assert all(table.get("cgroup", {}).get("cpus", 0) <= 1 for table in knobs)
    clients = checked(path).plan.levels
    assert max(level.clients for level in clients) <= 32


def test_who_ends_the_runner_ends_the_experiment_as_well(tmp_path):
    printed, program = tmp_path / "printed.txt", tmp_path / "program.py"
    program.write_text(
        "import signal\n"
        "from pathlib import Path\n"
        "from gallery import __main__ as runner, runs\n"
        "signal.signal(signal.SIGTERM, runner._end)\n"
        f"runs.call_pgtrial(['serve', {str(tmp_path)!r}, '--port', '0'], Path({str(printed)!r}), seconds=100)\n"
    )
    process = subprocess.Popen([sys.executable, program], env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        wait_until(lambda: printed.exists() and "http://127.0.0.1:" in printed.read_text())
        port = int(re.search(r"127\.0\.0\.1:(\d+)", printed.read_text())[1])
        process.terminate()

        assert process.wait(60) == runner.TERMINATED
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)
    finally:
        process.kill()
