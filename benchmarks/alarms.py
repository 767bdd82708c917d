"""False alarms in simulated months, and what is found of planted changes: pgtrial beside three other ways.

    python benchmarks/alarms.py --months 80 --power 100             # false alarms, and planted changes
    python benchmarks/alarms.py --table                             # the tables again, from the results so far

Ten months at a time of each world are watched beside each other, and are a line of the file of results as soon as they
are over: the same command goes on where it was ended; --seconds ends it after so much time of the processor, with exit
code 75 while there is more to do.
A month is two weeks of calm to learn from and 30 days to watch; the seed, the world and the number of the ten decide
its numbers. --otava names the Python of an environment with Apache Otava (`make gym` has one), without which it is left
out; it and the older tool get the first months of each ten (--few). ../docs/alarms.md has the figures.
"""

import argparse
import json
import math
import sys
import time
import zlib
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any

import alarm_contenders as contenders
import numpy as np
from alarm_worlds import DAY, EFFECTS, JUDGED, LEARN_DAYS, PLANTED, WORLDS, simulate, values_of

from pgtrial.stats.alarms.audit import audit
from pgtrial.stats.alarms.blocks import MINUTES
from pgtrial.stats.alarms.detector import Alarm, Change

Row = dict[str, Any]

TOGETHER = 10  # months
WATCHED = 30  # days
POWER_DAYS = 10
POWER_WORLDS = ("white", "ar-0.6", "ar-0.9", "rhythm")
_PLANTED_AFTER = (3, 4)  # days of watching, at a random minute between them
_HORIZONS = {"1 h": 60, "6 h": 360, "24 h": 1440, "5 d": 5 * DAY}  # minutes
_START = LEARN_DAYS * DAY
_MORE = 75
ALL = {**WORLDS, **JUDGED}


def tasks(options: argparse.Namespace, done: Container[str]) -> Iterator[tuple[str, int, list[str]]]:
    """Kind, part, and the worlds of it that are still to do: of calm months all together, they are watched as one."""
    for part in range(math.ceil(options.months / TOGETHER)):
        yield "calm", part, [world for world in options.worlds if identity("calm", world, part) not in done]
    for part in range(math.ceil(options.power / TOGETHER)):
        for world in options.power_worlds:
            yield "power", part, [world] if identity("power", world, part) not in done else []


def identity(kind: str, world: str, part: int) -> str:
    return json.dumps([kind, world, part])


def play_calm(part: int, worlds: Sequence[str], options: argparse.Namespace) -> list[Row]:
    months = []
    for name in worlds:
        rng = np.random.default_rng([options.seed, zlib.crc32(name.encode()), part, True])
        noise = simulate(ALL[name], TOGETHER, WATCHED, rng)
        months.append(values_of(ALL[name], noise, rng, planted=PLANTED["nothing"]))
    values = np.concatenate(months)
    learned = contenders.learn_calm(values)
    alarms = contenders.pgtrial(values, learned)
    rows = []
    for place, name in enumerate(worlds):
        here = slice(place * TOGETHER, (place + 1) * TOGETHER)
        few = values[here][: options.few]
        minutes = {"pgtrial": _minutes(alarms[here]), "3 σ by hour": contenders.three_sigma(values[here])}
        if options.few:
            minutes["older tool"] = contenders.older_tool(few)
            if options.otava is not None:
                minutes["Apache Otava"] = contenders.otava(few, options.otava)
        rows.append(
            {
                "kind": "calm",
                "seed": options.seed,
                "world": name,
                "part": part,
                "minutes": minutes,
                "named": [[_about(change) for change in alarm.changes] for month in alarms[here] for alarm in month],
                "raised": [float(share) for share in learned.threshold[here] / learned.nominal],
            }
        )
    return rows


def play_power(part: int, name: str, options: argparse.Namespace) -> list[Row]:
    """One row for each that is planted: on the same months, from the same minute on."""
    seed = [options.seed, zlib.crc32(name.encode()), part, False]
    rng = np.random.default_rng(seed)
    noise = simulate(ALL[name], TOGETHER, POWER_DAYS, rng)
    at = int(rng.integers(_PLANTED_AFTER[0] * DAY, _PLANTED_AFTER[1] * DAY))
    # Watched beside each other as so many servers, each with what was planted in it.
    values = np.concatenate(
        [
            values_of(ALL[name], noise, np.random.default_rng([*seed, 1]), planted=planted, at=_START + at)
            for planted in PLANTED.values()
        ]
    )
    alarms = contenders.pgtrial(values, contenders.learn_calm(values))
    rows = []
    for place, planted in enumerate(PLANTED):
        here = alarms[place * TOGETHER : (place + 1) * TOGETHER]
        first = [_first_after(month, _START + at) for month in here]
        rows.append(
            {
                "kind": "power",
                "seed": options.seed,
                "world": name,
                "part": part,
                "planted": planted,
                "at": at,
                "minutes": {"pgtrial": _minutes(here)},
                "first": first,
            }
        )
    return rows


def _minutes(alarms: Sequence[Sequence[Alarm]]) -> contenders.Minutes:
    return [[(alarm.block + 1) * MINUTES - _START for alarm in month] for month in alarms]


def _about(change: Change) -> str:
    return f"{change.stream.signal} {change.stream.aspect.value} {change.stream.column}"


def _first_after(month: Sequence[Alarm], at: int) -> Row | None:
    """What the first alarm after the planting says: of what, how much, and by how many minutes it is off the onset."""
    for alarm in month:
        if (alarm.block + 1) * MINUTES > at:
            change = alarm.changes[0]
            off = change.onset * MINUTES - at
            return {"of": _about(change), "low": change.low, "size": change.size, "high": change.high, "off": off}
    return None


def read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def false_alarms(rows: Sequence[Row]) -> str:
    names = ("pgtrial", "Apache Otava", "3 σ by hour", "older tool")
    lines = [f"| noise | months | {' | '.join(names)} | most in a month |", "|" + " --- |" * (len(names) + 3)]
    for world in ALL:
        of_world = [row for row in rows if row["kind"] == "calm" and row["world"] == world]
        if not of_world:
            continue
        cells = []
        for name in names:
            months = [month for row in of_world for month in row["minutes"].get(name, [])]
            if not months:
                cells.append("–")
                continue
            rate = audit(sum(map(len, months)), days=len(months) * float(WATCHED))
            cells.append(f"{rate.rate:.2f} ({rate.low:.2f}–{rate.high:.2f})")
        own = [len(month) for row in of_world for month in row["minutes"]["pgtrial"]]
        lines.append(f"| {world} | {len(own)} | {' | '.join(cells)} | {max(own)} |")
    return "\n".join(lines)


def power(rows: Sequence[Row]) -> str:
    heads = [*(f"within {name}" for name in _HORIZONS), "median", "size within its interval", "onset within 1 h"]
    lines = [f"| noise | planted | months | {' | '.join(heads)} |", "|" + " --- |" * (len(heads) + 3)]
    for world in POWER_WORLDS:
        for planted in PLANTED:
            here = [r for r in rows if r["kind"] == "power" and r["world"] == world and r["planted"] == planted]
            if not here:
                continue
            own = _delays(here, "pgtrial")
            cells = [f"{np.mean(own <= minutes):.0%}" for minutes in _HORIZONS.values()]
            middle = float(np.median(own))
            cells.append(f"{middle:.0f} min" if middle <= _HORIZONS["5 d"] else "–")
            cells += _told(here, planted)
            lines.append(f"| {world} | {planted} | {own.size} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _told(rows: Sequence[Row], planted: str) -> list[str]:
    """How often the first alarm after planting, if it is about what was planted, has its size and its time right."""
    about, size = EFFECTS.get(planted, ("", 0.0))
    first = [each for row in rows for each in row["first"] if each is not None and each["of"] == about]
    if not first:
        return ["–", "–"]
    held = [each["low"] <= size <= each["high"] for each in first]
    return [f"{np.mean(held):.0%} of {len(first)}", f"{np.mean([abs(each['off']) <= 60 for each in first]):.0%}"]


def _delays(rows: Sequence[Row], name: str) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Minutes from planting to the first alarm after it; infinite where there is none."""
    return np.array(
        [
            min((minute - row["at"] for minute in month if minute > row["at"]), default=math.inf)
            for row in rows
            for month in row["minutes"].get(name, [])
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--months", type=int, default=50, help="of each kind of noise")
    parser.add_argument("--power", type=int, default=0, help="stretches of ten days for each planted change")
    parser.add_argument("--worlds", nargs="+", choices=tuple(ALL), default=tuple(WORLDS))
    parser.add_argument("--power-worlds", nargs="+", choices=tuple(ALL), default=POWER_WORLDS)
    parser.add_argument("--seed", type=int, default=28)
    parser.add_argument("--seconds", type=float, default=math.inf, help="of the processor, after which to stop")
    parser.add_argument("--raw", type=Path, default=Path("results/alarms.jsonl"))
    parser.add_argument("--otava", type=Path)
    parser.add_argument("--few", type=int, default=2, help="months of each ten for the older tool and Otava")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    rows = read(options.raw)
    if not options.table:
        if others := {row["seed"] for row in rows if "seed" in row} - {options.seed}:
            parser.error(f"{options.raw} has months with the seed {', '.join(map(str, others))}; name another --raw")
        done = {identity(row["kind"], row["world"], row["part"]) for row in rows}
        options.raw.parent.mkdir(parents=True, exist_ok=True)
        for kind, part, worlds in tasks(options, done):
            if not worlds:
                continue
            if time.process_time() > options.seconds:
                return _MORE
            more = play_calm(part, worlds, options) if kind == "calm" else play_power(part, worlds[0], options)
            with options.raw.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in more)
            rows += more
    print(false_alarms(rows), power(rows), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
