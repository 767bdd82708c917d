"""Experiments whose arms share the time of a block, from the file to the findings, and what can go wrong in one."""

import itertools
import json
import os
import signal
import time
from pathlib import Path

import pytest

from pgtrial.store import layout
from support import wait_until

SHORT = (('duration = "2s"', 'duration = "3s"'), ('warmup   = "1s"', "warmup = 0"))


def interleaved_by(slice_length: str, *, blocks: int) -> tuple[str, str]:
    return ("blocks = 2", f'blocks = {blocks}\nmethod = "interleaved"\nslice = "{slice_length}"')


def slices(folder) -> dict[int, list[tuple[int, float, float, float]]]:
    """Run to (number, started, counted, ended) of its slices."""
    found: dict[int, list[tuple[int, float, float, float]]] = {}
    for run, *rest in folder.query("SELECT run, number, started, counted, ended FROM slice ORDER BY run, started"):
        found.setdefault(run, []).append(tuple(rest))
    return found


def findings(folder) -> dict:
    return json.loads((folder.path / "findings.json").read_text())


@pytest.fixture(scope="module")
def watched(new_place, run_watched):
    """Two arms, one of which sets a value of the kernel's, and a placebo: where it was run, and what was to be seen."""
    place = new_place("interleaved")
    place.write_light_experiment(
        *SHORT,
        interleaved_by("1200ms", blocks=3),
        ("seed   = 7", "seed   = 7\nplacebo = true"),
        ("[design]", '[arms.off.sysctl]\n"net.core.netdev_max_backlog" = 4321\n\n[design]'),
    )
    if os.geteuid() != 0:
        pytest.skip("changing kernel settings needs root")
    value = Path("/proc/sys/net/core/netdev_max_backlog")  # which no other experiment takes notice of
    before = value.read_text()
    result, seen = run_watched(place, "run", "--allow-host-changes", "small.toml")
    after = value.read_text()
    assert result.returncode == 0, seen.text
    assert after == before
    return place, seen


@pytest.fixture
def interleaved(watched):
    """Its place; it is not to be changed."""
    return watched[0]


def test_arms_that_take_turns_can_be_watched(watched):
    place, seen = watched

    seen.check(runs="runs 1 to 3 of 9", arms=["on", "off", "placebo"], blocks=3, is_by_second=False)
    assert not (place.only_folder().path / layout.LIVE).exists()


def test_each_arm_has_equal_time_to_itself(interleaved):
    folder = interleaved.only_folder()

    assert [row[2] for row in folder.runs()] == ["done"] * 9
    found = slices(folder)
    assert {len(own) for own in found.values()} == {6}
    for block in ((1, 2, 3), (4, 5, 6), (7, 8, 9)):
        together = sorted((one for run in block for one in found[run]), key=lambda one: one[1])
        assert [number for number, *_ in together] == list(range(18))
        assert all(later[1] >= earlier[3] for earlier, later in itertools.pairwise(together))
    folder.assert_nothing_left()


def test_findings_of_turns(interleaved):
    found = findings(interleaved.only_folder())

    assert found["experiment"]["method"] == "interleaved"
    tps = {
        (one["arm"], one["metric"]): one
        for one in (*found["effects"], *found["placebo"])
        if one["load_level"] == "all" and one["scenario"] is None
    }
    assert tps["off", "pgbench.tps"]["blocks"] == 3
    assert tps["placebo", "pgbench.tps"]["blocks"] == 3
    for run in found["runs"]:
        assert run["state"] == "done"
    # What a transaction takes is little, whatever the server stood still.
    latencies = [o["value"] for o in found["observations"] if o["metric"] == "pgbench.latency_mean"]
    assert latencies
    assert max(latencies) < 0.3
    metrics = {o["metric"] for o in found["observations"]}
    assert "cost.wal_bytes" in metrics  # of its own server
    assert not [name for name in metrics if "cpu" in name or "disk" in name]  # of the machine that they share


def test_value_of_the_kernel_is_recorded_for_its_arm_only(interleaved):
    rows = interleaved.only_folder().query(
        "SELECT DISTINCT slot.arm, new_value FROM setting_change JOIN run ON run.id = setting_change.run"
        " JOIN slot ON slot.number = run.slot WHERE knob = 'sysctl'"
    )
    assert rows == [("off", "4321")]


def test_duet_exchanges_the_cpus(place):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("this machine has one CPU")
    place.write_light_experiment(*SHORT, ("blocks = 2", 'blocks = 1\nmethod = "duet"'))
    result = place.run("run", "small.toml")

    assert result.returncode == 0, result.stderr
    folder = place.only_folder()
    one, other = slices(folder).values()
    assert len(one) == len(other) == 150  # 3 s in slices of 0.03 s, of which 0.02 s count
    assert [row[1:] for row in one] == [row[1:] for row in other]  # at the same time
    assert findings(folder)["experiment"]["method"] == "duet"
    folder.assert_nothing_left()


def is_slicing(folder) -> bool:
    return any("pgtrial.engine.slicer" in command for command in folder.commands())


def test_whatever_dies_in_a_block_it_is_done_again_as_a_whole(place, ended):
    place.write_light_experiment(*SHORT, interleaved_by("500ms", blocks=1))
    process = place.start("run", "small.toml")
    ended.append(process)

    def pids(folder, *words: str) -> list[int]:
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                command = (path / "cmdline").read_bytes().decode().split("\0")
                is_own = str(folder.path.resolve()).encode() in (path / "environ").read_bytes()
            except OSError:
                continue
            if is_own and all(any(word in part for part in command) for word in words):
                found.append(int(path.name))
        return sorted(found)

    def wait_for_attempt(number: int):
        def is_there(folder):
            runs = folder.runs()
            return len(runs) == 2 * number and runs[-1][2] == "running" and is_slicing(folder)

        folder = place.wait_until(is_there)
        time.sleep(0.7)  # in the midst of the slices
        return folder

    folder = wait_for_attempt(1)
    os.kill(pids(folder, "bin/postgres", "-D")[-1], signal.SIGKILL)
    wait_for_attempt(2)
    os.kill(pids(folder, "pgtrial.engine.slicer")[0], signal.SIGKILL)
    wait_for_attempt(3)
    process.kill()
    process.communicate()
    wait_until(lambda: not folder.commands())  # the kernel and the slicer are about to end them

    result = place.run("resume", str(folder.path))

    assert result.returncode == 0, result.stderr
    runs = folder.runs()
    assert [(slot, attempt, state) for slot, attempt, state, _ in runs] == [
        (1, 1, "invalid"),
        (2, 1, "invalid"),
        (1, 2, "invalid"),
        (2, 2, "invalid"),
        (1, 3, "interrupted"),
        (2, 3, "interrupted"),
        (1, 4, "done"),
        (2, 4, "done"),
    ]
    assert "died" in runs[0][3] or "server" in runs[0][3]
    assert "slicer was killed" in runs[2][3]
    folder.assert_nothing_left()
