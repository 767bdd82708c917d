"""Simulated runs: what is recorded of them, and what their files are to contain."""

import math
import random
from collections.abc import Sequence
from pathlib import Path

from pgtrial.design.methods import turn_seed
from pgtrial.design.slices import WASHOUT, Step, duet_guard, interleave, pair_up
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import DEFAULT_DUET_SLICE, DEFAULT_SLICE, Experiment
from pgtrial.model.arm import Arm
from pgtrial.model.fingerprint import Moment
from pgtrial.model.run import LoadLevel, Phase, PhaseName, RunRow, RunState, Slice, Slot
from pgtrial.store import layout
from pgtrial.store.state import State
from support.files import (
    Query,
    TransactionRow,
    parts_query,
    samples_query,
    shared_samples_query,
    steal,
    transactions_query,
    waits_query,
)
from support.simulation import SETTINGS, Simulation

_BEFORE = ((PhaseName.RESTORE, 0.5), (PhaseName.START, 0.3), (PhaseName.WARMUP, 3.0), (PhaseName.CHECKPOINT, 0.2))
_SWITCH = 0.002  # s from the end of a slice to the start of the next
_PARTS = 4  # of the counted time of a slice


def order_seed(experiment: Experiment) -> int:
    """That of the file, or always the same one."""
    return 12 if experiment.design.seed is None else experiment.design.seed


def simulate_run(
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
) -> tuple[float, dict[Path, Query]]:
    """Record one run; when it ended, and what its files are to contain."""
    return fill_run(
        *(state, folder, experiment, simulation),
        arm=arm,
        run=state.begin_run(slot, started),
        levels=levels,
        noise=noise,
        stolen=stolen,
        started=started,
    )


def fill_run(
    state: State,
    folder: Path,
    experiment: Experiment,
    simulation: Simulation,
    *,
    arm: Arm,
    run: RunRow,
    levels: Sequence[LoadLevel],
    noise: float,
    stolen: float,
    started: float,
) -> tuple[float, dict[Path, Query]]:
    """As ``simulate_run``, of a run that was begun."""
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
        path / layout.TRANSACTIONS: transactions_query(transactions),
        path / layout.SAMPLES: samples_query(
            steal(simulation.counters, stolen), simulation.gauges, start=started + 1, end=t + 1
        ),
        path / layout.WAITS: waits_query(simulation.waits, starts, seconds=seconds),
    }
    _end_run(state, simulation, run=run, arm=arm, t=t)
    return t + 0.5, files


def _end_run(state: State, simulation: Simulation, *, run: RunRow, arm: Arm, t: float) -> None:
    """Record settings and facts of a run, and its end."""
    settings = SETTINGS | dict(arm.own_settings) | dict(simulation.settings.get(arm.name, {}))
    declared = dict(arm.own_settings)
    state.add_settings(
        run.id,
        [(name, value, "configuration file" if name in declared else "default") for name, value in settings.items()],
    )
    facts = {"machine/CPUs": "2", "kernel/release": "6.1.0"} | dict(simulation.facts.get(arm.name, {}))
    state.add_fingerprint(facts, run=run.id)
    facts |= simulation.facts_after.get(arm.name, {})
    state.add_fingerprint(facts, run=run.id, moment=Moment.AFTER)
    state.add_phase(run.id, Phase(name=PhaseName.STOP, start=t, end=t + 0.5))
    state.end_runs([run.id], RunState.DONE, t + 0.5)


def simulate_block(
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
) -> tuple[float, dict[Path, Query]]:
    """Record the runs of a block that share its time, each (slot, arm, noise); when they ended, and their files."""
    runs = {arm.name: state.begin_run(slot, started) for slot, arm, _ in members}
    t = started
    for phase, seconds in _BEFORE:
        for run in runs.values():
            state.add_phase(run.id, Phase(name=phase, start=t, end=t + seconds))
        t += seconds
    first, block = t, members[0][0].block
    is_doubled = bool(simulation.builds_up) and block % 2 == 0
    control = _control(experiment)
    slices: dict[str, list[Slice]] = {name: [] for name in runs}
    rates: dict[str, list[float]] = {name: [] for name in runs}  # throughput of each slice
    for level in levels:
        begin = t
        steps = _steps(experiment, method, tuple(runs), block=block, level=level.index, doubled=is_doubled)
        for number, step in enumerate(steps):
            t += _SWITCH if method == "interleaved" else 0.0
            for place, name in enumerate(step.arms):
                noise = next(noise for _, arm, noise in members if arm.name == name)
                tps = simulation.tps.get(name, simulation.tps[control]) * math.sqrt(level.clients)
                speed = simulation.speeds[place] if simulation.speeds else 1.0
                gain = simulation.builds_up.get(name, 0.0) if is_doubled else 0.0
                rates[name].append(tps * noise * speed * math.exp(gain + rng.gauss(0, simulation.slice_sd)))
                slices[name].append(
                    Slice(level=level.index, number=number, started=t, counted=t + step.guard, ended=t + step.length)
                )
            t += step.length
        for run in runs.values():
            state.add_phase(run.id, Phase(name=PhaseName.MEASURE, start=begin, end=t, level=level.index))
    files: dict[Path, Query] = {}
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
    seconds, seed = experiment.workload.duration, f"{order_seed(experiment)}/{block}"
    if method == "duet":
        length, seed = experiment.design.slice or DEFAULT_DUET_SLICE, turn_seed(order_seed(experiment), block, level)
        return pair_up(sorted(arms), seconds=seconds, slice_length=length, guard=duet_guard(length), seed=seed)
    length = (experiment.design.slice or DEFAULT_SLICE) * (2 if doubled else 1)
    return interleave(arms, seconds=seconds, slice_length=length, guard=WASHOUT * length, seed=seed)


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
) -> dict[Path, Query]:
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
    polled = [
        (level, each.started + min(0.05, (each.ended - each.started) / 2))
        for level in levels
        for each in slices
        if each.level == level.index
    ]
    return {
        path / layout.TRANSACTIONS: transactions_query(rows),
        path / layout.SLICES: parts_query(parts),
        path / layout.SAMPLES: shared_samples_query(simulation, slices, start=start),
        path / layout.WAITS: waits_query(simulation.waits, polled, seconds=1),
    }


def _control(experiment: Experiment) -> str:
    return resolve_arms(experiment)[0].name


def _scenarios(experiment: Experiment) -> tuple[str, ...]:
    workload = experiment.workload
    return workload.scenario_names
