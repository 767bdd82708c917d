import asyncio
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pgtrial.engine.collect import InvalidRunError
from pgtrial.engine.events import RunEnded
from pgtrial.engine.sampler.parse import ReadingError
from pgtrial.engine.schedule import Schedule
from pgtrial.errors import PgTrialError, RestoreError, WorkloadError, WrittenError
from pgtrial.model.run import RunRow, RunState
from pgtrial.store import layout
from support import EXPERIMENT
from support.schedules import make_schedule


@pytest.fixture
def runs() -> list[RunRow]:
    """Filled with all runs after the attempt."""
    return []


@pytest.fixture
def attempt(tmp_path, monkeypatch, runs) -> Callable[[BaseException], tuple[RunState, str, list[Any]]]:
    """State and reason of a run during which something happened, and what was told of its end."""

    def make(happens: BaseException) -> tuple[RunState, str, list[Any]]:
        async def execute(self: Schedule, rows: object, *, most_disturbed: float | None) -> Mapping[str, float | None]:
            raise happens

        monkeypatch.setattr(Schedule, "_execute", execute)
        monkeypatch.setattr(Schedule, "_seconds_per_run", lambda self: 1.0)
        told: list[Any] = []
        schedule = make_schedule(tomllib.loads(EXPERIMENT), tmp_path, tell=told.append)
        state = schedule.state
        bug = not isinstance(happens, PgTrialError | KeyboardInterrupt)
        with pytest.raises(WorkloadError if bug else type(happens)):
            asyncio.run(schedule.run(schedule.planned.slots[:1]))
        *_, run = state.runs()
        runs.extend(state.runs())
        state.close()
        return run.state, run.reason, [event for event in told if isinstance(event, RunEnded)]

    return make


def test_a_run_that_was_stopped_says_so(attempt) -> None:
    state, reason, (ended,) = attempt(KeyboardInterrupt())

    assert (state, reason) == (RunState.INTERRUPTED, "stopped on request")
    assert ended.reason == reason


@pytest.mark.parametrize(
    ("bug", "words"),
    [
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
        (
            ReadingError("sessions", ValueError("'backend_type' is not in list")),
            "ReadingError: cannot understand what sessions said: 'backend_type' is not in list",
        ),
    ],
    ids=["anywhere", "reading"],
)
def test_a_bug_makes_a_run_invalid_and_keeps_its_traceback_and_the_run_is_repeated(
    attempt, runs, tmp_path, bug, words
) -> None:
    state, reason, (*_, ended) = attempt(bug)

    assert state is RunState.INVALID
    assert reason == f"this is a bug in pgtrial: {words}"
    assert ended.reason == reason
    assert [run.attempt for run in runs] == [1, 2, 3]
    for run in runs:
        assert "in execute\n" in (layout.run_folder(tmp_path, run.folder) / layout.TRACEBACK).read_text()


def test_the_traceback_of_a_bug_lies_beside_what_its_run_has_left(tmp_path, monkeypatch) -> None:
    async def execute(self: Schedule, rows: list[RunRow], *, most_disturbed: float | None) -> Mapping[str, float]:
        folder = layout.run_folder(tmp_path, rows[0].folder)
        folder.mkdir(parents=True)
        (folder / layout.SERVER_LOG).touch()
        raise ZeroDivisionError

    monkeypatch.setattr(Schedule, "_execute", execute)
    monkeypatch.setattr(Schedule, "_seconds_per_run", lambda self: 1.0)
    schedule = make_schedule(tomllib.loads(EXPERIMENT), tmp_path)
    with pytest.raises(WorkloadError):
        asyncio.run(schedule.run(schedule.planned.slots[:1]))
    folders = [layout.run_folder(tmp_path, run.folder) for run in schedule.state.runs()]
    schedule.state.close()

    assert [(folder / layout.TRACEBACK).is_file() for folder in folders] == [True] * 3


@pytest.mark.parametrize(
    "error",
    [
        RestoreError("vm.swappiness is not as it was"),
        WrittenError('the load has written to database "shop", which is read-only'),
    ],
    ids=["what cannot be put back", "what a load has written"],
)
def test_what_a_repeat_would_make_worse_ends_the_experiment_at_once(attempt, error) -> None:
    state, reason, ended = attempt(error)

    assert (state, reason) == (RunState.INVALID, error.message)
    assert len(ended) == 1


@pytest.mark.parametrize("valid_from", [1, 2, 3])
def test_a_run_that_was_disturbed_is_repeated_and_the_last_repeat_counts(tmp_path, monkeypatch, valid_from) -> None:
    limits: list[float | None] = []

    async def execute(self: Schedule, rows: object, *, most_disturbed: float | None) -> Mapping[str, float | None]:
        limits.append(most_disturbed)
        if most_disturbed is not None and len(limits) < valid_from:
            raise InvalidRunError("other programs and the hypervisor took 40.0 % of the CPU time")
        return {}

    monkeypatch.setattr(Schedule, "_execute", execute)
    monkeypatch.setattr(Schedule, "_seconds_per_run", lambda self: 1.0)
    content = tomllib.loads(EXPERIMENT)
    content.setdefault("design", {}).update(disturbed="30%", repeats=2)
    schedule = make_schedule(content, tmp_path)
    asyncio.run(schedule.run(schedule.planned.slots[:1]))

    states = [run.state for run in schedule.state.runs()]
    schedule.state.close()
    assert states == [RunState.INVALID] * (valid_from - 1) + [RunState.DONE]
    assert limits == [0.3, 0.3, None][:valid_from]
