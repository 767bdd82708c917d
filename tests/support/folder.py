"""The result folder of a simulated experiment."""

import math
import random
import tomllib
from itertools import groupby
from pathlib import Path

from pgtrial.analysis.evidence import measured, read_evidence
from pgtrial.design.levels import load_levels
from pgtrial.design.method_case import Method
from pgtrial.design.methods import MethodChoice
from pgtrial.design.plan import Plan, plan_schedule
from pgtrial.design.slices import WASHOUT, duet_guard
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import DEFAULT_BLOCKS, DEFAULT_DUET_SLICE, DEFAULT_SLICE, Experiment
from pgtrial.model.arm import Role
from pgtrial.model.fingerprint import Moment
from pgtrial.model.rules import CURRENT, RULES
from pgtrial.store import layout
from pgtrial.store.plans import write_plan
from pgtrial.store.state import State
from support.files import Query, write_all
from support.runs import order_seed, simulate_block, simulate_run
from support.simulation import EXPERIMENT, Simulation

_STARTED = 1_767_225_600.0
_MOST_STOLEN = 0.9  # of the CPU time of a run


def write_result_folder(
    folder: Path,
    *,
    text: str = EXPERIMENT,
    simulation: Simulation | None = None,
    runs: int | None = None,
    rules: int = CURRENT.version,
    attempts_before: int | None = None,
) -> Path:
    """Write the result folder of a simulated experiment into a new folder; the folder.

    ``text`` is the experiment file, whose method is kept ("auto" becomes "interleaved"). ``runs`` limits the runs that
    are made, as if the experiment had been stopped. ``rules``: version of those that it is judged by.
    ``attempts_before``: at the same claim.
    """
    simulation = simulation or Simulation()
    experiment = Experiment.model_validate(tomllib.loads(text))
    arms, levels = resolve_arms(experiment), load_levels(experiment.workload)
    seed = order_seed(experiment)
    slots = plan_schedule(arms, blocks=experiment.design.blocks or DEFAULT_BLOCKS, seed=seed)
    folder.mkdir(parents=True)
    (folder / layout.EXPERIMENT).write_text(text, encoding="utf-8")
    method: Method = "interleaved" if experiment.design.method == "auto" else experiment.design.method
    length = experiment.design.slice or (DEFAULT_DUET_SLICE if method == "duet" else DEFAULT_SLICE)
    choice = MethodChoice(
        method=method,
        reason="Every setting takes effect at once." if experiment.design.method == "auto" else "",
        guard=duet_guard(length) if method == "duet" else WASHOUT * length,
        slice=length,
        doubled=bool(simulation.builds_up),
    )
    state = State.create(folder, durable=False)  # hundreds of small transactions, which can be made again
    write_plan(
        state,
        Plan(
            experiment=experiment,
            arms=arms,
            levels=levels,
            slots=slots,
            method=choice,
            seed=seed,
            rules=RULES[rules],
            attempts_before=attempts_before,
        ),
    )
    state.add_fingerprint({"PostgreSQL/version": "15.7"})
    rng = random.Random(simulation.seed)
    blocks = {slot.block: rng.gauss(0, simulation.block_sd) for slot in slots}
    t = _STARTED
    candidates = {arm.name for arm in arms if arm.role is Role.CANDIDATE}
    files: dict[Path, Query] = {}
    for block, together in groupby(slots if runs is None else slots[:runs], key=lambda slot: slot.block):
        host = simulation.hosts[(block - 1) % len(simulation.hosts)] if simulation.hosts else ""
        gain = simulation.host_gains.get(host, 0.0)
        if host:
            state.assign_block(block, host)
        members = [
            (
                slot,
                next(arm for arm in arms if arm.name == slot.arm),
                math.exp(blocks[block] + rng.gauss(0, simulation.run_sd) + gain * (slot.arm in candidates)),
            )
            for slot in together
        ]
        if method == "blocks":
            for slot, arm, noise in members:
                stolen = min(_MOST_STOLEN, rng.expovariate(1 / simulation.steal)) if simulation.steal else 0.0
                t, written = simulate_run(
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
            t, written = simulate_block(
                state, folder, experiment, simulation, method=method, members=members, levels=levels, started=t, rng=rng
            )
            files |= written
    for run in state.runs() if simulation.host_facts else ():
        facts = simulation.host_facts.get(state.block_hosts().get(run.slot.block, ""), {})
        for moment in Moment:
            state.add_fingerprint(facts, run=run.id, moment=moment)
    state.close()
    write_all(files)
    return folder


def first_file(folder: Path, name: str) -> Path:
    """A file of the first run."""
    return min(folder.glob(f"{layout.RUNS}/*/{name}"))


def first_window(folder: Path) -> tuple[float, float]:
    """When measuring began in the first valid run, of one load level, and when it ended: seconds since the epoch."""
    (phase,) = measured(read_evidence(folder).valid[0])
    return phase.start, phase.end
