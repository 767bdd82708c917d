"""What a contender is: a schedule of its own, and an answer from what was measured."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from gym.machine import Measured
from gym.schedule import Schedule

ALL = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a contender says of many experiments; arrays of shape (experiments,).

    ``direction`` of the arm with the change against the control: 1 faster, -1 slower, 0 nothing is said. ``low`` and
    ``high`` are the contender's 95 % interval of the ratio, treated / control; None where it has none. ``verdicts``, by
    claim: 1 supported, -1 refuted, 0 neither. ``used``: observations of each arm; None: all that were measured.
    """

    direction: NDArray[np.int8]
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None
    used: NDArray[np.intp] | None = None
    verdicts: Mapping[str, NDArray[np.int8]] = field(default_factory=dict)


class Contender(Protocol):
    """``sizes`` are the numbers of observations of each arm that it is tried with. ``is_nested``: an experiment begins
    like a shorter one. ``peeks_from``: the fewest observations at which somebody who looks after each one could stop;
    None where a rule says when to look. ``most``: experiments that there is time for, if it is slow;
    ``times``: in how many times as many as others it is graded, if it is quick.
    """

    @property
    def name(self) -> str: ...

    @property
    def sizes(self) -> Sequence[int]: ...

    @property
    def is_nested(self) -> bool: ...

    @property
    def peeks_from(self) -> int | None: ...

    @property
    def most(self) -> int: ...

    @property
    def times(self) -> int: ...

    def with_placebo(self) -> "Contender":
        """The contender with a third arm, which is as the control; itself where it takes none."""

    def schedule(self, size: int, experiments: int, rng: np.random.Generator) -> Schedule:
        """Of experiments with ``size`` observations of each arm."""

    def answers(self, measured: Measured, *, planned: int, ratios: Sequence[float]) -> list[Answer]:
        """For each planted ratio, treated / control, as if the measured treated arm had been faster by it.

        ``planned`` observations are more than those measured where somebody looks too early.
        """


class Plain(ABC):
    """What most contenders are made of: an answer to observations, whatever is planted."""

    name: str
    sizes: Sequence[int]
    most = ALL
    times = 1

    def with_placebo(self) -> Self:
        return self

    @abstractmethod
    def answer(self, control: NDArray[np.float64], treated: NDArray[np.float64]) -> Answer: ...

    def answers(self, measured: Measured, *, planned: int, ratios: Sequence[float]) -> list[Answer]:
        return [self.answer(measured.control, measured.treated * ratio) for ratio in ratios]
