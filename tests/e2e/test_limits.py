"""pgtrial limits on a real server: from the file to the ledger."""

import json

import pytest

from support.programs import needs_compiler

OPTIONS = ("--resource", "cpu", "--resource", "flush", "--blocks", "2")


@pytest.fixture(scope="module")
def folder(new_place):
    """Two blocks; it is not to be changed."""
    place = new_place("limits")
    place.write_experiment()
    result = place.run("limits", "small.toml", *OPTIONS)
    assert result.returncode == 0, result.stderr
    assert "Limits: " in result.stdout
    return place.only_folder()


@needs_compiler
def test_ledger_has_what_was_slowed(folder):
    found = json.loads((folder.path / "findings.json").read_text())
    ledger = found["ledger"]
    assert found["experiment"]["method"] == "interleaved"
    assert ledger["of"] == "on"
    assert {entry["resource"] for entry in ledger["entries"]} == {"slowdown.cpu", "slowdown.flush"}
    assert {round(entry["step"], 3) for entry in ledger["entries"]} == {1.5}
    assert ledger["total"]["low"] < ledger["total"]["value"] < ledger["total"]["high"]
    assert 'id="ledger"' in (folder.path / "report.html").read_text()


@needs_compiler
def test_runs_are_valid_and_nothing_is_left(folder):
    assert {slot for slot, _, state, _ in folder.runs() if state == "done"} == set(range(1, 9))
    folder.assert_nothing_left()


def test_plan_runs_nothing(new_place):
    place = new_place("plan")
    place.write_experiment()
    result = place.run("limits", "small.toml", "--plan", *OPTIONS)
    assert result.returncode == 0, result.stderr
    assert "slowdown.flush" in result.stdout
    assert "Nothing on the host changes" in result.stdout
    assert not (place.directory / "results").exists()


def test_arm_that_changes_the_host_needs_permission(new_place):
    place = new_place("refused")
    place.write_experiment(("[arms.off.postgresql]", '[arms.on.sysctl]\n"vm.swappiness" = 59\n[arms.off.postgresql]'))
    result = place.run("limits", "small.toml", *OPTIONS)
    assert result.returncode == 2, result.stdout
    assert "--allow-host-changes" in result.stderr
