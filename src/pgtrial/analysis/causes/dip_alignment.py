"""Whether dips of throughput and entries of the server's log go together, with the probability that it is chance.

A checkpoint is tried twice: all of it, and its beginning. By default it is spread over nine tenths of the time until
the next, so that nearly everything lies beside one; but what it costs others, whole pages in the WAL, comes at its
beginning.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgtrial.analysis.causes.log_event import Placed, name_kind
from pgtrial.analysis.timeline import Timeline
from pgtrial.language import mark, tr
from pgtrial.stats.dips import Steadiness
from pgtrial.stats.interval import holm
from pgtrial.stats.period import Alignment, Marked, Stretch, align
from pgtrial.store.server_log.facts import Kind
from pgtrial.units import format_duration, format_significant

# What is written to the log because throughput is low, and so explains nothing.
CONSEQUENCES = (Kind.SLOW_STATEMENT, Kind.ERROR)
LIKELY = 0.05
BEGINNING = 5.0  # s of a checkpoint
_BEGINNING = mark("checkpoint's beginning")
_TOGETHER = mark(
    "Of {total} in dips {overlap} lie beside a {kind}; by chance it would be {expected} (probability {chance})."
)
_BY_CHANCE = mark(
    "The dips do not follow the log: of {total} in dips {overlap} lie beside a {kind}, and by chance it would be "
    "{expected} (probability {chance})."
)
_LOCKS = mark("Locks are held longer when all is slow, so lock waits may be what a dip has caused.")

_Stretches = Mapping[int, Sequence[Stretch]]  # by run


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tested:
    """Entries of a kind, or a part of each, against the dips; ``chance`` is adjusted for all that were tested."""

    kind: str
    name: str
    alignment: Alignment
    chance: float

    def say(self, template: str) -> str:
        found = self.alignment
        total, overlap, expected = map(format_duration, (found.dip_seconds, found.overlap, round(found.expected, 1)))
        chance = format_significant(self.chance, 2)
        return tr(template, total=total, overlap=overlap, kind=self.name, expected=expected, chance=chance)


def describe_alignment(
    cell: Sequence[Timeline], found: Mapping[int, Steadiness], placed: Mapping[int, Sequence[Placed]]
) -> str:
    """A sentence for each kind of entry that dips follow, or one that says that they follow none.

    "" where there are no dips, or none of the entries that could explain them. Each kind is tested by circular shifts,
    and the probabilities are adjusted for their number (Holm).
    """
    tested = _test(cell, found, placed)
    if not tested:
        return ""
    likely: dict[str, _Tested] = {}  # by kind: of a checkpoint and its beginning, what is less likely to be chance
    for each in tested:
        if each.chance <= LIKELY:
            likely.setdefault(each.kind, each)
    if not likely:
        return tested[0].say(_BY_CHANCE)
    return " ".join([each.say(_TOGETHER) for each in likely.values()] + [tr(_LOCKS)] * (Kind.LOCK_WAIT in likely))


def _test(
    cell: Sequence[Timeline], found: Mapping[int, Steadiness], placed: Mapping[int, Sequence[Placed]]
) -> Sequence[_Tested]:
    """The least likely to be chance first; of those that are as unlikely, what more of the time in dips falls to."""
    aligned = [
        (kind, name, alignment)
        for kind, name, stretches in _explanations(placed)
        if (alignment := align([_mark(timeline, stretches, found) for timeline in cell])) is not None
    ]
    chances = holm([alignment.p_value for _, _, alignment in aligned])
    return sorted(
        (
            _Tested(kind=kind, name=name, alignment=alignment, chance=chance or 0.0)
            for (kind, name, alignment), chance in zip(aligned, chances, strict=True)
        ),
        key=lambda each: (each.chance, -each.alignment.overlap),
    )


def _explanations(placed: Mapping[int, Sequence[Placed]]) -> Iterator[tuple[str, str, _Stretches]]:
    """Kind, name in the language in use, and where it was."""
    for kind in sorted({event.kind for events in placed.values() for event, _, _ in events} - set(CONSEQUENCES)):
        stretches = {
            run: [(start, end) for event, start, end in events if event.kind == kind] for run, events in placed.items()
        }
        yield kind, name_kind(kind), stretches
        if kind == Kind.CHECKPOINT:
            beginnings = {
                run: [(start, min(end, start + BEGINNING)) for start, end in each] for run, each in stretches.items()
            }
            if beginnings != stretches:
                yield kind, tr(_BEGINNING), beginnings


def _mark(timeline: Timeline, stretches: _Stretches, found: Mapping[int, Steadiness]) -> Marked:
    dips = found[timeline.run].dips if timeline.run in found else ()
    return Marked(
        seconds=timeline.seconds,
        events=stretches[timeline.run],
        dips=[(dip.start, dip.start + dip.length) for dip in dips],
    )
