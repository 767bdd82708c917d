"""Whether dips of throughput and entries of the server's log go together, in one sentence with its probability."""

from collections.abc import Mapping, Sequence

from pgtrial.analysis.causes.log_event import Placed, name_kind
from pgtrial.analysis.timeline import Timeline
from pgtrial.language import mark, tr
from pgtrial.stats.alignment import Alignment, Marked, align
from pgtrial.stats.dips import Steadiness
from pgtrial.stats.multiplicity import holm
from pgtrial.store.server_log.facts import Kind
from pgtrial.units import format_duration, format_significant

# What is written to the log because throughput is low, and so explains nothing.
CONSEQUENCES = (Kind.SLOW_STATEMENT, Kind.ERROR)
LIKELY = 0.05
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
    kinds = sorted({event.kind for events in placed.values() for event, _, _ in events} - set(CONSEQUENCES))
    tested: list[tuple[str, Alignment]] = []
    for kind in kinds:
        alignment = align([_mark(timeline, kind, found, placed) for timeline in cell])
        if alignment is not None:
            tested.append((kind, alignment))
    if not tested:
        return ""
    chances = holm([alignment.p_value for _, alignment in tested])
    # Of kinds that are as unlikely to be chance, the one that more of the time in dips falls to.
    (kind, best), chance = min(
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
        kind=name_kind(kind),
        expected=expected,
        chance=format_significant(chance, 2),
    )


def _mark(
    timeline: Timeline, kind: str, found: Mapping[int, Steadiness], placed: Mapping[int, Sequence[Placed]]
) -> Marked:
    dips = found[timeline.run].dips if timeline.run in found else ()
    return Marked(
        seconds=timeline.seconds,
        events=[(start, end) for event, start, end in placed[timeline.run] if event.kind == kind],
        dips=[(dip.start, dip.start + dip.length) for dip in dips],
    )
