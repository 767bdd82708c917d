import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pgtrial.engine import guardrails
from pgtrial.engine.guardrails import Guard, ServerHealth, Turn, refuse_harm
from pgtrial.errors import HarmError, PreflightError, StoreError, TargetError
from pgtrial.experiment_file.guardrails_table import GuardrailsTable
from pgtrial.model.run import LoadLevel
from pgtrial.store.state import STOPPED, State

LEVEL = LoadLevel(index=0, clients=1)
START = 1_000_000_000.0
CALM = ServerHealth(may_see=True, standbys=("one", "one", "two"), lag=0.01, committed=1000, rolled_back=0, active=3)


@dataclass
class Server:
    """What it says next, and whether everything has been put back."""

    says: ServerHealth = CALM
    fails: bool = False
    has_switched: bool = True
    steps: list[str] = field(default_factory=list)

    async def ask(self) -> ServerHealth:
        self.steps.append("ask")
        if self.fails:
            raise TargetError("the server refused a statement", detail="too many clients")
        return self.says

    async def put_back(self) -> None:
        self.steps.append("put back")


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def begun(tmp_path: Path, server: Server, state: State) -> Callable[..., Guard]:
    def begin(*arms: str, level: LoadLevel = LEVEL, **table: Any) -> Guard:
        guard = Guard(
            table=GuardrailsTable.model_validate(table),
            arms=arms or ("a", "b"),
            board=server,
            ask=server.ask,
            state=state,
        )
        asyncio.run(guard.survey())
        asyncio.run(guard.begin(tmp_path, level, START))
        return guard

    return begin


def log(folder: Path, t: float, seconds: float, *, count: int = 100, file: str = "level0-0.1") -> None:
    """That many transactions which ended at about a time, of a latency each."""
    with (folder / file).open("a") as lines:
        for number in range(count):
            lines.write(f"0 {number} {round(seconds * 1e6)} 0 {int(t)} {number}\n")


def look(guard: Guard, t: float) -> None:
    asyncio.run(guard.look(START + t))


def breach(guard: Guard, t: float) -> str:
    with pytest.raises(HarmError) as caught:
        look(guard, t)
    return caught.value.message


def test_a_calm_server_goes_on(begun: Callable[..., Guard], server: Server, tmp_path: Path) -> None:
    guard = begun(p99="100ms", errors="1%", replication_lag="1s", active=5)
    for second in range(1, 60):
        log(tmp_path, START + second, 0.01)
        guard.note_second(100, START + second)
        server.says = replace(server.says, committed=server.says.committed + 100)
        look(guard, second)

    assert "put back" not in server.steps


def test_a_long_latency_is_a_breach_and_what_was_set_is_put_back_before_the_server_is_asked(
    begun: Callable[..., Guard], server: Server, tmp_path: Path
) -> None:
    guard = begun(p99="100ms")
    log(tmp_path, START + 1, 0.01, count=98)
    look(guard, 1.5)  # too few to tell
    log(tmp_path, START + 2, 0.5, count=2)
    server.steps.clear()

    assert "99th percentile of the load is 500 ms" in breach(guard, 2.5)
    assert server.steps == ["put back"]


def test_latencies_of_half_a_minute_ago_count_no_more(
    begun: Callable[..., Guard], tmp_path: Path, server: Server
) -> None:
    guard = begun(p99="100ms")
    log(tmp_path, START + 1, 0.5, count=1)
    look(guard, 2)
    log(tmp_path, START + 40, 0.01)
    log(tmp_path, START + 41, 0.5, count=1)
    look(guard, 42)

    assert "put back" not in server.steps


def test_two_that_are_too_long_are_a_breach_before_there_are_a_hundred(
    begun: Callable[..., Guard], tmp_path: Path
) -> None:
    guard = begun(p99="100ms")
    log(tmp_path, START + 1, 0.5, count=1)
    log(tmp_path, START + 2, 0.01, count=5)
    look(guard, 3)
    log(tmp_path, START + 10, 0.5, count=1)

    assert "2 of the load's last 7 transactions took longer than 100 ms" in breach(guard, 11)


def test_what_pgbench_writes_late_is_held_against_what_it_wrote_then(
    begun: Callable[..., Guard], tmp_path: Path
) -> None:
    guard = begun(p99="100ms")
    log(tmp_path, START + 1, 0.01)
    log(tmp_path, START + 1, 0.5, count=2)

    assert "99th percentile" in breach(guard, 45)


def test_a_load_that_stands_still_is_a_breach(begun: Callable[..., Guard]) -> None:
    guard = begun(p99="100ms")
    guard.note_second(50, START + 1)
    for second in range(2, 11):
        guard.note_second(0, START + second)
        look(guard, second)

    assert "none of the load's transactions has ended for" in breach(guard, 12)


def test_a_load_of_few_a_second_may_pause_for_longer(begun: Callable[..., Guard]) -> None:
    guard = begun(p99="100ms", level=replace(LEVEL, rate=0.5))
    guard.note_second(1, START + 1)
    look(guard, 45)  # 22 mean gaps

    assert "none of the load's transactions has ended for 51 s" in breach(guard, 52)


@pytest.mark.parametrize(
    ("table", "says", "words"),
    [
        ({"replication_lag": "1s"}, {"lag": 2.5}, "a standby is 2.5 s behind"),
        ({"replication_lag": "1s"}, {"standbys": ("one", "two"), "lag": None}, "of 3 standbys one is gone: one"),
        ({"replication_lag": "1s"}, {"standbys": ("one", "one", "new", "newer")}, "of 3 standbys one is gone: two"),
        ({"errors": "1%"}, {"committed": 1180, "rolled_back": 20}, "10.0 % of the transactions were rolled back"),
    ],
)
def test_what_the_server_says_of_others_is_a_breach(
    begun: Callable[..., Guard], server: Server, table: dict[str, Any], says: dict[str, Any], words: str
) -> None:
    guard = begun(**table)
    look(guard, 1)
    server.says = replace(CALM, **says)

    assert words in breach(guard, 2)
    assert server.steps[-1] == "put back"


def test_a_few_errors_are_no_share(begun: Callable[..., Guard], server: Server) -> None:
    guard = begun(errors="1%")
    server.says = replace(CALM, committed=1050, rolled_back=20)
    look(guard, 1)

    assert "put back" not in server.steps


def test_errors_of_half_a_minute_ago_count_no_more(begun: Callable[..., Guard], server: Server) -> None:
    guard = begun(errors="1%")
    server.says = replace(CALM, committed=1050, rolled_back=20)
    look(guard, 5)
    for second in range(10, 60, 10):
        server.says = replace(server.says, committed=server.says.committed + 1)
        look(guard, second)
    server.says = replace(server.says, committed=server.says.committed + 500, rolled_back=21)
    look(guard, 60)

    assert "put back" not in server.steps


def test_many_sessions_at_work_are_a_breach_when_they_stay(begun: Callable[..., Guard], server: Server) -> None:
    guard = begun(active=5)
    busy = replace(CALM, active=9)
    for second, says in enumerate((busy, busy, CALM, busy, busy)):
        server.says = says
        look(guard, second)
    server.says = busy

    assert "9 sessions are at work, and 5 is the limit" in breach(guard, 6)


def test_a_server_that_refuses_the_question_is_a_breach(begun: Callable[..., Guard], server: Server) -> None:
    guard = begun(active=5)
    server.fails = True

    assert "too many clients" in breach(guard, 1)


def test_a_server_that_does_not_answer_is_a_breach(
    begun: Callable[..., Guard], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = begun(active=5)
    monkeypatch.setattr(guardrails, "_PATIENCE", 0.01)

    async def never() -> ServerHealth:
        await asyncio.Event().wait()
        raise AssertionError

    guard.ask = never

    assert "has not answered" in breach(guard, 1)


@pytest.mark.parametrize(
    ("table", "says", "words"),
    [
        ({"active": 5}, {"may_see": False}, "may not see what others do"),
        ({"replication_lag": "1s"}, {"may_see": False}, "may not see what others do"),
        ({"replication_lag": "1s"}, {"standbys": ()}, "has no standby that replays"),
        ({"replication_lag": "1s"}, {"lag": 3600.0}, "a standby is 1 h behind before anything is switched"),
    ],
)
def test_a_guardrail_that_nobody_can_look_after_is_refused(
    begun: Callable[..., Guard], server: Server, table: dict[str, Any], says: dict[str, Any], words: str
) -> None:
    server.says = replace(CALM, **says)

    with pytest.raises(PreflightError, match=words):
        begun(**table)


def take_turns(guard: Guard, folder: Path, latencies: list[dict[str, float]]) -> int:
    """Rounds of turns of ten seconds, each arm with its latency; how many rounds there were when harm was shown."""
    t = START
    for number, round_ in enumerate(latencies, start=1):
        for arm, seconds in round_.items():
            log(folder, t + 6, seconds)
            guard.note_turn(Turn(arm=arm, counted=t + 5, ended=t + 10))
            t += 10
            try:
                asyncio.run(guard.look(t))
            except HarmError:
                return number
    return 0


def test_an_arm_that_is_worse_by_more_than_allowed_is_shown_to_be_after_six_rounds(
    begun: Callable[..., Guard], server: Server, tmp_path: Path
) -> None:
    worse = {"a": 0.010, "b": 0.0125}
    found = take_turns(begun(p99="10s", harm="20%"), tmp_path, [worse, dict(reversed(worse.items()))] * 6)

    assert found == 7  # a round is looked at when the next one is over
    assert server.steps[-1] == "put back"


def test_an_arm_that_is_worse_by_less_than_allowed_is_not(begun: Callable[..., Guard], tmp_path: Path) -> None:
    assert take_turns(begun(p99="10s", harm="30%"), tmp_path, [{"a": 0.010, "b": 0.0125}] * 12) == 0


def test_of_several_arms_the_one_that_does_harm_is_named(begun: Callable[..., Guard], tmp_path: Path) -> None:
    guard = begun("a", "b", "c", p99="10s")
    rounds = [{"b": 0.010, "c": 0.02, "a": 0.010}] * 8
    assert take_turns(guard, tmp_path, rounds) == 8  # with two arms beside the control seven rounds are needed


def test_the_rounds_at_the_end_of_a_load_are_looked_at_as_well(begun: Callable[..., Guard], tmp_path: Path) -> None:
    guard = begun(p99="10s")
    assert take_turns(guard, tmp_path, [{"a": 0.010, "b": 0.02}] * 6) == 0
    with pytest.raises(HarmError, match='with "b" the 99th percentile is longer than with "a" by more than 20'):
        asyncio.run(guard.end(START + 200))


def test_who_resumes_goes_on_with_what_was_seen(begun: Callable[..., Guard], tmp_path: Path) -> None:
    assert take_turns(begun(p99="10s"), tmp_path, [{"a": 0.010, "b": 0.02}] * 4) == 0
    (tmp_path / "level0-0.1").unlink()

    assert take_turns(begun(p99="10s"), tmp_path, [{"a": 0.010, "b": 0.02}] * 6) == 4


def test_harm_that_was_shown_is_never_taken_back(state: State) -> None:
    for worse in (*[True] * 6, False):
        state.add_event(START, guardrails.PAIR, arm="b", ratio=2.0, worse=worse)

    with pytest.raises(HarmError, match='harm by "b" had been shown'):
        refuse_harm(state, ["a", "b"])
    assert STOPPED in state.meta()


def test_what_was_seen_and_shows_no_harm_is_no_reason_to_refuse(state: State) -> None:
    for worse in (*[True] * 5, False):
        state.add_event(START, guardrails.PAIR, arm="b", ratio=2.0, worse=worse)

    refuse_harm(state, ["a", "b"])

    assert STOPPED not in state.meta()


def test_who_has_breached_a_guardrail_is_not_begun_with_again(
    begun: Callable[..., Guard], server: Server, state: State, tmp_path: Path
) -> None:
    guard = begun(active=5)
    server.fails = True
    first = breach(guard, 1)
    server.fails = False

    assert STOPPED in state.meta()
    with pytest.raises(HarmError) as again:
        asyncio.run(guard.survey())
    assert again.value.message == first


def test_a_record_that_cannot_be_written_does_not_keep_what_was_set(
    begun: Callable[..., Guard], server: Server, state: State
) -> None:
    guard = begun(active=5)
    server.fails = True
    state.close()

    with pytest.raises(StoreError):
        look(guard, 1)
    assert server.steps[-1] == "put back"


# Transactions of the slices of each round: the arm is slower, the control is, the lengths alone differ, both have few.
_SHORT = (("a", 100), ("b", 60), ("b", 100), ("a", 60), ("a", 100), ("b", 99), ("a", 99), ("b", 60))


def test_a_slice_in_which_too_little_ends_is_worse_where_the_control_has_enough(
    begun: Callable[..., Guard], state: State, tmp_path: Path
) -> None:
    guard, t = begun(p99="10s"), START
    for arm, count in _SHORT:
        log(tmp_path, t + 6, 0.01, count=count)
        guard.note_turn(Turn(arm=arm, counted=t + 5, ended=t + 10))
        t += 10
        asyncio.run(guard.look(t))
    asyncio.run(guard.end(t))

    pairs = [(data["ratio"], data["worse"]) for _, kind, data in state.events() if kind == guardrails.PAIR]
    assert pairs == [(None, True), (None, False)]


def test_what_a_long_turn_has_told_is_known_at_its_end(
    begun: Callable[..., Guard], state: State, tmp_path: Path
) -> None:
    guard, t = begun(p99="10s"), START
    for arm in ("a", "b"):
        guard.note_counted(t)
        for _ in range(12):  # of 10 s, too few for a percentile in the last three of them
            log(tmp_path, t + 1, 0.01, count=10)
            t += 10
            asyncio.run(guard.look(t))
        guard.note_turn(Turn(arm=arm, counted=t - 120, ended=t))
    asyncio.run(guard.end(t))

    ((_, _, pair),) = [event for event in state.events() if event[1] == guardrails.PAIR]
    assert pair["ratio"] == pytest.approx(1)
