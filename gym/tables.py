"""The tables of docs/gym.md, as Markdown, from stored counts."""

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import mode

from ground_truth.page import table

from gym.results import Minutes, Results, minutes_to_truth
from gym.scores import EFFECTS, NOMINAL, SHARES, Cell, Falsehood, exceeds, falsehoods, power, wilson
from gym.streams import STREAMS

MISSING = "–"
PGTRIAL = "pgtrial"
_TOO_HIGH = 0.04  # of which it is told how often it would be seen
Chosen = Sequence[tuple[str, int]]
# At what size each is shown where there is room for one: about four minutes of runs, or its own default.
SHOWN: Chosen = (
    ("pgtrial blocks", 12),
    ("pgtrial interleaved", 12),
    ("pgtrial duet", 12),
    ("pgtrial blocks, stopping", 40),
    ("pgtrial interleaved, stopping", 40),
    ("pgtrial duet, stopping", 40),
    ("benchstat", 10),
    ("hyperfine", 10),
    ("ratio of medians (DuckDB)", 25),
    ("randomised medians (ClickHouse)", 13),
    ("Apache Otava", 10),
    ("single pair, 5 %", 1),
)


def stream_names(results: Results) -> list[str]:
    """Of the streams that there are results of, in reading order."""
    made = {cell.stream for cell in results.cells}
    return [stream.name for stream in STREAMS if stream.name in made]


def stream_table(results: Results) -> str:
    made = stream_names(results)
    return table(["stream", "what it is"], [[stream.name, stream.text] for stream in STREAMS if stream.name in made])


def experiments_told(results: Results) -> str:
    """How many are in a cell, and what of too high a rate is seen in so many."""
    counts = {name: max(cell.experiments for cell in results.of(contender=name).cells) for name in contenders(results)}
    usual = mode(counts.values())
    others = [f", of {name} {count}" for name, count in counts.items() if count != usual]
    verdicts = sorted({counts[name] for name in pgtrial_names(results)})
    powers = {count: power(count, NOMINAL / 2, _TOO_HIGH) for count in verdicts}
    seen = [f"{100 * chance:.0f} % of the cells of {count}" for count, chance in powers.items()]
    return (
        f"{usual} experiments{''.join(others)}. Where {percent(_TOO_HIGH)} of verdicts were false instead of "
        f"{percent(NOMINAL / 2)}, {', '.join(seen)} would be bold"
    )


def alarm_table(results: Results) -> str:
    """False alarms without an effect: per cent, with the interval that simulation leaves."""

    def field(cell: Cell) -> str:
        return _mark(_share(cell.alarms, cell.experiments), exceeds(cell.alarms, cell.experiments, NOMINAL))

    return _by_stream(results, SHOWN, 0.0, field)


def sign_table(results: Results, effect: float) -> str:
    """How often a contender says that the arm is faster which is slower by the effect."""
    return _by_stream(results, SHOWN, effect, lambda cell: _share(cell.faster, cell.experiments))


def coverage_table(results: Results) -> str:
    """Coverage of the 95 % intervals of those who give one, at several sizes."""
    chosen = [
        (name, size)
        for name, sizes in (
            ("pgtrial blocks", (6, 12, 20)),
            ("pgtrial interleaved", (6, 12, 20)),
            ("pgtrial duet", (6, 12, 20)),
            ("pgtrial blocks, stopping", (40,)),
            ("hyperfine", (10,)),
        )
        for size in sizes
    ]

    def field(cell: Cell) -> str:
        if cell.covered is None:
            return MISSING
        missed = cell.experiments - cell.covered
        return _mark(_share(cell.covered, cell.experiments), exceeds(missed, cell.experiments, NOMINAL))

    return _by_stream(results, chosen, 0.0, field)


def _by_stream(results: Results, chosen: Chosen, effect: float, field: Callable[[Cell], str]) -> str:
    rows = []
    for name in stream_names(results):
        cells = [results.of(stream=name, contender=one).at(size=size, effect=effect) for one, size in chosen]
        if name == "peeking":
            # Whoever stops at an answer has no size but the last one.
            cells = [
                cell or results.of(stream=name, contender=one).at(size=20, effect=effect)
                for cell, (one, _) in zip(cells, chosen, strict=True)
            ]
        rows.append([name, *(MISSING if cell is None else field(cell) for cell in cells)])
    return table(["stream", *(f"{one}, {size}" for one, size in chosen)], rows)


def minutes_table(results: Results, stream: str, share: float) -> str:
    """Minutes of testing until a share of experiments has the true verdict, by contender and effect."""
    rows = []
    for name in dict.fromkeys(one for one, _ in SHOWN):
        mine = results.of(stream=stream, contender=name)
        if not mine.cells:
            continue
        fields = [_minutes(minutes_to_truth(mine, effect, share)) for effect in EFFECTS[1:]]
        rows.append([_mark(name, is_false_alarmist(mine)), *fields])
    return table(["contender", *(percent(effect) for effect in EFFECTS[1:])], rows)


def is_false_alarmist(results: Results) -> bool:
    """Whether one contender on one stream raises more false alarms than it may, at some size."""
    return any(exceeds(cell.alarms, cell.experiments, NOMINAL) for cell in results.cells if cell.effect == 0)


def verdict_table(results: Results) -> str:
    """The worst rate of false verdicts of each pgtrial method on each stream, with the margin's claims."""
    rows = []
    for stream in stream_names(results):
        for method in pgtrial_names(results):
            found = [one for cell in results.of(stream=stream, contender=method).cells for one in falsehoods(cell)]
            if not found:
                continue
            rows.append([stream, method, *(_worst([one for one in found if one.kind == kind]) for kind in _KINDS)])
    return table(["stream", "method", "false “supported”", "false “refuted”"], rows)


_KINDS = ("supported", "refuted")


def exceptions(results: Results) -> list[tuple[str, str, Falsehood, int]]:
    """(stream, method, the worst, how many) of the false verdicts that are more than simulation error."""
    found = []
    for stream in stream_names(results):
        for method in pgtrial_names(results):
            bad = [
                one
                for cell in results.of(stream=stream, contender=method).cells
                for one in falsehoods(cell)
                if one.exceeds
            ]
            if bad:
                found.append((stream, method, max(bad, key=_rate), len(bad)))
    return found


def losses(results: Results) -> Iterator[str]:
    """Where another contender that keeps to 5 % of false alarms is sooner right than every method of pgtrial that does.

    A sentence for each stream and effect.
    """
    for stream in stream_names(results):
        for effect in EFFECTS[1:]:
            times = {}
            for name in dict.fromkeys(one for one, _ in SHOWN):
                mine = results.of(stream=stream, contender=name)
                found = None if is_false_alarmist(mine) else minutes_to_truth(mine, effect, SHARES[0])
                if found is not None and math.isfinite(found[0]):
                    times[name] = found
            own = {name: found for name, found in times.items() if name.startswith(PGTRIAL)}
            best = min(own.values(), default=(math.inf, math.inf, math.inf))
            better = {name: found for name, found in times.items() if name not in own and found[2] < best[1]}
            if better:
                name = min(better, key=lambda one: better[one])
                shown = f"{best[0]:.1f} minutes" if math.isfinite(best[0]) else "never within 40 blocks"
                told = f"{name} after {better[name][0]:.1f} minutes, the best method {shown}"
                yield f"{stream}, {percent(effect)}: {told}."


def contenders(results: Results) -> list[str]:
    return list(dict.fromkeys(cell.contender for cell in results.cells))


def pgtrial_names(results: Results) -> list[str]:
    return [name for name in contenders(results) if name.startswith(PGTRIAL)]


def history_table(results: Results) -> str:
    return table(
        ["noise", "points", "series", "with an alarm"],
        [
            [
                f"AR(1), {one.phi:g}" if one.phi else "independent",
                str(one.points),
                str(one.series),
                _share(one.alarms, one.series),
            ]
            for one in results.histories
        ],
    )


def describe(one: Falsehood) -> str:
    """The rate, and of what: "3.1 (2.0–4.8) of 2.5 % (worse, 12 blocks, 3 % slower)"."""
    cell = one.cell
    share = _share(one.count, cell.experiments)
    return f"{share} of {percent(one.nominal)} ({one.claim}, {cell.size} blocks, {percent(cell.effect)} slower)"


def _worst(found: Sequence[Falsehood]) -> str:
    worst = max(found, key=_rate)
    return _mark(describe(worst), any(one.exceeds for one in found))


def _rate(one: Falsehood) -> float:
    return one.count / one.cell.experiments / one.nominal


def _share(count: int, of: int) -> str:
    """Per cent, and from where to where simulation leaves it: "4.8 (3.6–6.3)"."""
    low, high = wilson(count, of)
    return f"{100 * count / of:.1f} ({100 * low:.1f}–{100 * high:.1f})"


def percent(share: float) -> str:
    """As it is written: "2.5 %"."""
    return f"{100 * share:g} %"


def _minutes(found: Minutes | None) -> str:
    if found is None or not math.isfinite(found[0]):
        return MISSING
    middle, low, high = found
    return f"{middle:.1f} ({low:.1f}–{high:.1f})" if math.isfinite(high) else f"{middle:.1f} ({low:.1f}–)"


def _mark(text: str, is_above: bool) -> str:
    return f"**{text}**" if is_above else text
