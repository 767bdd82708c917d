"""Transactions that failed or were never begun: times are those of the others, and an arm may lose its slow ones."""

import math

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import LOST, Values
from pgtrial.model.metrics import FAILURES, SKIPPED

_ALLOWED = 0.1  # more of the transactions that are slower than a percentile
_ALLOWED_OF_MEAN = 0.001  # of all transactions

Key = tuple[str, str | None, int | str]  # metric, scenario and load level


def mean_of(evidence: Evidence, values: Values, arm: str, key: Key) -> float | None:
    """Over the valid runs of an arm that have it."""
    known = [value for run in evidence.runs_of(arm) if (value := values.get((run.id, *key))) is not None]
    return sum(known) / len(known) if known else None


def lost_share(evidence: Evidence, values: Values, arm: str, key: Key) -> float:
    """Of all transactions of an arm in a scenario, at a load level, those that failed or were skipped; 0 by older
    rules. One that was retried until it succeeded is not among them, and has the time of all its tries.
    """
    if not evidence.rules.bears_alike:
        return 0.0
    return sum(mean_of(evidence, values, arm, (metric.name, *key[1:])) or 0.0 for metric in (FAILURES, SKIPPED))


def hides_times(evidence: Evidence, values: Values, arm: str, other: str | None, key: Key) -> bool:
    """Whether nothing bounds the time that ``key`` names because of what an arm lost, if that would have been slow; and
    it lost more than ``other``, or lost at all.

    A percentile has a bound (``observe_lost``) unless as much was lost as is slower; a tenth of that more than the
    other is let pass, by which a p99 of latencies whose logarithms scatter by 0.7 is told 2.5 % too short. A mean has
    none: of it 0.1 % more is let pass.
    """
    metric, scenario, level = key
    if metric not in evidence.load.times:
        return False
    share = lost_share(evidence, values, arm, key)
    more = share - (0.0 if other is None else lost_share(evidence, values, other, key))
    slower = next((1 - q for each, q in evidence.load.quantiles if each.name == metric), None)
    if slower is None:
        return more > _ALLOWED_OF_MEAN
    has_bound = share < slower and mean_of(evidence, values, arm, (metric + LOST, scenario, level)) != math.inf
    return not has_bound and more > _ALLOWED * slower
