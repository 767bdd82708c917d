"""Transactions that failed or were never begun: times are those of the others, and an arm may lose its slow ones."""

import math

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import LOST, Values
from pgtrial.analysis.slices import windows
from pgtrial.findings.record import ALL
from pgtrial.model.metrics import FAILURES, SKIPPED
from pgtrial.stats.failures import Attempts, fails_more

_ALLOWED = 0.1  # more of the transactions that are slower than a percentile

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
    none, as a thousandth that waits for seconds is as long as all others: no more may be lost than by chance.
    """
    metric, scenario, level = key
    if metric not in evidence.load.times:
        return False
    share = lost_share(evidence, values, arm, key)
    others = 0.0 if other is None else lost_share(evidence, values, other, key)
    slower = next((1 - q for each, q in evidence.load.quantiles if each.name == metric), None)
    if share <= others:
        return False
    if slower is None:
        own = count_transactions(evidence, values, arm, key)
        beside = (
            Attempts(made=own.made, failed=0) if other is None else count_transactions(evidence, values, other, key)
        )
        return fails_more(beside, own, weighs_lone=False)
    has_bound = share < slower and mean_of(evidence, values, arm, (metric + LOST, scenario, level)) != math.inf
    return not has_bound and share - others > _ALLOWED * slower


def count_transactions(evidence: Evidence, values: Values, arm: str, key: Key) -> Attempts:
    """Of an arm's valid runs, by their throughput: all that ended or were skipped, and what was lost of them."""
    _, scenario, level = key
    ended = sum(
        values.get((run.id, evidence.load.throughput.name, scenario, window.level), 0.0) * window.counted
        for run in evidence.runs_of(arm)
        for window in windows(run)
        if level in (ALL, window.level)
    )
    share = lost_share(evidence, values, arm, key)
    lost = round(ended * share / (1 - share)) if share < 1 else 0
    return Attempts(made=round(ended) + lost, failed=lost)
