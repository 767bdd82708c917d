import json
import re
from pathlib import Path
from typing import Any

import pytest

from pgtrial.cli.checked import check_file
from pgtrial.cli.main import main
from pgtrial.cli.plan import render_plan
from pgtrial.cli.plan_facts import plan_data
from pgtrial.stats.power import detectable_ratio
from pgtrial.stats.sequential import nominal_levels

ROOT = Path(__file__).parents[2]

TEXT = """\
format = 1
[experiment]
name = "small"
[hypothesis]
claim = "more is faster"
[target]
postgres = "18"
[target.postgresql]
max_connections = 50
[dataset]
scale = 5
[workload]
mix = "oltp"
clients = [5, 10]
duration = "10s"
[arms.small.postgresql]
shared_buffers = "128MB"
work_mem = "1MB"
[arms.large.postgresql]
shared_buffers = "256MB"
[design]
blocks = 2
placebo = true
seed = 3
"""

ON_SERVER = """
format = 1
[experiment]
name = "e"
[target]
kind = "server"
database = "shop_copy"
writes = true
[dataset]
kind = "existing"
[workload]
mix = "tpcb-like"
clients = 1
duration = "1s"
[arms.a]
[arms.b.sql]
apply = "ANALYZE"
undo = "ANALYZE"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "e.toml"
    path.write_text(TEXT)
    return path


@pytest.fixture
def data(file: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["plan", "--json", str(file)]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_plan_says_everything_that_will_happen(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(file)]) == 0

    out = capsys.readouterr().out
    for fact in (
        "test        large is different from small in pgbench.tps, margin 3 %",
        "max_connections  50         restart       all arms",
        "shared_buffers   128MB      restart       small",
        "                 256MB                    large",
        "work_mem         1MB        no restart    small",
        "                 (default)                large",
        "placebo is a second copy of small.",
        "clients  read  insert  update",
        "10       7     2       1",
        "6 runs, each with its own server start",
        "Nothing on the host changes",
        "below /var/tmp/pgtrial-",
        "None: a verdict needs 6 blocks.",
        "2 blocks cannot decide the claim",
    ):
        assert fact in out


def test_each_block_is_shown_with_its_order(
    file: Path, data: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(file)]) == 0
    shown = re.findall(r"block (\d)  (.+)", capsys.readouterr().out)

    assert [(int(block), order.split(", ")) for block, order in shown] == [
        (block, [slot["arm"] for slot in data["schedule"] if slot["block"] == block]) for block in (1, 2)
    ]


def test_the_data_add_up(data: dict[str, Any]) -> None:
    seconds = data["seconds"]

    assert seconds["total"] == pytest.approx(seconds["prepare"] + 6 * seconds["run"]["total"])
    assert data["server_starts"] == 6 + 1 + 3
    assert data["detectable_effect"] is None
    assert data["host_changes"] == []
    assert data["looks"] == []
    assert (data["method"]["name"], data["method"]["slice"]) == ("blocks", None)
    assert [judgement["method"] for judgement in data["method"]["judgements"]] == [
        "interleaved",
        "duet",
        "switchback",
        "blocks",
    ]
    assert data["levels"][0] == {"clients": 5, "rate": None, "by_scenario": {"read": 3, "insert": 1, "update": 1}}
    assert {change["setting"]: change["needs_restart"] for change in data["changes"]} == {
        "max_connections": True,
        "shared_buffers": True,
        "work_mem": False,
    }
    assert data["arms"][2] == {**data["arms"][0], "name": "placebo", "role": "placebo"}


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/**/*.toml")), ids=lambda path: path.stem)
def test_the_plan_of_every_example_fits_80_columns(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(path)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 30
    assert max(map(len, lines)) <= 80
    assert not any(line != line.rstrip() for line in lines)


@pytest.mark.parametrize("name", ["replay", "experiment"])
def test_the_plan_of_a_replay_says_whose_times_it_keeps(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(ROOT / "examples" / "commands" / "pgreplay" / f"{name}.toml")]) == 0

    load = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("load "))
    assert load.endswith("replay app.csv; at the times of its log")


def test_a_plan_of_a_wrong_file_is_its_errors(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT.replace("blocks = 2", "blocks = 0"))

    assert main(["plan", str(file)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "design.blocks" in captured.err


INTERLEAVED = TEXT.replace("blocks = 2", 'blocks = 12\nstop = "precision"\nprecision = "2%"').replace(
    "[design]", '[design]\nmethod = "interleaved"'
)


def test_the_plan_of_interleaved_arms_says_slices_and_looks(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(INTERLEAVED)

    assert main(["plan", str(file)]) == 0

    lines = capsys.readouterr().out.splitlines()
    out = " ".join(" ".join(lines).split())
    assert max(map(len, lines)) <= 80
    for fact in (
        "stored 5 times (the snapshot, its source and a copy for each arm)",
        "interleaved: The file asks for it.",
        "each arm has 18 slices of 1 s on average, in balanced order; the first 500 ms of each do not count",
        "interleaved valid, but in doubt: shared_buffers: fills during the warm-up",
        "12 blocks, in each of which the arms share the time. ",
        "Looks after each block from block 6 on, and ends when the interval is within ±2 %; 12 blocks at most.",
        "in a block 3 servers are up at the same time",
        "The data are restored before each block.",
        "block: measure",
    ):
        assert fact in out


def test_the_data_of_interleaved_arms(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(INTERLEAVED)

    assert main(["plan", "--json", str(file)]) == 0
    found = json.loads(capsys.readouterr().out)

    method = found["method"]
    assert (method["name"], method["slice"], method["guard"], method["slices_per_arm"]) == ("interleaved", 1, 0.5, 18)
    assert found["looks"] == [6, 7, 8, 9, 10, 11, 12]


def test_a_stopping_rule_that_can_stop_nothing_is_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT.replace("blocks = 2", 'blocks = 6\nstop = "decision"'))

    assert main(["plan", str(file)]) == 0

    assert "The only look is after block 6" in capsys.readouterr().out


def test_the_plan_says_that_arms_end_one_by_one(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT.replace("blocks = 2", 'blocks = 8\nstop = "each-arm"'))

    assert main(["plan", str(file)]) == 0

    assert (
        "Looks after each block from block 6 on. An arm for which the claim is decided is not run any more; the "
        "control and the others go on in the order that was drawn, until all are decided; 8 blocks at most."
    ) in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("method", "covariate", "text"),
    [
        ("blocks", "steal", "The effect at equal steal in both arms is reported beside the unadjusted one"),
        ("auto", None, "The covariate steal is not used: arms that share the time of a block share it too"),
    ],
)
def test_the_plan_says_what_becomes_of_a_covariate(
    file: Path, capsys: pytest.CaptureFixture[str], method: str, covariate: str | None, text: str
) -> None:
    alike = TEXT.replace('shared_buffers = "256MB"', 'work_mem = "2MB"').replace('shared_buffers = "128MB"', "")
    alike = alike.replace('mix = "oltp"', 'mix = "select-only"')
    file.write_text(alike.replace("[design]", f'[design]\nmethod = "{method}"\ncovariate = "steal"'))

    assert main(["plan", str(file)]) == 0
    assert text in " ".join(capsys.readouterr().out.split())

    assert main(["plan", "--json", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["method"]["covariate"] == covariate


def test_a_method_that_is_not_valid_has_its_line_and_reasons(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT.replace("[design]", '[design]\nmethod = "interleaved"\ncache = "cold"'))

    assert main(["plan", str(file)]) == 2

    err = capsys.readouterr().err
    line = TEXT[: TEXT.index("[design]")].count("\n") + 2
    assert f'e.toml:{line}: design.method: method "interleaved" is not valid here' in err
    assert "empty page cache" in err


def test_the_noise_of_a_calibration_tells_what_can_be_found(file: Path) -> None:
    assert "None: a verdict needs 6 blocks." in render_plan(check_file(file), (), noise=0.01)
    file.write_text(TEXT.replace("blocks = 2", "blocks = 6"))
    checked = check_file(file)

    assert "Not known before the first runs" in render_plan(checked, ())
    assert "such a change is found in 6 blocks with 80 % probability" in render_plan(checked, (), noise=0.01)
    assert "that lasts longer than one of them is not in it" in " ".join(render_plan(checked, (), noise=0.01).split())
    # The placebo has no share of the error.
    assert plan_data(checked, (), noise=0.01)["detectable_effect"] == pytest.approx(detectable_ratio(0.01, 6))


@pytest.mark.parametrize(
    ("rule", "confidence"),
    [
        ('stop = "decision"', 1 - nominal_levels(tuple(range(6, 13)), 12, alpha=0.05)[-1]),
        ('stop = "precision"\nprecision = "1%"', 0.975),
    ],
)
def test_what_can_be_found_is_told_at_the_confidence_of_the_rule(file: Path, rule: str, confidence: float) -> None:
    file.write_text(TEXT.replace("blocks = 2", f"blocks = 12\n{rule}"))
    found = plan_data(check_file(file), (), noise=0.01)["detectable_effect"]

    assert found == pytest.approx(detectable_ratio(0.01, 12, confidence=confidence))
    assert found > (detectable_ratio(0.01, 12) or 1)


def test_a_place_where_flushes_reach_no_disk_is_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not any(line.split()[4:5] == ["/dev/shm"] for line in Path("/proc/self/mountinfo").read_text().splitlines()):
        pytest.skip("nothing is mounted at /dev/shm")
    file.write_text(TEXT.replace('postgres = "18"', 'postgres = "18"\ndirectory = "/dev/shm"'))

    assert main(["plan", str(file)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.count("Flushes end in memory in /dev/shm (tmpfs): a commit waits for no disk there.") == 1


SOAK = (
    TEXT.replace('[hypothesis]\nclaim = "more is faster"\n', "")
    .replace("[5, 10]", "5")
    .replace("blocks = 2\nplacebo = true\n", 'soak = "1h"\n')
    .replace('duration = "10s"\n', "")
)


def test_a_soak_says_its_windows_and_when_server_and_data_begin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "soak.toml"
    file.write_text(SOAK)
    assert main(["plan", str(file)]) == 0
    out = capsys.readouterr().out
    text = " ".join(out.split()).replace("warm- up", "warm-up")

    for fact in (
        "with the sampler's readings, about 2 MB; what stays there",
        "soak what drifts in each arm, looked at alone; no claim is decided, and no arm compared",
        "measured 24 windows of 2 min 30 s for each arm; before the first one a warm-up: until steady",
        "24 windows of 2 min 30 s for each of 2 arms, one arm after the other: ",
        "Before an arm's first window its server is started and its data are put back, and never again;",
        'Where a window is invalid, and after "pgtrial resume", the windows that are done are kept, but data',
        "Invalid windows are repeated and add to it.",
    ):
        assert fact in text
    assert re.search(r"one arm after the other: (small, then large|large, then small)\.", text)
    assert re.search(r"arm: server +4 s +2 × 2 s", out)
    assert re.search(r"window: measure +2 h.* 48 × 2 min 3\d s", out)
    for wrong in ("blocks: ", "run: ", "placebo"):
        assert wrong not in out


def test_a_soak_of_one_arm_speaks_of_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "soak.toml"
    file.write_text(SOAK.partition("[arms.large")[0] + "[design]" + SOAK.partition("[design]")[2])
    assert main(["plan", str(file)]) == 0
    text = " ".join(capsys.readouterr().out.split()).replace("warm- up", "warm-up")

    assert "measured 24 windows of 2 min 30 s; before the first one a warm-up: until steady" in text
    assert "24 windows of 2 min 30 s. Before its first window the server is started and the data are put back" in text


def test_check_counts_the_windows_of_a_soak_and_names_no_control(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "soak.toml"
    file.write_text(SOAK)
    assert main(["check", "--no-host", str(file)]) == 0
    out = capsys.readouterr().out

    assert re.search(r"arms +small, large$", out, re.MULTILINE)
    assert re.search(r"soak +24 windows of 2 min 30 s for each arm$", out, re.MULTILINE)
    assert re.search(r"runs +48 windows, about 2 h", out)


def test_what_is_repeated_and_what_is_waived_is_in_the_plan(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waived = '[[waive]]\ncaveat = "cpu-steal"\nreason = "the runner has neighbours"\n'
    file.write_text(TEXT.replace("placebo = true", 'disturbed = "30%"\nrepeats = 1') + waived)

    assert main(["plan", str(file)]) == 0

    out = " ".join(capsys.readouterr().out.split())
    assert "took more than 30 % of the CPU time is run again, at most once." in out
    assert "cpu-steal, because the runner has neighbours" in out


def test_a_plan_without_waivers_does_not_speak_of_them(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(file)]) == 0

    out = capsys.readouterr().out
    assert "Waived" not in out
    assert "run again" not in out


def test_a_comment_in_the_sql_of_an_arm_ends_where_it_ends_in_the_file(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sql = "-- harmless; really\nDROP TABLE orders;\nDO $$\nBEGIN\n    PERFORM 1;  -- one\nEND\n$$;\nANALYZE -- all"
    file.write_text(TEXT.replace("[design]", f'[arms.large.sql]\napply = """\n{sql}\n"""\n[design]'))

    assert main(["plan", str(file)]) == 0

    listed = (
        "    -- harmless; really\n    DROP TABLE orders;\n"
        "    DO $$\n    BEGIN\n        PERFORM 1;  -- one\n    END\n    $$;\n"
        "    ANALYZE -- all\n    ;\n"
    )
    assert listed in capsys.readouterr().out


@pytest.mark.parametrize("original", ["", "shop"])
def test_a_copy_is_advised_unless_the_file_is_one(
    original: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ON_SERVER.replace("writes = true", f'writes = true\ncopy_of = "{original}"') if original else ON_SERVER
    file.write_text(text)

    assert main(["plan", str(file)]) == 0
    planned = " ".join(capsys.readouterr().out.split())
    assert main(["run", str(file)]) == 2
    refused = " ".join(capsys.readouterr().err.split())

    assert ("A copy is safer" in planned, "Better try it on a copy" in refused) == (not original, not original)
    assert ('by the file a copy of "shop"' in planned, 'a copy of "shop". To change it, add' in refused) == (
        bool(original),
        bool(original),
    )
