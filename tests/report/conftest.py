"""Synthetic findings: an experiment with all there can be, and one in which nothing has run."""

import math
import random
from collections.abc import Callable

import pytest

from pgtrial.findings.caveat import CaveatFinding
from pgtrial.findings.findings import (
    Adjustment,
    ArmFinding,
    ArmSlices,
    CurvePoint,
    Difference,
    Distribution,
    Effect,
    ExperimentFinding,
    Fact,
    Findings,
    Fingerprint,
    HypothesisFinding,
    LatencyMap,
    LevelFinding,
    Needed,
    Noise,
    Observation,
    Overhead,
    RunFinding,
    Series,
    SettingFinding,
    SingleRuns,
    Slices,
    Stopping,
    WaitShare,
)
from pgtrial.findings.message import message, verbatim
from pgtrial.model.caveat import Severity
from pgtrial.model.verdict import Decision, Verdict
from report.cause_examples import make_causes
from report.disk_examples import make_disks, make_pages


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the page as it is opened come first, then the one that unfolds it, then those of all that was folded
    away: in another order its charts, which take seconds, would be drawn twice.
    """
    stages = ("unfolding", "unfolded")
    places = [place for place, item in enumerate(items) if item.path.name == "test_page_in_use.py"]
    found = [items[place] for place in places]
    found.sort(key=lambda item: [stage in getattr(item, "fixturenames", ()) for stage in reversed(stages)])
    for place, item in zip(places, found, strict=True):
        items[place] = item


START = 1_768_900_000.0
ARMS = ("on", "off", "placebo")
ROLES = {"on": "control", "off": "candidate", "placebo": "placebo"}
SCENARIOS = ("update", "read")
CLIENTS = (4, 16)
BLOCKS = 6
TPS = {"on": 900.0, "off": 2400.0, "placebo": 905.0}
LATENCIES = {"mean": 1.0, "p50": 0.9, "p95": 2.2, "p99": 4.0, "p999": 9.0}
FEW_BLOCKS = CaveatFinding(
    code="few-blocks",
    severity=Severity.INFO,
    text="An interval on 6 blocks leans on the normal distribution.",
    hint="More blocks make it lean less.",
)


def make_sample(*, names: tuple[str, str, str] = ARMS, blocks: int = BLOCKS, seconds: int = 30) -> Findings:
    """Three arms (called ``names``), two load levels, two scenarios, gaps, one invalid run that was repeated."""
    rng = random.Random(7)
    name_of = dict(zip(ARMS, names, strict=True))
    runs = _runs(rng, name_of, blocks, seconds)
    done = [run for run in runs if run.state == "done"]
    arm_of = {new: old for old, new in name_of.items()}
    levels = tuple(
        LevelFinding(index=index, clients=clients, rate=None, label=f"{clients} clients")
        for index, clients in enumerate(CLIENTS)
    )
    return Findings(
        pgtrial_version="0.1.0",
        experiment=ExperimentFinding(
            name="synchronous-commit",
            description="Does turning synchronous_commit off pay on this disk?",
            started=START,
            ended=max(run.ended or START for run in runs),
            complete=True,
            method="blocks",
            restore="each-run",
            seed=20260120,
            blocks_planned=blocks,
            blocks_complete=blocks,
            workload={
                "scenarios": "update 80 %, read 20 %",
                "clients": "4, 16",
                "duration": message("duration.plain", time=float(seconds)),
            },
            target={"postgres version": "15.14", "data directory": "/var/tmp/pgtrial-x"},
            scenarios=SCENARIOS,
            arms=tuple(
                ArmFinding(
                    name=name_of[arm],
                    role=ROLES[arm],
                    settings={"synchronous_commit": "off" if arm == "off" else "on"},
                    runs_done=blocks,
                    runs_invalid=1 if arm == "off" else 0,
                )
                for arm in ARMS
            ),
            levels=levels,
        ),
        hypothesis=HypothesisFinding(
            claim="synchronous_commit = off is faster for small updates",
            arm=name_of["off"],
            control=name_of["on"],
            metric="pgbench.tps",
            scenario=None,
            expect="better",
            margin=0.03,
            confidence=0.95,
            verdict=Verdict.SUPPORTED,
            reason=f"{name_of['off']} is 2.7 times as fast as {name_of['on']} (+165 %, between +158 % and +173 %), "
            "which is beyond the margin of 3 %.",
        ),
        effects=tuple(_effects(rng, name_of["off"], factor=TPS["off"] / TPS["on"], noise=0.02, blocks=blocks)),
        placebo=tuple(_effects(rng, name_of["placebo"], factor=1.004, noise=0.02, blocks=blocks)),
        noise=Noise(sd_log_ratio=0.021, sd_log_ratio_placebo=0.018, detectable=0.031),
        single_runs=(
            SingleRuns(arm=name_of["off"], blocks=blocks, above=blocks, below=0, lowest=2.58, highest=2.71),
            SingleRuns(arm=name_of["placebo"], blocks=blocks, above=1, below=0, lowest=0.98, highest=1.034),
        ),
        needed=Needed(blocks=None, text="none, the claim is decided"),
        runs=tuple(runs),
        observations=tuple(
            Observation(
                run=run.id,
                arm=run.arm,
                block=run.block,
                metric="pgbench.tps",
                scenario=None,
                load_level="all",
                value=run.tps or 0,
            )
            for run in done
        ),
        curve=tuple(_curve(name_of)),
        series=tuple(series for run in done for series in _series(rng, run, arm_of[run.arm], seconds)),
        distributions=tuple(_distributions(name_of)),
        latency_maps=tuple(_maps(name_of, blocks, seconds)),
        waits=tuple(_waits(name_of)),
        causes=make_causes(
            name_of,
            # Of two runs of each arm; the analysis takes up to three.
            [(run.id, run.block, arm_of[run.arm]) for run in done if run.block in {(blocks + 1) // 2, blocks}],
            seconds=seconds,
        ).model_copy(update={"disks": make_disks(name_of)}),
        pages=make_pages(name_of),
        settings=(
            SettingFinding(
                name="max_wal_size",
                values=dict.fromkeys(names, "1GB"),
                source="default",
                declared=False,
                differs=False,
            ),
            SettingFinding(
                name="shared_buffers",
                values=dict.fromkeys(names, "256MB"),
                source="configuration file",
                declared=True,
                differs=False,
            ),
            SettingFinding(
                name="synchronous_commit",
                values={name_of["on"]: "on", name_of["off"]: "off", name_of["placebo"]: "on"},
                source="configuration file",
                declared=True,
                differs=True,
            ),
        ),
        fingerprint=Fingerprint(
            facts=(
                Fact(group="machine", name="CPUs", value="2 × AMD EPYC 7763"),
                Fact(group="machine", name="memory", value="7.8 GB"),
                Fact(group="kernel", name="release", value="6.1.0-18-amd64"),
                Fact(group="storage", name="file system", value="ext4 on /dev/vda1, queue scheduler mq-deadline"),
            ),
            differences=(
                Difference(name="cpu governor", values={"run 3": "powersave", "run 4": "performance"}, declared=False),
            ),
        ),
        overhead=Overhead(
            by_phase={
                "restore": 41.0,
                "start": 9.5,
                "cache": 1.9,
                "warm-up": 95.0,
                "checkpoint": 7.0,
                "measure": 2.0 * seconds * len(runs),
                "stop": 11.0,
                "collect": 4.0,
            },
            share=0.131,
        ),
        caveats=(
            CaveatFinding(code="shared-host", severity=Severity.INFO, text="Other processes used 3 % of the CPU."),
            CaveatFinding(
                code="cpu-steal",
                severity=Severity.WARNING,
                text="The hypervisor took 4.2 % of the CPU time in one run.",
                hint="Repeat at a quieter hour, or on a dedicated host.",
                runs=(3,),
            ),
        ),
    )


def make_minimal() -> Findings:
    """An experiment that was stopped before its first run ended."""
    return Findings(
        pgtrial_version="0.1.0",
        experiment=ExperimentFinding(
            name="nothing-yet",
            description="",
            started=None,
            ended=None,
            complete=False,
            method="blocks",
            seed=1,
            blocks_planned=3,
            blocks_complete=0,
            workload={},
            target={},
            scenarios=(),
            arms=(
                ArmFinding(name="a", role="control", settings={}, runs_done=0, runs_invalid=0),
                ArmFinding(name="b", role="candidate", settings={}, runs_done=0, runs_invalid=0),
            ),
            levels=(),
        ),
        hypothesis=HypothesisFinding(
            claim="",
            arm="b",
            control="a",
            metric="pgbench.tps",
            scenario=None,
            expect="different",
            margin=0.03,
            confidence=0.95,
            verdict=Verdict.INVALID,
            reason="the runs cannot answer the claim: no block is complete.",
        ),
        effects=(),
        placebo=(),
        noise=Noise(sd_log_ratio=None, sd_log_ratio_placebo=None, detectable=None),
        needed=Needed(blocks=None, text="unknown, because the runs cannot answer the claim"),
        runs=(
            RunFinding(
                id=1,
                slot=1,
                block=1,
                position=1,
                arm="b",
                attempt=1,
                state="running",
                reason="",
                started=None,
                ended=None,
                phases=(),
                tps=None,
                overhead=None,
            ),
        ),
        observations=(),
        curve=(),
        series=(),
        distributions=(),
        waits=(),
        settings=(),
        fingerprint=Fingerprint(facts=(), differences=()),
        overhead=Overhead(by_phase={}, share=None),
        caveats=(),
    )


def _runs(rng: random.Random, name_of: dict[str, str], blocks: int, seconds: int) -> list[RunFinding]:
    runs: list[RunFinding] = []
    clock, slot = START, 0
    for block in range(1, blocks + 1):
        for position, arm in enumerate(rng.sample(ARMS, k=len(ARMS)), start=1):
            slot += 1
            failed_before = block == 2 and arm == "off"
            for attempt in (1, 2) if failed_before else (1,):
                is_invalid = failed_before and attempt == 1
                begin, phases = clock, []
                for name, level, length in (
                    ("restore", None, 2.1),
                    ("start", None, 0.5),
                    ("cache", None, 0.1),
                    ("warm-up", None, rng.uniform(4, 6)),
                    ("checkpoint", None, 0.4),
                    ("measure", 0, seconds),
                    ("measure", 1, seconds * (0.4 if is_invalid else 1)),
                    ("stop", None, 0.6),
                    ("collect", None, 0.2),
                ):
                    phases.append({"name": name, "level": level, "start": clock, "end": clock + length})
                    clock += length
                runs.append(
                    RunFinding(
                        id=len(runs) + 1,
                        slot=slot,
                        block=block,
                        position=position,
                        arm=name_of[arm],
                        attempt=attempt,
                        state="invalid" if is_invalid else "done",
                        reason="pgbench aborted: client 3 lost its connection" if is_invalid else "",
                        started=begin,
                        ended=clock,
                        phases=tuple(phases),
                        tps=None if is_invalid else TPS[arm] * rng.gauss(1, 0.03),
                        overhead=clock - begin - 2 * seconds,
                    )
                )
                clock += 0.5
    return runs


def _effects(rng: random.Random, arm: str, *, factor: float, noise: float, blocks: int) -> list[Effect]:
    effects = []
    for metric, better in (("tps", "higher"), *((f"latency_{name}", "lower") for name in LATENCIES)):
        true = factor if better == "higher" else 1 / factor
        for scenario in (None, *SCENARIOS):
            for level in ("all", *range(len(CLIENTS))):
                ratios = [true * math.exp(rng.gauss(0, noise)) for _ in range(blocks)]
                ratio = math.exp(sum(map(math.log, ratios)) / blocks)
                is_null = abs(factor - 1) < 0.01
                effects.append(
                    Effect(
                        arm=arm,
                        metric=f"pgbench.{metric}",
                        better=better,
                        scenario=scenario,
                        load_level=level,
                        ratio=ratio,
                        low=ratio * math.exp(-1.05 * noise),
                        high=ratio * math.exp(1.05 * noise),
                        confidence=0.95,
                        p_value=0.42 if is_null else 3e-7,
                        p_adjusted=0.42 if is_null else 6e-7,
                        p_sign_flip=0.4 if is_null else 0.03125,
                        hodges_lehmann=ratio,
                        margin=0.03,
                        decision=Decision.EQUIVALENT if is_null else Decision.BETTER,
                        sure=True,
                        blocks=blocks,
                        needed=None,
                        block_ratios=tuple(ratios),
                        caveats=(FEW_BLOCKS,) if scenario is None else (),
                    )
                )
    return effects


def _series(rng: random.Random, run: RunFinding, arm: str, seconds: int) -> list[Series]:
    times = tuple(float(t) for t in range(2 * seconds))
    tps: list[float | None] = []
    for t in times:
        dip = 0.5 if 18 <= t % 40 <= 21 else 1
        tps.append(TPS[arm] * (1.3 if t >= seconds else 0.8) * dip * rng.gauss(1, 0.06))
    for gap in (5, 6, 7) if run.id % 5 == 0 else ():
        tps[gap] = None
    latency = [None if value is None else 8.8 / value * rng.lognormvariate(0, 0.15) for value in tps]
    common = {"run": run.id, "arm": run.arm, "block": run.block, "t": times}
    return [
        Series(metric="pgbench.tps", unit="1/s", value=tuple(tps), **common),
        Series(metric="pgbench.latency_p95", unit="s", value=tuple(latency), **common),
    ]


def _curve(name_of: dict[str, str]) -> list[CurvePoint]:
    points = []
    for arm in ARMS:
        for level, clients in enumerate(CLIENTS):
            tps = TPS[arm] * (0.8 if level == 0 else 1.3)
            for metric, value in (
                ("pgbench.tps", tps),
                ("pgbench.latency_mean", clients / tps),
                ("pgbench.latency_p95", 2.2 * clients / tps),
            ):
                points.append(
                    CurvePoint(
                        arm=name_of[arm],
                        load_level=level,
                        metric=metric,
                        value=value,
                        low=value * 0.95,
                        high=value * 1.05,
                        blocks=BLOCKS,
                    )
                )
    return points


def _distributions(name_of: dict[str, str]) -> list[Distribution]:
    found = []
    for arm in ARMS:
        for scenario in (None, *SCENARIOS):
            for level in ("all", 0, 1):
                median = (8 / TPS[arm]) * (0.3 if scenario == "read" else 1) * (0.6 if level == 0 else 1)
                deviates = [k / 20 for k in range(-50, 61)]
                found.append(
                    Distribution(
                        arm=name_of[arm],
                        scenario=scenario,
                        load_level=level,
                        latency=tuple(median * math.exp(0.5 * z) for z in deviates),
                        share=tuple(0.5 * (1 + math.erf(z / math.sqrt(2))) for z in deviates),
                    )
                )
    return found


def _maps(name_of: dict[str, str], blocks: int, seconds: int) -> list[LatencyMap]:
    """Most transactions in the lower half of six rows; the slowest of all at the beginning of the second load level."""
    width = seconds // 15
    starts = [float(second) for level in (0, 1) for second in range(level * seconds, (level + 1) * seconds, width)]
    return [
        LatencyMap(
            arm=name_of[arm],
            runs=blocks,
            latency=tuple(8 / TPS[arm] * 2 ** (row / 2) for row in range(7)),
            start=tuple(starts),
            end=tuple(start + width for start in starts),
            counts=tuple((40, 900, 400, 60, 3, 1 if start == seconds else 0) for start in starts),
        )
        for arm in ARMS
    ]


def _waits(name_of: dict[str, str]) -> list[WaitShare]:
    found = []
    sessions = {
        "on": {("IO", "WALSync"): 3.4, ("LWLock", "WALWrite"): 2.1, ("CPU", ""): 1.2, ("Client", "ClientRead"): 0.6},
        "off": {("CPU", ""): 3.9, ("IO", "DataFileRead"): 0.8, ("Lock", "tuple"): 0.5, ("Client", "ClientRead"): 1.4},
    }
    sessions["placebo"] = {key: value * 1.02 for key, value in sessions["on"].items()}
    for arm in ARMS:
        for level in ("all", 0, 1):
            for (wait_type, wait_event), number in sessions[arm].items():
                found.append(
                    WaitShare(
                        arm=name_of[arm],
                        load_level=level,
                        wait_type=wait_type,
                        wait_event=wait_event,
                        sessions=number,
                        seconds_per_transaction=number / TPS[arm],
                    )
                )
    return found


@pytest.fixture(scope="session")
def sample() -> Findings:
    return make_sample()


@pytest.fixture(scope="session")
def sample_of() -> Callable[..., Findings]:
    """Makes the sample with other names."""
    return make_sample


@pytest.fixture(scope="session")
def adjusted(sample: Findings) -> Findings:
    """The sample as if its file had declared a covariate."""
    found = Adjustment(
        covariate="steal",
        ratio=2.61,
        low=2.57,
        high=2.66,
        slope=-1.1,
        slope_low=-1.4,
        slope_high=-0.8,
        difference=0.002,
        difference_low=-0.01,
        difference_high=0.014,
        sd_before=0.021,
        sd_after=0.009,
        blocks=6,
        text="At equal stolen CPU time the change would be +161 %. The verdict is about the unadjusted effect.",
    )
    return sample.model_copy(update={"adjusted": found})


@pytest.fixture(scope="session")
def turns(sample: Findings) -> Findings:
    """The sample as if its arms had taken turns: each run has the time of its block, a third of which is its own."""
    phases = {
        run.id: tuple(
            {**phase, "seconds": (phase["end"] - phase["start"]) / 3} if phase["name"] == "measure" else phase
            for phase in run.phases
        )
        for run in sample.runs
    }
    arm = {"growth": 1.012, "growth_low": 0.99, "growth_high": 1.04, "autocorrelation": -0.12}
    spread = {"sd_blocks": 0.021, "sd_expected": 0.018, "is_spread_explained": True}
    return sample.model_copy(
        update={
            "experiment": sample.experiment.model_copy(
                update={"method": "interleaved", "method_reason": verbatim("Every setting takes effect at once.")}
            ),
            "slices": Slices(
                length=1.0,
                guard=0.1,
                number=30,
                counted=27.0,
                arms=tuple(
                    ArmSlices(arm=name, longer=None, longer_low=None, longer_high=None, **arm, **spread)
                    for name in ARMS[1:]
                ),
            ),
            "runs": tuple(run.model_copy(update={"phases": phases[run.id]}) for run in sample.runs),
        }
    )


@pytest.fixture(scope="session")
def stopped(sample: Findings) -> Findings:
    """Ended by its rule after the fourth of six blocks."""
    stopping = Stopping(
        rule="decision",
        precision=None,
        spending="obrien-fleming",
        looks=(2, 4, 6),
        blocks=4,
        ended=4,
        level=0.018,
        needed=None,
        text="After 4 of 6 blocks: the claim is supported.",
    )
    experiment = sample.experiment.model_copy(update={"complete": False})
    return sample.model_copy(update={"stopping": stopping, "experiment": experiment})


@pytest.fixture(scope="session")
def minimal() -> Findings:
    return make_minimal()


@pytest.fixture(scope="session")
def hostile() -> Findings:
    """Names that would leave their place in HTML, in a script, or on a terminal."""
    return make_sample(
        names=(
            "</script><script>alert(1)</script>",
            '<img src=x onerror="alert(2)">',
            "a\x1b[31m\u202eb &amp; {{ 7*7 }}",
        )
    )


@pytest.fixture(scope="session")
def large() -> Findings:
    """21 runs of 300 seconds."""
    return make_sample(blocks=7, seconds=150)
