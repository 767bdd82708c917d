"""Hooks of a whole experiment, as a user has them: asked for, around everything, and on record."""

import json
import os
from pathlib import Path

from pgtrial.hosts.processes import identify
from support import wait_until

ALL = ("before_dataset", "after_dataset", "before_block", "after_block", "before_run", "after_run")
HOOK = """#!/bin/sh
echo "$PGTRIAL_HOOK ${PGTRIAL_BLOCK:--} ${PGTRIAL_RUN:--} ${PGTRIAL_ARM:--}" >>"$1"
cd / && test -d "$PGTRIAL_FOLDER"
"""


def test_hooks_stand_around_data_blocks_and_runs_and_are_on_record(place):
    said = place.directory / "said"
    program = place.directory / "hook.sh"
    program.write_text(HOOK)
    argv = json.dumps(["sh", str(program), str(said)])
    hooks = "\n".join(f"{moment} = {argv}" for moment in ALL)
    place.write_light_experiment(('duration = "2s"', 'duration = "1s"'), ('warmup   = "1s"', "warmup = 0"))
    with (place.directory / "small.toml").open("a") as file:
        file.write(f'[hooks]\n{hooks}\ntimeout = "1min"\n')

    refused = place.call("run", "small.toml")

    assert refused.returncode == 2
    assert all(f"hooks.{moment}" in refused.stderr for moment in ALL)
    assert not said.exists()

    result = place.run("run", "small.toml", "--allow-code")

    assert result.returncode == 0, result.stderr
    folder = place.only_folder()
    slots = folder.query("SELECT block, number, arm FROM slot ORDER BY number")
    expected = ["before_dataset - - -", "after_dataset - - -"]
    for block in (1, 2):
        runs = [f"{block} {number} {arm}" for of, number, arm in slots if of == block]
        around = [line for run in runs for line in (f"before_run {run}", f"after_run {run}")]
        expected += [f"before_block {block} - -", *around, f"after_block {block} - -"]
    assert said.read_text().splitlines() == expected
    events = [json.loads(data) for (data,) in folder.query("SELECT data FROM event WHERE kind = 'hook' ORDER BY id")]
    assert [event["moment"] for event in events] == [line.partition(" ")[0] for line in expected]
    assert {event["status"] for event in events} == {0}
    folder.assert_nothing_left()


def test_a_hook_that_fails_ends_the_experiment_in_order(place):
    place.write_light_experiment()
    with (place.directory / "small.toml").open("a") as file:
        file.write('[hooks]\nafter_dataset = ["sh", "-c", "echo the replica is behind >&2; exit 3"]\n')

    result = place.run("run", "small.toml", "--allow-code")

    assert result.returncode == 1
    assert "the hook after_dataset ended with status 3" in result.stderr
    assert "the replica is behind" in result.stderr
    assert place.folders() == []


# Its child has a session of its own, and outlives it; it is in the middle of its work when pgtrial is killed.
LASTING = """#!/bin/sh
setsid sleep 600 &
echo $! >"$1.part" && mv "$1.part" "$1"
wait
"""


def test_what_a_hook_has_started_ends_when_pgtrial_is_killed(place):
    said, program = place.directory / "said", place.directory / "hook.sh"
    program.write_text(LASTING)
    place.write_light_experiment()
    with (place.directory / "small.toml").open("a") as file:
        file.write(f'[hooks]\nafter_dataset = ["sh", "{program}", "{said}"]\n')
    process = place.start("run", "small.toml", "--allow-code")
    child = _read_pid(said)

    process.kill()
    place.finish(process)

    wait_until(lambda: identify(child) is None)
    status = place.run("status", str(place.only_folder().path))
    assert "still run" not in status.stdout
    place.run("restore")
    place.only_folder().assert_nothing_left()


def test_what_a_hook_leaves_behind_on_purpose_outlives_an_end_in_order(place):
    said, program = place.directory / "said", place.directory / "hook.sh"
    program.write_text(LASTING.replace("wait\n", "").replace("600 &", "600 >/dev/null 2>&1 &"))
    place.write_light_experiment(('duration = "2s"', 'duration = "1s"'), ('warmup   = "1s"', "warmup = 0"))
    with (place.directory / "small.toml").open("a") as file:
        file.write(f'[hooks]\nafter_dataset = ["sh", "{program}", "{said}"]\n')

    result = place.run("run", "small.toml", "--allow-code")
    child = _read_pid(said)
    is_there = identify(child) is not None
    os.kill(child, 9)

    assert result.returncode == 0, result.stderr
    assert is_there


def _read_pid(said: Path) -> int:
    wait_until(said.exists)
    return int(said.read_text())
