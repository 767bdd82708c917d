"""Transactions that failed or were never begun: times are those of the others, and an arm may lose its slow ones."""

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.model.metrics import FAILURES, SKIPPED

_ALLOWED = 0.1  # of the transactions that are slower than a percentile
_MOST_ALLOWED = 0.01  # of all transactions
_ALLOWED_OF_MEAN = 0.001

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
    """Whether the time that ``key`` names may be short because of what an arm lost more than ``other``, or lost at all:
    so much that, had these transactions been the slowest, the time would be another.

    A percentile allows for a tenth of the transactions that are slower than it, and for 1 % of all at most: a p99 of
    latencies whose logarithms scatter by 0.7 is then told 2.5 % too short. The mean allows for 0.1 %.
    """
    if key[0] not in evidence.load.times:
        return False
    quantile = next((q for metric, q in evidence.load.quantiles if metric.name == key[0]), None)
    allowed = _ALLOWED_OF_MEAN if quantile is None else min(_MOST_ALLOWED, _ALLOWED * (1 - quantile))
    more = 0.0 if other is None else lost_share(evidence, values, other, key)
    return lost_share(evidence, values, arm, key) - more > allowed * (1 + 1e-9)
