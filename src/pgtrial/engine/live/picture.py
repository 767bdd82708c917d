"""Fold events into the live view."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pgtrial.engine.events import (
    EstimateUpdated,
    Event,
    LatencySampled,
    LoadProgress,
    PhaseStarted,
    Preparing,
    RunEnded,
    RunStarted,
    StopRequested,
    TurnsProgress,
    WaitsSampled,
)
from pgtrial.engine.live.view import ArmView, LiveView
from pgtrial.model.arm import Arm, Role
from pgtrial.model.run import PhaseName, RunState

KEPT = 120  # figures of an arm; the widest terminal shows fewer
_RECENT = 10  # seconds of load whose mean stands beside them
_NEARLY = 0.99  # of a run that takes longer than the others did

Figures = deque[float | None]


def _figures() -> Figures:
    return deque(maxlen=KEPT)


@dataclass(slots=True, kw_only=True)
class _ArmPicture:
    role: Role = Role.CANDIDATE
    runs_done: int = 0
    tps: Figures = field(default_factory=_figures)
    p95: Figures = field(default_factory=_figures)
    waits: tuple[tuple[str, float], ...] = ()
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))  # tps, of this load level
    is_level_begun: bool = False  # its load level has a figure of turns, which the next one replaces

    @property
    def tps_now(self) -> float | None:
        if self.recent:
            return _shorten(math.fsum(self.recent) / len(self.recent))
        return next((value for value in reversed(self.tps) if value is not None), None)

    @property
    def p95_now(self) -> float | None:
        return next((value for value in reversed(self.p95) if value is not None), None)


@dataclass(slots=True, kw_only=True)
class LivePicture:
    """The state of the running experiment. ``clock`` measures lengths of time, ``now`` gives the time of day."""

    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    run: RunStarted | None = None
    run_began: float = 0.0
    phase: PhaseStarted | None = None
    phase_began: float = 0.0
    tps: float | None = None
    step: str = ""
    stopping: bool = False
    estimate: EstimateUpdated | None = None
    arms: dict[str, _ArmPicture] = field(default_factory=dict)

    def introduce(self, arms: Iterable[Arm], *, done: Mapping[str, int]) -> None:
        """The arms in the experiment's order, with the runs done before; others appear with their first run."""
        for arm in arms:
            picture = self._arm(arm.name)
            picture.role, picture.runs_done = arm.role, done.get(arm.name, 0)

    def see(self, event: Event) -> None:
        now = self.clock()
        match event:
            case Preparing():
                self.step = event.step
            case RunStarted():
                self.run, self.run_began, self.phase, self.tps = event, now, None, None
                for name in event.arms:
                    _part(self._arm(name).tps)
                    _part(self._arm(name).p95)
            case PhaseStarted():
                self.phase, self.phase_began, self.tps = event, now, None
                for arm in self.arms.values():
                    arm.is_level_begun = False
                    arm.recent.clear()
            case LoadProgress():
                self.tps = event.tps
                if self.run is not None and self.phase is not None and self.phase.name is PhaseName.MEASURE:
                    arm = self._arm(self.run.arms[0])
                    arm.tps.append(_shorten(event.tps))
                    arm.recent.append(event.tps)
            case TurnsProgress():
                arm = self._arm(event.arm)
                if arm.is_level_begun:
                    arm.tps.pop()
                    arm.recent.pop()
                arm.tps.append(_shorten(event.tps))
                arm.recent.append(event.tps)
                arm.is_level_begun = True
            case LatencySampled():
                self._arm(event.arm).p95.append(_shorten(event.p95))
            case WaitsSampled():
                self._arm(event.arm).waits = tuple((label, round(sessions, 3)) for label, sessions in event.waits)
            case EstimateUpdated():
                self.estimate = event
            case RunEnded():
                self.phase = self.tps = None
                if event.state is RunState.DONE:
                    self._arm(event.slot.arm).runs_done += 1
            case StopRequested():
                self.stopping = True

    def view(self) -> LiveView:
        now, run, phase = self.clock(), self.run, self.phase
        spent = now - self.run_began
        return LiveView(
            t=self.now(),
            state="stopping" if self.stopping else "preparing" if run is None else "running",
            step=self.step,
            run=run.slot.number if run else None,
            last_run=run.slot.number + len(run.arms) - 1 if run else None,
            runs=run.slots if run else 0,
            block=run.slot.block if run else 0,
            arms_at_work=run.arms if run else (),
            attempt=run.attempt if run else 1,
            phase=str(phase.name) if phase else "",
            level=phase.level.label if phase and phase.level else "",
            phase_spent=now - self.phase_began if phase else 0.0,
            phase_length=phase.length if phase else None,
            tps=self.tps,
            remaining=max(0.0, run.remaining - spent) if run else None,
            share_done=_share_done(run, spent) if run else 0.0,
            arms=tuple(
                ArmView(
                    name=name,
                    role=arm.role,
                    is_at_work=run is not None and name in run.arms,
                    runs_done=arm.runs_done,
                    tps_now=arm.tps_now,
                    p95_now=arm.p95_now,
                    tps=tuple(arm.tps),
                    p95=tuple(arm.p95),
                    waits=arm.waits,
                )
                for name, arm in self.arms.items()
            ),
            estimate=self.estimate,
        )

    def _arm(self, name: str) -> _ArmPicture:
        return self.arms.setdefault(name, _ArmPicture())


def _part(figures: Figures) -> None:
    """A gap between two runs, where there is something to part."""
    if figures and figures[-1] is not None:
        figures.append(None)


def _shorten(value: float) -> float | None:
    """Round to four significant digits, more than a screen shows; None for values that are not finite."""
    return float(f"{value:.4g}") if math.isfinite(value) else None


def _share_done(run: RunStarted, spent: float) -> float:
    """Share of the schedule; a current run counts by its time against the planned time of a run."""
    before, arms = run.slot.number - 1, len(run.arms)
    planned = run.remaining / max(1, run.slots - before) * arms
    part = min(_NEARLY, spent / planned) if planned > 0 else 0.0
    return min(1.0, (before + part * arms) / run.slots) if run.slots else 0.0
