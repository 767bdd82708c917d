"""Progress on standard error: a live display on a terminal, plain lines elsewhere. A view of the engine's events."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.segment import Segment

from pgtrial.cli.live_text import Line, live_lines, progress_line
from pgtrial.engine.events import (
    BlockJudged,
    Event,
    HostRestored,
    LoadProgress,
    Observer,
    Preparing,
    RunEnded,
    RunStarted,
    Stopping,
)
from pgtrial.engine.live.view import LiveView
from pgtrial.engine.live.watch import Watch, watching
from pgtrial.model.run import RunState
from pgtrial.report.words import make_visible
from pgtrial.units import format_count

_PLAIN_INTERVAL = 10.0  # s between lines about a load that goes on, where there is no terminal


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
    return f"{head} {event.state}: {make_visible(event.reason)}"


def describe_restored(event: HostRestored) -> str:
    """One line about a change of the host that was not simply put back."""
    return f"{event.undone.outcome}: {make_visible(event.undone.text)}"


def describe_judged(event: BlockJudged) -> str:
    """One line about what the rule for stopping found."""
    return f"after block {event.block}: {event.text}"


@contextmanager
def show_progress(console: Console, *, quiet: bool = False, folder: Path | None = None) -> Iterator[Observer]:
    """Observer that draws on ``console`` (standard error).

    With a result ``folder`` it also shows what the folder tells while a run is at work, and keeps the same there for
    "pgtrial serve", also when it is ``quiet``.
    """
    if quiet:
        with watching(_draw_nothing, folder=folder) as watch:
            yield watch
    elif console.is_terminal and not console.is_dumb_terminal:
        with _live(console, folder) as observer:
            yield observer
    else:
        with watching(_draw_nothing, folder=folder) as watch:
            yield _Plain(console=console, watch=watch)


def _draw_nothing(_view: LiveView) -> None:
    """Nobody looks."""


@contextmanager
def _live(console: Console, folder: Path | None) -> Iterator[Observer]:
    """The watch's thread draws the display and the lines above it: the experiment waits for no terminal."""
    with Live(console=console, auto_refresh=False, transient=True) as live:
        display = _Display(console=console, live=live)
        try:
            with watching(display.draw, folder=folder) as watch:

                def observe(event: Event) -> None:
                    line = _describe(event)
                    if line is not None:
                        display.waiting.append(line)
                    watch(event)
                    if line is not None or isinstance(event, Stopping):
                        watch.hurry()

                yield observe
        finally:
            display.flush()


@dataclass(frozen=True, slots=True)
class _Lines:
    """Lines that fit already. Rich's own Text would be measured, broken and padded, which costs four times as much."""

    lines: Sequence[Line]

    def __rich_console__(self, console: Console, _options: ConsoleOptions) -> RenderResult:
        for number, line in enumerate(self.lines):
            if number:
                yield Segment.line()
            for text, style in line:
                yield Segment(text, console.get_style(style) if style else None)


@dataclass(slots=True, kw_only=True)
class _Display:
    """``waiting`` are (text, style) of lines that are to stand above the display."""

    console: Console
    live: Live
    waiting: deque[tuple[str, str]] = field(default_factory=deque)

    def draw(self, view: LiveView) -> None:
        self.flush()
        size = self.console.size
        ascii_only = not self.console.encoding.startswith("utf")
        lines = live_lines(view, width=size.width, height=max(1, size.height - 1), ascii_only=ascii_only)
        self.live.update(_Lines(lines), refresh=True)

    def flush(self) -> None:
        while self.waiting:
            text, style = self.waiting.popleft()
            self.console.print(text, style=style or None, markup=False, highlight=False)


def _describe(event: Event) -> tuple[str, str] | None:
    """(text, style) of the line that stays about an event, None for most."""
    match event:
        case RunEnded():
            return describe_run(event), "" if event.state is RunState.DONE else "yellow"
        case BlockJudged():
            return describe_judged(event), ""
        case HostRestored() if event.undone.text:
            return describe_restored(event), "yellow"
        case _:
            return None


@dataclass(slots=True, kw_only=True)
class _Plain:
    """Lines for a log file: each step and each run, and now and then the load that goes on."""

    console: Console
    watch: Watch
    said: float = 0.0

    def __call__(self, event: Event) -> None:
        line = _describe(event)
        if line is not None:  # before the estimate, which may take a moment
            self._say(line[0])
        self.watch(event)
        match event:
            case Preparing() | RunStarted() | Stopping():
                self._say(progress_line(self.watch.view()))
            case LoadProgress() if time.monotonic() - self.said >= _PLAIN_INTERVAL:
                self._say(progress_line(self.watch.view()))
            case _:
                pass

    def _say(self, text: str) -> None:
        self.said = time.monotonic()
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
