"""Who raises alarms: each is given minutes, of which the first two weeks are calm, and says at which minutes it did."""

import json
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from alarm_worlds import DAY, LEARN_DAYS, SIGNALS, Array
from numpy.typing import NDArray
from scipy.ndimage import median_filter

from pgtrial.stats.alarms.blocks import DAY as BLOCKS
from pgtrial.stats.alarms.blocks import Signal, blocks_of
from pgtrial.stats.alarms.detector import Alarm, Learned, advance, begin, learn

_START = LEARN_DAYS * DAY
_QUIET = 60  # minutes without an excess, after which the next one is another alarm
_SIGMAS = 3.0
_SMOOTH, _WINDOW = 61, 60  # minutes, of the older tool
_PROGRAM = """
import json, sys
from otava.analysis import compute_change_points
for line in sys.stdin:
    points, _ = compute_change_points(json.loads(line))
    print(json.dumps([int(point.index) for point in points]), flush=True)
"""

Minutes = list[list[int]]  # of alarms, by month, from the end of learning on


def learn_calm(values: Array, signals: Sequence[Signal] = SIGNALS) -> Learned:
    return learn(values[..., :_START], signals, first=0)


def pgtrial(values: Array, learned: Learned) -> list[list[Alarm]]:
    """By month."""
    blocks = blocks_of(values[..., _START:], learned.signals, learned.floors)
    state = begin(learned, LEARN_DAYS * BLOCKS)
    found: list[list[Alarm]] = [[] for _ in values]
    for place in range(blocks.shape[-1]):
        state, alarms = advance(learned, state, blocks[..., place])
        for alarm in alarms:
            found[alarm.set].append(alarm)
    return found


def three_sigma(values: Array) -> Minutes:
    """A minute further from the mean of its hour of the day than three standard deviations, in any column."""
    hour = np.arange(values.shape[-1]) % DAY // 60
    calm, rest = values[..., :_START], values[..., _START:]
    outside = np.zeros((values.shape[0], rest.shape[-1]), dtype=np.bool_)
    for one in range(24):
        usual = calm[..., hour[:_START] == one]
        here = np.flatnonzero(hour[_START:] == one)
        away = np.abs(rest[..., here] - usual.mean(axis=-1)[..., None]) > _SIGMAS * usual.std(axis=-1)[..., None]
        outside[:, here] = away.any(axis=1)
    return [_separate(np.flatnonzero(month)) for month in outside]


def older_tool(values: Array) -> Minutes:
    """Medians of 61 minutes; over 60 of them throughput falls, waits rise and the two are negatively correlated.

    An alarm is the minute in which that begins to hold; it ends with the first minute in which it does not.
    """
    found = []
    for month in values[:, :2, _START - _SMOOTH - _WINDOW :]:
        # Of the last 61 minutes, up to the present one.
        speed, waits = (median_filter(each, size=_SMOOTH, origin=_SMOOTH // 2, mode="nearest") for each in month)
        slopes = [_slope(each) for each in (speed, waits)]
        joint = _covariance(speed, waits)
        holds = ((slopes[0] < 0) & (slopes[1] > 0) & (joint < 0))[_SMOOTH + 1 :]
        found.append([int(minute) for minute in np.flatnonzero(holds & ~np.concatenate([[False], holds[:-1]]))])
    return found


def otava(values: Array, python: Path) -> Minutes:
    """Points of change in hourly means of each column, over learning time and all that follows, looked at once."""
    hours = values.reshape(*values.shape[:2], -1, 60).mean(axis=-1)
    found = []
    for month in hours:
        places = {place for column in month for place in _ask(python, column.tolist())}
        found.append([place * 60 - _START for place in sorted(places) if place * 60 >= _START])
    return found


def _separate(minutes: NDArray[np.intp]) -> list[int]:
    before = np.concatenate([[-_QUIET - 1], minutes[:-1]])
    return [int(minute) for minute in minutes[minutes - before > _QUIET]]


def _sums(values: Array) -> Array:
    total = np.concatenate([[0.0], np.cumsum(values)])
    found: Array = total[_WINDOW:] - total[:-_WINDOW]
    return found


def _slope(values: Array) -> Array:
    """Of the last 60 values, up to each from the 60th on; its sign is what counts."""
    at = np.arange(values.size, dtype=np.float64)
    centred = values - values.mean()
    window = np.arange(_WINDOW - 1, values.size)
    return _sums(at * centred) - (window - (_WINDOW - 1) / 2) * _sums(centred)


def _covariance(one: Array, other: Array) -> Array:
    one, other = one - one.mean(), other - other.mean()
    return _sums(one * other) - _sums(one) * _sums(other) / _WINDOW


def _ask(python: Path, series: Sequence[float]) -> list[int]:
    process = _start(python)
    assert process.stdin is not None
    assert process.stdout is not None
    print(json.dumps(series), file=process.stdin, flush=True)
    found: list[int] = json.loads(process.stdout.readline())
    return found


@cache
def _start(python: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen([str(python), "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
