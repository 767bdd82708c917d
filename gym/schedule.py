"""When which arm is at work, in many experiments at once: what a contender asks a machine for."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RUN, WARM_UP = 8.0, 2.0  # s of a run that count, and before them
WHOLE = -1  # a stretch that has the whole machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Stretches of load in order of time.

    Of shape (experiments, stretches): ``arm`` is 1 for the one with the change, 0 for the control and 2 for a placebo,
    ``half`` the half of the machine or WHOLE; ``start``, ``counted`` and ``end`` are seconds since the experiment
    began, and nothing before ``counted`` counts. Of shape (stretches,): ``observation`` is the place among those of its
    arm that the stretch adds to, ``group`` the stretches for which the data are made afresh together, ``unit`` those
    that are repeated together after a failure. ``slice_length``: the usual one of arms that take turns, in seconds,
    else 0.
    """

    arm: NDArray[np.int8]
    half: NDArray[np.int8]
    start: NDArray[np.float64]
    counted: NDArray[np.float64]
    end: NDArray[np.float64]
    observation: NDArray[np.intp]
    group: NDArray[np.intp]
    unit: NDArray[np.intp]
    slice_length: float = 0.0

    @property
    def experiments(self) -> int:
        return len(self.arm)

    @property
    def observations(self) -> int:
        """Of each arm."""
        return int(self.observation.max()) + 1

    @property
    def arms(self) -> int:
        """How many there are."""
        return int(self.arm.max()) + 1

    @property
    def is_changed(self) -> NDArray[np.bool_]:
        """Whether the arm with the change is at work: (experiments, stretches)."""
        return np.asarray(self.arm == 1)

    @property
    def takes_turns(self) -> bool:
        """Whether the arms have the whole machine several times for one observation."""
        return bool((self.half == WHOLE).all()) and self.arm.shape[1] > self.arms * self.observations

    @property
    def is_plain(self) -> bool:
        """Whether each observation is one run of each arm, with the whole machine to itself."""
        return bool((self.half == WHOLE).all()) and self.arm.shape[1] == self.arms * self.observations

    @property
    def seconds(self) -> float:
        """Of the longest experiment."""
        return float(self.end.max())

    def seconds_until(self, observation: int) -> float:
        """Mean time after which both arms have so many observations."""
        return float(self.end[:, self.observation < observation].max(axis=1).mean())

    def take(self, rows: slice) -> "Schedule":
        """Some of the experiments."""
        return Schedule(
            arm=self.arm[rows],
            half=self.half[rows],
            start=self.start[rows],
            counted=self.counted[rows],
            end=self.end[rows],
            observation=self.observation,
            group=self.group,
            unit=self.unit,
            slice_length=self.slice_length,
        )

    def is_late(self) -> NDArray[np.bool_]:
        """Whether a stretch lies in the second half of the time of its group: (experiments, stretches)."""
        late = np.zeros(self.arm.shape, dtype=np.bool_)
        for group in np.unique(self.group):
            mine = self.group == group
            first, last = self.start[:, mine].min(axis=1), self.end[:, mine].max(axis=1)
            late[:, mine] = (self.start[:, mine] + self.end[:, mine]) / 2 > ((first + last) / 2)[:, None]
        return late

    def is_first(self) -> NDArray[np.bool_]:
        """Whether a stretch is the first of its group; in a duet both halves have one: (experiments, stretches)."""
        first = np.zeros(self.arm.shape, dtype=np.bool_)
        for group in np.unique(self.group):
            mine = self.group == group
            first[:, mine] = self.start[:, mine] == self.start[:, mine].min(axis=1)[:, None]
        return first


def plain_runs(arms: NDArray[np.int8], *, group: Sequence[int]) -> Schedule:
    """Runs one after the other, each with a warm-up of its own.

    arms : (experiments, runs), in order of time, all arms equally often. group : of each run.
    """
    count = arms.shape[1]
    start = np.broadcast_to(np.arange(count) * (RUN + WARM_UP), arms.shape)
    observation = np.zeros(arms.shape, dtype=np.intp)
    for arm in np.unique(arms):
        observation = np.where(arms == arm, np.cumsum(arms == arm, axis=1) - 1, observation)
    if (observation != observation[:1]).any():
        raise ValueError("expected the same number of each arm's run at each place")
    return Schedule(
        arm=arms,
        half=np.full(arms.shape, WHOLE, dtype=np.int8),
        start=start,
        counted=start + WARM_UP,
        end=start + WARM_UP + RUN,
        observation=observation[0],
        group=np.asarray(group, dtype=np.intp),
        unit=np.arange(count),
    )


def one_after_the_other(count: int, experiments: int) -> Schedule:
    """All runs of the control, then all of the other arm, each arm on data made once for it."""
    order = np.repeat(np.array([0, 1], dtype=np.int8), count)
    return plain_runs(np.tile(order, (experiments, 1)), group=np.repeat([0, 1], count).tolist())


def alternating(count: int, experiments: int) -> Schedule:
    """The control, the other arm, the control, and so on; a pair has its data made afresh."""
    order = np.tile(np.array([0, 1], dtype=np.int8), count)
    return plain_runs(np.tile(order, (experiments, 1)), group=np.repeat(np.arange(count), 2).tolist())
