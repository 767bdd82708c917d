"""A pause in arrivals that are to come at a rate: nothing, or little, was due for longer than chance explains.

A load generator that measures from when it sends a request, and not from when that was due, has no arrivals while it
waits or stands still, and sends them afterwards ("coordinated omission").

Of arrivals at random, by a Poisson process or in batches at the times of one, what a gap has beyond a given length is
exponential. So gaps shorter than SHORT of the rate's are those of a batch, and the others count with what they have
beyond it, by its mean. For a process that has slowed down to one of SLOWED of its pace the likelihood ratio of them is
followed, and is begun anew wherever it is below one: under the usual pace each beginning has no chance of more than
1/x to reach x, so n of them have one of FALSE_ALARM at most to reach n / FALSE_ALARM. Arrivals that are more regular
reach less. Where clients keep time, each by itself, all may arrive together, and nothing until the next time: a pause
is longer than that.

Sources: cumulative sums, Page, Biometrika 41 (1954) 100-115; a bound for all times, Ville, "Étude critique de la notion
de collectif" (1939), section V.1. The false-alarm probability is checked by simulation.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

FALSE_ALARM = 1e-4  # per series at most, of arrivals at random
SHORT = 0.6  # of the mean time between two arrivals
SLOWED = (0.1, 0.5)  # of its pace


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """From ``begun`` to ``ended``, in seconds as the arrivals are, with ``arrivals`` in between."""

    begun: float
    ended: float
    arrivals: int


def find_pause(
    arrivals: ArrayLike,
    *,
    begun: float,
    rate: float,
    clients: int = 1,
    unseen: int = 0,
    false_alarm: float = FALSE_ALARM,
) -> Pause | None:
    """The first pause before one of the ``arrivals`` (in seconds, in any order), which come at ``rate`` (1/s) from
    ``begun`` on, as far as it takes to be none of chance; None where chance may explain each.

    Each of ``clients`` may keep time by itself. ``unseen`` have arrived as well, nobody knows when.
    """
    times = np.concatenate(([begun], np.sort(np.asarray(arrivals, float))))
    gaps = np.diff(times)
    (ends,) = np.nonzero(gaps > SHORT / rate)
    beyond = gaps[ends] - SHORT / rate
    if ends.size == 0:
        return None
    gains = beyond / beyond.mean()
    for slowed in SLOWED:
        loss = -math.log(slowed)
        sums = np.concatenate(([0.0], np.cumsum((1 - slowed) * gains - loss)))[:-1]
        lowest = np.minimum.accumulate(sums)
        ratios = sums + (1 - slowed) * gains - lowest  # before the arrival that ends a gap is counted
        first = np.maximum.accumulate(np.where(sums == lowest, np.arange(sums.size), 0))
        since, until = times[ends[first]], times[ends + 1]
        # An arrival inside of a pause would have made it so much less likely.
        unlikely = math.log(len(SLOWED) * ends.size / false_alarm)
        unlikely += unseen * (loss + (1 - slowed) * SHORT / rate / float(beyond.mean()))
        (found,) = np.nonzero((ratios > unlikely) & (until - since > clients / rate))
        if found.size:
            last = int(found[0])
            return Pause(
                begun=float(since[last]), ended=float(until[last]), arrivals=int(ends[last] - ends[first[last]])
            )
    return None
