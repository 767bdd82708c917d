import io
import re
from pathlib import Path

import pytest

from pgtrial.cli.console import ProgressConsole, show_progress
from pgtrial.engine.events import (
    Event,
    LoadProgress,
    PhaseStarted,
    Preparing,
    RunEnded,
    RunStarted,
    StopRequested,
)
from pgtrial.model.run import LoadLevel, PhaseName, RunState, Slot
from pgtrial.store import layout
from support import write_result_folder

SLOT = Slot(number=1, block=1, position=1, arm="on")
EVENTS: tuple[Event, ...] = (
    Preparing(step="loading tables"),
    RunStarted(slot=SLOT, arms=("on",), slots=6, attempt=1, remaining=60.0),
    PhaseStarted(name=PhaseName.MEASURE, level=LoadLevel(index=0, clients=4), length=11.0),
    LoadProgress(tps=1234.0, latency=0.003),
    RunEnded(slot=SLOT, state=RunState.DONE, reason="", seconds=12.0, not_load=2.0, tps=1234.0),
    RunEnded(slot=SLOT, state=RunState.INVALID, reason="it \x1b[2Jdied", seconds=12.0, not_load=2.0, tps=None),
    StopRequested(),
)
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9]")


def shown(console: ProgressConsole, *, quiet: bool = False, folder: Path | None = None) -> str:
    with show_progress(console, quiet=quiet, folder=folder) as observer:
        for event in EVENTS:
            observer(event)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def terminal(**options: object) -> ProgressConsole:
    return ProgressConsole(file=io.StringIO(), force_terminal=True, width=80, height=24, **options)


def test_elsewhere_than_on_a_terminal_there_are_plain_lines() -> None:
    text = shown(ProgressConsole(file=io.StringIO()))

    assert text.splitlines() == [
        "preparing: loading tables",
        "run 1 of 6 · block 1 · arm on · 1 min left",
        "run   1  block  1  on                 1.23 k tps   12.0 s, 2.0 s of it not load",
        "run   1  block  1  on               invalid: it \\x1b[2Jdied",
        "stopping: ending the load and the server, removing the data …",
    ]


def test_quiet_is_silent() -> None:
    assert shown(ProgressConsole(file=io.StringIO()), quiet=True) == ""
    assert shown(terminal(), quiet=True) == ""


def test_a_terminal_keeps_the_lines_about_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    text = shown(terminal())

    assert "1.23 k tps   12.0 s, 2.0 s of it not load" in text
    assert "\\x1b[2Jdied" in text
    assert text.endswith("\x1b[?25h") or "\x1b[?25h" in text  # the cursor is back


def test_no_colour_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert COLOUR.search(shown(terminal(color_system="256")))

    monkeypatch.setenv("NO_COLOR", "1")
    assert not COLOUR.search(shown(terminal(color_system="256")))


def test_a_terminal_that_can_do_nothing_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    text = shown(terminal())

    assert "run 1 of 6" in text
    assert "\x1b" not in text


def test_an_interrupt_loses_no_line_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    folder, console = write_result_folder(tmp_path / "going", runs=1), terminal()

    def run() -> None:
        with show_progress(console, folder=folder) as observer:
            for event in EVENTS:
                observer(event)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()

    assert isinstance(console.file, io.StringIO)
    assert "1.23 k tps   12.0 s" in console.file.getvalue()
    assert not (folder / layout.LIVE).exists()


def test_a_reader_that_goes_away_does_not_end_the_experiment() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

        flush = io.StringIO.flush

    console = ProgressConsole(file=Closed(), force_terminal=True, width=80)
    with show_progress(console) as observer:
        for event in EVENTS:
            observer(event)
