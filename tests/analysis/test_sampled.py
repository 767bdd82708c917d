from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.metric_table import compare_metrics
from pgtrial.analysis.observations import index_values
from pgtrial.analysis.sampled import observe_samples
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.findings.findings import Findings
from pgtrial.model.observable import find_observable
from pgtrial.model.rules import RULES
from pgtrial.model.run import LoadLevel


def make(run: int, arm: str, *, level: int = 0, means: dict[tuple[str, str], float], tps: object = 100.0) -> Timeline:
    steady = np.broadcast_to(np.asarray(tps, dtype=np.float64), (60,)).copy()
    series = {key: np.full(60, value) for key, value in means.items()}
    return Timeline(
        run=run,
        arm=arm,
        block=1,
        level=level,
        started=0.0,
        offset=0.0,
        tps=steady,
        latency=steady / 1e4,
        series=series,
        means=means,
    )


def observed(evidence: Evidence, *timelines: Timeline) -> dict[str, float]:
    return {one.metric: one.value for one in observe_samples(evidence, timelines) if one.load_level == "all"}


def test_a_device_goes_by_the_metric_alone_where_it_has_most_requests_under_way(evidence: Evidence) -> None:
    run = evidence.runs_of("on")[0].id
    means = {("iostat.aqu", "vda"): 0.5, ("iostat.aqu", "vdb"): 2.0}
    awaits = {("iostat.r_await", "vda"): 0.001, ("iostat.r_await", "vdb"): 0.02}

    found = observed(evidence, make(run, "on", means={**means, **awaits}))

    assert found["iostat.r_await"] == found["iostat.r_await/vdb"] == 0.02
    assert found["iostat.r_await/vda"] == 0.001


def two_disks(evidence: Evidence, **busier: str) -> list[Timeline]:
    """All runs, whose arms wait 1 ms at vda and 2 ms at vdb; ``busier`` is, by arm, with a little more under way."""
    awaits = {("iostat.w_await", "vda"): 0.001, ("iostat.w_await", "vdb"): 0.002}
    return [
        make(
            run.id,
            run.slot.arm,
            means=awaits
            | {("iostat.aqu", disk): 1.0 + 0.01 * (busier[run.slot.arm] == disk) for disk in ("vda", "vdb")},
        )
        for run in evidence.valid
    ]


def waits_by_arm(evidence: Evidence, timelines: list[Timeline]) -> dict[str, set[float]]:
    found: dict[str, set[float]] = {}
    for one in observe_samples(evidence, timelines):
        if (one.metric, one.load_level) == ("iostat.w_await", "all"):
            found.setdefault(one.arm, set()).add(one.value)
    return found


def on_devices(evidence: Evidence, **facts: dict[str, str]) -> Evidence:
    """With what is known of the data's storage before the load, by arm."""
    known: dict[int | None, dict[str, str]] = {
        run.id: {f"storage/data {name}": value for name, value in facts[run.slot.arm].items()} for run in evidence.valid
    }
    return replace(evidence, fingerprints={**evidence.fingerprints, **known})


def test_chance_does_not_compare_two_devices(evidence: Evidence) -> None:
    """Two disks with as much under way: in which arm it is a little more says nothing, and neither does its name."""
    mixed = two_disks(evidence, on="vda", off="vdb", placebo="vdb")
    older = replace(evidence, rules=RULES[14])

    assert waits_by_arm(evidence, mixed) == {"on": {0.001}, "off": {0.001}, "placebo": {0.001}}
    assert waits_by_arm(older, mixed) == {"on": {0.001}, "off": {0.002}, "placebo": {0.002}}


def test_whichever_arms_are_looked_at_the_device_is_the_same(evidence: Evidence) -> None:
    """As a rule for stopping looks at the claim's two arms, and the report at all."""
    mixed = two_disks(evidence, on="vda", off="vda", placebo="vdb")
    loud = [
        replace(each, means={**each.means, ("iostat.aqu", "vdb"): 9.0}) if each.arm == "placebo" else each
        for each in mixed
    ]

    assert waits_by_arm(evidence, loud) == {"on": {0.001}, "off": {0.001}, "placebo": {0.001}}
    assert waits_by_arm(evidence, [each for each in loud if each.arm != "placebo"]) == {"on": {0.001}, "off": {0.001}}


def test_the_device_of_the_data_is_known_before_the_load(evidence: Evidence) -> None:
    facts = {"source": "/dev/vda1", "device": "vda"}
    known = on_devices(evidence, on=facts, off=facts, placebo=facts)

    found = waits_by_arm(known, two_disks(known, on="vda", off="vdb", placebo="vdb"))

    assert found == {"on": {0.001}, "off": {0.001}, "placebo": {0.001}}


def test_arms_on_devices_of_their_own_are_compared_by_these(evidence: Evidence) -> None:
    """As with disk classes: the image of each arm is on a loop device, and all images on one disk."""
    places = {"on": "loop0", "off": "loop1", "placebo": "loop0"}
    known = on_devices(evidence, **{arm: {"source": f"/dev/{loop}", "device": "vda"} for arm, loop in places.items()})
    timelines = [
        make(
            run.id,
            run.slot.arm,
            means={
                ("iostat.w_await", "vda"): 0.004,  # of the WAL
                ("iostat.aqu", "vda"): 5.0,
                ("iostat.w_await", places[run.slot.arm]): 0.001 if places[run.slot.arm] == "loop0" else 0.003,
                ("iostat.aqu", places[run.slot.arm]): 1.0,
            },
        )
        for run in known.valid
    ]

    assert waits_by_arm(known, timelines) == {"on": {0.001}, "off": {0.003}, "placebo": {0.001}}


def test_a_run_that_stands_still_most_of_the_time_has_the_values_that_are_defined(evidence: Evidence) -> None:
    run = evidence.runs_of("on")[0].id
    tps = np.where(np.arange(60) < 36, 0.0, 1000.0)

    found = observed(evidence, make(run, "on", means={}, tps=tps))
    nothing = observed(evidence, make(run, "on", means={}, tps=0.0))
    older = observed(replace(evidence, rules=RULES[14]), make(run, "on", means={}, tps=tps))

    assert found["stability.stalled"] == pytest.approx(0.6)
    assert found["stability.lowest"] == 1.0  # the least that counts
    assert found["stability.highest"] == pytest.approx(1000)
    assert found["stability.variation"] == pytest.approx(tps.std(ddof=1) / tps.mean())
    assert "stability.dip_share" not in found  # nothing is usual, of which it could be a dip
    assert nothing["stability.stalled"] == 1
    assert "stability.variation" not in nothing
    assert older == {}


def test_other_objects_add_up_and_quotients_do_not(evidence: Evidence) -> None:
    run = evidence.runs_of("on")[0].id
    means = {("server.cpu", "checkpointer"): 0.1, ("server.cpu", "walwriter"): 0.2, ("db.hit_ratio", ""): 0.9}

    found = observed(evidence, make(run, "on", means=means))

    assert found["server.cpu"] == pytest.approx(0.3)
    assert found["db.hit_ratio"] == 0.9


def test_load_levels_count_alike_and_a_missing_one_leaves_all_of_them_out(evidence: Evidence) -> None:
    two = replace(evidence, levels=tuple(LoadLevel(index=i, clients=4 * (i + 1)) for i in range(2)))
    run = evidence.runs_of("on")[0].id
    low, high = (make(run, "on", level=level, means={("vmstat.wa", ""): wa}) for level, wa in ((0, 0.0), (1, 0.5)))

    assert observed(two, low, high)["vmstat.wa"] == 0.25
    assert "vmstat.wa" not in observed(two, low)


def test_the_highest_speed_can_be_claimed_as_well_as_the_lowest(evidence: Evidence) -> None:
    tps = np.full(60, 1000.0)
    tps[10:13], tps[40:43] = 1600.0, 200.0

    found = observed(evidence, make(evidence.runs_of("on")[0].id, "on", means={}, tps=tps))

    assert (found["stability.lowest"], found["stability.highest"]) == pytest.approx((200.0, 1600.0))


def test_a_dip_has_depth_length_and_recovery(evidence: Evidence) -> None:
    run = evidence.runs_of("on")[0].id
    tps = np.full(60, 1000.0) + np.tile([-3.0, 3.0], 30)
    tps[30:36] = [100, 100, 300, 500, 700, 900]

    found = observed(evidence, make(run, "on", means={}, tps=tps))
    steady = observed(evidence, make(run, "on", means={}, tps=np.full(60, 1000.0) + np.tile([-3.0, 3.0], 30)))

    assert found["stability.dip_depth"] == pytest.approx(0.9, abs=0.01)
    assert 4 <= found["stability.dip_length"] <= 7
    assert found["stability.recovery"] >= 3
    # Without a dip it is the least that counts.
    for name in ("dip_depth", "dip_length", "recovery"):
        known = find_observable(f"stability.{name}")
        assert known is not None
        assert steady[f"stability.{name}"] == pytest.approx(known.metric.floor)


def test_the_table_has_each_arm_with_its_seconds_and_the_effect(evidence: Evidence) -> None:
    timelines = [
        make(run.id, run.slot.arm, means={("vmstat.us", ""): 0.2 if run.slot.arm == "on" else 0.4})
        for run in evidence.valid
    ]
    sampled = observe_samples(evidence, timelines)
    (found,) = (m for m in compare_metrics(evidence, timelines, index_values(sampled), sampled) if "us" in m.metric)

    on, off, placebo = found.arms
    assert (on.arm, on.ratio) == ("on", None)
    assert (off.mean, off.median, off.lowest, off.highest) == pytest.approx((0.4, 0.4, 0.4, 0.4))
    assert off.ratio is not None
    assert off.ratio.value == pytest.approx(2)
    assert placebo.ratio is not None
    assert len(off.values) == 6


def test_whatever_was_sampled_is_in_the_findings_and_can_be_claimed(findings: Findings) -> None:
    names = {metric.metric for metric in findings.metrics}

    assert {"pgbench.tps", "cost.wal_bytes", "wal.bytes"} <= names
    for name in names:
        assert find_observable(name) is not None, name
    assert all(metric.arms[0].arm == "on" for metric in findings.metrics)


def test_metrics_of_the_load_stand_by_scenario_as_well(mix_folder: Path) -> None:
    found = {(metric.metric, metric.scenario): metric for metric in analyze(mix_folder).metrics}
    scenarios = {scenario for name, scenario in found if name == "pgbench.latency_mean"}

    assert scenarios == {None, "insert", "read", "update"}
    assert ("cost.wal_bytes", "read") not in found
    control, other = found["pgbench.latency_mean", "read"].arms
    assert other.ratio is not None
    assert (control.median, control.change) == (None, None)
