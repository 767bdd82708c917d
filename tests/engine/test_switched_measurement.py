"""What is watched, and what ends it, while a server that others use is switched."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pgtrial.engine import switchback
from pgtrial.engine.collect import InvalidRunError
from pgtrial.engine.guardrails import Guard, ServerHealth
from pgtrial.engine.measure import WholeMeasurement
from pgtrial.engine.switchback import LateError, SwitchedMeasurement
from pgtrial.engine.target import switchboard
from pgtrial.engine.target.switchboard import ServerBoard
from pgtrial.errors import HarmError, SettingError, TargetError
from pgtrial.experiment_file.guardrails_table import GuardrailsTable
from pgtrial.store.state import STOPPED, State

Load = Callable[..., Any]


class Board:
    has_switched = True
    is_put_back = False

    async def put_back(self) -> None:
        self.is_put_back = True


async def refuse() -> ServerHealth:
    raise TargetError("the server refused a statement", detail="too many clients")


@pytest.fixture
def run(state: State, monkeypatch: pytest.MonkeyPatch) -> Callable[[Load], None]:
    """Run what is not a level's load, and does as given, on a server that does not let pgtrial look."""

    def run(load: Load) -> None:
        monkeypatch.setattr(WholeMeasurement, "_run_load", load)
        monkeypatch.setattr(switchback, "LOOK", 0.01)
        anything: Any = None
        board: Any = Board()
        guard = Guard(table=GuardrailsTable(active=5), arms=("a", "b"), board=board, ask=refuse, state=state)
        measurement = SwitchedMeasurement(group=anything, board=board, choice=anything, guard=guard)
        try:
            asyncio.run(measurement._run_load("warm-up", []))
        finally:
            assert (STOPPED in state.meta()) is board.is_put_back

    return run


async def goes_on(_self: object, _label: str, _generators: object, *, on_second: object, conduct: Load) -> None:
    await conduct([])


async def fails(_self: object, _label: str, _generators: object, *, on_second: object, conduct: Load) -> None:
    raise InvalidRunError("warm-up: ERROR: temporary file size exceeds temp_file_limit")


async def comes_late(_self: object, _label: str, _generators: object, *, on_second: object, conduct: Load) -> None:
    raise LateError("to switch took 70 s")


def test_the_server_is_looked_after_while_it_warms_up(run: Callable[[Load], None]) -> None:
    with pytest.raises(HarmError, match="too many clients"):
        run(goes_on)


def test_a_load_that_fails_ends_the_switching(run: Callable[[Load], None], state: State) -> None:
    with pytest.raises(HarmError, match="the switching has ended: warm-up: ERROR: temporary file size"):
        run(fails)
    assert "temporary file size" in state.meta()[STOPPED]


def test_a_switch_that_comes_late_is_no_harm(run: Callable[[Load], None], state: State) -> None:
    with pytest.raises(LateError):
        run(comes_late)
    assert STOPPED not in state.meta()


def test_a_switch_that_the_server_does_not_answer_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hangs:
        async def turn_to(self, name: str) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(switchboard, "_TAKING_UP", 0.01)
    anything: Any = None
    board, hangs = ServerBoard(target=anything, arms={}), Hangs()
    monkeypatch.setattr(board, "_switch", hangs)

    with pytest.raises(SettingError, match='has not taken the settings of arm "b" within'):
        asyncio.run(board.switch("b"))
