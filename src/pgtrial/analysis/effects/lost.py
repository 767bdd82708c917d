"""Transactions that failed or were never begun: times are those of the others, and an arm may lose its slow ones."""

import math

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import LOST, Values
from pgtrial.analysis.slices import windows
from pgtrial.findings.record import ALL
from pgtrial.model.metrics import FAILURES, SKIPPED
from pgtrial.model.run import PhaseName
from pgtrial.stats.failures import Attempts, fails_more

_ALLOWED = 0.1  # more of the transactions that are slower than a percentile
_BORNE = 0.1  # of a mean: what may be longer by more leaves no verdict anyway
_UNDER_LOAD = {PhaseName.WARMUP, PhaseName.MEASURE}

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
    one that is of use only where next to nothing was lost (``reach_of_mean``), as a thousandth that waits for seconds
    is as long as all others: else no more may be lost than by chance.
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
        return _loses_beyond_chance(evidence, values, arm, other, key) and reach_of_mean(
            evidence, values, arm, key
        ) > math.log1p(_BORNE)
    has_bound = share < slower and mean_of(evidence, values, arm, (metric + LOST, scenario, level)) != math.inf
    return not has_bound and share - others > _ALLOWED * slower


def bear_mean(evidence: Evidence, values: Values, arm: str, other: str | None, key: Key) -> float:
    """Log ratio by which a mean may be longer for what the arm lost more than by chance, where that ``hides`` it not;
    0 of anything else.
    """
    if key[0] != evidence.load.latency_mean.name or not _loses_beyond_chance(evidence, values, arm, other, key):
        return 0.0
    reach = reach_of_mean(evidence, values, arm, key)
    return reach if reach <= math.log1p(_BORNE) else 0.0


def _loses_beyond_chance(evidence: Evidence, values: Values, arm: str, other: str | None, key: Key) -> bool:
    """Whether an arm loses more than ``other``, or than none, by the test that failed attempts have."""
    others = 0.0 if other is None else lost_share(evidence, values, other, key)
    if lost_share(evidence, values, arm, key) <= others:
        return False
    own = count_transactions(evidence, values, arm, key)
    beside = Attempts(made=own.made, failed=0) if other is None else count_transactions(evidence, values, other, key)
    return fails_more(beside, own, weighs_lone=False)


def reach_of_mean(evidence: Evidence, values: Values, arm: str, key: Key) -> float:
    """Log ratio by which an arm's mean would be longer if each transaction that it lost had taken as long as one can
    that ends in its run: since the load began, until the end of the measured time.

    Over all load levels the mean, as for the time itself.
    """
    metric, scenario, level = key
    levels = [each.index for each in evidence.levels] if level == ALL else [int(level)]
    reached = []
    for run in evidence.runs_of(arm):
        begun = min((phase.start for phase in run.phases if phase.name in _UNDER_LOAD), default=-math.inf)
        ended = {window.level: window.ended for window in windows(run)}
        for each in levels:
            at = (scenario, each)
            lost = sum(values.get((run.id, one.name, *at), 0.0) for one in (FAILURES, SKIPPED))
            mean = values.get((run.id, metric, *at))
            if not mean or lost >= 1:
                return math.inf
            longest = ended.get(each, math.inf) - begun
            reached.append(math.log1p(lost / (1 - lost) * longest / mean) if lost else 0.0)
    return sum(reached) / len(reached) if reached else 0.0


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
