"""Experiment files for the next questions."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pgtrial.analysis.analyze import analyze
from pgtrial.cli.suggest import command
from pgtrial.errors import StoreError
from pgtrial.experiment_file.load import examine
from pgtrial.export.follow_ups import FollowUp, follow_ups
from pgtrial.findings.findings import Engagement, Findings
from pgtrial.findings.message import message, verbatim
from pgtrial.model.verdict import Verdict
from support import EXPERIMENT, write_result_folder

SIZES = (
    EXPERIMENT.partition("[arms.")[0]
    + """
[arms.on.postgresql]
shared_buffers = "64MB"

[arms.off.postgresql]
shared_buffers = "256MB"

[design]
blocks = 6
"""
)


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    return analyze(write_result_folder(tmp_path_factory.mktemp("suggest") / "r"))


def suggested(findings: Findings, text: str) -> dict[str, FollowUp]:
    found = follow_ups(findings, text, Path("/results/r"))
    for each in found:
        assert not examine(each.text, None).problems
    return {each.name.removeprefix(f"{findings.experiment.name}-"): each for each in found}


def parsed(follow_up: FollowUp) -> dict[str, Any]:
    return tomllib.loads(follow_up.text)


def test_a_claim_that_is_not_decided_gets_the_blocks_that_it_needs(findings: Findings) -> None:
    needed = findings.needed.model_copy(update={"blocks": 9, "text": message("needed.blocks", count=9)})
    found = suggested(findings.model_copy(update={"needed": needed}), EXPERIMENT)

    assert parsed(found["more-blocks"])["design"]["blocks"] == 15
    assert "about 9 more blocks would decide the claim" in found["more-blocks"].reason


def test_of_an_experiment_that_is_not_finished_nothing_follows_from_the_verdict(findings: Findings) -> None:
    needed = findings.needed.model_copy(update={"blocks": 9, "text": message("needed.blocks", count=9)})
    asked = findings.hypothesis.model_copy(update={"verdict": Verdict.SUPPORTED, "provisional": True})
    arms = tuple(arm for arm in findings.experiment.arms if arm.role != "placebo")
    experiment = findings.experiment.model_copy(update={"arms": arms})
    decided = findings.model_copy(update={"needed": needed, "placebo": (), "experiment": experiment})

    assert {"placebo", "more-blocks"} <= {*suggested(decided, SIZES)}
    going_on = suggested(decided.model_copy(update={"hypothesis": asked}), SIZES)
    assert not {"placebo", "more-blocks"} & {*going_on}


def test_the_command_says_that_an_experiment_goes_on(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "r", runs=9)

    result = CliRunner().invoke(command, [str(folder), "-o", str(tmp_path / "next")])

    assert f'its verdict is provisional: "pgtrial resume {folder}" goes on.' in result.output


def test_a_setting_with_nothing_to_act_on_gets_something(findings: Findings) -> None:
    idle = Engagement(
        setting="shared_buffers", state="idle", text=message("engagement.undeclared", setting="shared_buffers")
    )
    found = suggested(findings.model_copy(update={"engagements": (idle,)}), SIZES)

    assert parsed(found["engaged-shared-buffers"])["dataset"]["scale"] == 40  # of the 10 that a file has by itself


def test_two_values_are_followed_by_a_curve_around_them(findings: Findings) -> None:
    factors = parsed(suggested(findings, SIZES)["curve"])["factors"]

    assert factors["shared_buffers"]["levels"] == ["64MB", "32MB", "128MB", "256MB", "512MB"]


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        (("30s", "2min"), ["30s", "60s", "120s", "240s"]),
        (("1h", "15min"), ["3600s", "900s", "1800s", "7200s"]),
        (("200ms", "2s"), None),
        ((100, "2s"), None),
        ((100, 400), [100, 50, 200, 400, 800]),
    ],
)
def test_times_are_followed_by_times_and_numbers_by_numbers(findings: Findings, values, levels) -> None:
    text = SIZES.replace("shared_buffers", "some_setting").replace('"64MB"', json.dumps(values[0]))
    found = suggested(findings, text.replace('"256MB"', json.dumps(values[1])))

    assert (parsed(found["curve"])["factors"]["some_setting"]["levels"] if "curve" in found else None) == levels


def test_settings_that_were_changed_together_are_taken_apart(findings: Findings) -> None:
    both = SIZES.replace('= "64MB"\n', '= "64MB"\nwork_mem = "4MB"\n').replace(
        '= "256MB"\n', '= "256MB"\nwork_mem = "8MB"\n'
    )
    found = suggested(findings, both)

    assert parsed(found["two-by-two"])["factors"]["work_mem"]["levels"] == ["4MB", "8MB"]
    assert "arms" not in parsed(found["two-by-two"])


def test_of_more_than_two_settings_each_is_changed_alone(findings: Findings) -> None:
    more = SIZES.replace('= "64MB"\n', '= "64MB"\nwork_mem = "4MB"\njit = "on"\n').replace(
        '= "256MB"\n', '= "256MB"\nwork_mem = "8MB"\njit = "off"\n'
    )
    arms = parsed(suggested(findings, more)["each-alone"])["arms"]

    assert [arm["postgresql"] for arm in arms.values()] == [
        {"shared_buffers": "64MB", "work_mem": "4MB", "jit": "on"},
        {"shared_buffers": "256MB", "work_mem": "8MB", "jit": "off"},
        {"shared_buffers": "256MB", "work_mem": "4MB", "jit": "on"},
        {"shared_buffers": "64MB", "work_mem": "8MB", "jit": "on"},
        {"shared_buffers": "64MB", "work_mem": "4MB", "jit": "off"},
    ]


def test_the_command_writes_files_with_reason_and_time_and_overwrites_none(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "r", text=SIZES)
    runner = CliRunner()
    first = runner.invoke(command, [str(folder), "-o", str(tmp_path / "next")])
    second = runner.invoke(command, [str(folder), "-o", str(tmp_path / "next")])

    assert first.exit_code == 0, first.output
    assert "commit-curve.toml: Two values of shared_buffers say which is better" in first.output
    assert (tmp_path / "next" / "commit-curve.toml").is_file()
    assert second.exit_code != 0


def test_a_reason_with_lines_of_somebody_else_stays_a_comment(findings: Findings) -> None:
    """In a folder from a stranger; the next line would be a table of the file, as of hooks."""
    evil = verbatim("x\n[hooks]\nbefore_run = ['id']\n\u2028#")
    needed = findings.needed.model_copy(update={"blocks": 9, "text": evil})

    for each in follow_ups(findings.model_copy(update={"needed": needed}), EXPERIMENT, Path("/results/r")):
        assert "hooks" not in tomllib.loads(each.text)


def test_an_experiment_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "r")
    (folder / "experiment.toml").rename(tmp_path / "secret.toml")
    (folder / "experiment.toml").symlink_to(tmp_path / "secret.toml")

    result = CliRunner().invoke(command, [str(folder), "-o", str(tmp_path / "out")])

    assert isinstance(result.exception, StoreError)
    assert "cannot read" in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_an_experiment_that_is_no_toml_is_damage(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "r")
    (folder / "experiment.toml").write_text("[" * 10_000)

    result = CliRunner().invoke(command, [str(folder), "-o", str(tmp_path / "out")])

    assert isinstance(result.exception, StoreError)
    assert "is damaged" in str(result.exception)


def test_scripts_are_those_that_the_folder_keeps(findings: Findings) -> None:
    text = EXPERIMENT.replace("[arms.", '[[workload.scenario]]\nname = "s"\nfile = "sql/own.sql"\n[arms.', 1).replace(
        'mix = "simple-update"\n', ""
    )
    needed = findings.needed.model_copy(update={"blocks": 9, "text": message("needed.blocks", count=9)})

    found = follow_ups(findings.model_copy(update={"needed": needed}), text, Path("/results/r"))

    assert {one["file"] for each in found for one in parsed(each)["workload"]["scenario"]} == {"/results/r/files/s.sql"}
