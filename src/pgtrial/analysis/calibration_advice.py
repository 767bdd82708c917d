"""Which of the calibrated methods to use, and what each of them finds in the experiment itself."""

import math
from collections.abc import Sequence

from pgtrial.analysis.calibration import Detectable, Forecast, MethodCalibration, Recommendation, shown_label
from pgtrial.design.calibration import FEWEST_BLOCKS
from pgtrial.design.duration import MOST_BLOCKS
from pgtrial.stats.power import detectable_ratio
from pgtrial.stats.slices import detectable_in, sd_interval, sd_per_minute

TIMES = (600.0, 1800.0, 7200.0)  # s
POWER = 0.8
# A simpler and safer method is preferred to the quickest one if it takes at most this much longer, and if the noise of
# both cannot be told apart: what is saved below that is not worth what may be wrong with the other one.
MOST_EXTRA = 1.1


def forecast_method(
    *,
    sd: float,
    degrees: int,
    duration: float,
    calibrated: float,
    block_seconds: float,
    margin: float,
    confidence: float,
    comparisons: int,
) -> Forecast:
    """What blocks of ``block_seconds`` with runs of ``duration`` seconds find; ``sd`` was measured with ``degrees`` of
    freedom at a duration of ``calibrated``, and is taken to fall with the root of the duration.
    """
    sd *= math.sqrt(calibrated / duration)
    interval = sd_interval(sd, degrees, confidence=confidence)
    blocks = _blocks_for(sd, margin, confidence=confidence, comparisons=comparisons)
    return Forecast(
        duration=duration,
        block_seconds=block_seconds,
        sd_log_ratio=sd,
        sd_per_minute=sd_per_minute(sd, block_seconds),
        sd_per_minute_low=sd_per_minute(interval.low, block_seconds),
        sd_per_minute_high=sd_per_minute(interval.high, block_seconds),
        detectable=tuple(
            Detectable(
                seconds=seconds,
                change=detectable_in(
                    sd, block_seconds, seconds, confidence=confidence, power=POWER, comparisons=comparisons
                ),
            )
            for seconds in TIMES
        ),
        blocks=blocks,
        seconds=None if blocks is None else blocks * block_seconds,
    )


def recommend(methods: Sequence[MethodCalibration], *, margin: float) -> Recommendation:
    """The method that takes the fewest minutes to find the margin, or one that is as good and simpler.

    ``methods`` are at least one, the simplest first. Those with doubts are taken only if there is no other. Two are as
    good if the SD per minute of each lies inside the other's interval.
    """
    eligible = [one for one in methods if not one.doubtful] or list(methods)
    best = min(eligible, key=_cost)
    equals = [one for one in eligible if one is best or _are_alike(one.forecast, best.forecast)]
    chosen = next(one for one in equals if _cost(one) <= MOST_EXTRA * _cost(best))
    forecast = chosen.forecast
    if forecast.blocks is None or forecast.seconds is None:
        reason = "it has the least noise for its time, but no number of blocks would find the margin"
    elif chosen is best:
        reason = "it finds the margin in the shortest time"
    else:
        reason = f"it is simpler than {shown_label(best)}, and takes hardly longer"
    return Recommendation(
        label=chosen.label,
        method=chosen.method,
        slice=chosen.slice,
        blocks=forecast.blocks,
        seconds=forecast.seconds,
        as_good=tuple(one.label for one in eligible if one is not chosen and _are_alike(one.forecast, chosen.forecast)),
        reason=reason,
    )


def _cost(one: MethodCalibration) -> float:
    """What methods are ordered by: seconds to the margin; where none reaches it, those to any other one, which go with
    the square of the SD per minute.
    """
    if one.forecast.seconds is not None:
        return one.forecast.seconds
    return 1e12 * one.forecast.sd_per_minute**2


def _are_alike(one: Forecast, other: Forecast) -> bool:
    return (
        one.sd_per_minute_low <= other.sd_per_minute <= one.sd_per_minute_high
        and other.sd_per_minute_low <= one.sd_per_minute <= other.sd_per_minute_high
    )


def _blocks_for(sd: float, margin: float, *, confidence: float, comparisons: int) -> int | None:
    """The fewest blocks, FEWEST_BLOCKS at least, that find a change of ``margin``; None beyond MOST_BLOCKS."""

    def find(blocks: int) -> bool:
        found = detectable_ratio(sd, blocks, confidence=confidence, power=POWER, comparisons=comparisons)
        return found is not None and found <= margin

    low, high = FEWEST_BLOCKS, MOST_BLOCKS
    if not find(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if find(middle) else (middle + 1, high)
    return high
