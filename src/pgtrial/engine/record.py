"""Record what happens during runs in state.sqlite, and what all runs of an experiment have in common.

The plans of the load's statements are read from each run's server after the load, so that arms can be compared.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from pgtrial.collectors.sessions import shown_query
from pgtrial.engine.collect import InvalidRunError
from pgtrial.engine.events import Observer, PhaseStarted
from pgtrial.engine.fingerprint.limits import read_limits
from pgtrial.engine.fingerprint.read import Machine, read_machine, read_server
from pgtrial.engine.loads.base import Load
from pgtrial.engine.loads.machines import LoadMachine
from pgtrial.engine.sampler.control import find_server
from pgtrial.engine.target.base import RunningServer, find_unset
from pgtrial.errors import TargetError
from pgtrial.experiment_file.workload_table import WorkloadTable
from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.hosts.base import Host
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.model.arm import Arm
from pgtrial.model.change import JournalEntry, Outcome, Undone
from pgtrial.model.fingerprint import Moment
from pgtrial.model.load_sessions import beginning_of_names
from pgtrial.model.run import PLANS, LoadLevel, Phase, PhaseName, RunRow
from pgtrial.postgres.plans import read_shapes
from pgtrial.postgres.settings import Setting
from pgtrial.safe_text import without_literals
from pgtrial.store.state import State
from pgtrial.workloads.statements import planned_statements


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The load, and what is remembered of the target."""

    workload: WorkloadTable
    load: Load
    levels: tuple[LoadLevel, ...]
    seed: int
    client_host: Host  # where the load generator runs: this machine
    baseline: Mapping[str, Setting]  # the control's settings, for the record of changes
    mark: str  # in the environment of every process of the experiment
    machine: str  # from which the load comes
    sysctls: tuple[str, ...]  # kernel settings that some arm sets
    restore: Literal["each-run", "each-block", "never"]
    machines: tuple[LoadMachine, ...] = ()  # from which the load comes, if not from this one
    watches_pages: bool = False  # some arm sets which pages memory is made of

    @property
    def measured_time(self) -> float:
        """Measured seconds of one run."""
        return len(self.levels) * self.workload.duration

    def beginning_of_names(self, arm: str) -> str:
        """How the names of the sessions of an arm's load begin on the server."""
        return beginning_of_names(self.machine, self.mark, arm)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecorder:
    """Records what happens to ``runs``: to one, or to all of a group."""

    context: RunContext
    state: State
    runs: tuple[RunRow, ...]
    tell: Observer

    @contextmanager
    def phase(self, name: PhaseName, *, length: float | None = None) -> Iterator[None]:
        """Time a phase of all runs; it is recorded when it ends without an error."""
        self.tell(PhaseStarted(name=name, length=length))
        start = time.time()
        yield
        self.add_phase(Phase(name=name, start=start, end=time.time()))

    def add_phase(self, phase: Phase) -> None:
        for run in self.runs:
            self.state.add_phase(run.id, phase)

    def measuring(self, level: LoadLevel, length: float) -> None:
        self.tell(PhaseStarted(name=PhaseName.MEASURE, level=level, length=length))

    def add_event(self, kind: str, **data: object) -> None:
        for run in self.runs:
            self.state.add_event(time.time(), kind, run=run.id, **data)

    async def add_server(self, arm: Arm, server: RunningServer) -> None:
        """Record the settings of a single run, as made and as read back, and facts of its server.

        Raises InvalidRunError if the arm declares anything else: its numbers would say nothing of that.
        """
        (run,) = self.runs
        now = time.time()
        for name, value in arm.own_settings.items():
            before = self.context.baseline.get(name.lower())
            self.state.add_setting_change(
                now, run=run.id, knob=POSTGRESQL, name=name, old=before.shown if before else None, new=value
            )
        for entry in server.changes:
            change = entry.change
            self.state.add_setting_change(
                entry.t, run=run.id, knob=change.knob, name=change.name, old=change.old_text, new=change.new_text
            )
        self.state.add_settings(run.id, [(s.name, s.shown, s.source) for s in server.settings.values()])
        if server.is_there:
            self.state.add_fingerprint(await read_server(server.conninfo(server.database)), run=run.id)
        if unset := find_unset(arm, server):
            raise InvalidRunError(f'arm "{arm.name}" declares {", ".join(unset)}, which nothing has set and read back')

    def add_machine(
        self,
        host: Host,
        directories: Sequence[tuple[str, ...]],
        *,
        server: int | None = None,
        since: Machine | None = None,
    ) -> Machine:
        """Record the state of the servers' host before the load, or after it with ``since``. ``directories`` are those
        of each run's server, whose control groups have limits of their own. ``server`` is the first process of one that
        was there before.
        """
        machine = read_machine(
            host.ops,
            directories=[path for own in directories for path in own],
            server=server,
            mark=self.context.mark,
            sysctls=self.context.sysctls,
            since=since,
        )
        moment = Moment.BEFORE if since is None else Moment.AFTER
        for run, own in zip(self.runs, directories, strict=True):
            limits = read_limits(host.ops, pid=server or find_server(host.ops, own)) if len(self.runs) > 1 else {}
            self.state.add_fingerprint({**machine.facts, **limits}, run=run.id, moment=moment)
        return machine

    def add_restored(self, restored: Iterable[tuple[JournalEntry, Undone]]) -> None:
        """Record how the host's changes were undone; values that somebody else changed meanwhile become caveats."""
        for entry, undone in restored:
            self.add_event(
                "restored",
                knob=entry.change.knob,
                name=entry.change.name,
                outcome=undone.outcome,
                text=undone.text,
            )
            if undone.outcome is Outcome.CHANGED:
                self.add_caveats([caveat("changed-meanwhile", what=undone.text)])

    def add_caveats(self, caveats: Iterable[CaveatFinding]) -> None:
        for noted in caveats:
            for run in self.runs:
                self.state.add_caveat(noted, run=run.id)


async def record_plans(record: RunRecorder, server: RunningServer, scripts: Mapping[str, str]) -> None:
    """Record an event with the plans of the statements in each scenario's script, by the scenario's name.

    Their literals are left out, as they are of sampled sessions.
    What cannot be planned has none, and a server that does not answer leaves a reason: no run is invalid for it.
    """
    found = [(name, statement) for name, script in scripts.items() for statement in planned_statements(script)]
    if not found or not server.is_there:
        return
    statements = [(statement.prepared, statement.parameters) for _, statement in found]
    try:
        shapes: Sequence[str | None] = await read_shapes(server.conninfo(server.database), statements)
    except TargetError as err:
        record.add_event(PLANS, statements=[], reason=str(err))
        return
    record.add_event(
        PLANS,
        statements=[
            {
                "scenario": name,
                "statement": " ".join(without_literals(statement.text).split()),
                "shown": [shown_query(statement.prepared)],  # how sampled sessions show it
                "shape": shape,
            }
            for (name, statement), shape in zip(found, shapes, strict=True)
            if shape is not None
        ],
        reason="",
    )
