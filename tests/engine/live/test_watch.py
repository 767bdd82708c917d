import contextlib
import threading
from pathlib import Path

import pytest

from pgtrial.engine.events import Event, LoadProgress, PhaseStarted, Preparing, RunEnded, RunStarted
from pgtrial.engine.live.view import LiveView, read_live
from pgtrial.engine.live.watch import Watch, watching
from pgtrial.model.run import LoadLevel, PhaseName, RunState
from pgtrial.store import layout
from pgtrial.store.state import State
from support import write_result_folder

PATIENCE = 30.0  # s


class Drawn:
    """Waits for a view that is as wanted."""

    def __init__(self) -> None:
        self.views: list[LiveView] = []
        self.changed = threading.Condition()

    def __call__(self, view: LiveView) -> None:
        with self.changed:
            self.views.append(view)
            self.changed.notify()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_result_folder(tmp_path / "growing", runs=9)


def events_of(folder: Path, number: int) -> list[Event]:
    """Those of a run, by its number in the schedule."""
    with contextlib.closing(State.open(folder)) as state:
        slots = state.slots()
    slot = slots[number - 1]
    return [
        RunStarted(slot=slot, arms=(slot.arm,), slots=len(slots), attempt=1, remaining=100.0),
        PhaseStarted(name=PhaseName.MEASURE, level=LoadLevel(index=0, clients=4), length=11.0),
        LoadProgress(tps=123.0, latency=0.01),
        RunEnded(slot=slot, state=RunState.DONE, reason="", seconds=12, not_load=2, tps=123.0),
    ]


def tell(watch: Watch, events: list[Event]) -> None:
    for event in events:
        watch(event)


def test_nothing_is_written_before_the_experiment_is_at_work(folder: Path) -> None:
    with watching(Drawn(), folder=folder):
        assert not (folder / layout.LIVE).exists()


def test_what_is_drawn_lies_in_the_folder_until_the_end(folder: Path) -> None:
    drawn = Drawn()
    with watching(drawn, folder=folder) as watch:
        watch(Preparing(step="loading"))
        with drawn.changed:
            assert drawn.changed.wait_for(lambda: bool(drawn.views), PATIENCE)
        assert read_live(folder) is not None
        assert [arm.name for arm in drawn.views[-1].arms] == ["on", "off", "placebo"]

    assert not (folder / layout.LIVE).exists()


def test_the_last_block_of_three_brings_an_estimate(folder: Path) -> None:
    with watching(Drawn(), folder=folder) as watch:
        tell(watch, events_of(folder, 8))
        assert watch.view().estimate is None  # its block is not over
        tell(watch, events_of(folder, 9))
        found = watch.view().estimate

    assert found is not None
    assert found.blocks == 3


def test_a_folder_that_cannot_be_read_does_not_stop_the_experiment(tmp_path: Path) -> None:
    with watching(Drawn(), folder=tmp_path / "none") as watch:
        watch(Preparing(step="loading"))

        assert watch.view().step == "loading"


def test_runs_of_a_folder_without_files_do_not_stop_the_experiment(folder: Path) -> None:
    for path in (folder / "runs").rglob("*.parquet"):
        path.unlink()
    with watching(Drawn(), folder=folder) as watch:
        tell(watch, events_of(folder, 9))

        assert watch.view().estimate is None


def test_without_a_folder_there_is_still_something_to_see() -> None:
    with watching(Drawn()) as watch:
        watch(Preparing(step="loading"))

        assert watch.view().step == "loading"


def test_the_end_of_a_load_is_looked_at_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgtrial.engine.live.pace.next_pause", lambda _cost: 3600.0)
    drawn = Drawn()
    with watching(drawn, folder=folder) as watch:
        watch(Preparing(step="waiting"))
        with drawn.changed:
            assert drawn.changed.wait_for(lambda: len(drawn.views) == 1, PATIENCE)
        watch(PhaseStarted(name=PhaseName.STOP))
        with drawn.changed:
            assert drawn.changed.wait_for(lambda: len(drawn.views) == 2, PATIENCE)
