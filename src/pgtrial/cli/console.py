"""Progress on standard error: a live line on a terminal, plain lines elsewhere. A view of the engine's events."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from pgtrial.engine.events import (
    BlockJudged,
    Event,
    HostRestored,
    LoadProgress,
    Observer,
    PhaseStarted,
    Preparing,
    RunEnded,
    RunStarted,
    Stopping,
)
from pgtrial.model.run import RunState
from pgtrial.units import format_count, format_duration

_PLAIN_INTERVAL = 10.0  # s between lines about a load that goes on, where there is no terminal


@dataclass(slots=True, kw_only=True)
class Progress:
    """What is known of the running experiment, and how it reads in one line."""

    clock: Any = time.monotonic
    run: RunStarted | None = None
    run_began: float = 0.0
    phase: PhaseStarted | None = None
    phase_began: float = 0.0
    load: LoadProgress | None = None
    preparing: str = ""
    stopping: bool = False

    def see(self, event: Event) -> None:
        now = self.clock()
        match event:
            case Preparing():
                self.preparing = event.step
            case RunStarted():
                self.run, self.run_began, self.phase, self.load = event, now, None, None
            case PhaseStarted():
                self.phase, self.phase_began, self.load = event, now, None
            case LoadProgress():
                self.load = event
            case RunEnded():
                self.phase = self.load = None
            case Stopping():
                self.stopping = True

    def line(self) -> str:
        """Run k of n, block, arm, phase, current tps, time left."""
        if self.stopping:
            return "stopping: ending the load and the server, removing the data …"
        if self.run is None:
            return f"preparing: {self.preparing}"
        now, slot = self.clock(), self.run.slot
        arms, last = self.run.arms, slot.number + len(self.run.arms) - 1
        runs = f"run {slot.number}" if len(arms) == 1 else f"runs {slot.number} to {last}"
        who = f"arm{'' if len(arms) == 1 else 's'} {', '.join(arms)}"
        parts = [f"{runs} of {self.run.slots}", f"block {slot.block}", who]
        if self.run.attempt > 1:
            parts.append(f"repeat {self.run.attempt - 1}")
        if self.phase is not None:
            parts.append(self._phase(now))
        if self.load is not None:
            parts.append(f"{format_count(self.load.tps)} tps")
        left = max(0.0, self.run.remaining - (now - self.run_began))
        parts.append(f"{format_duration(round(left))} left")
        return " · ".join(parts)

    def _phase(self, now: float) -> str:
        assert self.phase is not None  # the caller has looked
        text = str(self.phase.name)
        if self.phase.level is not None:
            text += f" {self.phase.level.label}"
        if self.phase.length is not None:
            text += f" {min(now - self.phase_began, self.phase.length):.0f}/{self.phase.length:.0f} s"
        return text


class ProgressConsole(Console):
    """A console whose reader may go away: the experiment goes on without a word, and its result is in its folder."""

    def on_broken_pipe(self) -> None:
        """Be quiet from now on. Rich itself would end the program here, in the middle of a run."""
        self.quiet = True


def describe_run(event: RunEnded) -> str:
    """One line about a run that has ended."""
    slot = event.slot
    head = f"run {slot.number:>3}  block {slot.block:>2}  {slot.arm:<16}"
    spent = f"{event.seconds:.1f} s, {event.not_load:.1f} s of it not load"
    if event.state is RunState.DONE:
        return f"{head} {format_count(event.tps) if event.tps is not None else '–':>8} tps   {spent}"
    return f"{head} {event.state}: {event.reason}"


def describe_restored(event: HostRestored) -> str:
    """One line about a change of the host that was not simply put back."""
    return f"{event.undone.outcome}: {event.undone.text}"


def describe_judged(event: BlockJudged) -> str:
    """One line about what the rule for stopping found."""
    return f"after block {event.block}: {event.text}"


@contextmanager
def show_progress(console: Console, *, quiet: bool = False) -> Iterator[Observer]:
    """Observer that draws on ``console`` (standard error)."""
    if quiet:
        yield lambda _event: None
    elif console.is_terminal:
        with _live(console) as observer:
            yield observer
    else:
        yield _Plain(console=console)


@contextmanager
def _live(console: Console) -> Iterator[Observer]:
    progress = Progress()

    class _Line:
        def __rich__(self) -> Text:
            return Text(progress.line(), overflow="ellipsis", no_wrap=True)

    with Live(_Line(), console=console, refresh_per_second=4, transient=True):

        def observe(event: Event) -> None:
            progress.see(event)
            if isinstance(event, RunEnded):
                style = "" if event.state is RunState.DONE else "[yellow]"
                console.print(style + escape(describe_run(event)), highlight=False)
            if isinstance(event, BlockJudged):
                console.print(escape(describe_judged(event)), highlight=False)
            if isinstance(event, HostRestored) and event.undone.text:
                console.print("[yellow]" + escape(describe_restored(event)), highlight=False)

        yield observe


@dataclass(slots=True, kw_only=True)
class _Plain:
    """Lines for a log file: each step and each run, and now and then the load that goes on."""

    console: Console
    progress: Progress = field(default_factory=Progress)
    said: float = 0.0

    def __call__(self, event: Event) -> None:
        self.progress.see(event)
        match event:
            case RunEnded():
                self._say(describe_run(event))
            case BlockJudged():
                self._say(describe_judged(event))
            case HostRestored() if event.undone.text:
                self._say(describe_restored(event))
            case Preparing() | RunStarted() | Stopping():
                self._say(self.progress.line())
            case LoadProgress() if time.monotonic() - self.said >= _PLAIN_INTERVAL:
                self._say(self.progress.line())
            case _:
                pass

    def _say(self, text: str) -> None:
        self.said = time.monotonic()
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
