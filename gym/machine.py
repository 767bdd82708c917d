"""What a machine gets done in the stretches of a schedule, given its noise and what arms and places do to it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gym.schedule import WHOLE, Schedule
from pgtrial.stats.late import SHAPES, Speeds, late_changes
from pgtrial.stats.slices import PARTS

TICK = 0.25  # s, in which the speed of a machine is constant
OWN_NOISE = 0.03  # of the work of one second, that no other second has
_SPARE = 3  # times the planned length for what is repeated
_MOST_ATTEMPTS = 12
HALF_NOISE = 0.5  # of the machine's noise comes again in each half, of its own
HALF_FASTER = 0.05  # one half of the machine is faster than the other, log speed

Noise = Callable[[int, int, np.random.Generator], NDArray[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A machine whose noise is known, and what happens on it beside the planted effect.

    ``noise`` yields log speed of shape (experiments, ticks). ``place``: by how much the second half of the time with
    the same data is slower, and ``first`` the first run of that time or the first slice, log speed. ``debt``: what the
    arm with the change slows the machine by in the long run, whichever arm is at work, in log speed; it approaches that
    with the time constant ``fades``, in seconds, and goes likewise, or with ``comes_after`` it comes and goes at once,
    so many seconds late. That arm is faster by as much, so that alone it is as fast as the effect says. ``stalls``: log
    speed of that arm alone, beside the machine's noise, 1 on average as a factor. ``fails_below``: mean log speed below
    which an attempt of that arm fails; it is then repeated at once. ``own_noise``: as OWN_NOISE. ``peeks``: somebody
    looks after each observation, and stops at the first answer. ``placebo``: contenders that take a third arm have one,
    which is as the control.
    """

    name: str
    text: str
    noise: Noise
    place: float = 0.0
    first: float = 0.0
    debt: float = 0.0
    fades: float = 1.0
    comes_after: float = 0.0
    stalls: Noise | None = None
    fails_below: float | None = None
    own_noise: float = OWN_NOISE
    peeks: bool = False
    placebo: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Runs of three arms that have their time to themselves, in order of time: ``log_rates``, logarithms of the work
    per second, and the ``arm`` as schedules have it, (experiments, runs); the ``observation`` of each, (runs,).
    """

    log_rates: NDArray[np.float64]
    arm: NDArray[np.int8]
    observation: NDArray[np.intp]

    def first(self, count: int) -> "Runs":
        """Those of so many observations."""
        mine = self.observation < count
        return Runs(log_rates=self.log_rates[:, mine], arm=self.arm[:, mine], observation=self.observation[mine])

    def of(self, experiment: int) -> "Runs":
        mine = slice(experiment, experiment + 1)
        return replace(self, log_rates=self.log_rates[mine], arm=self.arm[mine])

    def with_effect(self, ratio: float) -> "Runs":
        return replace(self, log_rates=self.log_rates + np.where(self.arm == 1, np.log(ratio), 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """``control`` and ``treated``: work per second, (experiments, observations). ``after``: whether the treated arm
    came after the control in an observation, likewise. ``before``: where each run has its time to itself, half of what
    the runs before both of them differ by, as ``stats.carry_over`` takes it, likewise; of three arms the ``runs`` of
    all are there, too. ``failed``: attempts of the
    treated arm that failed before each observation was there, (experiments, observations); the control's never do.
    ``times``: mean seconds of testing until so many observations of both arms are there, (observations,). ``turns``:
    where arms take turns, log ratios of the treated arm to the control before what counts of each slice and in both
    halves of that, (3, experiments, observations), and ``late``: by how much they would change for what comes late, and
    its standard errors, (2, experiments, observations, shapes); of three arms the shapes are there for what the control
    leaves, too.
    """

    control: NDArray[np.float64]
    treated: NDArray[np.float64]
    after: NDArray[np.bool_]
    failed: NDArray[np.intp]
    times: NDArray[np.float64]
    before: NDArray[np.float64] | None = None
    runs: Runs | None = None
    turns: NDArray[np.float64] | None = None
    late: NDArray[np.float64] | None = None

    def first(self, count: int) -> "Measured":
        """As if there were only so many observations."""
        return Measured(
            control=self.control[:, :count],
            treated=self.treated[:, :count],
            after=self.after[:, :count],
            failed=self.failed[:, :count],
            times=self.times[:count],
            before=None if self.before is None else self.before[:, :count],
            runs=None if self.runs is None else self.runs.first(count),
            turns=None if self.turns is None else self.turns[:, :, :count],
            late=None if self.late is None else self.late[:, :, :count],
        )

    def with_effect(self, ratio: float) -> "Measured":
        """With the treated arm faster by this factor."""
        runs = None if self.runs is None else self.runs.with_effect(ratio)
        return replace(self, treated=self.treated * ratio, runs=runs)


def measure(stream: Stream, schedule: Schedule, rng: np.random.Generator) -> Measured:
    """Work of both arms without a planted effect."""
    seconds = schedule.seconds * (1 if stream.fails_below is None else _SPARE)
    ticks = int(np.ceil(seconds / TICK)) + 1
    speeds = _Speeds(stream, schedule, ticks, rng)
    after = _is_after(schedule)
    failed = np.zeros((schedule.experiments, schedule.observations), dtype=np.intp)
    if stream.fails_below is None:
        shift = np.zeros(schedule.arm.shape)
        times = np.array([schedule.seconds_until(count + 1) for count in range(schedule.observations)])
    else:
        shift = _repeat_failures(stream.fails_below, schedule, speeds, failed)
        ends = schedule.end + shift
        times = np.array(
            [ends[:, schedule.observation <= place].max(axis=1).mean() for place in range(schedule.observations)]
        )
    slowed = stream.debt * schedule.is_changed - stream.place * schedule.is_late() - stream.first * schedule.is_first()

    def done(begin: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.float64]:
        factor = np.exp(slowed - _debts(stream, schedule, begin, end))
        return np.asarray(speeds.work(begin + shift, end + shift) * factor)

    def rates(begin: NDArray[np.float64], end: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        work = done(begin, end)
        return [
            _by_observation(work * (schedule.arm == arm), schedule)
            / _by_observation((end - begin) * (schedule.arm == arm), schedule)
            for arm in (0, 1)
        ]

    control, treated = rates(schedule.counted, schedule.end)
    runs = turns = late = None
    if schedule.is_plain and schedule.arms > 2:
        log_rates = np.log(done(schedule.counted, schedule.end) / (schedule.end - schedule.counted))
        runs = Runs(log_rates=log_rates, arm=schedule.arm, observation=schedule.observation)
    if schedule.takes_turns:
        middle = (schedule.counted + schedule.end) / 2
        windows = (schedule.start, schedule.counted), (schedule.counted, middle), (middle, schedule.end)
        turns = np.stack([np.log(other) - np.log(one) for one, other in (rates(*window) for window in windows)])
        edges = np.linspace(schedule.counted, schedule.end, PARTS + 1)
        late = _late(schedule, edges, np.stack([done(*each) / (each[1] - each[0]) for each in pairwise(edges)]))
    return Measured(
        control=control,
        treated=treated,
        after=after,
        failed=failed,
        times=times,
        before=_runs_before(schedule, failed) if schedule.is_plain else None,
        runs=runs,
        turns=turns,
        late=late,
    )


class _Speeds:
    """The machine's work until each tick, whole and by halves."""

    def __init__(self, stream: Stream, schedule: Schedule, ticks: int, rng: np.random.Generator) -> None:
        def own(share: float) -> NDArray[np.float64]:
            size = stream.own_noise / np.sqrt(TICK * share)
            return rng.normal(-(size**2) / 2, size, (schedule.experiments, ticks)) if size else np.zeros(1)

        self._half, self._arm = schedule.half, schedule.arm
        self.log = stream.noise(schedule.experiments, ticks, rng)
        if (schedule.half == WHOLE).all():
            parts = [self.log + own(1.0)]
        else:
            halves = [HALF_NOISE * stream.noise(schedule.experiments, ticks, rng) for _ in range(2)]
            halves[0] = halves[0] + HALF_FASTER
            parts = [self.log + half + own(0.5) for half in halves]
        self._sums = [[_running_sum(part) for part in parts]]  # of both arms, or of each where they are unlike
        if stream.stalls is not None:
            alone = stream.stalls(schedule.experiments, ticks, rng)
            self._sums.append([_running_sum(part + alone) for part in parts])

    def work(self, start: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of each stretch."""
        control, *treated = (self._of_parts(sums, start, end) for sums in self._sums)
        return np.asarray(np.where(self._arm == 1, treated[0], control)) if treated else control

    def _of_parts(
        self, sums: Sequence[NDArray[np.float64]], start: NDArray[np.float64], end: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        if len(sums) == 1:
            return _between(sums[0], start, end)
        first, second = (_between(each, start, end) for each in sums)
        return np.asarray(np.where(self._half == 0, first, second))


def _running_sum(log_speed: NDArray[np.float64]) -> NDArray[np.float64]:
    total = np.zeros((log_speed.shape[0], log_speed.shape[1] + 1))
    np.cumsum(np.exp(log_speed) * TICK, axis=1, out=total[:, 1:])
    return total


def _between(total: NDArray[np.float64], start: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.float64]:
    def until(time: NDArray[np.float64]) -> NDArray[np.float64]:
        place = time / TICK
        tick = np.minimum(place.astype(np.intp), total.shape[1] - 2)
        low, high = (np.take_along_axis(total, tick + step, axis=1) for step in (0, 1))
        return np.asarray(low + (place - tick) * (high - low))

    return np.asarray(until(end) - until(start))


def _by_observation(values: NDArray[np.float64], schedule: Schedule) -> NDArray[np.float64]:
    """Sums over the stretches of each observation."""
    belongs = (schedule.observation[:, None] == np.arange(schedule.observations)).astype(np.float64)
    return np.asarray(values @ belongs)


def _is_after(schedule: Schedule) -> NDArray[np.bool_]:
    """Whether the treated arm's first stretch of an observation begins after the control's."""
    firsts = []
    for arm in (0, 1):
        starts = np.where(schedule.arm == arm, schedule.start, np.inf)
        firsts.append(
            np.stack(
                [starts[:, schedule.observation == place].min(axis=1) for place in range(schedule.observations)], axis=1
            )
        )
    return np.asarray(firsts[1] > firsts[0])


def _runs_before(schedule: Schedule, failed: NDArray[np.intp]) -> NDArray[np.float64]:
    """Half of what the runs before those of an observation differ by; an attempt that failed is a run, too, and a
    placebo leaves what the control does.
    """
    owners = np.where(schedule.is_changed, 1.0, -1.0)
    last = np.hstack([np.zeros((len(owners), 1)), owners[:, :-1]])
    of_control, of_treated = (_by_observation(last * (schedule.arm == arm), schedule) for arm in (0, 1))
    return np.asarray((np.where(failed > 0, 1.0, of_treated) - of_control) / 2)


def _debts(
    stream: Stream, schedule: Schedule, begin: NDArray[np.float64], end: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Mean debt from ``begin`` to ``end``, which lie in each stretch; between stretches, it fades."""
    shape = schedule.arm.shape
    if stream.debt == 0:
        return np.zeros(shape)
    if (schedule.half != WHOLE).any():
        # Both arms are always at work, and share what the machine has to do.
        return np.full(shape, stream.debt)
    if stream.comes_after:
        late = [time - stream.comes_after for time in (begin, end)]
        return np.asarray(stream.debt * _time_at_work(schedule, *late) / (end - begin))
    debt, now = np.zeros(shape[0]), np.zeros(shape[0])
    goal, first = stream.debt * schedule.is_changed, np.empty(shape)
    for place in range(shape[1]):
        first[:, place] = debt * np.exp(-(schedule.start[:, place] - now) / stream.fades)
        left = np.exp(-(schedule.end[:, place] - schedule.start[:, place]) / stream.fades)
        debt, now = goal[:, place] + (first[:, place] - goal[:, place]) * left, schedule.end[:, place]
    there = [np.exp(-(time - schedule.start) / stream.fades) for time in (begin, end)]
    return np.asarray(goal + (first - goal) * (there[0] - there[1]) * stream.fades / (end - begin))


def _late(schedule: Schedule, edges: NDArray[np.float64], rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """What ``late_changes`` makes of each observation, of what the treated arm leaves, and of three arms of what the
    control does; ``edges`` (5, …) and ``rates`` (4, experiments, stretches).
    """
    sides = (1,) if schedule.arms == 2 else (1, 0)
    found = np.empty((2, schedule.experiments, schedule.observations, len(sides) * len(SHAPES)))
    for observation in range(schedule.observations):
        mine = schedule.observation == observation
        for place in range(schedule.experiments):
            arm = schedule.arm[place, mine].astype(np.intp)
            speeds = Speeds(
                started=edges[:-1, place, mine].ravel(),
                ended=edges[1:, place, mine].ravel(),
                rate=rates[:, place, mine].ravel(),
                arm=np.tile(arm, PARTS),
                turns=np.column_stack([schedule.start[place, mine], schedule.end[place, mine], arm]),
                slice=schedule.slice_length,
            )
            found[:, place, observation] = np.hstack([late_changes(speeds, of=side) for side in sides])
    return found


def _time_at_work(schedule: Schedule, begin: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds from ``begin`` to ``end`` in which the arm with the change is at work."""
    shape = schedule.arm.shape
    edges = np.stack([schedule.start, schedule.end], axis=2).reshape(shape[0], -1)
    seconds = (schedule.end - schedule.start) * schedule.is_changed
    totals = np.repeat(np.cumsum(seconds, axis=1), 2, axis=1)
    totals[:, 0::2] -= seconds
    found = np.empty((2, *shape))
    for place in range(shape[0]):
        for number, times in enumerate((begin, end)):
            found[number, place] = np.interp(times[place], edges[place], totals[place])
    return np.asarray(found[1] - found[0])


def _repeat_failures(
    fails_below: float, schedule: Schedule, speeds: _Speeds, failed: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Seconds by which each stretch begins later because units before it, or it itself, were repeated.

    Adds the failures to ``failed``. After _MOST_ATTEMPTS a unit is taken as it is.
    """
    logs = np.zeros((speeds.log.shape[0], speeds.log.shape[1] + 1))
    np.cumsum(speeds.log * TICK, axis=1, out=logs[:, 1:])
    shift, delay = np.zeros(schedule.arm.shape), np.zeros(schedule.experiments)
    longest = (speeds.log.shape[1] - 1) * TICK
    for unit in np.unique(schedule.unit):
        mine = schedule.unit == unit
        start, end = schedule.start[:, mine].min(axis=1), schedule.end[:, mine].max(axis=1)
        place = int(schedule.observation[mine][0])
        has_treated = schedule.is_changed[:, mine].any(axis=1)
        for _ in range(_MOST_ATTEMPTS):
            begin, finish = (start + delay)[:, None], (end + delay)[:, None]
            level = (_between(logs, begin, np.minimum(finish, longest)) / (finish - begin))[:, 0]
            fits = finish[:, 0] + (end - start) + (schedule.seconds - end) <= longest
            again = has_treated & (level < fails_below) & fits
            if not again.any():
                break
            failed[again, place] += 1
            delay = delay + np.where(again, end - start, 0.0)
        shift[:, mine] = delay[:, None]
    return shift
