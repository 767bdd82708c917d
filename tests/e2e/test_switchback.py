"""Experiments on one server that is switched between its arms: from the file to the findings, and killed on the way."""

import itertools
import json
import math
import os
from pathlib import Path

import pytest
from scipy.stats import t

from support import wait_until

# A quarter more by construction, as what else a transaction takes is little beside it: one of two sessions at a time,
# for 20 ms, or both, for 50 ms. So with "off" one of them waits for a lock all the time, and with "on" none ever does.
WAITS = """BEGIN;
SELECT CASE current_setting('synchronous_commit') WHEN 'off' THEN pg_advisory_xact_lock(1) END;
SELECT pg_sleep(CASE current_setting('synchronous_commit') WHEN 'off' THEN 0.020 ELSE 0.050 END);
COMMIT;
"""
SWITCHED = ("blocks = 2", 'blocks = {}\nmethod = "switchback"\nslice = "1500ms"')
MAPS = Path("/proc/sys/vm/max_map_count")  # a limit far above what anybody here needs


def write(place, *replacements: tuple[str, str], blocks: int) -> None:
    place.write_light_experiment(
        ('duration = "2s"', 'duration = "3s"'), (SWITCHED[0], SWITCHED[1].format(blocks)), *replacements
    )
    (place.directory / "light.sql").write_text(WAITS)


@pytest.fixture(scope="module")
def folder(new_place):
    """Three blocks of a known effect; it is not to be changed."""
    place = new_place("switchback")
    write(place, blocks=3)
    result = place.run("run", "small.toml")
    assert result.returncode == 0, result.stderr
    return place.only_folder()


def test_a_known_effect_is_found_and_covered(folder):
    found = json.loads((folder.path / "findings.json").read_text())
    (effect,) = [
        one
        for one in found["effects"]
        if (one["metric"], one["load_level"], one["scenario"]) == ("pgbench.tps", "all", None)
    ]

    assert found["experiment"]["method"] == "switchback"
    assert effect["blocks"] == 3
    # Of 95 % it would miss in one test of twenty, so it is made that of 99.8 %.
    low, high = math.log(effect["low"]), math.log(effect["high"])
    reach = (high - low) / 2 * t.ppf(0.999, 2) / t.ppf(0.975, 2)
    assert math.log(1.25) == pytest.approx((low + high) / 2, abs=reach)
    assert effect["ratio"] > 1.1


def test_a_latency_is_what_it_is_by_the_clock(folder):
    found = json.loads((folder.path / "findings.json").read_text())
    latencies = [one["value"] for one in found["observations"] if one["metric"] == "pgbench.latency_mean"]

    assert latencies
    assert all(0.039 < latency < 0.1 for latency in latencies)


def test_what_the_server_does_is_told_apart_by_arm(folder):
    found = json.loads((folder.path / "findings.json").read_text())
    waits = {
        (one["arm"], f"{one['wait_type']}/{one['wait_event']}"): one["sessions"]
        for one in found["waits"]
        if one["load_level"] == 0
    }

    assert ("on", "Lock/advisory") not in waits
    assert waits["off", "Lock/advisory"] == pytest.approx(1, abs=0.2)
    assert waits["on", "Timeout/PgSleep"] == pytest.approx(2, abs=0.4)


def test_what_the_machine_does_is_told_apart_by_arm(folder):
    found = json.loads((folder.path / "findings.json").read_text())

    assert {one["metric"] for one in found["observations"]} >= {"cost.cpu_seconds", "cost.context_switches"}
    codes = {one["code"] for one in found["caveats"]}
    assert "no-host-costs" not in codes
    assert "no-server-counts" in codes  # the washouts are of three quarters of a second


def test_the_arms_of_a_block_have_one_server_and_take_turns_on_it(folder):
    assert [row[2] for row in folder.runs()] == ["done"] * 6
    starts = {log.read_text().count("database system is ready") for log in folder.path.glob("runs/*/server.jsonl")}
    assert starts == {1}
    for block in (1, 2, 3):
        slices = folder.query(
            "SELECT slice.started, slice.counted, slice.ended, slot.arm FROM slice JOIN run ON run.id = slice.run"
            f" JOIN slot ON slot.number = run.slot WHERE slot.block = {block} ORDER BY slice.started"
        )
        arms = [arm for *_, arm in slices]
        assert arms == arms[::-1]
        assert all(arms.count(arm) == len(arms) / 2 for arm in ("on", "off"))
        assert all(later[0] >= earlier[2] for earlier, later in itertools.pairwise(slices))
    folder.assert_nothing_left()


def test_settings_of_both_arms_are_read_back(folder):
    rows = folder.query(
        "SELECT DISTINCT slot.arm, value FROM setting JOIN run ON run.id = setting.run"
        " JOIN slot ON slot.number = run.slot WHERE name = 'synchronous_commit'"
    )
    assert sorted(rows) == [("off", "off"), ("on", "on")]


@pytest.mark.parametrize("last", ["70001", "70002"])
def test_killed_in_the_midst_of_switching_it_leaves_the_value_of_before(place, ended, last):
    if os.geteuid() != 0:
        pytest.skip("changing kernel settings needs root")
    before = MAPS.read_text()
    write(
        place,
        ("[design]", '[arms.on.sysctl]\n"vm.max_map_count" = 70001\n\n[design]'),
        ("[design]", '[arms.off.sysctl]\n"vm.max_map_count" = 70002\n\n[design]'),
        blocks=1,
    )
    process = place.start("run", "--allow-host-changes", "small.toml")
    ended.append(process)
    try:
        found = place.wait_until(lambda folder: folder.is_measured())
        wait_until(lambda: MAPS.read_text().strip() == last)
        process.kill()
        process.communicate()
        wait_until(lambda: not found.commands())
        assert MAPS.read_text().strip() == last

        result = place.run("restore")

        assert result.returncode == 0, result.stderr
        assert MAPS.read_text() == before
        assert "changed by somebody else" not in result.stdout + result.stderr
        assert place.run("restore").returncode == 0
        assert MAPS.read_text() == before
    finally:
        if MAPS.read_text() != before:
            MAPS.write_text(before)
