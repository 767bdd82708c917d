"""Disks whose truth is known: at a limit that is enforced, promised or unknown, slow, or not what limits."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pgtrial.analysis.causes.disk_ceiling import declared_limits, find_ceiling
from pgtrial.analysis.causes.disks import cpus_in_use, describe_disks
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.findings.causes import Limit, LimitEvidence, Resource, Suspect
from pgtrial.findings.message import say
from pgtrial.findings.record import Estimate
from pgtrial.findings.storage import DiskStanding, DiskUse
from pgtrial.model.run import LoadLevel

SECONDS = 60
LEVELS = (LoadLevel(index=0, clients=8), LoadLevel(index=1, clients=32))
DISKS = {
    "emulated": {"size": "2GB", "read_iops": 3000, "write_iops": 1500},
    "provider": {"data": "/mnt/a", "read_iops": 3000},
    "unknown": {"data": "/mnt/b"},
}
Describe = Callable[..., DiskUse]


def series(reads: Any, *, cpus: float = 0.6, latency: float = 0.001, queue: float = 4.0, device: str = "loop0") -> Any:
    """A device that is mostly read, 8 kB at a time, on a machine of four CPUs."""
    rate = np.asarray(reads, dtype=float)
    return {
        ("iostat.r", device): rate,
        ("iostat.w", device): 2.0,
        ("iostat.iops", device): rate + 2.0,
        ("iostat.r_bytes", device): rate * 8192.0,
        ("iostat.w_bytes", device): 2 * 8192.0,
        ("iostat.bytes", device): (rate + 2.0) * 8192.0,
        ("iostat.rareq", device): 8192.0,
        ("iostat.wareq", device): 8192.0,
        ("iostat.aqu", device): queue,
        ("iostat.r_await", device): latency,
        ("iostat.w_await", device): 0.002,
        ("server.cpu", "client backend"): cpus,
        "vmstat.us": 0.1,
        "vmstat.sy": 0.1,
        "vmstat.wa": 0.7,
        "vmstat.cpus": 4.0,
    }


def pinned(rate: float, *, seed: int = 1) -> Any:
    """What a limiter lets through: nearly the same every second."""
    return rate + np.random.default_rng(seed).normal(0, 0.001 * rate, SECONDS)


def free(rate: float, *, seed: int = 1) -> Any:
    """Demand that runs free: it varies by more than Poisson's law alone would have it."""
    return np.random.default_rng(seed).normal(rate, 3 * np.sqrt(rate), SECONDS)


def judge(resource: Resource, *, arm: str, level: int, strength: float = 0.8) -> Limit:
    proof = LimitEvidence(metric="iostat.r/loop0", value=1.0, unit="1/s", threshold=None, text="the evidence")
    suspect = Suspect(resource=resource, strength=strength, detail="loop0", evidence=(proof,))
    return Limit(arm=arm, load_level=level, resource=resource, detail="", text="", suspects=(suspect,))


@pytest.fixture
def on_disk(evidence: Evidence) -> Callable[[str], Evidence]:
    """An experiment of two load levels with one arm on a disk class, called as it, and one on none."""

    def build(disk: str) -> Evidence:
        experiment = Experiment.model_validate(
            {
                "format": 1,
                "experiment": {"name": "x"},
                "workload": {"mix": "select-only", "clients": [8, 32]},
                "disks": DISKS,
                "arms": {disk: {"storage": {"disk": disk}}, "other": {}},
            }
        )
        return replace(evidence, experiment=experiment, arms=resolve_arms(experiment), levels=LEVELS)

    return build


@pytest.fixture
def describe(on_disk: Callable[[str], Evidence], make_timeline: Callable[..., Timeline]) -> Describe:
    """The disk of an arm from one series per load level, three runs of each, and what the rules say of each level."""

    def build(disk: str, levels: Sequence[Any], *, resources: Sequence[Resource] = (), blocks: int = 3) -> DiskUse:
        timelines = [
            make_timeline(found, run=block, arm=disk, block=block, level=index, seconds=SECONDS)
            for index, found in enumerate(levels)
            for block in range(1, blocks + 1)
        ]
        limits = [judge(resource, arm=disk, level=index) for index, resource in enumerate(resources)]
        (use,) = describe_disks(on_disk(disk), timelines, limits)
        return use

    return build


def test_a_rate_at_the_enforced_limit_is_named_with_its_value_and_steadiness(describe: Describe) -> None:
    use = describe("emulated", [series(pinned(3001)), series(pinned(3002))], resources=[Resource.DISK_IOPS] * 2)
    high = use.levels[1]

    assert high.standing is DiskStanding.AT_LIMIT
    assert high.ceiling is not None
    assert high.ceiling.value.value == pytest.approx(3000, rel=0.02)
    assert (high.ceiling.of, high.ceiling.declared, high.ceiling.is_at_declared) == ("reads", 3000.0, True)
    assert high.ceiling.steadiness is not None
    assert high.ceiling.steadiness < 0.002
    assert "the limit that pgtrial enforces" in say(high.text)
    assert (use.is_emulated, use.is_enforced, use.device) == (True, True, "loop0")
    assert say(use.text).startswith("An emulated disk")


def test_the_same_rate_over_the_load_levels_is_a_plateau(describe: Describe) -> None:
    use = describe("emulated", [series(pinned(3000)), series(pinned(3006))], resources=[Resource.DISK_IOPS] * 2)

    assert use.spread == pytest.approx(0.002, abs=0.001)
    assert "The ceiling is the same at 2 load levels" in say(use.text)


def test_a_promised_limit_is_compared_and_not_enforced(describe: Describe) -> None:
    use = describe("provider", [series(free(1200)), series(pinned(2950))], resources=[Resource.DISK_LATENCY] * 2)

    assert use.levels[1].standing is DiskStanding.AT_LIMIT
    assert "the limit that its provider declares" in say(use.levels[1].text)
    assert not use.is_enforced
    assert use.declared == {"read_iops": 3000.0}


def test_a_slow_disk_below_its_promised_limit_is_slow(describe: Describe) -> None:
    slow = series(free(400), latency=0.009, queue=3.5)
    use = describe("provider", [slow, slow], resources=[Resource.DISK_LATENCY] * 2)

    assert {load.standing for load in use.levels} == {DiskStanding.SLOW}
    assert "slow, not at a limit" in say(use.levels[0].text)
    assert "a read takes 9 ms" in say(use.levels[0].text)
    assert "13 % of the 3 k reads per second that are allowed" in say(use.levels[0].text)
    assert use.spread is None


def test_a_limit_that_nobody_declared_is_found(describe: Describe) -> None:
    use = describe("unknown", [series(free(900)), series(pinned(1600))], resources=[Resource.DISK_IOPS] * 2)
    ceiling = use.levels[1].ceiling

    assert ceiling is not None
    assert ceiling.is_plateau
    assert ceiling.declared is None
    assert "a limit that the file does not declare" in say(use.levels[1].text)


def test_a_limit_below_the_declared_one_is_the_devices_own(describe: Describe) -> None:
    use = describe("emulated", [series(free(900)), series(pinned(2000))], resources=[Resource.DISK_IOPS] * 2)

    assert use.levels[1].standing is DiskStanding.AT_LIMIT
    assert "a limit below the declared 3 k per second" in say(use.levels[1].text)


def test_a_disk_that_is_not_suspected_does_not_limit(describe: Describe) -> None:
    use = describe("unknown", [series(free(50))], resources=[Resource.CPU])

    assert use.levels[0].standing is DiskStanding.NOT_LIMITING
    assert use.size is not None
    assert use.size.is_bound
    assert "it was not what limited" in say(use.size.text)


def test_without_a_judgement_nothing_is_said(describe: Describe) -> None:
    use = describe("unknown", [series(free(50))])

    assert use.levels[0].standing is DiskStanding.UNKNOWN
    assert use.size is None


def test_the_size_of_server_is_the_cpus_in_use_at_the_limit(describe: Describe) -> None:
    use = describe(
        "emulated",
        [series(free(900), cpus=0.2), series(pinned(3000), cpus=1.3)],
        resources=[Resource.DISK_LATENCY, Resource.DISK_IOPS],
    )

    assert use.size is not None
    assert use.size.cpus.value == pytest.approx(1.3)
    assert (use.size.whole, use.size.load_level, use.size.is_bound) == (2, 1, False)
    assert "keeps 1.3 CPUs busy: enough for a server of 2 CPUs" in say(use.size.text)


@pytest.mark.parametrize(("cpus", "whole"), [(0.02, 1), (1.0, 1), (1.04, 1), (1.06, 2), (3.5, 4)])
def test_a_server_has_whole_cpus(describe: Describe, cpus: float, whole: int) -> None:
    use = describe("emulated", [series(pinned(3000), cpus=cpus)], resources=[Resource.DISK_IOPS])

    assert use.size is not None
    assert use.size.whole == whole


def test_numbers_beside_the_plateau_have_intervals_over_the_blocks(
    on_disk: Callable[[str], Evidence], make_timeline: Callable[..., Timeline]
) -> None:
    timelines = [
        make_timeline(series(pinned(3000), cpus=cpus), run=block, arm="emulated", block=block, seconds=SECONDS)
        for block, cpus in ((1, 0.5), (2, 0.6), (3, 0.7))
    ]
    (use,) = describe_disks(on_disk("emulated"), timelines, [])

    # t with 2 degrees of freedom at 97.5 %: 4.3027; SD 0.1, of three blocks.
    cpus = use.levels[0].cpus
    assert cpus is not None
    assert [cpus.value, cpus.low, cpus.high] == pytest.approx([0.6, 0.6 - 0.2484, 0.6 + 0.2484], abs=1e-4)
    assert use.levels[0].read_size == Estimate(value=8192.0)


def test_arms_without_a_device_are_left_out(
    on_disk: Callable[[str], Evidence], make_timeline: Callable[..., Timeline]
) -> None:
    assert describe_disks(on_disk("unknown"), [make_timeline({"vmstat.us": 0.1}, arm="unknown")], []) == ()
    assert describe_disks(on_disk("unknown"), [], []) == ()


def test_short_runs_together_show_a_ceiling_with_an_interval(make_timeline: Callable[..., Timeline]) -> None:
    runs = [make_timeline(series(pinned(3000, seed=run)[:8]), run=run, block=run, seconds=8) for run in range(1, 5)]
    found = find_ceiling(runs, "loop0", declared={"read_iops": 3000.0}, hint="", confidence=0.95)

    assert found is not None
    assert found.is_at_declared
    assert found.value.low is not None
    assert found.value.low < 3003
    assert found.value.value == pytest.approx(3000, rel=0.002)


def test_few_seconds_show_no_ceiling(describe: Describe, make_timeline: Callable[..., Timeline]) -> None:
    short = make_timeline(series(3000.0), seconds=10)

    assert find_ceiling([short], "loop0", declared={}, hint="", confidence=0.95) is None


def test_a_limit_is_seen_where_the_control_group_counts(make_timeline: Callable[..., Timeline]) -> None:
    """The device puts neighbouring requests together: its own rate is below the limit."""
    merged = {**series(free(1500)), ("cgroup.reads", "loop0"): pinned(3000)}
    found = find_ceiling(
        [make_timeline(merged, seconds=SECONDS)], "loop0", declared={"read_iops": 3000.0}, hint="", confidence=0.95
    )

    assert found is not None
    assert (found.metric, found.is_at_declared) == ("cgroup.reads", True)


def test_bytes_are_held_against_a_limit_of_bytes(make_timeline: Callable[..., Timeline]) -> None:
    limit = 3000 * 8192.0
    found = find_ceiling(
        [make_timeline(series(pinned(3000)), seconds=SECONDS)],
        "loop0",
        declared={"read_bytes": limit},
        hint="",
        confidence=0.95,
    )

    assert found is not None
    assert (found.of, found.unit, found.is_at_declared) == ("read", "B/s", True)
    assert found.value.value == pytest.approx(limit, rel=0.01)


def test_limits_of_a_control_group_are_declared_as_well(on_disk: Callable[[str], Evidence]) -> None:
    experiment = Experiment.model_validate(
        {
            "format": 1,
            "experiment": {"name": "x"},
            "workload": {"mix": "select-only"},
            "arms": {"a": {"cgroup": {"read_iops": 500, "write_bytes": "2MB", "memory": "1GB"}}, "b": {}},
        }
    )
    a, b = resolve_arms(experiment)

    assert declared_limits(experiment, a) == {"read_iops": 500.0, "write_bytes": 2 * 1024.0**2}
    assert declared_limits(experiment, b) == {}


def test_cpus_are_taken_from_the_servers_processes_before_its_group_before_the_machine(
    make_timeline: Callable[..., Timeline],
) -> None:
    machine = {"vmstat.us": 0.3, "vmstat.sy": 0.2, "vmstat.cpus": 4.0, "pgbench.cpu": 0.5}
    group = {**machine, "cgroup.cpu": 1.2}
    processes = {**group, ("server.cpu", "client backend"): 1.0, ("server.cpu", "checkpointer"): 0.1}

    assert cpus_in_use(make_timeline(processes))[0] == pytest.approx(1.1)
    assert cpus_in_use(make_timeline(group))[0] == pytest.approx(1.2)
    assert cpus_in_use(make_timeline(machine))[0] == pytest.approx(1.5)
    assert cpus_in_use(make_timeline({})) == (None, None)
