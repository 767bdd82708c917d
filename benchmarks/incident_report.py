"""What is kept of planted incidents, what the page of a watch says of them, and the table of it in docs/watch.md.

Each time is compared with the calm time before it, as soon as two minutes of it have passed and again each minute.
So it is known when the page first named an incident, and how often the same looks point to something in calm times.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from ground_truth.page import put_between, table
from incident_plants import INCIDENTS

from pgtrial.safe_files import write_file
from pgtrial.units import format_duration
from pgtrial.watch.compare import compare
from pgtrial.watch.layout import MINUTE
from pgtrial.watch.windows import Window
from pgtrial.watch.words import Suspicion, pointers, sentences

RESULTS = "results.json"
KEPT = Path(__file__).parent / "incidents.json"
PAGE = Path(__file__).parents[1] / "docs" / "watch.md"
BEGIN = "<!-- begin: written by benchmarks/incidents.py -->"
END = "<!-- end: written by benchmarks/incidents.py -->"
FIRST_LOOK = 2  # min
_LEAST_MORE = 1.0  # times the rate of before; there was more to do where it was above
_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the page pointed to after so many minutes, in its order; ``said`` is how many sentences it had."""

    minutes: int
    codes: tuple[str, ...]
    texts: tuple[str, ...]
    said: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A calm time, or the time of an incident, in seconds since the epoch.

    ``rate`` is how many transactions came in a second and were done, ``median`` and ``late`` (the 99th percentile) how
    long they took, as the load itself knows; None where there were none. ``evidence`` says how the incident was seen,
    not by the watch.
    """

    planted: str
    start: float
    end: float
    rate: float
    median: float | None
    late: float | None
    evidence: str = ""
    looks: tuple[Look, ...] = ()

    @property
    def window(self) -> Window:
        """Its whole minutes."""
        return Window(math.ceil(self.start / MINUTE) * MINUTE, math.floor(self.end / MINUTE) * MINUTE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What was watched without a break; ``period`` is that of the load's wave, in seconds."""

    number: int
    version: str
    period: float
    stretches: tuple[Stretch, ...] = field(default=())
    is_judged: bool = False

    def with_stretch(self, stretch: Stretch) -> "Part":
        return replace(self, stretches=(*self.stretches, stretch))

    def unjudged(self) -> "Part":
        return replace(self, is_judged=False)

    def pairs(self) -> Iterator[tuple[Stretch, Stretch]]:
        """Each stretch but the first one, after the calm one before it."""
        calm = self.stretches[0] if self.stretches else None
        for stretch in self.stretches[1:]:
            if calm is not None:
                yield calm, stretch
            calm = calm if stretch.planted else stretch


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A plan, by its seed, and what is there of it."""

    seed: int
    parts: tuple[Part, ...] = field(default=())

    def remaining(self, plan: Sequence[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
        done = {stretch.planted for part in self.parts for stretch in part.stretches}
        return tuple(each for each in plan if each[0] not in done)


def judge(part: Part, folder: Path) -> Part:
    """The part with what the page points to at each look."""
    judged = list(part.stretches[:1])
    for calm, stretch in part.pairs():
        looks = tuple(
            _look(folder, calm, stretch, minutes) for minutes in range(FIRST_LOOK, stretch.window.minutes + 1)
        )
        judged.append(replace(stretch, looks=looks))
    return replace(part, stretches=tuple(judged), is_judged=True)


def _look(folder: Path, calm: Stretch, stretch: Stretch, minutes: int) -> Look:
    start = stretch.window.start
    found = compare(folder, calm.window, Window(start, start + minutes * MINUTE))
    points = pointers(found)
    return Look(
        minutes=minutes,
        codes=tuple(str(each.code) for each in points),
        texts=tuple(each.text for each in points),
        said=len([*sentences(found)]),
    )


def place_of(planted: str, look: Look) -> int | None:
    """The place at which the incident is named, the first is 1; None where it is not."""
    expected = INCIDENTS[planted].expected
    return next(
        (
            place
            for place, (code, text) in enumerate(zip(look.codes, look.texts, strict=True), start=1)
            if code == expected.code and expected.word in text
        ),
        None,
    )


def wrong_in_calm(calm: Stretch, stretch: Stretch, look: Look) -> tuple[str, ...]:
    """What is pointed to though nothing was planted; that there was more to do is right where more came."""
    has_more = stretch.rate > _LEAST_MORE * calm.rate
    return tuple(code for code in look.codes if not (code == Suspicion.LOAD and has_more))


def render(series: Series) -> str:
    """What was run, the table of incidents, and the calm times."""
    pairs = [pair for part in series.parts if part.is_judged for pair in part.pairs() if pair[1].looks]
    incidents = [(calm, each) for calm, each in pairs if each.planted]
    calms = [(calm, each) for calm, each in pairs if not each.planted]
    if not incidents:
        return "No incident has been watched and judged."
    rows = [_row(calm, each) for calm, each in incidents]
    head = ["Planted", "How it was seen", "Named", "After", "Also pointed to", "Transactions of the load, median"]
    return "\n\n".join([_summary(series, incidents), table(head, rows), _calm_text(calms)])


def _summary(series: Series, incidents: "Sequence[tuple[Stretch, Stretch]]") -> str:
    hours = sum(part.stretches[-1].end - part.stretches[0].start for part in series.parts if part.stretches) / 3600
    seen = [each for _, each in incidents if each.evidence]
    places = [place_of(each.planted, each.looks[-1]) for each in seen]
    named, first = sum(place is not None for place in places), sum(place == 1 for place in places)
    rates = [stretch.rate for part in series.parts for stretch in part.stretches]
    return (
        f"{len(incidents)} of {len(INCIDENTS)} incidents, {hours:.1f} h in {len(series.parts)} parts, PostgreSQL "
        f"{' and '.join(sorted({part.version for part in series.parts}))}, seed {series.seed}; {min(rates):.0f} to "
        f"{max(rates):.0f} transactions a second in the mean of a time. {len(seen)} were there, as the server itself "
        f"or the machine showed; of these the page named {named}, {first} of them first."
    )


def _row(calm: Stretch, stretch: Stretch) -> list[str]:
    last = stretch.looks[-1]
    place = place_of(stretch.planted, last)
    when = next((look.minutes for look in stretch.looks if place_of(stretch.planted, look) is not None), None)
    named = "**no**" if place is None else "yes, first" if place == 1 else f"yes, {place} of {len(last.codes)}"
    if place is None and not stretch.evidence:
        named = "it was not there"
    start = stretch.window.start - stretch.start
    also = [code for number, code in enumerate(last.codes, start=1) if number != place]
    return [
        stretch.planted,
        stretch.evidence or "not seen",
        named,
        "–" if when is None else format_duration(round(when * MINUTE + start)),
        ", ".join(dict.fromkeys(also)) or ("–" if last.said else "– (nothing differed)"),
        " → ".join("–" if each.median is None else format_duration(each.median) for each in (calm, stretch)),
    ]


def _calm_text(calms: "Sequence[tuple[Stretch, Stretch]]") -> str:
    if not calms:
        return "No calm time after another has been judged."
    whole = [wrong_in_calm(calm, each, each.looks[-1]) for calm, each in calms]
    looks = [wrong_in_calm(calm, each, look) for calm, each in calms for look in each.looks]
    codes = [code for wrong in looks for code in dict.fromkeys(wrong)]
    often = ", ".join(f"{code} {codes.count(code)}" for code in dict.fromkeys(codes))
    changes = [abs(each.rate - calm.rate) / calm.rate for calm, each in calms if calm.rate > 0] or [0.0]
    return (
        f"**Calm times**: beside the calm one before it the page pointed to something wrong in "
        f"{sum(bool(wrong) for wrong in whole)} of {len(whole)} ({sum(bool(wrong) for wrong in looks)} of {len(looks)} "
        f"looks, one each minute{f': {often}' if often else ''}). Their load differed by {median(changes):.0%} in the "
        "median; that there was more to do counts as wrong only where there was not."
    )


def publish(series: Series, *, kept: Path = KEPT, page: Path = PAGE) -> None:
    """Keep the results beside the code, and write their table into the page."""
    write_file(kept, _document(series))
    text = put_between(page.read_text(encoding="utf-8"), render(series), begin=BEGIN, end=END)
    page.write_text(text, encoding="utf-8")


def read_kept(path: Path = KEPT) -> Series:
    """The results that were kept; none where there are none yet."""
    if not path.exists():
        return Series(seed=0)
    found = json.loads(path.read_text(encoding="utf-8"))
    return Series(seed=found["seed"], parts=tuple(read_part(part) for part in found["parts"]))


def write(what: Series | Part, root: Path) -> None:
    """Replace its file as a whole."""
    if isinstance(what, Part):
        write_file(root / f"part-{what.number}.json", json.dumps(_rounded(asdict(what)), indent=1, ensure_ascii=False))
    else:
        write_file(root / RESULTS, _document(what))


def read_series(root: Path) -> Series:
    """The plan, and the parts as their own files have them."""
    seed = json.loads((root / RESULTS).read_text(encoding="utf-8"))["seed"]
    parts = [read_part(json.loads(path.read_text(encoding="utf-8"))) for path in root.glob("part-*.json")]
    return Series(seed=seed, parts=tuple(sorted(parts, key=lambda part: part.number)))


def read_part(found: dict[str, Any]) -> Part:
    stretches = tuple(
        Stretch(**{**each, "looks": tuple(_read_look(look) for look in each["looks"])}) for each in found["stretches"]
    )
    return Part(**{**found, "stretches": stretches})


def _read_look(found: dict[str, Any]) -> Look:
    return Look(**{**found, "codes": tuple(found["codes"]), "texts": tuple(found["texts"])})


def _document(series: Series) -> str:
    return json.dumps(_rounded(asdict(series)), indent=1, ensure_ascii=False) + "\n"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value
