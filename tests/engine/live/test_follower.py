from pathlib import Path

import pytest

from pgtrial.design.methods import MethodChoice
from pgtrial.engine.events import (
    LatencySampled,
    PhaseStarted,
    RunEnded,
    RunStarted,
    TurnsProgress,
    WaitsSampled,
)
from pgtrial.engine.folder import make_raw_folders
from pgtrial.engine.live.follower import Follower
from pgtrial.engine.sampler.spool import SpoolWriter
from pgtrial.model.run import LoadLevel, PhaseName, RunState, Slot

LEVEL = LoadLevel(index=0, clients=4)
BLOCKS = MethodChoice(method="blocks", reason="")
INTERLEAVED = MethodChoice(method="interleaved", reason="", guard=0.1, slice=1.0)
DUET = MethodChoice(method="duet", reason="", guard=0.05, slice=0.25)


def started(*arms: str, number: int = 1, attempt: int = 1) -> RunStarted:
    slot = Slot(number=number, block=1, position=1, arm=arms[0])
    return RunStarted(slot=slot, arms=arms, slots=6, attempt=attempt, remaining=60.0)


def ended(arm: str, number: int = 1) -> RunEnded:
    slot = Slot(number=number, block=1, position=1, arm=arm)
    return RunEnded(slot=slot, state=RunState.DONE, reason="", seconds=10, not_load=1, tps=100)


def log(logs: Path, count: int, *, latency: int = 1000) -> None:
    with (logs / "level0-all.100").open("a") as file:
        file.write("".join(f"0 {n:06d} {latency} 0 1767225600 000000\n" for n in range(count)))


def test_a_run_is_followed_where_the_engine_makes_its_raw_files(tmp_path: Path) -> None:
    spool, logs = make_raw_folders(tmp_path / "runs" / "0003-off-b1-repeat1")
    follower = Follower(folder=tmp_path, choice=BLOCKS)
    follower.see(started("off", number=3, attempt=2), 0.0)
    follower.see(PhaseStarted(name=PhaseName.MEASURE, level=LEVEL, length=31), 5.0)
    log(logs, 200)
    writer = SpoolWriter(spool)
    columns = ["backend_type", "application", "state", "wait_type", "wait_event", "query", "sessions"]
    row = ["client backend", "pgtrial/all", "active", None, None, "q", "10"]
    writer.add(1.0, "sessions", {"polls": 10, "columns": columns, "rows": [row]})
    writer.flush()
    latency, waits = follower.look(6.0)

    assert latency == LatencySampled(arm="off", p95=pytest.approx(1e-3, rel=0.02))
    assert waits == WaitsSampled(arm="off", waits=(("CPU", 1.0),))
    assert follower.look(7.0) == []


def test_nothing_is_looked_for_between_runs(tmp_path: Path) -> None:
    _, logs = make_raw_folders(tmp_path / "runs" / "0001-off-b1")
    follower = Follower(folder=tmp_path, choice=BLOCKS)
    assert follower.look(0.0) == []

    follower.see(started("off"), 0.0)
    log(logs, 200)
    assert follower.look(1.0) == []  # it warms up, and its log is none that counts

    follower.see(PhaseStarted(name=PhaseName.MEASURE, level=LEVEL), 2.0)
    follower.see(ended("off"), 3.0)
    assert follower.look(4.0) == []


@pytest.mark.parametrize(("choice", "turns"), [(INTERLEAVED, 2), (DUET, 1)])
def test_throughput_of_turns_is_that_of_an_arms_own_time(tmp_path: Path, choice: MethodChoice, turns: int) -> None:
    logs = {
        arm: make_raw_folders(tmp_path / "runs" / f"{number:04d}-{arm}-b1")[1]
        for number, arm in ((1, "on"), (2, "off"))
    }
    follower = Follower(folder=tmp_path, choice=choice)
    follower.see(started("on", "off"), 0.0)
    follower.see(PhaseStarted(name=PhaseName.MEASURE, level=LEVEL), 10.0)
    log(logs["on"], 5000)  # while all connect, which does not count
    assert [e for e in follower.look(10.5) if isinstance(e, TurnsProgress)] == []
    follower.look(11.0)
    log(logs["on"], 1000)
    log(logs["off"], 4000)
    assert [e for e in follower.look(12.0) if isinstance(e, TurnsProgress)] == []  # too early to tell
    told = {e.arm: e.tps for e in follower.look(21.0) if isinstance(e, TurnsProgress)}

    assert told == {"on": pytest.approx(100 * turns, rel=0.01), "off": pytest.approx(400 * turns, rel=0.01)}


def test_a_run_that_has_the_machine_to_itself_tells_its_throughput_by_the_second(tmp_path: Path) -> None:
    _, logs = make_raw_folders(tmp_path / "runs" / "0001-on-b1")
    follower = Follower(folder=tmp_path, choice=BLOCKS)
    follower.see(started("on"), 0.0)
    follower.see(PhaseStarted(name=PhaseName.MEASURE, level=LEVEL), 0.0)
    for second in range(1, 60):
        log(logs, 1000)
        assert not any(isinstance(event, TurnsProgress) for event in follower.look(second))


def test_what_is_no_answer_of_the_server_is_an_error(tmp_path: Path) -> None:
    spool, _ = make_raw_folders(tmp_path / "runs" / "0001-on-b1")
    (spool / "sampler.jsonl").write_text('[1.0,"sessions",{"polls":1}]\n')
    follower = Follower(folder=tmp_path, choice=BLOCKS)
    follower.see(started("on"), 0.0)

    with pytest.raises(KeyError):
        follower.look(1.0)
