"""Decide when a warm-up can end. Standard library only, because the engine imports this.

The rule looks at the newest third of the series, at least ``window`` seconds: what came before may have been the
transient. The load is steady when that part shows no trend, by either of two measures:

- Kendall's S is within STRICTNESS standard deviations of what noise gives. That is far stricter than a test at 5 %,
  for the costs are unequal. A warm-up that ends too early biases every run alike, and repeating does not repair it;
  one that goes on costs a second, after which the rule is asked again, so noise without trend passes within a few
  seconds all the same.
- The Theil-Sen slope over that part is less than ``tolerance`` of its median: a trend too small to matter, however
  sure.

Ranks and medians, because a single stalled second must not decide. What noise hides the rule cannot see: that is why
the window should grow with the time that will be measured (``steady_window``).
Sources: Mann, Econometrica 13 (1945) 245-259; Kendall, "Rank Correlation Methods" (1970); Sen, J. Am. Stat. Assoc. 63
(1968) 1379-1389; to leave out the first part: Geweke, Bayesian Statistics 4 (1992) 169-193.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from statistics import median

WINDOW = 5
TOLERANCE = 0.02
STRICTNESS = 0.7


def steady_window(measured: float) -> int:
    """Window for a load level of ``measured`` seconds: an eighth of it, 3 to 60 s.

    A warm-up of at least an eighth costs little against the measurement, and a transient too slow to show in that part
    of it is either small or slow enough to be the same in all arms.
    """
    return min(60, max(3, round(measured / 8)))


def is_steady(per_second: Sequence[float], *, window: int = WINDOW, tolerance: float = TOLERANCE) -> bool:
    """Whether the warm-up can end now.

    per_second : throughput of each second so far, oldest first, any unit; NaN is a second without a reading.
    window : seconds looked at, at least 3. tolerance : relative change over that time that does not matter.
    Never steady with less than ``window`` readings in it, or when half of them are zero: nothing has begun.
    """
    if window < 3:
        raise ValueError(f"expected a window of at least 3 seconds, got {window}")
    length = max(window, len(per_second) // 3)
    newest = [(t, y) for t, y in enumerate(per_second[-length:]) if math.isfinite(y)]
    count = len(newest)
    if count < window:
        return False
    middle = median(y for _, y in newest)
    if middle <= 0:
        return False
    slopes = sorted(
        (y - earlier) / (t - before) for place, (t, y) in enumerate(newest) for before, earlier in newest[:place]
    )
    score = len(slopes) - bisect_right(slopes, 0.0) - bisect_left(slopes, 0.0)  # rises less falls
    noise = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    return abs(score) <= STRICTNESS * noise or abs(median(slopes)) * length <= tolerance * middle
