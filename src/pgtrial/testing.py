"""Result folders without a server: simulated experiments whose true effects are known.

For tests of whatever reads result folders. Everything is drawn from a seed, with the standard library only.
"""

import math
import random
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist

from pgtrial.design.arms import resolve_arms
from pgtrial.design.levels import load_levels
from pgtrial.design.schedule import plan_schedule
from pgtrial.model.arm import Arm
from pgtrial.model.histogram import bucket_of, bucket_value
from pgtrial.model.metric import Sample
from pgtrial.model.run import LoadLevel, Phase, PhaseName, RunState, Slot
from pgtrial.spec.experiment import DEFAULT_BLOCKS, MIX_SCENARIOS, Experiment
from pgtrial.store import layout, parquet
from pgtrial.store.samples import WaitRow, write_samples, write_waits
from pgtrial.store.state import State

EXPERIMENT = """\
format = 1

[experiment]
name = "commit"

[hypothesis]
claim = "Without waiting for the disk at commit, throughput is higher"
expect = "better"
margin = "5%"

[workload]
mix = "simple-update"
clients = 4
duration = "10s"

[arms.on.postgresql]
synchronous_commit = "on"

[arms.off.postgresql]
synchronous_commit = "off"

[design]
blocks = 6
placebo = true
"""

SETTINGS = {
    "data_directory": "/var/tmp/pgtrial",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "synchronous_commit": "on",
    "wal_buffers": "4MB",
    "work_mem": "4MB",
}

# (metric, object) to increase per second.
COUNTERS: Mapping[tuple[str, str], float] = {
    ("disk.read_bytes", "vda"): 4096.0,
    ("disk.reads", "vda"): 1.0,
    ("disk.write_bytes", "vda"): 4e6,
    ("disk.writes", "vda"): 500.0,
    ("pg_stat_checkpointer.num_requested", ""): 0.0,
    ("pg_stat_checkpointer.num_timed", ""): 0.0,
    ("pg_stat_database.blks_hit", ""): 40_000.0,
    ("pg_stat_database.blks_read", ""): 10.0,
    ("pg_stat_database.temp_bytes", ""): 0.0,
    ("pg_stat_wal.wal_bytes", ""): 600_000.0,
    ("proc_stat.cpu_idle", "all"): 0.5,
    ("proc_stat.cpu_iowait", "all"): 0.2,
    ("proc_stat.cpu_irq", "all"): 0.0,
    ("proc_stat.cpu_nice", "all"): 0.0,
    ("proc_stat.cpu_softirq", "all"): 0.1,
    ("proc_stat.cpu_steal", "all"): 0.001,
    ("proc_stat.cpu_system", "all"): 0.4,
    ("proc_stat.cpu_user", "all"): 0.8,
    ("proc_stat.ctxt", ""): 20_000.0,
}

# (state, wait type, wait event) to average number of sessions per client.
WAITS: Mapping[tuple[str, str, str], float] = {
    ("active", "", ""): 0.3,
    ("active", "IO", "WALSync"): 0.1,
    ("active", "LWLock", "WALWrite"): 0.4,
    ("idle", "Client", "ClientRead"): 0.2,
}

_POLLS = 10  # per second
_SIGMA = 0.5  # of the logarithm of a transaction's latency
_QUANTILES = tuple(NormalDist().inv_cdf((i + 0.5) / 40) for i in range(40))
_BEFORE = ((PhaseName.RESTORE, 0.5), (PhaseName.START, 0.3), (PhaseName.WARMUP, 3.0), (PhaseName.CHECKPOINT, 0.2))
_STARTED = 1_767_225_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What is true. ``tps`` maps an arm to its true throughput with one client, which grows with √clients.

    ``block_sd`` and ``run_sd`` are standard deviations of log throughput between blocks and between the runs of a
    block; ``second_half`` is the throughput of the second half of a window against the first. ``settings`` and
    ``facts`` map an arm to what differs in its runs from SETTINGS and from no facts.
    """

    tps: Mapping[str, float] = field(default_factory=lambda: {"on": 500.0, "off": 1000.0})
    block_sd: float = 0.1
    run_sd: float = 0.02
    second_half: float = 1.0
    seed: int = 1
    counters: Mapping[tuple[str, str], float] = field(default_factory=lambda: COUNTERS)
    waits: Mapping[tuple[str, str, str], float] = field(default_factory=lambda: WAITS)
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRow:
    """A row of transactions.parquet; see store/columns.sql."""

    level: int
    second: int
    scenario: str
    count: int
    latency: float  # s, mean
    failed: int = 0
    skipped: int = 0
    late: int = 0


def write_result_folder(
    folder: Path,
    *,
    text: str = EXPERIMENT,
    simulation: Simulation | None = None,
    runs: int | None = None,
) -> Path:
    """Write the result folder of a simulated experiment into a new folder; the folder.

    ``text`` is the experiment file. ``runs`` limits the runs that are made, as if the experiment had been stopped.
    """
    simulation = simulation or Simulation()
    experiment = Experiment.model_validate(tomllib.loads(text))
    arms, levels = resolve_arms(experiment), load_levels(experiment.workload)
    slots = plan_schedule(arms, blocks=experiment.design.blocks or DEFAULT_BLOCKS, seed=experiment.design.seed)
    folder.mkdir(parents=True)
    (folder / layout.EXPERIMENT).write_text(text, encoding="utf-8")
    state = State.create(folder)
    state.set_plan(arms, levels, slots)
    state.add_fingerprint({"PostgreSQL/version": "15.7", "machine/CPUs": "2", "kernel/release": "6.1.0"})
    rng = random.Random(simulation.seed)
    blocks = {slot.block: rng.gauss(0, simulation.block_sd) for slot in slots}
    t = _STARTED
    for slot in slots if runs is None else slots[:runs]:
        arm = next(arm for arm in arms if arm.name == slot.arm)
        noise = math.exp(blocks[slot.block] + rng.gauss(0, simulation.run_sd))
        t = _simulate_run(
            state, folder, experiment, simulation, arm=arm, slot=slot, levels=levels, noise=noise, started=t
        )
    state.close()
    return folder


def write_transactions(rows: Sequence[TransactionRow], path: Path) -> None:
    """Write transactions.parquet with log-normal latencies of the given means."""
    histograms = [_histogram(row.count, row.latency) for row in rows]
    columns: dict[str, tuple[str, list[object]]] = {
        "level": ("INTEGER", [row.level for row in rows]),
        "second": ("INTEGER", [row.second for row in rows]),
        "scenario": ("VARCHAR", [row.scenario for row in rows]),
        "count": ("BIGINT", [row.count for row in rows]),
        "latency_sum": ("DOUBLE", [sum(n * bucket_value(b) for b, n in found.items()) for found in histograms]),
        "failed": ("BIGINT", [row.failed for row in rows]),
        "skipped": ("BIGINT", [row.skipped for row in rows]),
        "late": ("BIGINT", [row.late for row in rows]),
        "retried": ("BIGINT", [0 for _ in rows]),
        "retries": ("BIGINT", [0 for _ in rows]),
        "lag_sum": ("DOUBLE", [0.0 for _ in rows]),
        "buckets": ("INTEGER[]", [list(found) for found in histograms]),
        "bucket_counts": ("BIGINT[]", [list(found.values()) for found in histograms]),
    }
    select = ", ".join(f"unnest(?::{kind}[]) AS {name}" for name, (kind, _) in columns.items())
    with parquet.connect() as db:
        parquet.write_query(db, f"SELECT {select}", path, [values for _, values in columns.values()])


def read_counters(rates: Mapping[tuple[str, str], float], *, start: float, end: float) -> Iterable[Sample]:
    """Readings of counters that grow evenly, once per second from ``start`` to ``end``."""
    for (metric, name), rate in rates.items():
        for step in range(math.floor(end - start) + 1):
            yield Sample(start + step, metric, name, 1000.0 + rate * step)


def poll_sessions(
    waits: Mapping[tuple[str, str, str], float], *, scenario: str, clients: int, start: float, end: float
) -> Iterable[WaitRow]:
    """Sampled sessions of ``clients`` clients, and one background process."""
    for step in range(math.floor(end - start) + 1):
        t = start + step
        yield WaitRow(t, _POLLS, "checkpointer", "", "", "Activity", "CheckpointerMain", "", _POLLS)
        for (state, wait_type, wait_event), share in waits.items():
            sessions = round(share * clients * _POLLS)
            yield WaitRow(
                t, _POLLS, "client backend", f"pgtrial/{scenario}", state, wait_type, wait_event, "", sessions
            )


def _simulate_run(
    state: State,
    folder: Path,
    experiment: Experiment,
    simulation: Simulation,
    *,
    arm: Arm,
    slot: Slot,
    levels: Sequence[LoadLevel],
    noise: float,
    started: float,
) -> float:
    """Record one run; when it ended."""
    run = state.begin_run(slot, started)
    path = layout.run_folder(folder, run.folder)
    path.mkdir(parents=True)
    t = started
    for name, seconds in _BEFORE:
        state.add_phase(run.id, Phase(name=name, start=t, end=t + seconds))
        t += seconds
    seconds = round(experiment.workload.duration)
    scenarios = _scenarios(experiment)
    transactions: list[TransactionRow] = []
    waits: list[WaitRow] = []
    for level in levels:
        state.add_phase(run.id, Phase(name=PhaseName.MEASURE, start=t, end=t + seconds, level=level.index))
        tps = simulation.tps.get(arm.name, simulation.tps[_control(experiment)]) * noise * math.sqrt(level.clients)
        for scenario in scenarios:
            waits += poll_sessions(
                simulation.waits, scenario=scenario, clients=level.clients, start=t, end=t + seconds - 1
            )
            for second in range(seconds):
                rate = tps * (simulation.second_half if second >= seconds / 2 else 1.0) / len(scenarios)
                transactions.append(
                    TransactionRow(
                        level=level.index,
                        second=second,
                        scenario=scenario,
                        count=round(rate),
                        latency=level.clients / (rate * len(scenarios)),
                    )
                )
        t += seconds
    write_transactions(transactions, path / layout.TRANSACTIONS)
    write_samples(read_counters(simulation.counters, start=started + 1, end=t + 1), path / layout.SAMPLES)
    write_waits(waits, path / layout.WAITS)
    settings = SETTINGS | dict(arm.settings) | dict(simulation.settings.get(arm.name, {}))
    declared = dict(arm.settings)
    state.add_settings(
        run.id,
        [(name, value, "configuration file" if name in declared else "default") for name, value in settings.items()],
    )
    state.add_fingerprint(simulation.facts.get(arm.name, {}), run=run.id)
    state.add_phase(run.id, Phase(name=PhaseName.STOP, start=t, end=t + 0.5))
    state.end_run(run.id, RunState.DONE, t + 0.5)
    return t + 0.5


def _control(experiment: Experiment) -> str:
    return resolve_arms(experiment)[0].name


def _scenarios(experiment: Experiment) -> tuple[str, ...]:
    workload = experiment.workload
    return MIX_SCENARIOS[workload.mix] if workload.mix else tuple(each.name for each in workload.scenario)


def _histogram(count: int, mean: float) -> dict[int, int]:
    """Bucket to count of log-normal latencies, spread evenly over their quantiles."""
    median = mean / math.exp(_SIGMA**2 / 2)
    found: dict[int, int] = {}
    share, rest = divmod(count, len(_QUANTILES))
    for index, z in enumerate(_QUANTILES):
        number = share + (index % len(_QUANTILES) < rest)
        if number:
            bucket = bucket_of(median * math.exp(_SIGMA * z) * 1e6)
            found[bucket] = found.get(bucket, 0) + number
    return found
