"""Which statements take more or less of the time of a transaction than with the control."""

from collections.abc import Mapping

from pgtrial.analysis.causes.pareto import count_statements
from pgtrial.analysis.causes.together import estimate_difference
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.analysis.reduction import Reduction
from pgtrial.findings.message import Message, message
from pgtrial.findings.naming import UNKNOWN_STATEMENT
from pgtrial.findings.record import Estimate
from pgtrial.model.metrics import TPS
from pgtrial.model.run import RunRow

_Cell = tuple[int, int]  # (run id, load level)
_FEWEST_FOUND = 10.0  # samples of both arms; below, the blocks of a rarely seen statement agree and know nothing


def compare_statements(evidence: Evidence, reduction: Reduction, values: Values) -> Mapping[str, Estimate]:
    """Seconds that a transaction of the whole load spends in a statement (Little's law), the claim's arm less the
    control, by the statement's text; mean over the load levels.

    The intervals of all statements hold together, so those that exclude zero may be named. {} where sessions were not
    sampled.
    """
    compared = evidence.pairs(evidence.hypothesis_arm)
    sessions = {
        (run.id, level.index): {
            text: sum(kinds.values()) for text, kinds in count_statements(reduction, [(run, level.index)]).items()
        }
        for run in {run.id: run for pair in compared for run in pair}.values()
        for level in evidence.levels
        if (run.id, level.index) in reduction.sessions
    }
    by_block = {
        runs[1].slot.block: (one, other)
        for runs in compared
        if (one := _times(evidence, reduction, values, sessions, runs[0])) is not None
        and (other := _times(evidence, reduction, values, sessions, runs[1])) is not None
    }
    pairs = tuple(by_block.values())
    found: dict[str, float] = {}  # how often sessions were found in each statement
    for cell, counts in sessions.items():
        for text, count in counts.items():
            found[text] = found.get(text, 0.0) + reduction.polls.get(cell, 0) * count
    texts = dict.fromkeys(text for pair in pairs for times in pair for text in times)
    return {
        text: estimate_difference(
            evidence,
            [other.get(text, 0.0) - one.get(text, 0.0) for one, other in pairs],
            members=len(texts),
            blocks=tuple(by_block),
        )
        for text in texts
        if text != UNKNOWN_STATEMENT and found.get(text, 0.0) >= _FEWEST_FOUND
    }


def tell_statements(differences: Mapping[str, Estimate]) -> Message | None:
    """The largest rise that is sure, beside the largest fall that is; None where nothing rises."""
    rises = {text: each.value for text, each in differences.items() if each.side() > 0}
    falls = {text: -each.value for text, each in differences.items() if each.side() < 0}
    if not rises:
        return None
    rose = max(rises, key=lambda text: (rises[text], text))
    if not falls:
        return message("statements.rose", rose=rose, more=rises[rose])
    fell = max(falls, key=lambda text: (falls[text], text))
    return message("statements.rose-and-fell", fell=fell, less=falls[fell], rose=rose, more=rises[rose])


def _times(
    evidence: Evidence, reduction: Reduction, values: Values, sessions: Mapping[_Cell, Mapping[str, float]], run: RunRow
) -> Mapping[str, float] | None:
    """Seconds by statement; None where a load level has no samples or no transactions."""
    times: dict[str, float] = {}
    for level in evidence.levels:
        throughput = values.get((run.id, TPS.name, None, level.index), 0.0)
        counts = sessions.get((run.id, level.index))
        if throughput <= 0 or counts is None:
            return None
        # Statements of transactions that failed took time as well.
        totals = reduction.totals.get((run.id, level.index, None))
        ended = throughput * (totals.attempts if totals is not None and totals.count else 1.0)
        for text, count in counts.items():
            times[text] = times.get(text, 0.0) + count / ended / len(evidence.levels)
    return times
