"""Whether dips come with events (checkpoints, autovacuum) more than chance would have it: a test by circular shifts.

Turning the dips of a run round the clock of its length keeps how many, how long and how close together they are, and
destroys only what they have to do with the events. All shifts are equally likely without an association, so the
probability of as much overlap by chance is the share of shifts with as much, that of no shift included. Runs are turned
independently of each other.

What follows from it: a run of n seconds cannot give a probability below 1/n, and where both come at a regular beat, not
one below about the share of the beat that overlaps, for one beat that fits another may be luck. More runs help, for
their beats do not start together.

Sources: Lotwick & Silverman, J. R. Statist. Soc. B 44 (1982) 406-413 (shifts on a torus); Harris, "A shift test for
independence in generic time series", arXiv:2012.06862 (2020), section 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Stretch = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """A run of ``seconds`` whole seconds, with its events and dips: (start, end), in seconds since the run's start.

    What lies outside of the run does not count.
    """

    seconds: int
    events: Sequence[Stretch]
    dips: Sequence[Stretch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """``overlap``: seconds of dips that lie in events; ``expected``: as much by chance; ``dip_seconds``: of all dips.

    ``p_value``: probability of at least that overlap if dips have nothing to do with events.
    """

    overlap: int
    expected: float
    dip_seconds: int
    p_value: float


def align(runs: Sequence[Marked], *, reach: float = 1.0) -> Alignment | None:
    """Overlap of dips with events in all runs together, in whole seconds.

    reach : seconds by which each event is longer at both ends, because its effect may come later than its message, and
    a moment has no length. None where no run has both.
    """
    overlap = dip_seconds = 0
    chance = np.ones(1)  # probability of 0, 1, … seconds
    for run in runs:
        events = _seconds_of(run.seconds, [(start - reach, end + reach) for start, end in run.events])
        dips = _seconds_of(run.seconds, run.dips)
        if not (events.any() and dips.any()):
            continue
        # Entry s is the overlap after a shift by s: a circular cross-correlation.
        spectrum = np.fft.rfft(events) * np.conj(np.fft.rfft(dips))
        shifted = np.rint(np.fft.irfft(spectrum, run.seconds)).astype(int)
        overlap += int(shifted[0])
        dip_seconds += int(dips.sum())
        chance = np.convolve(chance, np.bincount(shifted) / run.seconds)
    if dip_seconds == 0:
        return None
    return Alignment(
        overlap=overlap,
        expected=float(chance @ np.arange(chance.size)),
        dip_seconds=dip_seconds,
        p_value=min(1.0, float(chance[overlap:].sum())),
    )


def _seconds_of(count: int, stretches: Sequence[Stretch]) -> Array:
    """1 for each whole second that a stretch touches."""
    marked = np.zeros(count)
    for start, end in stretches:
        first, last = max(0, int(np.floor(start))), int(np.ceil(end))
        if last > first:
            marked[first:last] = 1
    return marked
