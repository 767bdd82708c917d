"""Whether a series of rates is pinned to a ceiling, such as a provider's limit of requests or bytes per second.

Demand that runs free scatters at least as much as a Poisson process of the same rate: its requests come independently
of each other. A limiter hands out the same number every second. So a plateau is where the upper half of the values
scatters much less than Poisson noise would, and a good part of the time lies there. A ceiling that is reached some of
the time is enough; one that is never reached cannot be seen.

At rates so high that Poisson noise itself is a per mille, a steady load that nothing limits may look the same: look at
what else is at its limit.

Sources: index of dispersion: Fisher, Thornton & MacKenzie, Ann. Appl. Biol. 9 (1922) 325-359; limiters: Turner, IEEE
Commun. Mag. 24 (1986) 8-15 (leaky bucket).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

FEWEST = 20
BAND = 0.02  # of the ceiling, on both sides
LEAST_SHARE = 0.3
STEADIER = 0.5  # than Poisson noise
# Median absolute deviation of |Z|, Z normal: of the upper half of normal values around their own median.
_HALF_NORMAL = 0.39909


@dataclass(frozen=True, slots=True, kw_only=True)
class Plateau:
    """``ceiling`` in the unit of the rates: median of the values within BAND of their 95th percentile.

    ``pinned_share``: share of those values. ``steadiness``: robust coefficient of variation, from the upper half of the
    values; 0 is perfectly steady, inf: more than three quarters are zero. ``free_steadiness``: what Poisson noise at
    that rate would give. ``is_plateau``: pinned at least LEAST_SHARE of the time, and steadier than STEADIER of free
    noise.
    """

    ceiling: float
    pinned_share: float
    steadiness: float
    free_steadiness: float
    is_plateau: bool


def find_plateau(rates: ArrayLike, *, request: float = 1.0, seconds: float = 1.0) -> Plateau | None:
    """Whether rates are held by a ceiling.

    rates : (n,), per second; NaN is not known and left out. request : the size of one request in the unit of the rates:
    1 for requests per second, the mean request's bytes for bytes per second. seconds : that each rate is the mean over.
    None with fewer than FEWEST values, or where the 95th percentile is zero.
    """
    values = np.asarray(rates, dtype=np.float64)
    values = values[~np.isnan(values)]
    if values.size < FEWEST:
        return None
    high = float(np.percentile(values, 95))
    if high <= 0:
        return None
    pinned = np.abs(values - high) <= BAND * high
    ceiling = float(np.median(values[pinned])) if pinned.any() else high
    upper = values[values >= np.median(values)]
    middle = float(np.median(upper))
    steadiness = float(np.median(np.abs(upper - middle))) / _HALF_NORMAL / middle if middle > 0 else math.inf
    free = 1 / math.sqrt(ceiling * seconds / request)
    share = float(pinned.mean())
    return Plateau(
        ceiling=ceiling,
        pinned_share=share,
        steadiness=steadiness,
        free_steadiness=free,
        is_plateau=share >= LEAST_SHARE and steadiness <= STEADIER * free,
    )
