"""What the raw files of the runs at work tell before they are whole: latencies, waits, and the throughput of turns."""

from dataclasses import dataclass, field
from pathlib import Path

from pgtrial.design.duration import guard_time
from pgtrial.design.methods import MethodChoice
from pgtrial.engine.events import (
    Event,
    LatencySampled,
    PhaseStarted,
    RunEnded,
    RunStarted,
    TurnsProgress,
    WaitsSampled,
)
from pgtrial.engine.live.log_sample import LatencyWindow, LogSampler, Part, bytes_per_line
from pgtrial.engine.live.spool_waits import SpoolReader
from pgtrial.model.run import LoadLevel, PhaseName, RunRow, RunState, Slot
from pgtrial.store import layout

# As engine/collect.py makes them in the folder of a run.
LOGS = "pgbench"
SPOOL = "spool"
_LEAST = 5.0  # s of a load level before a throughput of turns is told
_ROUNDS = 4  # and turns of every arm


@dataclass(slots=True, kw_only=True)
class _Watched:
    """The run of an arm at work. ``base`` is (time, bytes of logs) from which its throughput is counted."""

    folder: Path
    spool: SpoolReader
    log: LogSampler | None = None
    latencies: LatencyWindow = field(default_factory=LatencyWindow)
    base: tuple[float, int] | None = None
    line: float | None = None  # bytes of one in the log, as last seen


@dataclass(slots=True, kw_only=True)
class Follower:
    """Follows the runs of an experiment: ``see`` every event of it, and ``look`` now and then; times in seconds.

    Where arms take turns, their servers stand still in between. A transaction that was under way then seems to have
    taken as long as that; such latencies are left out. Throughput is that of the arm's own time, of which every arm
    has the same part.
    """

    folder: Path
    choice: MethodChoice
    _runs: dict[str, _Watched] = field(default_factory=dict, init=False)
    _block: int = field(default=1, init=False)
    _begin: float = field(default=0.0, init=False)  # of the load level, after the time in which sessions connect

    def see(self, event: Event, now: float) -> None:
        match event:
            case RunStarted():
                self._block = event.slot.block
                self._runs = {arm: self._watch(event, place) for place, arm in enumerate(event.arms)}
            case PhaseStarted(name=PhaseName.MEASURE, level=LoadLevel() as level):
                self._begin = now + guard_time(level)
                for run in self._runs.values():
                    run.log = LogSampler(folder=run.folder / LOGS, level=level.index)
                    run.latencies = LatencyWindow(limit=self._shortest_standstill())
                    run.base = None
            case PhaseStarted():
                for run in self._runs.values():
                    run.log = None
            case RunEnded():
                self._runs = {}

    def look(self, now: float) -> list[Event]:
        """What is new since the last look. KeyError, ValueError where the sampler's file is not what it should be."""
        found: list[Event] = []
        for arm, run in self._runs.items():
            if run.log is not None:
                parts = run.log.look()
                run.latencies.add(parts)
                tps, p95 = self._throughput(run, run.log, parts, now), run.latencies.take()
                found += [TurnsProgress(arm=arm, tps=tps)] if tps is not None else []
                found += [LatencySampled(arm=arm, p95=p95)] if p95 is not None else []
            waits = run.spool.look()
            found += [WaitsSampled(arm=arm, waits=waits)] if waits else []
        return found

    def _watch(self, event: RunStarted, place: int) -> _Watched:
        """The run of an arm; the slots of runs that share their time follow each other."""
        first = event.slot
        slot = Slot(number=first.number + place, block=first.block, position=place + 1, arm=event.arms[place])
        run = RunRow(
            id=0, slot=slot, attempt=event.attempt, state=RunState.RUNNING, started=None, ended=None, reason=""
        )
        folder = layout.run_folder(self.folder, run.folder)
        return _Watched(folder=folder, spool=SpoolReader(folder=folder / SPOOL))

    def _shortest_standstill(self) -> float | None:
        """Seconds; None where no server stands still."""
        return self.choice.slice_in(self._block) if self.choice.method == "interleaved" else None

    def _throughput(self, run: _Watched, log: LogSampler, parts: tuple[Part, ...], now: float) -> float | None:
        """Transactions per second of the arm's own time since the level began; None where the load itself tells it."""
        run.line = bytes_per_line(parts) or run.line
        if len(self._runs) < 2 or now < self._begin:
            return None
        if run.base is None:
            run.base = (now, log.size)
            return None
        began, size = run.base
        turns = len(self._runs) if self.choice.method == "interleaved" else 1
        least = max(_LEAST, _ROUNDS * turns * self.choice.slice_in(self._block))
        if run.line is None or now - began < least:
            return None
        return (log.size - size) / run.line / ((now - began) / turns)
