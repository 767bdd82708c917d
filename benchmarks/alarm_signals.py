"""False alarms, and what is found, with all signals that a watch has: errors, work per commit, devices, memory, calls.

    python benchmarks/alarm_signals.py --months 10     # two minutes

A healthy server minute by minute: rollbacks now and then, some of them many at once; a deadlock in some weeks; reports
with temporary files; backups that stay for 20 minutes, at which devices are slow and tasks stall on memory. Of what the
folder of a watch has of it ``watch.signals`` makes signals, so backgrounds and groups are those of `pgtrial alarms`.
Two weeks are calm, 30 days are watched, ten months beside each other; what is planted is planted in the first ten, on
the fourth day. Beside it stand the same months with the signals of the load alone. ../docs/alarms.md has the figures.
"""

import argparse
import sys
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import alarm_contenders as contenders
import numpy as np
from alarm_worlds import DAY, LEARN_DAYS, Array
from scipy.signal import lfilter

from pgtrial.stats.alarms.audit import audit
from pgtrial.stats.alarms.blocks import MINUTES, Signal
from pgtrial.stats.alarms.detector import Alarm
from pgtrial.watch.layout import MINUTE
from pgtrial.watch.quotients import AVAILABLE_NAME, NAMES, PER_CALL_NAME, ROLLED_BACK_NAME
from pgtrial.watch.series import ACTIVE_NAME, COMMITS_NAME, TIME_NAME
from pgtrial.watch.signals import Column, Minutes, choose_signals
from pgtrial.watch.windows import Window

TOGETHER = 10  # months
WATCHED = 30  # days
_START = LEARN_DAYS * DAY
_MONTH = (LEARN_DAYS + WATCHED) * DAY
_AT = _START + 3 * DAY + 600  # the minute at which something is planted
_LAST = _AT + 2 * DAY
_EPOCH = 4 * DAY * MINUTE  # a Monday's midnight
_STATEMENTS = ("1", "2", "3", "4", "5")
_SETTLING = 1000  # minutes

Key = tuple[str, str]  # a signal, and the part of it
Series = Mapping[Key, Array]


def _noise(rng: np.random.Generator, size: float, phi: float = 0.6) -> Array:
    """Factors around one, whose logarithms are autoregressive."""
    shocks = rng.normal(size=_MONTH + _SETTLING) * np.sqrt(1 - phi**2)
    found: Array = np.exp(size * lfilter([1.0], [1.0, -phi], shocks)[_SETTLING:])
    return found


def _bursts(rng: np.random.Generator, a_day: float, minutes: float) -> Array:
    """1 in bursts of an exponential length, otherwise 0."""
    found = np.zeros(_MONTH)
    for start in np.flatnonzero(rng.random(_MONTH) < a_day / DAY):
        found[start : start + 1 + int(rng.exponential(minutes))] = 1.0
    return found


def healthy(rng: np.random.Generator) -> Series:
    """A month as ``watch.signals`` reads it, before it is known which of it are signals."""
    commits, active = 100 * _noise(rng, 0.05), 4 * _noise(rng, 0.08)
    reports, backup = _bursts(rng, 3, 4), _bursts(rng, 0.8, 20)
    series = {
        COMMITS_NAME: commits,
        ACTIVE_NAME: active,
        TIME_NAME: active / commits,
        ROLLED_BACK_NAME: rng.poisson(2 / DAY + 40 * _bursts(rng, 0.2, 2)) / MINUTE,
        "deadlocks": rng.poisson(0.3 / DAY, _MONTH) / MINUTE,
        "temporary files per commit": reports * 1e6 * _noise(rng, 1.0, 0.0) / commits,
        "blocks per commit": 40 * _noise(rng, 0.05) * (1 + reports),
        "blocks dirtied per commit": 3 * _noise(rng, 0.05),
        "WAL per commit": 900 * _noise(rng, 0.3, 0.8),
        "time per device read": 0.4e-3 * _noise(rng, 0.1) * (1 + backup),
        "time per device write": 0.8e-3 * _noise(rng, 0.1) * (1 + 0.5 * backup),
        "requests at devices": 0.3 * _noise(rng, 0.2) * (1 + 3 * backup),
        "some task stalled on memory": 0.01 * backup * _noise(rng, 0.5),
        "pages swapped in": np.zeros(_MONTH),
        AVAILABLE_NAME: 8e9 * _noise(rng, 0.05, 0.99) * (1 - 0.1 * backup),
    }
    calls = {(PER_CALL_NAME, each): 0.002 * _noise(rng, 0.1) * (1 + 0.3 * backup) for each in _STATEMENTS}
    return {("polls", ""): np.full(_MONTH, 60.0)} | {(name, ""): each for name, each in series.items()} | calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """From its minute on a series is ``times`` what it was, and ``more`` is added."""

    name: str
    key: Key
    times: float = 1.0
    more: float = 0.0


PLANTED = (
    Planted(name="0.2 % of transactions rolled back", key=(ROLLED_BACK_NAME, ""), more=0.2),
    Planted(name="a deadlock a minute", key=("deadlocks", ""), more=1 / MINUTE),
    Planted(name="30 kB of temporary files per commit", key=("temporary files per commit", ""), more=3e4),
    Planted(name="20 % more blocks per commit", key=("blocks per commit", ""), times=1.2),
    Planted(name="twice the WAL per commit", key=("WAL per commit", ""), times=2.0),
    Planted(name="device reads take half as long again", key=("time per device read", ""), times=1.5),
    Planted(name="stalls on memory in 1 % of the time", key=("some task stalled on memory", ""), more=0.01),
    Planted(name="one statement takes 30 % longer", key=(PER_CALL_NAME, "1"), times=1.3),
    Planted(name="10 % fewer commits", key=(COMMITS_NAME, ""), times=0.9),
    Planted(name="30 % fewer commits", key=(COMMITS_NAME, ""), times=0.7),
)


def plant(month: Series, planted: Planted) -> Series:
    changed = month[planted.key].copy()
    changed[_AT:] = changed[_AT:] * planted.times + planted.more
    return {**month, planted.key: changed}


def signals_of(
    months: Sequence[Series], without: Container[str], *, part: int
) -> tuple[tuple[Column, ...], tuple[Signal, ...], Array]:
    """Columns and signals, the same for all months, and values (months, columns, minutes)."""
    window, calm = (Window(_EPOCH, _EPOCH + minutes * MINUTE) for minutes in (_MONTH, _START))
    found = [
        choose_signals(
            Minutes(window, {key: values for key, values in month.items() if key[0] not in without}),
            calm,
            dict.fromkeys(_STATEMENTS, ""),
            server=f"db{part}-{number}",
        )
        for number, month in enumerate(months, start=1)
    ]
    ((columns, signals),) = {(each.columns, each.signals) for each in found}
    return columns, signals, np.stack([each.values for each in found])


def _delay(alarms: Sequence[Alarm]) -> tuple[float, Alarm | None]:
    """Minutes from the planting to the first alarm after it; infinite where there is none."""
    for alarm in alarms:
        if (alarm.block + 1) * MINUTES > _AT:
            return (alarm.block + 1) * MINUTES - _AT, alarm
    return np.inf, None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--months", type=int, default=TOGETHER)
    parser.add_argument("--seed", type=int, default=28)
    options = parser.parse_args()
    calm = ["| signals | months | false alarms in 30 days | most in a month | named |", "|" + " --- |" * 5]
    power = ["| signals | planted | within 1 h | within 24 h | median | named |", "|" + " --- |" * 6]
    for name, without in (("of the load", frozenset((*NAMES, PER_CALL_NAME))), ("all", frozenset[str]())):
        found: list[list[Alarm]] = []
        about: list[str] = []
        for part in range(-(-options.months // TOGETHER)):
            months = [healthy(np.random.default_rng([options.seed, part, each])) for each in range(TOGETHER)]
            columns, signals, values = signals_of(months, without, part=part)
            learned = contenders.learn_calm(values, signals)
            found += (more := contenders.pgtrial(values, learned))
            about += [columns[alarm.changes[0].stream.column].signal for month in more for alarm in month]
            for planted in () if part else PLANTED:
                if planted.key[0] in without:
                    continue
                *_, changed = signals_of([plant(month, planted) for month in months], without, part=part)
                delays, first = zip(*map(_delay, contenders.pgtrial(changed[..., :_LAST], learned)), strict=True)
                named = [
                    any(
                        columns[change.stream.column] == Column(signal=planted.key[0], part=planted.key[1])
                        for change in alarm.changes
                    )
                    for alarm in first
                    if alarm is not None
                ]
                shares = [f"{np.mean(np.array(delays) <= minutes):.0%}" for minutes in (60, DAY)]
                middle = float(np.median(delays))
                cells = [*shares, f"{middle:.0f} min" if np.isfinite(middle) else "–", f"{sum(named)} of {len(named)}"]
                power.append(f"| {name} | {planted.name} | {' | '.join(cells)} |")
        counts = [len(month) for month in found]
        rate = audit(sum(counts), days=len(counts) * float(WATCHED))
        often = ", ".join(f"{each} {about.count(each)}" for each in dict.fromkeys(about))
        cells = [str(len(counts)), f"{rate.rate:.2f} ({rate.low:.2f}–{rate.high:.2f})", str(max(counts)), often or "–"]
        calm.append(f"| {name} | {' | '.join(cells)} |")
    print(*calm, "", *power, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
