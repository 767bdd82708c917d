"""Progress on standard error: a live display on a terminal, plain lines elsewhere. A view of the engine's events."""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.segment import Segment

from pgtrial.engine.events import (
    BlockJudged,
    Event,
    HostRestored,
    LoadProgress,
    Observer,
    Preparing,
    RunEnded,
    RunStarted,
    StopRequested,
    Waiting,
)
from pgtrial.engine.live.view import ArmView, LiveView, progress_parts, time_left
from pgtrial.engine.live.watch import Watch, watching
from pgtrial.model.arm import Role
from pgtrial.model.run import RunState
from pgtrial.report.summary_words import running_effect_text
from pgtrial.report.text import wrap_lines
from pgtrial.safe_text import make_visible
from pgtrial.units import format_count, format_duration, format_percent

# The live display as lines of styled text: a pure function of what there is to see and of the terminal's width.


Line = tuple[tuple[str, str], ...]  # pieces of text, each with rich's name of its style

NARROWEST = 40  # characters; below that lines are cut
_BARS = "▁▂▃▄▅▆▇█"
_PLAIN_BARS = "_.-:=+*#"
_LONGEST_NAME = 16
_LONGEST_NARROW_NAME = 8
_NARROW = 60  # characters; below that latencies have no sparkline
_WIDEST_BAR = 40
_SEPARATOR = " · "
_STYLES = {Role.CONTROL: "blue", Role.CANDIDATE: "yellow", Role.PLACEBO: "bright_black"}
# Where a terminal has no more than ASCII.
_PLAIN = str.maketrans({"·": "-", "█": "#", "░": ".", "▸": ">", "–": "-", "−": "-", "µ": "u", "…": ".", "×": "x"})


def progress_line(view: LiveView) -> str:
    """Run k of n, block, arm, phase, current tps, time left."""
    return _SEPARATOR.join(filter(None, [*_parts(view), time_left(view)]))


def live_lines(view: LiveView, *, width: int, height: int | None = None, ascii_only: bool = False) -> list[Line]:
    """At most ``height`` lines of at most ``width`` characters; drops the last lines first, but keeps the estimate."""
    width = max(width, NARROWEST)
    head: list[Line] = [((text, "bold" if not number else ""),) for number, text in enumerate(_wrap_parts(view, width))]
    if view.run is not None and view.state != "stopping":
        head.append(_bar(view, width))
    table, waits = _table(view, width, ascii_only=ascii_only), _waits(view, width)
    estimate = _estimate(view, width, ascii_only=ascii_only)
    lines = [*head, *table, *waits, *estimate]
    if height is not None and len(lines) > height:
        lines = [*[*head, *table, *waits][: max(1, height - len(estimate))], *estimate][: max(1, height)]
    return [_plain(line) for line in lines] if ascii_only else lines


def sparkline(values: Sequence[float | None], *, width: int, top: float, ascii_only: bool = False) -> str:
    """The last ``width`` values, from zero to ``top``; a blank where there is none. As wide as ``width``."""
    bars = _PLAIN_BARS if ascii_only else _BARS
    shown = values[-width:] if width else ()
    cells = (
        " " if value is None or top <= 0 else bars[min(len(bars) - 1, int(value / top * len(bars)))] for value in shown
    )
    return "".join(cells).ljust(width)


def _parts(view: LiveView) -> list[str]:
    return [make_visible(part) for part in progress_parts(view)]


def _wrap_parts(view: LiveView, width: int) -> list[str]:
    """Arrange the parts in lines, breaking a part that is too long between words."""
    lines: list[str] = []
    for part in _parts(view):
        if lines and len(lines[-1]) + len(_SEPARATOR) + len(part) <= width:
            lines[-1] += _SEPARATOR + part
        else:
            lines += wrap_lines(part, width) or [""]
    return [_cut(line, width) for line in lines]


def _bar(view: LiveView, width: int) -> Line:
    told = _SEPARATOR.join(filter(None, [format_percent(view.share_done), time_left(view)]))
    size = max(0, min(_WIDEST_BAR, width - len(told) - 1))
    full = round(size * view.share_done)
    return (("█" * full, "green"), ("░" * (size - full), "dim"), (f" {told}"[: width - size], ""))


def _table(view: LiveView, width: int, *, ascii_only: bool) -> list[Line]:
    """A line for each arm under a head: throughput and latency as figures, and how they went, all on one scale."""
    if not any(arm.tps or arm.p95 for arm in view.arms):
        return []
    is_narrow = width < _NARROW
    names = [make_visible(arm.name) for arm in view.arms]
    named = min(max(map(len, names)), _LONGEST_NARROW_NAME if is_narrow else _LONGEST_NAME)
    named = max(named, len("arm"))
    tps = ["–" if arm.tps_now is None else format_count(arm.tps_now) for arm in view.arms]
    p95 = ["–" if arm.p95_now is None else format_duration(arm.p95_now) for arm in view.arms]
    wide_tps, wide_p95 = (max(len(head), *map(len, cells)) for head, cells in (("tps", tps), ("p95", p95)))
    # Two blanks before each of the three columns, one before a sparkline.
    room = max(0, width - (2 + named + 2 + wide_tps + 1 + 2 + wide_p95 + (0 if is_narrow else 1)))
    of_tps, of_p95 = (room, 0) if is_narrow else (room - room // 2, room // 2)
    top_tps, top_p95 = _top((arm.tps for arm in view.arms), of_tps), _top((arm.p95 for arm in view.arms), of_p95)
    head = f"  {'arm':<{named}}  {'tps':>{wide_tps}} {'':<{of_tps}}  {'p95':>{wide_p95}}"
    lines: list[Line] = [((head, "dim"),)]
    for arm, name, tps_cell, p95_cell in zip(view.arms, names, tps, p95, strict=True):
        style = _STYLES[arm.role]
        lines.append(
            (
                ("▸ " if arm.is_at_work else "  ", "bold"),
                (f"{_cut(name, named):<{named}}", style),
                (f"  {tps_cell:>{wide_tps}} ", ""),
                (sparkline(arm.tps, width=of_tps, top=top_tps, ascii_only=ascii_only), style),
                (f"  {p95_cell:>{wide_p95}}", ""),
                (" " if of_p95 else "", ""),
                (sparkline(arm.p95, width=of_p95, top=top_p95, ascii_only=ascii_only), style),
            )
        )
    return lines


def _top(figures: Iterable[Sequence[float | None]], width: int) -> float:
    """The largest value shown for any arm."""
    return max((value for each in figures for value in each[-width:] if width and value is not None), default=0.0)


def _waits(view: LiveView, width: int) -> list[Line]:
    """A line for each arm whose sessions were seen: what they were found at, as many kinds as there is room for."""
    seen = [arm for arm in view.arms if arm.waits]
    names = {arm.name: make_visible(arm.name) for arm in seen}
    named = min(max(map(len, names.values()), default=0), _LONGEST_NARROW_NAME if width < _NARROW else _LONGEST_NAME)
    lines: list[Line] = []
    for number, arm in enumerate(seen):
        head = f"{'waits' if not number else '':<5}  "
        name = f"{_cut(names[arm.name], named):<{named}}  "
        lines.append(((head, "dim"), (name, _STYLES[arm.role]), (_wait_text(arm, width - len(head) - len(name)), "")))
    return lines


def _wait_text(arm: ArmView, width: int) -> str:
    total = sum(sessions for _, sessions in arm.waits)
    text = ""
    for label, sessions in arm.waits:
        item = f"{make_visible(label)} {round(100 * sessions / total) if total else 0} %"
        longer = f"{text}{_SEPARATOR}{item}" if text else _cut(item, width)
        if len(longer) > width:
            break
        text = longer
    return text


def _estimate(view: LiveView, width: int, *, ascii_only: bool) -> list[Line]:
    if view.estimate is None:
        return []
    first, indent = "so far  ", " " * 8
    text = running_effect_text(**asdict(view.estimate))
    if ascii_only:
        text = text.replace("±", "+/-")
    lines = wrap_lines(text, width, first=first, indent=indent)
    return [
        ((line[: len(first)], "dim"), (_cut(line[len(first) :], width - len(first)), "bold" if not number else ""))
        for number, line in enumerate(lines)
    ]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def _plain(line: Line) -> Line:
    return tuple((text.translate(_PLAIN).encode("ascii", "replace").decode(), style) for text, style in line)


_PLAIN_INTERVAL = 10.0  # s between lines about a load that goes on, where there is no terminal


class ProgressConsole(Console):
    """A console whose reader may go away: the experiment continues silently, and its result is in its folder."""

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
    """One line about a result of the stopping rule."""
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
    """Observer that ignores all events."""


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
                    if line is not None or isinstance(event, StopRequested):
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
    """``waiting`` holds (text, style) of lines to print above the display."""

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
            self.console.print(make_visible(text), style=style or None, markup=False, highlight=False)


def _describe(event: Event) -> tuple[str, str] | None:
    """(text, style) of the permanent line for an event; None for most events."""
    match event:
        case RunEnded():
            return describe_run(event), "" if event.state is RunState.DONE else "yellow"
        case BlockJudged():
            return describe_judged(event), ""
        case HostRestored() if event.undone.text:
            return describe_restored(event), "yellow"
        case Waiting():
            return event.text, "yellow"
        case _:
            return None


@dataclass(slots=True, kw_only=True)
class _Plain:
    """Lines for a log file: each step, each run, and now and then the current load."""

    console: Console
    watch: Watch
    said: float = 0.0

    def __call__(self, event: Event) -> None:
        line = _describe(event)
        if line is not None:  # before the estimate, which may take a moment
            self._say(line[0])
        self.watch(event)
        match event:
            case Preparing() | RunStarted() | StopRequested():
                self._say(progress_line(self.watch.view()))
            case LoadProgress() if time.monotonic() - self.said >= _PLAIN_INTERVAL:
                self._say(progress_line(self.watch.view()))
            case _:
                pass

    def _say(self, text: str) -> None:
        self.said = time.monotonic()
        self.console.print(make_visible(text), markup=False, highlight=False, soft_wrap=True)
