"""Hooks of a whole experiment, as a user has them: asked for, around everything, and on record."""

import json

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
