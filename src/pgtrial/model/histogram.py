"""Latency histogram: the bucket width grows with the value, which bounds the relative error.

Bucket i holds latencies in (GAMMA**(i-1), GAMMA**i] microseconds: whatever value in it stands for a latency, the error
is at most GAMMA - 1, 1 %. A bucket as a whole is represented by the value at the same relative distance from both ends,
2·GAMMA**i / (GAMMA + 1), with half that error. Source: Masson, Rim, Lee, "DDSketch", VLDB 2019, section 2.1.

A load generator that keeps its own histograms has its own buckets, and converting them would add another error.
Those of fio (stat.c, plat_idx_to_val) have the indexes from FINE on: bucket FINE + i is number i there, of
whole nanoseconds, 64 of the same width between a power of two and the next. They are at most 1/64 of a latency wide, so
that ``standing_bounds`` has values from the middle that are at most 1 % away from any latency of the bucket.
"""

import math

GAMMA = 1.01
RELATIVE_ERROR = GAMMA - 1  # of any value inside the bucket
FINE = 10_000  # above the index of any latency in buckets of GAMMA: that one would be 10**37 s
ROWS_PER_DOUBLING = 2
_STEPS = 64  # buckets between two powers of two, of those from FINE on
_NANOSECOND = 1e-9
LAST = FINE + 64 * _STEPS  # its latency has 64 bits of nanoseconds


def bucket_of(microseconds: float) -> int:
    """Bucket index of a latency; everything up to 1 µs, the clock's resolution in pgbench's log, is bucket 0."""
    if microseconds <= 1:
        return 0
    return math.ceil(math.log(microseconds) / math.log(GAMMA))


def fine_bucket_of(nanoseconds: int) -> int:
    """Index of fio's bucket with this latency in it."""
    if nanoseconds < 2 * _STEPS:
        return FINE + nanoseconds
    doublings = nanoseconds.bit_length() - 7
    return FINE + doublings * _STEPS + (nanoseconds >> doublings)


def bucket_value(bucket: int) -> float:
    """Representative latency of a bucket, in seconds."""
    if bucket >= FINE:
        lower, upper = bucket_bounds(bucket)
        return (lower + upper) / 2
    if bucket <= 0:
        return 1e-6
    return 2 * GAMMA**bucket / (GAMMA + 1) * 1e-6


def bucket_bounds(bucket: int) -> tuple[float, float]:
    """Lower and upper bound of a bucket, in seconds; which of them is included matters by one clock tick only."""
    if bucket >= FINE:
        return _fine_bounds(bucket - FINE)
    if bucket <= 0:
        return 0.0, 1e-6
    return GAMMA ** (bucket - 1) * 1e-6, GAMMA**bucket * 1e-6


def row_of(bucket: int) -> int:
    """Heat map row of a bucket; there are two rows per doubling of the latency.

    Row i holds latencies of (2**(i/2), 2**((i+1)/2)] microseconds. A bucket that spans a boundary goes by its
    value, so a latency within 1 % of a boundary may fall in the adjacent row. Row 0 includes everything shorter.
    """
    return max(0, math.ceil(ROWS_PER_DOUBLING * math.log2(bucket_value(bucket) * 1e6)) - 1)


def row_bounds(row: int) -> tuple[float, float]:
    """Lower and upper bound of a row, in seconds; row 0 begins as if it contained nothing shorter."""
    return 2 ** (row / ROWS_PER_DOUBLING) * 1e-6, 2 ** ((row + 1) / ROWS_PER_DOUBLING) * 1e-6


def standing_bounds(bucket: int) -> tuple[float, float]:
    """Bounds between which a value represents any latency of the bucket with an error of at most RELATIVE_ERROR.

    Below 64 ns a bucket of one nanosecond is wider than that.
    """
    lower, upper = bucket_bounds(bucket)
    if bucket < FINE or upper * (1 - RELATIVE_ERROR) >= lower * (1 + RELATIVE_ERROR):
        return lower, upper
    return max(lower, upper * (1 - RELATIVE_ERROR)), min(upper, lower * (1 + RELATIVE_ERROR))


def _fine_bounds(number: int) -> tuple[float, float]:
    if number < 2 * _STEPS:
        return number * _NANOSECOND, (number + 1) * _NANOSECOND
    width = 1 << (number // _STEPS - 1)
    lower = (_STEPS + number % _STEPS) * width
    return lower * _NANOSECOND, (lower + width) * _NANOSECOND
