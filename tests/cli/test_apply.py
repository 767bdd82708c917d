import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from pgtrial.cli.main import main
from pgtrial.engine.guardrails import note_stop
from pgtrial.store import layout
from pgtrial.store.state import State
from support import EXPERIMENT, Simulation, write_result_folder

pytestmark = pytest.mark.usefixtures("analysed_once")

ARMS = """
[arms.on.postgresql]
synchronous_commit = "on"
[arms.off.postgresql]
synchronous_commit = "off"
"""
MANY = """
[target.postgresql]
max_wal_size = "4GB"
[arms.on.sysctl]
"vm.swappiness" = 60
[arms.off.postgresql]
"my.text" = "it's"
shared_preload_libraries = "auto_explain, pg_stat_statements"
[arms.off.sysctl]
"vm.swappiness" = 1
[arms.off.block_device]
device = "sda"
read_ahead_kb = 256
[arms.off.transparent_huge_pages]
enabled = "never"
[arms.off.huge_pages]
size = "2MB"
[arms.off.cgroup]
memory = "2GB"
cpus = 1.5
read_iops = 3000
[arms.off.extensions]
create = ["pg_trgm"]
[arms.off.memory_pressure]
share = 0.5
"""


def make(
    folder: Path, *, arms: str = ARMS, ratio: float = 1.5, expect: str = "better", runs: int | None = None
) -> Path:
    """A result folder in which the arm "off" is ``ratio`` times as fast as "on"."""
    text = EXPERIMENT[: EXPERIMENT.index("[arms")].replace('"better"', f'"{expect}"') + arms + "[design]\nblocks = 6\n"
    simulation = Simulation(tps={"on": 500.0, "off": 500.0 * ratio})
    return write_result_folder(folder, text=text, simulation=simulation, runs=runs)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["apply", *arguments]) == 0
    return capsys.readouterr().out


def test_winner_is_the_arm_of_a_supported_claim(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, str(make(tmp_path / "r")))

    assert text.startswith('-- Arm "off": off is ')
    assert "ALTER SYSTEM SET \"synchronous_commit\" = 'off';\n" in text


def test_control_wins_where_the_arm_is_shown_to_be_worse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, str(make(tmp_path / "r", ratio=0.5, expect="worse")))

    assert text.startswith('-- Arm "on": ')


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratio": 0.5}, "no arm has won: the claim is refuted"),
        ({"expect": "different"}, "no arm has won: the claim is only that they differ"),
        ({"runs": 4}, "no arm has won: the claim is "),
    ],
)
def test_without_a_winner_nothing_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: dict[str, Any], message: str
) -> None:
    folder = make(tmp_path / "r", **options)

    assert main(["apply", str(folder)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"error: {message}")
    assert "--arm NAME" in said.err


def end_for_harm(folder: Path) -> Path:
    """As a guardrail does it in the last of the planned blocks, which then does not count."""
    with contextlib.closing(State.open(folder, write=True)) as state:
        note_stop(state, "a guardrail was breached: it is slow")
    return folder


def test_what_a_guardrail_has_ended_has_no_winner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = end_for_harm(make(tmp_path / "r"))

    assert main(["apply", str(folder)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    ended = "but only provisionally, as a guardrail has ended the experiment"
    assert said.err.startswith("error: no arm has won")
    assert ended in said.err
    assert ended in printed(capsys, str(folder), "--arm", "off").splitlines()[0]


@pytest.mark.parametrize(
    ("options", "state"),
    [({}, "supported"), ({"ratio": 0.5}, "refuted"), ({"runs": 10}, "inconclusive, but only provisionally")],
)
def test_an_arm_that_is_named_comes_with_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: dict[str, Any], state: str
) -> None:
    text = printed(capsys, str(make(tmp_path / "r", **options)), "--arm", "on")

    assert text.splitlines()[0] == f'-- Arm "on": chosen by --arm; the claim, about "off", is {state}'


def test_each_kind_of_setting_has_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, str(make(tmp_path / "r", arms=MANY)), "--arm", "off").splitlines()

    for line in (
        "ALTER SYSTEM SET \"my\".\"text\" = 'it''s';",
        "ALTER SYSTEM SET \"shared_preload_libraries\" = 'auto_explain', 'pg_stat_statements';",
        "vm.swappiness = 1",
        'ACTION=="add|change", SUBSYSTEM=="block", KERNEL=="sda", ATTR{queue/read_ahead_kb}="256"',
        "w /sys/kernel/mm/transparent_hugepage/enabled - - - - never",
        "vm.nr_hugepages = PAGES",
        "ALTER SYSTEM SET \"huge_page_size\" = '2MB';",
        "MemoryMax=2147483648",
        "CPUQuota=150%",
        "IOReadIOPSMax=/var/lib/postgresql 3000",
        'CREATE EXTENSION IF NOT EXISTS "pg_trgm";',
        "# Not printed, because no line of a configuration makes it last: memory_pressure (share)",
        "# The verdict holds with what all arms had: max_wal_size = 4GB",
    ):
        assert line in lines


def test_an_arm_that_is_not_there_is_an_error_that_lists_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    analysed: list[Path] = []
    monkeypatch.setattr("pgtrial.cli.findings.find_findings", lambda folder, language: analysed.append(folder))

    assert main(["apply", str(make(tmp_path / "r")), "--arm", "of"]) == 2
    assert analysed == []
    assert 'there is no arm "of". The arms are on, off' in capsys.readouterr().err


@pytest.mark.parametrize(
    "forged", [{"kernel.core_pattern": "|/tmp/x"}, {"vm.swappiness": "1\nkernel.core_pattern = |/tmp/x"}]
)
def test_a_folder_from_elsewhere_cannot_slip_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], forged: dict[str, str]
) -> None:
    folder = make(tmp_path / "r", arms=MANY)
    with sqlite3.connect(folder / layout.STATE) as db:
        plan = json.loads(db.execute("SELECT value FROM meta WHERE key = 'plan'").fetchone()[0])
        (arm,) = (arm for arm in plan["arms"] if arm["name"] == "off")
        arm["own_knobs"]["sysctl"] = forged
        db.execute("UPDATE meta SET value = ? WHERE key = 'plan'", [json.dumps(plan)])

    assert main(["apply", str(folder), "--arm", "off"]) == 1
    said = capsys.readouterr()
    assert "core_pattern" not in said.out
    assert said.err.startswith("error: ")


@pytest.mark.parametrize(
    ("key", "forged"),
    [
        ("settings", {"max_wal_size": "1GB\nALTER SYSTEM SET archive_command = 'id';"}),
        ("settings", {"x\n\\! id": "1"}),
        ("own_knobs", {"memory_pressure": {"share\n\\! id": "x"}}),
        ("own_knobs", {"memory_pressure\u2028\\! id": {"share": "0.5"}}),
    ],
)
def test_a_comment_is_one_line_whatever_a_folder_says(
    tmp_path: Path, key: str, forged: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """What is printed is given to psql and to a shell, which would read the next line as a command."""
    folder = make(tmp_path / "r")
    with sqlite3.connect(folder / layout.STATE) as db:
        plan = json.loads(db.execute("SELECT value FROM meta WHERE key = 'plan'").fetchone()[0])
        (arm,) = (arm for arm in plan["arms"] if arm["name"] == "off")
        arm[key] = {**arm[key], **forged}
        db.execute("UPDATE meta SET value = ? WHERE key = 'plan'", [json.dumps(plan)])

    assert main(["apply", str(folder), "--arm", "off"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "does not print" in said.err


@pytest.mark.parametrize("arms", [ARMS, MANY], ids=["psql", "more"])
def test_psql_takes_no_word_of_a_comment_for_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arms: str
) -> None:
    common = '[target.postgresql]\n"cluster_text.a" = "\\\\! id; SELECT it\'s $$"\n'
    arms = arms.replace("[target.postgresql]\n", "")
    lines = printed(capsys, str(make(tmp_path / "r", arms=common + arms)), "--arm", "off").splitlines()

    (told,) = [line for line in lines if "cluster_text.a" in line]
    assert told.startswith("-- ") or not {"\\", ";", "'", "$"} & {*told}
    assert told.startswith("-- " if arms == ARMS else "# ")
