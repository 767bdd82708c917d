import pytest

from pgtrial.engine.events import (
    LatencySampled,
    LoadProgress,
    PhaseStarted,
    Preparing,
    RunEnded,
    RunStarted,
    StopRequested,
    TurnsProgress,
    WaitsSampled,
)
from pgtrial.engine.live.picture import KEPT, LivePicture
from pgtrial.model.arm import Arm, Role
from pgtrial.model.run import LoadLevel, PhaseName, RunState, Slot
from support.live import make_estimate


class Clock:
    def __init__(self) -> None:
        self.t = 0.0

    def __call__(self) -> float:
        return self.t


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def picture(clock: Clock) -> LivePicture:
    return LivePicture(clock=clock, now=lambda: 1000.0)


def started(*arms: str, number: int = 1, remaining: float = 60.0) -> RunStarted:
    slot = Slot(number=number, block=1, position=1, arm=arms[0])
    return RunStarted(slot=slot, arms=arms, slots=6, attempt=1, remaining=remaining)


def ended(arm: str, state: RunState = RunState.DONE) -> RunEnded:
    slot = Slot(number=1, block=1, position=1, arm=arm)
    return RunEnded(slot=slot, state=state, reason="", seconds=10, not_load=1, tps=100)


MEASURE = PhaseStarted(name=PhaseName.MEASURE, level=LoadLevel(index=0, clients=4), length=30.0)
WARMUP = PhaseStarted(name=PhaseName.WARMUP, length=10.0)


def test_before_the_first_run_the_step_is_told(picture: LivePicture) -> None:
    picture.see(Preparing(step="loading"))
    view = picture.view()

    assert (view.state, view.step, view.run, view.remaining, view.t) == ("preparing", "loading", None, None, 1000.0)


def test_arms_are_in_the_order_of_the_experiment_with_their_parts(picture: LivePicture) -> None:
    picture.introduce([Arm(name="on", role=Role.CONTROL), Arm(name="off", role=Role.CANDIDATE)], done={"on": 2})
    picture.see(started("off"))
    picture.see(ended("on"))
    arms = picture.view().arms

    assert [(arm.name, arm.role, arm.is_at_work, arm.runs_done) for arm in arms] == [
        ("on", Role.CONTROL, False, 3),
        ("off", Role.CANDIDATE, True, 0),
    ]


def test_only_measured_load_becomes_a_figure(picture: LivePicture) -> None:
    for event in (started("on"), WARMUP, LoadProgress(tps=5.0, latency=None)):
        picture.see(event)
    assert picture.view().tps == 5.0
    assert picture.view().arms[0].tps == ()

    for event in (MEASURE, LoadProgress(tps=10.0, latency=None), LoadProgress(tps=20.0, latency=None)):
        picture.see(event)
    (arm,) = picture.view().arms
    assert arm.tps == (10.0, 20.0)
    assert arm.tps_now == 15.0


def test_a_gap_parts_two_runs_of_an_arm(picture: LivePicture) -> None:
    for _ in range(2):
        picture.see(started("on"))
        picture.see(MEASURE)
        picture.see(LoadProgress(tps=10.0, latency=None))
        picture.see(LatencySampled(arm="on", p95=0.1))
        picture.see(ended("on"))
    (arm,) = picture.view().arms

    assert arm.tps == (10.0, None, 10.0)
    assert arm.p95 == (0.1, None, 0.1)
    assert arm.runs_done == 2


def test_the_figure_of_turns_is_replaced_until_the_load_level_ends(picture: LivePicture) -> None:
    picture.see(started("on", "off"))
    for _ in range(2):
        picture.see(MEASURE)
        picture.see(TurnsProgress(arm="on", tps=10.0))
        picture.see(TurnsProgress(arm="off", tps=30.0))
        picture.see(TurnsProgress(arm="on", tps=20.0))
    view = picture.view()

    assert {arm.name: (arm.tps, arm.tps_now) for arm in view.arms} == {
        "on": ((20.0, 20.0), 20.0),
        "off": ((30.0, 30.0), 30.0),
    }
    assert (view.run, view.last_run, view.arms_at_work) == (1, 2, ("on", "off"))


def test_the_mean_of_the_last_ten_seconds_stands_beside(picture: LivePicture) -> None:
    picture.see(started("on"))
    picture.see(MEASURE)
    for tps in (1000.0, *[10.0] * 9, 20.0):
        picture.see(LoadProgress(tps=tps, latency=None))

    assert picture.view().arms[0].tps_now == 11.0


def test_the_last_figures_stay_when_a_run_is_over(picture: LivePicture) -> None:
    for event in (started("on"), MEASURE, LoadProgress(tps=10.0, latency=None), LatencySampled(arm="on", p95=0.2)):
        picture.see(event)
    picture.see(ended("on"))
    picture.see(started("off", number=2))
    picture.see(WARMUP)
    arm = picture.view().arms[0]

    assert (arm.tps_now, arm.p95_now) == (10.0, 0.2)


def test_figures_are_kept_up_to_a_limit(picture: LivePicture) -> None:
    picture.see(started("on"))
    picture.see(MEASURE)
    for second in range(KEPT + 10):
        picture.see(LoadProgress(tps=float(second), latency=None))

    assert picture.view().arms[0].tps == tuple(float(second) for second in range(10, KEPT + 10))


def test_time_left_and_done_go_with_the_clock(picture: LivePicture, clock: Clock) -> None:
    picture.see(started("on", number=3, remaining=40.0))  # four runs of 10 s
    clock.t = 5.0
    view = picture.view()

    assert view.remaining == 35.0
    assert view.share_done == pytest.approx((2 + 0.5) / 6)
    clock.t = 100.0
    late = picture.view()
    assert late.remaining == 0.0
    assert late.share_done < 3 / 6


def test_runs_that_share_their_time_are_done_together(picture: LivePicture, clock: Clock) -> None:
    picture.see(started("on", "off", number=3, remaining=40.0))
    clock.t = 10.0

    assert picture.view().share_done == pytest.approx((2 + 0.5 * 2) / 6)


def test_a_run_that_does_not_count_is_not_counted(picture: LivePicture) -> None:
    picture.see(started("on"))
    picture.see(ended("on", RunState.INVALID))

    assert picture.view().arms[0].runs_done == 0


def test_waits_estimate_and_stop_are_shown(picture: LivePicture) -> None:
    estimate = make_estimate(1.1, 1.0, 1.2, margin=0.03)
    for event in (started("off"), WaitsSampled(arm="off", waits=(("CPU", 1.0),)), estimate, StopRequested()):
        picture.see(event)
    view = picture.view()

    assert view.arms[0].waits == (("CPU", 1.0),)
    assert view.estimate == estimate
    assert view.state == "stopping"
