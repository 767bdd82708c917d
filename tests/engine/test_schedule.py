import asyncio
import errno
import os
import tomllib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from pgtrial.engine.collect import InvalidRunError
from pgtrial.engine.events import RunEnded
from pgtrial.engine.guardrails import Guard, ServerHealth
from pgtrial.engine.sampler.parse import ReadingError
from pgtrial.engine.schedule import Schedule
from pgtrial.errors import (
    ConnectError,
    HarmError,
    LostHostError,
    PgTrialError,
    RestoreError,
    SettingError,
    WorkloadError,
    WrittenError,
)
from pgtrial.experiment_file.guardrails_table import GuardrailsTable
from pgtrial.model.caveat import Severity
from pgtrial.model.run import RunRow, RunState
from pgtrial.store import layout
from pgtrial.store.belongings import Belongings, Made
from pgtrial.store.state import STOPPED
from support import EXPERIMENT
from support.schedules import failing, make_schedule


@pytest.fixture
def runs() -> list[RunRow]:
    """Filled with all runs after the attempt."""
    return []


@pytest.fixture
def attempt(tmp_path, runs) -> Callable[[BaseException], tuple[RunState, str, list[Any]]]:
    """State and reason of a run during which something happened, and what was told of its end."""

    def make(happens: BaseException) -> tuple[RunState, str, list[Any]]:
        told: list[Any] = []
        schedule = make_schedule(tomllib.loads(EXPERIMENT), tmp_path, does=failing(happens), tell=told.append)
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


@pytest.mark.parametrize("happens", [WorkloadError("the log is cut off"), InvalidRunError("the log is cut off")])
@pytest.mark.parametrize(("free", "is_full"), [(1 << 20, True), (1 << 30, False)])
def test_what_fails_on_a_full_disk_is_said_to_be_on_one(tmp_path, monkeypatch, happens, free, is_full) -> None:
    schedule = make_schedule(tomllib.loads(EXPERIMENT), tmp_path, does=failing(happens))
    monkeypatch.setattr(schedule.target.host.ops, "space", lambda path: (1 << 40, free))
    Belongings.of(tmp_path).add_directory(Made(path=tmp_path / "pgtrial-0123abcd", host=schedule.target.host.name))
    with pytest.raises(WorkloadError) as caught:
        asyncio.run(schedule.run(schedule.planned.slots[:1]))
    schedule.state.close()

    assert "the log is cut off" in caught.value.message
    assert (f"is full ({os.strerror(errno.ENOSPC)})" in caught.value.message) is is_full


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
        assert "in does\n" in (layout.run_folder(tmp_path, run.folder) / layout.TRACEBACK).read_text()


def test_the_traceback_of_a_bug_lies_beside_what_its_run_has_left(tmp_path) -> None:
    async def does(rows: Sequence[RunRow], _most_disturbed: float | None) -> None:
        folder = layout.run_folder(tmp_path, rows[0].folder)
        folder.mkdir(parents=True)
        (folder / layout.SERVER_LOG).touch()
        raise ZeroDivisionError

    schedule = make_schedule(tomllib.loads(EXPERIMENT), tmp_path, does=does)
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


@dataclass
class SwitchedServer:
    """Whether it has been switched, and can be put back."""

    has_switched: bool = True
    problem: PgTrialError | None = None
    asked: int = 0

    async def put_back(self) -> None:
        self.asked += 1
        if self.problem is not None:
            raise self.problem


@pytest.fixture
def guarded(tmp_path) -> Iterator[Callable[..., Schedule]]:
    """A schedule on a server that others use, of whose runs each does the same."""
    made = []

    def make(happens: Callable[[Guard], Awaitable[None]], server: SwitchedServer, **hooks: Any) -> Schedule:
        async def does(_rows: object, _most_disturbed: float | None) -> None:
            assert schedule.guard is not None
            await happens(schedule.guard)

        async def ask() -> ServerHealth:
            return ServerHealth(may_see=True, standbys=(), lag=None, committed=0, rolled_back=0, active=0)

        schedule = make_schedule(tomllib.loads(EXPERIMENT) | hooks, tmp_path, does=does)
        schedule.guard = Guard(
            table=GuardrailsTable(), arms=tuple(schedule.arms), board=server, ask=ask, state=schedule.state
        )
        made.append(schedule)
        return schedule

    yield make
    for schedule in made:
        schedule.state.close()


def failing_there(error: BaseException) -> Callable[[Guard], Awaitable[None]]:
    async def happens(guard: Guard) -> None:
        raise error

    return happens


def masked(error: BaseException) -> Callable[[Guard], Awaitable[None]]:
    """A breach, on top of which something else fails."""

    async def happens(guard: Guard) -> None:
        with suppress(PgTrialError):
            await guard.stop("a guardrail was breached: it is slow")
        raise error

    return happens


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (failing_there(ConnectError("cannot connect to the server", detail="refused")), "cannot connect to the server"),
        (failing_there(SettingError("somebody else has changed postgresql.auto.conf")), "somebody else has changed"),
        (failing_there(WorkloadError("the load failed")), "the load failed"),
        (failing_there(LostHostError("the connection is lost")), "the connection is lost"),
        (masked(ConnectError("cannot connect to the server")), "it is slow"),
        (masked(InvalidRunError("the load ended early")), "it is slow"),
        (masked(ZeroDivisionError()), "it is slow"),
    ],
)
def test_what_fails_on_a_switched_server_is_not_repeated_and_not_resumed(guarded, happens, why) -> None:
    server = SwitchedServer()
    schedule = guarded(happens, server)
    with pytest.raises(HarmError, match=why):
        asyncio.run(schedule.run(schedule.planned.slots[:2]))
    runs, meta, ((_, caveat),) = schedule.state.runs(), schedule.state.meta(), schedule.state.caveats()

    assert [(run.state, run.attempt) for run in runs] == [(RunState.INVALID, 1)]
    assert why in meta[STOPPED]
    assert (caveat.code, caveat.severity) == ("stopped-for-harm", Severity.WARNING)
    assert server.asked


def test_what_fails_before_anything_was_switched_is_repeated(guarded) -> None:
    schedule = guarded(failing_there(ConnectError("cannot connect to the server")), SwitchedServer(has_switched=False))
    with pytest.raises(WorkloadError, match="was invalid 3 times"):
        asyncio.run(schedule.run(schedule.planned.slots[:1]))

    assert STOPPED not in schedule.state.meta()


def test_a_breach_is_not_resumed_though_nothing_could_be_put_back(guarded) -> None:
    server = SwitchedServer(problem=RestoreError("the server does not answer"))
    schedule = guarded(masked(RestoreError("the server does not answer")), server)
    with pytest.raises(RestoreError):
        asyncio.run(schedule.run(schedule.planned.slots[:2]))

    assert "it is slow" in schedule.state.meta()[STOPPED]
    assert [run.attempt for run in schedule.state.runs()] == [1]


def test_a_hook_that_fails_after_a_breach_does_not_hide_it(guarded) -> None:
    hook = {"hooks": {"after_run": ["false"]}}
    schedule = guarded(masked(HarmError("a guardrail was breached: it is slow")), SwitchedServer(), **hook)
    with pytest.raises(HarmError, match="it is slow"):
        asyncio.run(schedule.run(schedule.planned.slots[:2]))

    assert [run.attempt for run in schedule.state.runs()] == [1]


def test_a_host_that_is_lost_says_nothing_of_the_arm_and_is_not_tried_again(tmp_path) -> None:
    lost = LostHostError('lost the connection to "ssh://a"')
    schedule = make_schedule(tomllib.loads(EXPERIMENT), tmp_path, does=failing(lost))
    with pytest.raises(WorkloadError, match='was broken off: lost the connection to "ssh://a"') as caught:
        asyncio.run(schedule.run(schedule.planned.slots[:1]))
    (run,) = schedule.state.runs()
    schedule.state.close()

    assert run.state is RunState.INTERRUPTED
    assert isinstance(caught.value.__cause__, ConnectError)  # as which a fleet knows that the host may return


@pytest.mark.parametrize("valid_from", [1, 2, 3])
def test_a_run_that_was_disturbed_is_repeated_and_the_last_repeat_counts(tmp_path, valid_from) -> None:
    limits: list[float | None] = []

    async def does(_rows: object, most_disturbed: float | None) -> None:
        limits.append(most_disturbed)
        if most_disturbed is not None and len(limits) < valid_from:
            raise InvalidRunError("other programs and the hypervisor took 40.0 % of the CPU time")

    content = tomllib.loads(EXPERIMENT)
    content.setdefault("design", {}).update(disturbed="30%", repeats=2)
    schedule = make_schedule(content, tmp_path, does=does)
    asyncio.run(schedule.run(schedule.planned.slots[:1]))

    states = [run.state for run in schedule.state.runs()]
    schedule.state.close()
    assert states == [RunState.INVALID] * (valid_from - 1) + [RunState.DONE]
    assert limits == [0.3, 0.3, None][:valid_from]
