"""pgtrial limits on a real server: from the file to the ledger."""

import json
import signal

import pytest

from support import wait_until
from support.programs import needs_compiler

PROVE = '[limits]\nprove = true\nbudget = "90s"\nresources = ["slowdown.cpu"]\n\n[design]'
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


def test_plan_tells_of_the_proof_and_its_time(new_place):
    place = new_place("told")
    place.write_experiment(("[design]", PROVE))
    result = place.run("plan", "small.toml")
    assert result.returncode == 0, result.stderr
    assert "Proof of what limits the arms" in result.stdout
    assert "with longer times of cpu; about" in " ".join(result.stdout.split())
    told = json.loads(place.run("plan", "small.toml", "--json").stdout)["proofs"]
    assert [proof["arm"] for proof in told] == ["on", "off"]
    assert all(proof["blocks"] >= 2 and proof["seconds"] <= 45 for proof in told)


def test_proof_that_has_no_time_is_refused_before_anything_is_made(new_place):
    place = new_place("short")
    place.write_experiment(("[design]", PROVE.replace("90s", "2s")))
    result = place.run("run", "small.toml")
    assert result.returncode == 2, result.stdout
    assert "what is to prove the limits of on" in result.stderr
    assert "budget" in result.stderr
    assert not (place.directory / "results").exists()


@needs_compiler
def test_killed_in_the_middle_of_a_proof_it_is_resumed(new_place):
    """The runs of the experiment stay, nothing of the killed server is left, and each run is done once."""
    place = new_place("killed")
    one = PROVE.replace("prove = true", 'prove = true\narm = "on"').replace("90s", "45s")
    place.write_light_experiment(("blocks = 2", "blocks = 1"), ("[design]", one))
    process = place.start("run", "small.toml", "-q")
    folder = place.wait_until(lambda found: list((found.path / "limits/on").glob("runs/*/spool/*")), seconds=600)
    done = folder.runs()
    process.send_signal(signal.SIGKILL)
    place.finish(process)
    proof = folder.proof("on")
    wait_until(lambda: not proof.commands())

    told = place.run("status", str(folder.path)).stdout
    assert "2 of 2 runs done, interrupted" in told
    assert "limits of on: 0 of" in told
    assert "pgtrial resume" in told
    result = place.finish(place.start("resume", str(folder.path), "-q"), timeout=600)
    assert result.returncode == 0, result.stderr

    assert folder.runs() == done
    finished = [slot for slot, _, state, _ in proof.runs() if state == "done"]
    assert sorted(finished) == sorted({slot for (slot,) in proof.query("SELECT number FROM slot")})
    proof.assert_nothing_left()
    found = json.loads((folder.path / "findings.json").read_text())
    assert [(each["of"], [one["resource"] for one in each["entries"]]) for each in found["proofs"]] == [
        ("on", ["slowdown.cpu"])
    ]
    assert "By experiment: " in found["causes"]["text"]["text"]
    assert 'id="proofs"' in (folder.path / "report.html").read_text()
    assert "complete" in place.run("status", str(folder.path)).stdout
    assert "nothing to restore" in place.run("restore").stdout
