"""Result folders without a server: simulated experiments whose true effects are known.

For tests of whatever reads result folders. Everything is drawn from a seed, with the standard library only.
"""

import math
import random
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from statistics import NormalDist
from typing import Any

from pgtrial.design.arms import resolve_arms
from pgtrial.design.levels import load_levels
from pgtrial.design.methods import turn_seed
from pgtrial.design.schedule import plan_schedule
from pgtrial.design.slices import DUET_GUARD, GUARD, Step, interleave, pair_up
from pgtrial.model.arm import Arm
from pgtrial.model.fingerprint import Moment
from pgtrial.model.histogram import bucket_of
from pgtrial.model.run import LoadLevel, Phase, PhaseName, RunRow, RunState, Slot
from pgtrial.model.slice import Slice
from pgtrial.simulated_samples import DETAILED_COUNTERS, DETAILED_GAUGES
from pgtrial.spec.experiment import DEFAULT_BLOCKS, DEFAULT_DUET_SLICE, DEFAULT_SLICE, Experiment
from pgtrial.store import layout, parquet
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

# The same with arms that take turns in slices, and with arms that run at the same time.
INTERLEAVED = EXPERIMENT.replace("[design]\n", '[design]\nmethod = "interleaved"\n')
DUET = EXPERIMENT.replace("[design]\n", '[design]\nmethod = "duet"\n').replace("placebo = true", "placebo = false")

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
    ("pressure.cpu_some_total", ""): 0.3,
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

_Query = tuple[str, list[Any]]  # with its parameters
_POLLS = 10  # per second
_SIGMA = 0.5  # of the logarithm of a transaction's latency
_QUANTILES = tuple(NormalDist().inv_cdf((i + 0.5) / 40) for i in range(40))
_BEFORE = ((PhaseName.RESTORE, 0.5), (PhaseName.START, 0.3), (PhaseName.WARMUP, 3.0), (PhaseName.CHECKPOINT, 0.2))
_STARTED = 1_767_225_600.0
_SWITCH = 0.002  # s from the end of a slice to the start of the next
_STEAL = ("proc_stat.cpu_steal", "all")
_MOST_STOLEN = 0.9  # of the CPU time of a run
_PARTS = 4  # of the counted time of a slice
_SAMPLED = """
    (SELECT unnest(?::VARCHAR[]) AS metric, unnest(?::VARCHAR[]) AS object, unnest(?::DOUBLE[]) AS base,
            unnest(?::DOUBLE[]) AS rate)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What is true. ``tps`` maps an arm to its true throughput with one client, which grows with √clients.

    ``block_sd``, ``run_sd`` and ``slice_sd`` are standard deviations of log throughput between blocks, between the runs
    of a block and between the slices of a run. ``leaks`` maps an arm to what it gains inside each slice, from the first
    quarter of its counted time to the last, in log throughput. ``speeds`` are those of the CPU sets of a duet.
    ``builds_up`` maps an arm to what it gains, in log throughput, in every second block, whose slices are then twice as
    long.
    ``steal`` is the mean share of the CPU time that others take from a run, which slows it down by as much; not where
    arms share the time of a block.
    ``counters`` maps (metric, object) to the increase per second, ``gauges`` to the value.
    ``settings`` and ``facts`` map an arm to what differs in its runs from SETTINGS and from no facts;
    ``facts_after`` to what differs after the load of its runs from what was before.
    """

    tps: Mapping[str, float] = field(default_factory=lambda: {"on": 500.0, "off": 1000.0})
    block_sd: float = 0.1
    run_sd: float = 0.02
    slice_sd: float = 0.03
    leaks: Mapping[str, float] = field(default_factory=dict)
    builds_up: Mapping[str, float] = field(default_factory=dict)
    speeds: tuple[float, ...] = ()
    steal: float = 0.0
    seed: int = 1
    counters: Mapping[tuple[str, str], float] = field(default_factory=lambda: COUNTERS)
    gauges: Mapping[tuple[str, str], float] = field(default_factory=dict)
    waits: Mapping[tuple[str, str, str], float] = field(default_factory=lambda: WAITS)
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    facts_after: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def detailed_simulation() -> Simulation:
    """One whose samples tell all that timelines can show."""
    return Simulation(counters={**COUNTERS, **DETAILED_COUNTERS}, gauges=DETAILED_GAUGES)


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

    ``text`` is the experiment file, whose method is kept ("auto" becomes "interleaved"). ``runs`` limits the runs that
    are made, as if the experiment had been stopped.
    """
    simulation = simulation or Simulation()
    experiment = Experiment.model_validate(tomllib.loads(text))
    arms, levels = resolve_arms(experiment), load_levels(experiment.workload)
    slots = plan_schedule(arms, blocks=experiment.design.blocks or DEFAULT_BLOCKS, seed=experiment.design.seed)
    folder.mkdir(parents=True)
    (folder / layout.EXPERIMENT).write_text(text, encoding="utf-8")
    state = State.create(folder, durable=False)  # hundreds of small transactions, which can be made again
    state.set_plan(arms, levels, slots)
    state.add_fingerprint({"PostgreSQL/version": "15.7", "machine/CPUs": "2", "kernel/release": "6.1.0"})
    rng = random.Random(simulation.seed)
    blocks = {slot.block: rng.gauss(0, simulation.block_sd) for slot in slots}
    t = _STARTED
    files: dict[Path, _Query] = {}
    method = "interleaved" if experiment.design.method == "auto" else experiment.design.method
    state.set_meta(
        method=method,
        method_reason="Every setting takes effect at once." if experiment.design.method == "auto" else "",
        method_guard=str(DUET_GUARD if method == "duet" else GUARD),
        method_slice=str(experiment.design.slice or (DEFAULT_DUET_SLICE if method == "duet" else DEFAULT_SLICE)),
        method_doubled=str(int(bool(simulation.builds_up))),
    )
    for block, together in groupby(slots if runs is None else slots[:runs], key=lambda slot: slot.block):
        members = [
            (
                slot,
                next(arm for arm in arms if arm.name == slot.arm),
                math.exp(blocks[block] + rng.gauss(0, simulation.run_sd)),
            )
            for slot in together
        ]
        if method == "blocks":
            for slot, arm, noise in members:
                stolen = min(_MOST_STOLEN, rng.expovariate(1 / simulation.steal)) if simulation.steal else 0.0
                t, written = _simulate_run(
                    *(state, folder, experiment, simulation),
                    arm=arm,
                    slot=slot,
                    levels=levels,
                    noise=noise * (1 - stolen),
                    stolen=stolen,
                    started=t,
                )
                files |= written
        else:
            t, written = _simulate_block(
                state, folder, experiment, simulation, method=method, members=members, levels=levels, started=t, rng=rng
            )
            files |= written
    state.close()
    _write_all(files)
    return folder


def write_transactions(rows: Sequence[TransactionRow], path: Path) -> None:
    """Write transactions.parquet with log-normal latencies of the given means."""
    _write_all({path: _transactions(rows)})


def _write_all(files: Mapping[Path, _Query]) -> None:
    for path, (query, parameters) in files.items():
        parquet.write_query(_writer(), query, path, parameters)


# One DuckDB for all files of a process: opening it takes longer than writing several of them.
_writer = cache(partial(parquet.connect, threads=1))


def _transactions(rows: Sequence[TransactionRow]) -> _Query:
    histograms = [_histogram(row.count, row.latency) for row in rows]
    columns: dict[str, tuple[str, list[object]]] = {
        "level": ("INTEGER", [row.level for row in rows]),
        "second": ("INTEGER", [row.second for row in rows]),
        "scenario": ("VARCHAR", [row.scenario for row in rows]),
        "count": ("BIGINT", [row.count for row in rows]),
        "latency_sum": ("DOUBLE", [row.count * row.latency for row in rows]),
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
    return f"SELECT {select}", [values for _, values in columns.values()]


def _samples(
    rates: Mapping[tuple[str, str], float], gauges: Mapping[tuple[str, str], float], *, start: float, end: float
) -> _Query:
    """Readings of counters that grow evenly, and of gauges, once per second from ``start`` to ``end``."""
    query = f"""
        SELECT ?::DOUBLE + step AS t, metric, object, base + rate * step AS value
        FROM {_SAMPLED}, range(?) AS steps (step)
    """
    return query, [start, *_sampled(rates, gauges), math.floor(end - start) + 1]


def _sampled(
    rates: Mapping[tuple[str, str], float], gauges: Mapping[tuple[str, str], float]
) -> tuple[list[object], ...]:
    """Parameters of _SAMPLED: a value is its base and its rate times the seconds since the first reading."""
    rows = [(*key, 1000.0, rate) for key, rate in rates.items()] + [(*key, value, 0.0) for key, value in gauges.items()]
    return tuple([row[column] for row in rows] for column in range(4))


def _steal(counters: Mapping[tuple[str, str], float], share: float) -> Mapping[tuple[str, str], float]:
    """The same counters with ``share`` of the CPU time stolen."""
    if not share:
        return counters
    cpus = {key for key in counters if key[0].startswith("proc_stat.cpu_")}
    taken = {key: rate * (1 - share) for key, rate in counters.items() if key in cpus}
    stolen = share * sum(counters[key] for key in cpus - {_STEAL})
    return {**counters, **taken, _STEAL: stolen}


def _waits(
    waits: Mapping[tuple[str, str, str], float], levels: Sequence[tuple[LoadLevel, float]], *, seconds: int
) -> _Query:
    """Sampled sessions of every load level, which begins at the given time, and one background process."""
    query = """
        SELECT start + step AS t, ?::INTEGER AS polls, backend_type, application, state, wait_type, wait_event,
               '' AS query, sessions
        FROM (SELECT unnest(?::DOUBLE[]) AS start, unnest(?::VARCHAR[]) AS backend_type,
                     unnest(?::VARCHAR[]) AS application, unnest(?::VARCHAR[]) AS state,
                     unnest(?::VARCHAR[]) AS wait_type, unnest(?::VARCHAR[]) AS wait_event,
                     unnest(?::INTEGER[]) AS sessions),
             range(?) AS steps (step)
    """
    rows: list[tuple[object, ...]] = []
    for level, start in levels:
        rows.append((start, "checkpointer", "", "", "Activity", "CheckpointerMain", _POLLS))
        rows += [
            (start, "client backend", "pgtrial/all", *kind, round(share * level.clients * _POLLS))
            for kind, share in waits.items()
        ]
    return query, [_POLLS, *(list(column) for column in zip(*rows, strict=True)), seconds]


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
    stolen: float,
    started: float,
) -> tuple[float, dict[Path, _Query]]:
    """Record one run; when it ended, and what its files are to contain."""
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
    starts: list[tuple[LoadLevel, float]] = []
    for level in levels:
        state.add_phase(run.id, Phase(name=PhaseName.MEASURE, start=t, end=t + seconds, level=level.index))
        starts.append((level, t))
        tps = simulation.tps.get(arm.name, simulation.tps[_control(experiment)]) * noise * math.sqrt(level.clients)
        transactions += [
            TransactionRow(
                level=level.index,
                second=second,
                scenario=scenario,
                count=round(tps / len(scenarios)),
                latency=level.clients / tps,
            )
            for second in range(seconds)
            for scenario in scenarios
        ]
        t += seconds
    files = {
        path / layout.TRANSACTIONS: _transactions(transactions),
        path / layout.SAMPLES: _samples(
            _steal(simulation.counters, stolen), simulation.gauges, start=started + 1, end=t + 1
        ),
        path / layout.WAITS: _waits(simulation.waits, starts, seconds=seconds),
    }
    _end_run(state, simulation, run=run, arm=arm, t=t)
    return t + 0.5, files


def _end_run(state: State, simulation: Simulation, *, run: RunRow, arm: Arm, t: float) -> None:
    """Record settings and facts of a run, and its end."""
    settings = SETTINGS | dict(arm.settings) | dict(simulation.settings.get(arm.name, {}))
    declared = dict(arm.settings)
    state.add_settings(
        run.id,
        [(name, value, "configuration file" if name in declared else "default") for name, value in settings.items()],
    )
    facts = dict(simulation.facts.get(arm.name, {}))
    state.add_fingerprint(facts, run=run.id)
    facts |= simulation.facts_after.get(arm.name, {})
    state.add_fingerprint(facts, run=run.id, moment=Moment.AFTER)
    state.add_phase(run.id, Phase(name=PhaseName.STOP, start=t, end=t + 0.5))
    state.end_run(run.id, RunState.DONE, t + 0.5)


def _simulate_block(
    state: State,
    folder: Path,
    experiment: Experiment,
    simulation: Simulation,
    *,
    method: str,
    members: Sequence[tuple[Slot, Arm, float]],
    levels: Sequence[LoadLevel],
    started: float,
    rng: random.Random,
) -> tuple[float, dict[Path, _Query]]:
    """Record the runs of a block that share its time, each (slot, arm, noise); when they ended, and their files."""
    runs = {arm.name: state.begin_run(slot, started) for slot, arm, _ in members}
    t = started
    for phase, seconds in _BEFORE:
        for run in runs.values():
            state.add_phase(run.id, Phase(name=phase, start=t, end=t + seconds))
        t += seconds
    first, block = t, members[0][0].block
    is_doubled = bool(simulation.builds_up) and block % 2 == 0
    slices: dict[str, list[Slice]] = {name: [] for name in runs}
    rates: dict[str, list[float]] = {name: [] for name in runs}  # throughput of each slice
    for level in levels:
        begin = t
        steps = _steps(experiment, method, tuple(runs), block=block, level=level.index, doubled=is_doubled)
        for number, step in enumerate(steps):
            t += _SWITCH if method == "interleaved" else 0.0
            for place, name in enumerate(step.arms):
                noise = next(noise for _, arm, noise in members if arm.name == name)
                tps = simulation.tps.get(name, simulation.tps[_control(experiment)]) * math.sqrt(level.clients)
                speed = simulation.speeds[place] if simulation.speeds else 1.0
                gain = simulation.builds_up.get(name, 0.0) if is_doubled else 0.0
                rates[name].append(tps * noise * speed * math.exp(gain + rng.gauss(0, simulation.slice_sd)))
                slices[name].append(
                    Slice(level=level.index, number=number, started=t, counted=t + step.guard, ended=t + step.length)
                )
            t += step.length
        for run in runs.values():
            state.add_phase(run.id, Phase(name=PhaseName.MEASURE, start=begin, end=t, level=level.index))
    files: dict[Path, _Query] = {}
    for _, arm, _ in members:
        run = runs[arm.name]
        state.add_slices(run.id, slices[arm.name])
        path = layout.run_folder(folder, run.folder)
        path.mkdir(parents=True)
        files |= _slice_files(
            experiment,
            simulation,
            path=path,
            levels=levels,
            slices=slices[arm.name],
            rates=rates[arm.name],
            leak=simulation.leaks.get(arm.name, 0.0),
            start=first,
        )
        _end_run(state, simulation, run=run, arm=arm, t=t)
    return t + 0.5, files


def _steps(
    experiment: Experiment, method: str, arms: tuple[str, ...], *, block: int, level: int, doubled: bool
) -> tuple[Step, ...]:
    seconds, seed = experiment.workload.duration, f"{experiment.design.seed}/{block}"
    if method == "duet":
        length, seed = experiment.design.slice or DEFAULT_DUET_SLICE, turn_seed(experiment.design.seed, block, level)
        return pair_up(sorted(arms), seconds=seconds, slice_length=length, guard=DUET_GUARD, seed=seed)
    length = (experiment.design.slice or DEFAULT_SLICE) * (2 if doubled else 1)
    return interleave(arms, seconds=seconds, slice_length=length, guard=GUARD, seed=seed)


def _slice_files(
    experiment: Experiment,
    simulation: Simulation,
    *,
    path: Path,
    levels: Sequence[LoadLevel],
    slices: Sequence[Slice],
    rates: Sequence[float],
    leak: float,
    start: float,
) -> dict[Path, _Query]:
    scenarios = _scenarios(experiment)
    parts: list[tuple[int, int, int, str, int, float]] = []
    seconds: dict[tuple[int, int, str], list[tuple[int, float]]] = {}
    counted = {level.index: 0.0 for level in levels}
    clients = {level.index: level.clients for level in levels}
    for each, rate in zip(slices, rates, strict=True):
        for part in range(_PARTS):
            tps = rate * math.exp(leak * (part / (_PARTS - 1) - 0.5))
            latency = clients[each.level] / tps
            second = int(counted[each.level] + (part + 0.5) / _PARTS * each.seconds)
            for scenario in scenarios:
                count = round(tps * each.seconds / _PARTS / len(scenarios))
                parts.append((each.level, each.number, part, scenario, count, count * latency))
                seconds.setdefault((each.level, second, scenario), []).append((count, latency))
        counted[each.level] += each.seconds
    rows = []
    for (level, second, scenario), found in seconds.items():
        count = sum(number for number, _ in found)
        latency = sum(number * mean for number, mean in found) / max(1, count)
        rows.append(TransactionRow(level=level, second=second, scenario=scenario, count=count, latency=latency))
    polled = [(level, each.started + 0.05) for level in levels for each in slices if each.level == level.index]
    return {
        path / layout.TRANSACTIONS: _transactions(rows),
        path / layout.SLICES: _parts(parts),
        path / layout.SAMPLES: _shared_samples(simulation, slices, start=start),
        path / layout.WAITS: _waits(simulation.waits, polled, seconds=1),
    }


def _parts(rows: Sequence[tuple[object, ...]]) -> _Query:
    kinds = ("INTEGER", "INTEGER", "INTEGER", "VARCHAR", "BIGINT", "DOUBLE")
    names = ("level", "slice", "part", "scenario", "count", "latency_sum")
    select = ", ".join(f"unnest(?::{kind}[]) AS {name}" for kind, name in zip(kinds, names, strict=True))
    return f"SELECT {select}", [list(column) for column in zip(*rows, strict=True)]


def _shared_samples(simulation: Simulation, slices: Sequence[Slice], *, start: float) -> _Query:
    """Readings once per second, or as soon as the arm goes on. A server's counters grow only while it is at work."""
    query = f"""
        SELECT t, metric, object,
               base + rate * CASE WHEN regexp_matches(metric, '^(pg|backend_cpu|pgbench_cpu)[_.]')
                                  THEN own ELSE t - ? END AS value
        FROM (SELECT unnest(?::DOUBLE[]) AS t, unnest(?::DOUBLE[]) AS own), {_SAMPLED}
    """
    times: list[float] = [start]
    owns, own = [0.0], 0.0
    for each in slices:
        t = max(each.started + 0.001, times[-1] + 1)
        while t < each.ended:
            times.append(t)
            owns.append(own + t - each.started)
            t += 1
        own += each.ended - each.started
    times.append(slices[-1].ended + 1)
    owns.append(own)
    return query, [start, times, owns, *_sampled(simulation.counters, simulation.gauges)]


def _control(experiment: Experiment) -> str:
    return resolve_arms(experiment)[0].name


def _scenarios(experiment: Experiment) -> tuple[str, ...]:
    workload = experiment.workload
    return workload.scenario_names


def _histogram(count: int, mean: float) -> dict[int, int]:
    """Bucket to count of log-normal latencies, spread evenly over their quantiles."""
    median = mean / math.exp(_SIGMA**2 / 2)
    found: dict[int, int] = {}
    for index, z in enumerate(_QUANTILES):
        # Rounded so that the numbers add up to the count, with what is left spread over the whole distribution.
        number = (2 * (index + 1) * count + len(_QUANTILES)) // (2 * len(_QUANTILES))
        number -= (2 * index * count + len(_QUANTILES)) // (2 * len(_QUANTILES))
        if number:
            bucket = bucket_of(median * math.exp(_SIGMA * z) * 1e6)
            found[bucket] = found.get(bucket, 0) + number
    return found
