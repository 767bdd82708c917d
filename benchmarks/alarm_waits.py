"""Waits by type and event: false alarms, and delays to planted shifts, with the mixes of events and without them.

    python benchmarks/alarm_waits.py --months 20     # five minutes of a processor

Servers that nothing happens to, minute by minute: commits, and sessions at work that are polled once a second and wait
for 16 events of 7 types. Load, types and events have autoregressive noise of their own; WORLDS add a rhythm of day and
week, bursts, or events that come only now and then. ``watch.signals`` makes signals of what is polled, as it does for
`pgtrial alarms`. Two weeks are calm, 30 days are watched; what is planted is planted in ten months, on the fourth day.
"types" leaves the mixes of events out, on the same months. ../docs/alarms.md has the figures.
"""

import argparse
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import alarm_contenders as contenders
import numpy as np
from alarm_worlds import DAY, LEARN_DAYS, Array, rhythm_of
from scipy.signal import lfilter

from pgtrial.stats.alarms.audit import audit
from pgtrial.stats.alarms.blocks import MINUTES, Signal
from pgtrial.stats.alarms.detector import Alarm
from pgtrial.watch.layout import MINUTE
from pgtrial.watch.series import ACTIVE_NAME, COMMITS_NAME, TIME_NAME
from pgtrial.watch.signals import WAITS_NAME, Column, Minutes, choose_signals
from pgtrial.watch.windows import Window

TOGETHER = 10  # months
WATCHED = 30  # days
_POWER = 5  # days
_START = LEARN_DAYS * DAY
_AT = _START + 3 * DAY + 600  # the minute at which something is planted
_EPOCH = 4 * DAY * MINUTE  # a Monday's midnight
_SETTLING = 1000  # minutes
_POLLS = 60.0  # in a minute

# Average sessions of clients.
EVENTS = {
    "CPU": 1.5,
    "IO/DataFileRead": 0.5,
    "IO/WALSync": 0.25,
    "IO/WALWrite": 0.08,
    "IO/DataFileExtend": 0.008,
    "IO/BufFileWrite": 0.006,
    "LWLock/WALWrite": 0.2,
    "LWLock/BufferMapping": 0.06,
    "LWLock/BufferContent": 0.02,
    "LWLock/WALInsert": 0.02,
    "LWLock/LockManager": 0.01,
    "Lock/transactionid": 0.12,
    "Lock/tuple": 0.012,
    "Client/ClientWrite": 0.05,
    "IPC/BgWorkerShutdown": 0.006,
    "Timeout/VacuumDelay": 0.004,
}
_RARE = 0.03  # sessions, below which an event comes only now and then where it does so

Waits = dict[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """``rhythm``: its height, of logarithms; ``bursts`` of each event: a day, minutes, and height of logarithms."""

    phi: float = 0.6
    rhythm: float = 0.0
    bursts: tuple[float, float, float] | None = None
    is_rare: bool = False


WORLDS = {
    "AR(1), 0.9": World(phi=0.9),
    "rhythm": World(rhythm=0.3),
    "rhythm, bursts": World(rhythm=0.3, bursts=(1.0, 5.0, 0.5)),
    "rhythm, rare events": World(rhythm=0.3, is_rare=True),
}


def _noise(rng: np.random.Generator, size: float, phi: float, minutes: int) -> Array:
    shocks = rng.normal(size=minutes + _SETTLING) * np.sqrt(1 - phi**2)
    found: Array = size * lfilter([1.0], [1.0, -phi], shocks)[_SETTLING:]
    return found


def _bursts(rng: np.random.Generator, a_day: float, length: float, height: float, minutes: int) -> Array:
    found = np.zeros(minutes)
    for start in np.flatnonzero(rng.random(minutes) < a_day / DAY):
        found[start : start + 1 + int(rng.exponential(length))] += height * rng.exponential()
    return found


def simulate(world: World, days: int, rng: np.random.Generator, plant: "Callable[[Waits], Waits]") -> Minutes:
    """What a watch has of calm time and so many days more, from a Monday's midnight."""
    minutes = _START + days * DAY
    load = np.exp(_noise(rng, 0.05, world.phi, minutes) + rhythm_of(minutes, world.rhythm))
    types: Waits = {}
    waits: Waits = {}
    for event, usual in EVENTS.items():
        kind = event.partition("/")[0]
        if kind not in types:
            types[kind] = _noise(rng, 0.1, world.phi, minutes)
        sessions = usual * load * np.exp(types[kind] + _noise(rng, 0.15, world.phi, minutes))
        if world.bursts and kind != event:
            sessions = sessions * np.exp(_bursts(rng, *world.bursts, minutes))
        if world.is_rare and usual < _RARE:
            sessions = 0.05 * sessions + _bursts(rng, 0.2, 4.0, 0.3, minutes)
        waits[event] = sessions
    commits = 100 * load * np.exp(_noise(rng, 0.03, world.phi, minutes))
    # Each has a generator of its own: until something is planted all is as if nothing were.
    planted = plant(waits)
    polls = zip(planted.items(), rng.spawn(len(planted)), strict=True)
    seen = {event: own.poisson(_POLLS * sessions) / _POLLS for (event, sessions), own in polls}
    active: Array = sum(seen.values(), np.zeros(minutes))
    series = {
        ("polls", ""): np.full(minutes, _POLLS),
        (COMMITS_NAME, ""): commits,
        (ACTIVE_NAME, ""): active,
        (TIME_NAME, ""): active / commits,
        **{(WAITS_NAME, event): sessions for event, sessions in seen.items()},
    }
    return Minutes(Window(_EPOCH, _EPOCH + minutes * MINUTE), series)


def _moved(source: str, share: float, event: str) -> "Callable[[Waits], Waits]":
    """Some of the sessions that wait for one event wait for another one."""

    def plant(waits: Waits) -> Waits:
        moved = np.where(np.arange(waits[source].size) >= _AT, share * waits[source], 0.0)
        return {**waits, source: waits[source] - moved, event: waits.get(event, 0.0) + moved}

    return plant


def _grown(kind: str, times: float) -> "Callable[[Waits], Waits]":
    def plant(waits: Waits) -> Waits:
        return {
            event: np.where((np.arange(sessions.size) >= _AT) & event.startswith(f"{kind}/"), times, 1.0) * sessions
            for event, sessions in waits.items()
        }

    return plant


PLANTED = {
    "30 % of LWLock WALWrite to BufferMapping": _moved("LWLock/WALWrite", 0.3, "LWLock/BufferMapping"),
    "30 % of IO DataFileRead to WALSync": _moved("IO/DataFileRead", 0.3, "IO/WALSync"),
    "half of Lock transactionid to tuple": _moved("Lock/transactionid", 0.5, "Lock/tuple"),
    "30 % of LWLock WALWrite to one that never was": _moved("LWLock/WALWrite", 0.3, "LWLock/XidGen"),
    "30 % more of each IO": _grown("IO", 1.3),
    "50 % more of each LWLock": _grown("LWLock", 1.5),
    "twice as much of each Lock": _grown("Lock", 2.0),
}


def signals_of(months: Sequence[Minutes]) -> tuple[tuple[Column, ...], tuple[Signal, ...], Array]:
    """Columns and signals, the same for all months, and values (months, columns, minutes)."""
    calm = Window(_EPOCH, _EPOCH + _START * MINUTE)
    found = [choose_signals(month, calm, {}, server="") for month in months]
    ((columns, signals),) = {(each.columns, each.signals) for each in found}
    return columns, signals, np.stack([each.values for each in found])


def by_type(signals: Sequence[Signal]) -> tuple[Signal, ...]:
    return tuple(each for each in signals if not each.name.startswith(f"{WAITS_NAME} of "))


def _first_after(alarms: Sequence[Alarm]) -> tuple[float, int | None]:
    """Minutes from the planting to the first alarm after it, infinite where there is none, and the column in it."""
    for alarm in alarms:
        if (alarm.block + 1) * MINUTES > _AT:
            return (alarm.block + 1) * MINUTES - _AT, alarm.changes[0].stream.column
    return np.inf, None


def _months(name: str, part: int, days: int, seed: int, plant: "Callable[[Waits], Waits]") -> list[Minutes]:
    seeds = [[seed, zlib.crc32(name.encode()), part, each] for each in range(TOGETHER)]
    return [simulate(WORLDS[name], days, np.random.default_rng(each), plant) for each in seeds]


def calm_rows(name: str, months: int, seed: int) -> list[str]:
    found: dict[str, list[int]] = {"types": [], "types and events": []}
    about: dict[str, list[str]] = {each: [] for each in found}
    for part in range(-(-months // TOGETHER)):
        columns, signals, values = signals_of(_months(name, part, WATCHED, seed, dict))
        for kind, chosen in zip(found, (by_type(signals), signals), strict=True):
            alarms = contenders.pgtrial(values, contenders.learn_calm(values, chosen))
            found[kind] += map(len, alarms)
            about[kind] += [columns[each.changes[0].stream.column].signal for month in alarms for each in month]
    rows = []
    for kind, counts in found.items():
        rate = audit(sum(counts), days=len(counts) * float(WATCHED))
        often = ", ".join(f"{each} {about[kind].count(each)}" for each in dict.fromkeys(about[kind]))
        cells = [name, kind, str(len(counts)), f"{rate.rate:.2f} ({rate.low:.2f}–{rate.high:.2f})", str(max(counts))]
        rows.append(f"| {' | '.join([*cells, often or '–'])} |")
    return rows


def power_rows(name: str, seed: int) -> list[str]:
    rows = []
    _, signals, values = signals_of(_months(name, 0, _POWER, seed, dict))
    kinds = {"types": by_type(signals), "types and events": signals}
    learned = {kind: contenders.learn_calm(values, chosen) for kind, chosen in kinds.items()}
    for planted, plant in PLANTED.items():
        columns, _, values = signals_of(_months(name, 0, _POWER, seed, plant))
        for kind in kinds:
            delays, places = zip(*map(_first_after, contenders.pgtrial(values, learned[kind])), strict=True)
            first = [f"{columns[each].signal}: {columns[each].part}" for each in places if each is not None]
            often = ", ".join(f"{each} {first.count(each)}" for each in dict.fromkeys(first))
            middle = float(np.median(delays))
            shares = [f"{np.mean(np.array(delays) <= minutes):.0%}" for minutes in (60, DAY)]
            cells = [name, planted, kind, *shares, f"{middle:.0f} min" if np.isfinite(middle) else "–", often or "–"]
            rows.append(f"| {' | '.join(cells)} |")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--months", type=int, default=2 * TOGETHER, help="of each world")
    parser.add_argument("--worlds", nargs="+", choices=tuple(WORLDS), default=tuple(WORLDS))
    parser.add_argument("--power", nargs="*", choices=tuple(WORLDS), default=["rhythm"], help="where to plant")
    parser.add_argument("--seed", type=int, default=28)
    options = parser.parse_args()
    print(
        "| noise | waits | months | false alarms in 30 days | most in a month | named |", "|" + " --- |" * 6, sep="\n"
    )
    for name in options.worlds if options.months else ():
        print(*calm_rows(name, options.months, options.seed), sep="\n", flush=True)
    print("", "| noise | planted | waits | within 1 h | within 24 h | median | named |", "|" + " --- |" * 7, sep="\n")
    for name in options.power:
        print(*power_rows(name, options.seed), sep="\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
