"""Which statements take more or less of a transaction's time than with the control, and what each does per call."""

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.causes.pareto import count_statements
from pgtrial.analysis.causes.together import estimate_difference, find_hidden
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.analysis.reduction import Reduction, sum_by_key
from pgtrial.analysis.slices import spans, windows
from pgtrial.findings.message import Message, message
from pgtrial.findings.naming import UNKNOWN_STATEMENT
from pgtrial.findings.record import Estimate
from pgtrial.findings.session_time import StatementUse
from pgtrial.model.histogram import bucket_value
from pgtrial.model.metrics import LATENCY_MEAN, TPS
from pgtrial.model.run import RunRow
from pgtrial.safe_files import is_plain
from pgtrial.store import layout, parquet
from pgtrial.store.run_rows import most_rows

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
    found = sum_by_key(  # how often sessions were found in each statement
        (text, reduction.polls.get(cell, 0) * count)
        for cell, counts in sessions.items()
        for text, count in counts.items()
    )
    texts = dict.fromkeys(text for pair in by_block.values() for times in pair for text in times)
    if not by_block:
        return {}
    # What runs hide of a transaction's time may be in any statement.
    latency = math.fsum(each for one, _ in by_block.values() for each in one.values()) / len(by_block)
    down, up = find_hidden(evidence, values, evidence.hypothesis_arm, LATENCY_MEAN.name)
    hidden = (down * latency, up * latency)
    return {
        text: estimate_difference(
            evidence,
            {block: other.get(text, 0.0) - one.get(text, 0.0) for block, (one, other) in by_block.items()},
            arm=evidence.hypothesis_arm,
            members=len(texts),
            hidden=hidden,
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


# What each statement of an arm does per call: time, rows, blocks and WAL, as pg_stat_statements counts them.


MOST_STATEMENTS = 12  # of an arm, by the time they take
_MOMENTS = "SELECT DISTINCT filename, t FROM {files} ORDER BY filename, t"
# What was counted is a sum of readings with weights: the last one less the first. A statement that was not there yet
# had counted nothing. A queryid is another one in another cluster, where names have other numbers, so statements are
# told by their texts.
_INCREASES = """
WITH weights AS (
    SELECT unnest(?::VARCHAR[]) AS filename, unnest(?::DOUBLE[]) AS t, unnest(?::DOUBLE[]) AS weight
)
SELECT query, sum(calls * weight)::DOUBLE AS calls, sum(exec_time * weight)::DOUBLE AS exec_time,
       sum(rows * weight)::DOUBLE AS rows, sum(shared_blks_hit * weight)::DOUBLE AS hit,
       sum(shared_blks_read * weight)::DOUBLE AS read, sum(shared_blks_dirtied * weight)::DOUBLE AS dirtied,
       sum(wal_bytes * weight)::DOUBLE AS wal_bytes
FROM {files}
JOIN weights USING (filename, t)
GROUP BY query
HAVING sum(calls * weight) >= 0.5
ORDER BY exec_time DESC, query
"""


def describe_statements(evidence: Evidence, reduction: Reduction) -> tuple[StatementUse, ...]:
    """Per arm, those that take most time first. () without pg_stat_statements. StoreError for a damaged file.

    A server that is stopped while a statement runs counts all of the stop as its time. So where servers stand still,
    the time of a statement is the average number of sampled sessions in it, times the time in which its server was at
    work (Little's law). It is not known of one in which none was found, nor of one whose calls would each have taken
    longer than any transaction did: not all of them were counted.
    """
    return tuple(use for arm in evidence.arms for use in _describe_arm(evidence, reduction, arm.name))


def _describe_arm(evidence: Evidence, reduction: Reduction, arm: str) -> list[StatementUse]:
    most = most_rows(evidence.folder, evidence.valid, layout.STATEMENTS)
    files = _files(evidence, arm)
    with parquet.session(threads=1) as db:  # several add in the order in which they get there: other last digits
        moments = parquet.read(list(files), _MOMENTS, db=db, most_rows=most)
        if not moments:
            return []
        read = {run: moments["t"][moments["filename"] == str(path)].astype(np.float64) for path, run in files.items()}
        weights = {run: _weigh(run, t, is_frozen=evidence.stands_still) for run, t in read.items()}
        names = [str(path) for path, run in files.items() for _ in read[run]]
        together = [np.concatenate([of[run] for run in files.values()]).tolist() for of in (read, weights)]
        columns = parquet.read(list(files), _INCREASES, [names, *together], db=db, most_rows=most)
    numbers = ("calls", "exec_time", "rows", "hit", "read", "dirtied", "wal_bytes")
    rows = [*zip(columns["query"].tolist(), *(columns[name].tolist() for name in numbers), strict=True)]
    times: Mapping[str, float] = {query: time for query, _, time, *_ in rows}
    if evidence.stands_still:
        longest = _longest(reduction, files.values())
        sampled = _sampled_times(reduction, {run: _covered(run, t) for run, t in read.items()})
        times = {query: sampled[query] for query, calls, *_ in rows if 0.0 < sampled.get(query, 0.0) <= longest * calls}
        rows.sort(key=lambda row: (-times.get(row[0], 0.0), row[0]))
    total = sum(times.values())
    return [
        StatementUse(
            arm=arm,
            statement=query or UNKNOWN_STATEMENT,
            calls=calls,
            share=times[query] / total if query in times and total > 0 else None,
            seconds=times[query] / calls if query in times else None,
            rows=count / calls,
            blocks_hit=hit / calls,
            blocks_read=read / calls,
            blocks_dirtied=dirtied / calls,
            wal_bytes=wal / calls,
        )
        for query, calls, _, count, hit, read, dirtied, wal in rows[:MOST_STATEMENTS]
    ]


def _weigh(run: RunRow, t: NDArray[np.float64], *, is_frozen: bool) -> NDArray[np.float64]:
    """The weights of readings, (n,), taken at ``t``, (n,), since the epoch, by which their sum is what a run counted.

    From its first reading to the last one; of a server that is switched, in each of the arm's slices. Where it stands
    still, from the first slice to the last, between readings in proportion to time: polls know of no warm-up.
    """
    weights = np.zeros(t.size)
    if is_frozen and run.slices and t.size:
        for moment, sign in zip(_covered(run, t), (-1.0, 1.0), strict=True):
            weights += sign * np.array([np.interp(moment, t, each) for each in np.eye(t.size)])
        return weights
    for started, ended in _spans(run, t):
        inside = np.flatnonzero((t >= started) & (t <= ended))
        if inside.size:
            weights[inside[-1]] += 1.0
            weights[inside[0]] -= 1.0
    return weights


def _spans(run: RunRow, t: NDArray[np.float64]) -> Iterator[tuple[float, float]]:
    if run.is_switched:
        yield from ((each.started, each.ended) for each in spans(run))
    elif t.size:
        yield float(t[0]), float(t[-1])


def _covered(run: RunRow, t: NDArray[np.float64]) -> tuple[float, float]:
    """From the first slice of a run to the last one, as far as there are readings."""
    if not t.size:
        return 0.0, 0.0
    started, ended = np.clip((run.slices[0].started, run.slices[-1].ended), t[0], t[-1]).tolist()
    return started, ended


def _sampled_times(reduction: Reduction, covered: Mapping[RunRow, tuple[float, float]]) -> dict[str, float]:
    """Seconds that sessions spent in each statement, by its text, while the servers of runs were at work."""
    times: dict[str, float] = {}
    for run, (started, ended) in covered.items():
        share = (ended - started) / (run.slices[-1].ended - run.slices[0].started)
        for window in windows(run):
            for text, kinds in count_statements(reduction, [(run, window.level)]).items():
                times[text] = times.get(text, 0.0) + sum(kinds.values()) * window.active * share
    return times


def _longest(reduction: Reduction, runs: Iterable[RunRow]) -> float:
    """Seconds of the longest transaction of runs."""
    ids = {run.id for run in runs}
    found = (of for (run, _, scenario), of in reduction.histograms.items() if run in ids and scenario is None)
    return max((bucket_value(int(of.buckets.max())) for of in found if of.buckets.size), default=0.0)


def _files(evidence: Evidence, arm: str) -> dict[Path, RunRow]:
    paths = {layout.run_folder(evidence.folder, run.folder) / layout.STATEMENTS: run for run in evidence.runs_of(arm)}
    return {path: run for path, run in paths.items() if is_plain(path)}
