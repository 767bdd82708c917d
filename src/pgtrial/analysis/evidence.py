"""The evidence in a result folder, read once and immutable from then on."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgtrial.design.levels import over_arms
from pgtrial.design.methods import MethodChoice
from pgtrial.design.plan import Plan, plan_looks
from pgtrial.errors import SpecError, StoreError
from pgtrial.experiment_file.experiment import DesignTable, Experiment
from pgtrial.findings.caveat import CaveatFinding
from pgtrial.knobs.fio import FIO
from pgtrial.model.arm import Arm, Role
from pgtrial.model.caveat import STOPPED_FOR_HARM
from pgtrial.model.fingerprint import Moment
from pgtrial.model.metrics import LOADS, LoadMetrics
from pgtrial.model.rules import RULES, Rules
from pgtrial.model.run import LoadLevel, Phase, PhaseName, RunRow, RunState, Slot
from pgtrial.stats.sequential import nominal_confidence, precision_confidence
from pgtrial.store import layout
from pgtrial.store.plans import lacks_record, plan_of
from pgtrial.store.rows import damaged
from pgtrial.store.state import STOPPED, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """``t`` in seconds since the epoch; ``run`` is the run's id."""

    run: int
    t: float
    kind: str
    data: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The record of one experiment. ``valid`` are the runs that count: finished, in the order they were made."""

    folder: Path
    experiment: Experiment
    meta: Mapping[str, str]
    arms: tuple[Arm, ...]
    levels: tuple[LoadLevel, ...]
    slots: tuple[Slot, ...]
    method: MethodChoice
    seed: int
    rules: Rules
    attempts_before: int | None  # at the same claim, as it was known when this one began; None: not known
    runs: tuple[RunRow, ...]
    valid: tuple[RunRow, ...]
    events: tuple[Event, ...]
    settings: Mapping[int, Mapping[str, tuple[str, str]]]
    fingerprints: Mapping[int | None, Mapping[str, str]]  # before the load of each run; None: of the whole
    fingerprints_after: Mapping[int | None, Mapping[str, str]]
    caveats: tuple[tuple[int | None, CaveatFinding], ...]
    is_provisional: bool  # blocks are still to come, and no rule for stopping ended it
    hosts: Mapping[int, str] = field(default_factory=dict)  # by block; empty where the experiment has one host
    settled: Mapping[str, int] = field(default_factory=dict)  # last block of arms that were decided before the others
    attempts_since: float | None = None  # the first attempt in the list that has counted them: s since the epoch
    created: float | None = None  # when claim and plan were recorded, as the record has it: s since the epoch
    lacks_record: bool = False  # of claim and rules, which the pgtrial that made it kept

    @property
    def control(self) -> Arm | None:
        return next((arm for arm in self.arms if arm.role is Role.CONTROL), None)

    @property
    def candidates(self) -> tuple[Arm, ...]:
        return tuple(arm for arm in self.arms if arm.role is Role.CANDIDATE)

    @property
    def placebo(self) -> Arm | None:
        return next((arm for arm in self.arms if arm.role is Role.PLACEBO), None)

    @property
    def sliced(self) -> frozenset[int]:
        """Runs whose arms took turns: their measured time is put together of slices."""
        return frozenset(run.id for run in self.valid if run.slices)

    @property
    def hypothesis_arm(self) -> str:
        """Name of the arm that the claim is about; "" when the schedule was never made."""
        named = self.experiment.hypothesis.arm
        return named or next((arm.name for arm in self.arms if arm.role is not Role.CONTROL), "")

    @property
    def scenarios(self) -> tuple[str, ...]:
        """Names of the scenarios, or of the jobs of a load on files, as the experiment declares them."""
        return self.experiment.workload.scenario_names

    @property
    def load(self) -> LoadMetrics:
        """What its kind of load is measured by."""
        return LOADS[self.experiment.workload.kind]

    @property
    def is_on_files(self) -> bool:
        """Whether the load is on files, and there is no server."""
        return self.experiment.workload.kind == FIO

    def request_sizes(self, arm: str) -> Mapping[str, int]:
        """Bytes of a request of each job of a load on files; {} of a load on a server."""
        found = next((each for each in self.arms if each.name == arm), None)
        if found is None or not self.is_on_files:
            return {}
        return {job.name: job.block_size for job in found.jobs}

    @property
    def margin(self) -> float:
        return self.experiment.hypothesis.margin

    @property
    def bounds(self) -> tuple[float, float]:
        """Logarithms of the ratios between which an effect does not matter."""
        return self.rules.log_bounds(self.margin)

    @property
    def confidence(self) -> float:
        """From which all others are derived: the declared one, or that of another attempt."""
        declared = self.experiment.hypothesis.confidence
        return self.rules.confidence(declared, attempts_before=self.attempts_before)

    def confidence_of_more(self, confidence: float) -> float:
        """By which more blocks are decided, if these are by ``confidence``: with the last of them done, in another
        attempt.
        """
        if self.is_provisional or self.attempts_before is None:
            return confidence
        declared = self.experiment.hypothesis.confidence
        another = self.rules.confidence(declared, attempts_before=self.attempts_before + 1)
        return 1 - (1 - confidence) * (1 - another) / (1 - self.confidence)

    @property
    def comparisons(self) -> int:
        """Number of arms whose intervals hold at the same time."""
        return max(1, len(self.candidates))

    @property
    def is_duet(self) -> bool:
        """Whether arms run at the same time."""
        return self.method.method == "duet"

    @property
    def takes_turns(self) -> bool:
        """Whether one arm's slices lie between another's."""
        return not self.is_duet and any(run.slices for run in self.valid)

    @property
    def stands_still(self) -> bool:
        """Whether a server is stopped while another arm has its turn; the times that it takes go on by the clock."""
        return self.method.method == "interleaved" and self.experiment.target.kind != "server"

    @property
    def is_soak(self) -> bool:
        """Whether each arm's runs are windows of one long load."""
        return self.experiment.design.soak is not None

    @property
    def is_spread(self) -> bool:
        """Whether blocks ran on several hosts, which are then what an effect is judged by."""
        return len(set(self.hosts.values())) > 1

    def hosts_of(self, blocks: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.hosts[block] for block in blocks)

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of blocks at which the rule for stopping looks, the last one the cap; () without a rule.

        Its levels are those of independent blocks, which blocks of one host are not: over hosts there is no look.
        """
        if self.is_spread:
            return ()
        return plan_looks(self.experiment.design, blocks=len({slot.block for slot in self.slots})) if self.slots else ()

    def confidence_at(self, blocks: int) -> float | None:
        """Confidence to compare ``blocks`` blocks with, so that ``confidence`` holds for every end that is possible.

        None where the rule for stopping allows no interval yet.
        """
        return confidence_due(
            *(self.experiment.design, self.looks),
            confidence=self.confidence,
            blocks=blocks,
            comparisons=self.comparisons,
        )

    def fact(self, name: str, run: int) -> str:
        """What was recorded as "group/name" before a run, else of the experiment as a whole; "" where it was not."""
        own = self.fingerprints.get(run, {}).get(name)
        return self.fingerprints.get(None, {}).get(name, "") if own is None else own

    def runs_of(self, arm: str) -> tuple[RunRow, ...]:
        """Valid runs of an arm by block."""
        return tuple(sorted((run for run in self.valid if run.slot.arm == arm), key=lambda run: run.slot.block))

    def pairs(self, arm: str) -> tuple[tuple[RunRow, RunRow], ...]:
        """(the control's run, the arm's run) of every block that has a valid run of both, by block.

        Windows of a soak are no blocks, so it has none.
        """
        if self.is_soak or self.control is None:
            return ()
        first = {run.slot.block: run for run in self.runs_of(self.control.name)}
        return tuple((first[run.slot.block], run) for run in self.runs_of(arm) if run.slot.block in first)

    def complete_blocks(self) -> tuple[int, ...]:
        """Blocks in which every arm has a valid run that was still to be run there."""
        blocks: dict[int, set[str]] = {}
        for run in self.valid:
            blocks.setdefault(run.slot.block, set()).add(run.slot.arm)
        last = [self.settled.get(arm.name, math.inf) for arm in self.arms]
        return tuple(
            sorted(block for block, arms in blocks.items() if len(arms) == sum(block <= each for each in last))
        )


def confidence_due(
    design: DesignTable, looks: Sequence[int], *, confidence: float, blocks: int, comparisons: int
) -> float | None:
    """Confidence to compare ``blocks`` blocks with, given the experiment's and the looks of the rule for stopping;
    () without one.

    None where the rule allows no interval yet.
    """
    if len(looks) < 2:
        return confidence
    if design.stop == "precision":
        return precision_confidence(confidence)
    return nominal_confidence(looks, blocks=blocks, confidence=confidence, comparisons=comparisons)


def measured(run: RunRow) -> tuple[Phase, ...]:
    """The measured windows of a run, one per load level, in order of time."""
    return tuple(phase for phase in run.phases if phase.name is PhaseName.MEASURE and phase.level is not None)


def read_evidence(folder: Path, plan: Plan | None = None, *, rules: int | None = None) -> Evidence:
    """Read the record of a result folder; StoreError when it is not one, unreadable, or of a newer format.

    Whoever has the folder's ``plan`` already spares reading it again. ``rules``: version of those to judge by.
    """
    state = State.open(folder)
    try:
        plan = plan or plan_of(state, folder)
        if rules is not None and rules < plan.rules.version:
            raise SpecError(
                f"rules {rules} are older than those of the experiment, {plan.rules.version}",
                hint="A verdict that was to be reached by stricter rules is not reached by weaker ones.",
            )
        if rules is not None:
            plan = replace(plan, rules=RULES[rules])
        runs, meta, hosts = state.runs(), state.meta(), state.block_hosts()
        homeless = {run.slot.block for run in runs if run.state is RunState.DONE}.difference(hosts) if hosts else ()
        if homeless:
            raise StoreError(
                f'"{folder}" is damaged: it does not say on which host block {min(homeless)} was run',
                hint="Restore it from a copy.",
            )
        if plan.method.method == "blocks" and any(run.slices for run in runs):
            raise StoreError(
                f'"{folder}" is damaged: it has slices of runs that do not take turns',
                hint="Restore it from a copy.",
            )
        is_switched = plan.method.method == "switchback"
        caveats = state.caveats()
        # What was censored by the arm itself is never done: the block in which it was at its worst is missing.
        was_harmed = any(caveat.code == STOPPED_FOR_HARM for _, caveat in caveats)
        # The record may say that a rule ended it; the plan has to have one. What a guardrail ends is harm, as above.
        has_ended = STOPPED in meta and plan.experiment.design.stop != "never"
        is_open = not has_ended and _is_unfinished(plan.slots, runs)
        runs = tuple(replace(run, is_switched=is_switched) for run in runs)
        return Evidence(
            folder=folder,
            experiment=plan.experiment,
            meta=meta,
            arms=plan.arms,
            levels=tuple(over_arms(plan.arms, level) for level in plan.levels),
            slots=plan.slots,
            method=plan.method,
            seed=plan.seed,
            rules=plan.rules,
            attempts_before=plan.attempts_before,
            attempts_since=plan.attempts_since,
            runs=runs,
            valid=tuple(run for run in runs if run.state is RunState.DONE),
            events=tuple(
                Event(run=run.id, t=t, kind=kind, data=data)
                for run in runs
                for t, kind, data in state.events(run=run.id)
            ),
            settings=state.settings(),
            fingerprints=state.fingerprints(),
            fingerprints_after=state.fingerprints(Moment.AFTER),
            caveats=caveats,
            is_provisional=was_harmed or (plan.rules.is_provisional and is_open),
            hosts=hosts,
            settled=plan.settled,
            created=_created(meta, folder),
            lacks_record=lacks_record(state, folder),
        )
    finally:
        state.close()


def _created(meta: Mapping[str, str], folder: Path) -> float | None:
    try:
        return float(meta["created"]) if "created" in meta else None
    except ValueError as err:
        raise damaged(folder / layout.STATE, f"table meta: {err}") from err


def _is_unfinished(slots: Sequence[Slot], runs: Sequence[RunRow]) -> bool:
    """Whether some slot has neither a valid run nor one that failed by itself."""
    ended = {run.slot.number for run in runs if run.state in (RunState.DONE, RunState.INVALID)}
    return any(slot.number not in ended for slot in slots)
