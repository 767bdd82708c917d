"""Which metrics go together inside the load levels: all pairs of association_pairs.py and those that the file chooses.

A stratum is one run at one load level, so that neither the number of clients, which moves nearly every metric, nor a
difference between arms or blocks makes a pair go together. What is found is an association and nothing more: a third
thing may move both.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from pgtrial.analysis.cause_findings import Association
from pgtrial.analysis.causes.association_pairs import CHOSEN, PAIRS, Pair, is_part
from pgtrial.analysis.causes.cells import Array, find_objects, find_series
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.timeline import Timeline
from pgtrial.stats.association import Association as Tested
from pgtrial.stats.association import associations
from pgtrial.stats.interval import benjamini_hochberg

_ROUNDING = 1e-9  # relative


def find_associations(evidence: Evidence, timelines: Sequence[Timeline]) -> tuple[Association, ...]:
    """One record per pair and, where a metric has several, per object ("iostat.util/vda"), in the order of the table.

    The false-discovery rate is controlled over all pairs that can be tested. A pair of the table of which a metric was
    never read is left out, one that the file chooses is kept and says so by its count of zero.
    """
    chosen = (
        Pair(first=first, second=second, family=CHOSEN, expected="")
        for first, second in evidence.experiment.associations.pairs
    )
    known = {frozenset((pair.first, pair.second)) for pair in PAIRS}
    pairs = [
        pair
        for listed in (*PAIRS, *chosen)
        if listed.family != CHOSEN or frozenset((listed.first, listed.second)) not in known
        for pair in _with_objects(listed, timelines)
    ]
    if not timelines or not pairs:
        return ()
    tested = _test_pairs(pairs, timelines, confidence=evidence.confidence, seed=evidence.experiment.design.seed)
    q_values = benjamini_hochberg([None if one.spearman is None else one.spearman.p_value for one in tested])
    level = evidence.experiment.associations.false_discovery
    return tuple(
        _record(pair, one, q_value=q_value, level=level)
        for pair, one, q_value in zip(pairs, tested, q_values, strict=True)
    )


def _with_objects(pair: Pair, timelines: Sequence[Timeline]) -> Iterator[Pair]:
    """The pair for each object of its metrics; of two metrics with the same objects, each with its own."""
    firsts, seconds = (list(_names(name, timelines)) for name in (pair.first, pair.second))
    if not firsts or not seconds:
        if pair.family == CHOSEN:
            yield pair
        return
    same = {about for _, about in firsts} & {about for _, about in seconds} - {""}
    for (first, one), (second, other) in product(firsts, seconds):
        if first != second and (not same or one == other):
            yield Pair(first=first, second=second, family=pair.family, expected=pair.expected)


def _names(name: str, timelines: Sequence[Timeline]) -> Iterator[tuple[str, str]]:
    """(full name, object) of every series that a name means."""
    metric, _, about = name.partition("/")
    for found in find_objects(timelines, metric):
        if not about or about == found:
            yield (f"{metric}/{found}" if found else metric), found


def _test_pairs(
    pairs: Sequence[Pair], timelines: Sequence[Timeline], *, confidence: float, seed: int
) -> tuple[Tested, ...]:
    names = list(dict.fromkeys(name for pair in pairs for name in (pair.first, pair.second)))
    rows: Mapping[str, int] = {name: row for row, name in enumerate(names)}
    series = np.vstack([np.concatenate([_values(each, name) for each in timelines]) for name in names])
    strata = np.repeat(np.arange(len(timelines)), [timeline.seconds for timeline in timelines])
    return associations(
        series,
        [(rows[pair.first], rows[pair.second]) for pair in pairs],
        strata,
        rng=np.random.default_rng(seed),
        confidence=confidence,
    )


def _values(timeline: Timeline, name: str) -> Array:
    """What only rounding moves is constant: it goes together with nothing."""
    metric, _, about = name.partition("/")
    found = find_series(timeline, metric, about)
    if found is None:
        return np.full(timeline.seconds, np.nan)
    known = found[~np.isnan(found)]
    if not known.size:
        return found
    low, high = float(known.min()), float(known.max())
    is_constant = high - low <= _ROUNDING * max(abs(low), abs(high))
    return np.where(np.isnan(found), np.nan, low) if is_constant else found


def _record(pair: Pair, tested: Tested, *, q_value: float | None, level: float) -> Association:
    spearman, pearson = tested.spearman, tested.pearson
    return Association(
        first=pair.first,
        second=pair.second,
        family=pair.family,
        expected=pair.expected,
        spearman=spearman.value if spearman else None,
        low=spearman.low if spearman else None,
        high=spearman.high if spearman else None,
        pearson=pearson.value if pearson else None,
        p_value=spearman.p_value if spearman else None,
        q_value=q_value,
        is_real=q_value is not None and q_value <= level,
        part_of=is_part(pair.first, pair.second),
        count=tested.count,
    )
