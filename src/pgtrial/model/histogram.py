"""The latency histogram: buckets whose width grows with the value, so that the relative error is bounded.

Bucket i holds latencies in (GAMMA**(i-1), GAMMA**i] microseconds: whatever value in it stands for a latency, the error
is at most GAMMA - 1, 1 %. A bucket as a whole is represented by the value at the same relative distance from both ends,
2·GAMMA**i / (GAMMA + 1), with half that error. Source: Masson, Rim, Lee, "DDSketch", VLDB 2019, section 2.1.
"""

import math

GAMMA = 1.01
RELATIVE_ERROR = GAMMA - 1  # of any value inside the bucket


def bucket_of(microseconds: float) -> int:
    """Bucket index of a latency; everything up to 1 µs, the clock's resolution in pgbench's log, is bucket 0."""
    if microseconds <= 1:
        return 0
    return math.ceil(math.log(microseconds) / math.log(GAMMA))


def bucket_value(bucket: int) -> float:
    """Representative latency of a bucket in seconds."""
    if bucket <= 0:
        return 1e-6
    return 2 * GAMMA**bucket / (GAMMA + 1) * 1e-6


def bucket_bounds(bucket: int) -> tuple[float, float]:
    """Lower (excluded) and upper (included) end of a bucket in seconds."""
    if bucket <= 0:
        return 0.0, 1e-6
    return GAMMA ** (bucket - 1) * 1e-6, GAMMA**bucket * 1e-6
