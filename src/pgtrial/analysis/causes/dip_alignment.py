"""Whether dips of throughput and entries of the server's log go together, in one sentence with its probability.

A checkpoint is tried twice: all of it, and its beginning. By default it is spread over nine tenths of the time until the
next, so that nearly everything lies beside one; but what it costs others, whole pages in the WAL, comes at its beginning.
"""

from collections.abc import Mapping, Sequence

from pgtrial.analysis.causes.log_event import Placed, name_kind
from pgtrial.analysis.timeline import Timeline
from pgtrial.language import mark, tr
from pgtrial.stats.alignment import Alignment, Marked, Stretch, align
from pgtrial.stats.dips import Steadiness
from pgtrial.stats.multiplicity import holm
from pgtrial.store.server_log.facts import Kind
from pgtrial.units import format_duration, format_significant

# What is written to the log because throughput is low, and so explains nothing.
CONSEQUENCES = (Kind.SLOW_STATEMENT, Kind.ERROR)
LIKELY = 0.05
BEGINNING = 5.0  # s of a checkpoint
_BEGINNING_OF_CHECKPOINT = mark("beginning of a checkpoint")
_TOGETHER = mark(
    "Of {total} in dips {overlap} lie beside a {kind}; by chance it would be {expected} (probability {chance})."
)
_BY_CHANCE = mark(
    "The dips do not follow the log: of {total} in dips {overlap} lie beside a {kind}, and by chance it would be "
    "{expected} (probability {chance})."
)


def describe_alignment(
    cell: Sequence[Timeline], found: Mapping[int, Steadiness], placed: Mapping[int, Sequence[Placed]]
) -> str:
    """ "" where there are no dips, or none of the entries that could explain them.

    Each kind of entry is tested by circular shifts, and the probabilities are adjusted for the number of kinds (Holm).
    """
    tested: list[tuple[str, Alignment]] = []
    for name, stretches in _stretches_by_name(placed).items():
        alignment = align([_mark(timeline, stretches, found) for timeline in cell])
        if alignment is not None:
            tested.append((name, alignment))
    if not tested:
        return ""
    chances = holm([alignment.p_value for _, alignment in tested])
    # Of kinds that are as unlikely to be chance, the one that more of the time in dips falls to.
    (name, best), chance = min(
        zip(tested, (chance or 0.0 for chance in chances), strict=True),
        key=lambda one: (one[1], -one[0][1].overlap),
    )
    total, overlap, expected = (
        format_duration(seconds) for seconds in (best.dip_seconds, best.overlap, round(best.expected, 1))
    )
    return tr(
        _BY_CHANCE if chance > LIKELY else _TOGETHER,
        total=total,
        overlap=overlap,
        kind=name,
        expected=expected,
        chance=format_significant(chance, 2),
    )


def _stretches_by_name(placed: Mapping[int, Sequence[Placed]]) -> Mapping[str, Mapping[int, Sequence[Stretch]]]:
    """What may explain a dip, by its name in the language in use: start and end of each, by run."""
    kinds = sorted({event.kind for events in placed.values() for event, _, _ in events} - set(CONSEQUENCES))
    by_name = {name_kind(kind): _of_kind(placed, kind) for kind in kinds}
    if Kind.CHECKPOINT in kinds:
        by_name[tr(_BEGINNING_OF_CHECKPOINT)] = {
            run: [(start, min(end, start + BEGINNING)) for start, end in stretches]
            for run, stretches in _of_kind(placed, Kind.CHECKPOINT).items()
        }
    return by_name


def _of_kind(placed: Mapping[int, Sequence[Placed]], kind: str) -> Mapping[int, Sequence[Stretch]]:
    return {
        run: [(start, end) for event, start, end in events if event.kind == kind] for run, events in placed.items()
    }


def _mark(timeline: Timeline, stretches: Mapping[int, Sequence[Stretch]], found: Mapping[int, Steadiness]) -> Marked:
    dips = found[timeline.run].dips if timeline.run in found else ()
    return Marked(
        seconds=timeline.seconds,
        events=stretches[timeline.run],
        dips=[(dip.start, dip.start + dip.length) for dip in dips],
    )
