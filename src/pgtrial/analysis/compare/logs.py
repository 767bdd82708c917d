"""Plain pgbench logs -> a comparison without a verdict: what differs, by how much, and what nobody can know from it."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pgtrial import __version__
from pgtrial.analysis.compare.log_caveats import find_caveats
from pgtrial.analysis.compare.log_differences import compare_loads
from pgtrial.analysis.compare.log_run import as_value, describe_distribution, describe_run, measure_run, trace_run
from pgtrial.analysis.compare.log_side import Side
from pgtrial.analysis.comparison_findings import LogComparison, LogContrast, LogSide
from pgtrial.analysis.metrics import LATENCY_MEAN, QUANTILES, TPS
from pgtrial.model.metric import Metric
from pgtrial.stats.interval import difference
from pgtrial.store.plain_logs import read_plain_runs

CONFIDENCE = 0.95
SEED = 1  # of the draws: the same logs give the same figures
METRICS: tuple[Metric, ...] = (TPS, LATENCY_MEAN, *(metric for metric, _ in QUANTILES))


def compare_logs(paths: Sequence[Path], *, skip: float = 0.0) -> LogComparison:
    """Compare two or more logs, or folders of logs, the others with the first; ``skip`` seconds at the start of each
    run are left out.

    StoreError, WorkloadError: there is no log, or it cannot be read as one.
    """
    rng = np.random.default_rng(SEED)
    found = [[run.between(run.started + skip, run.ended) for run in read_plain_runs(path)] for path in paths]
    sides = tuple(
        Side(key=key, path=path, runs=tuple(measure_run(run, rng=rng) for run in runs))
        for key, path, runs in zip(unlike_names(paths), paths, found, strict=True)
    )
    contrasts = tuple(
        contrast for side in sides[1:] for metric in METRICS if (contrast := _contrast(sides[0], side, metric))
    )
    return LogComparison(
        pgtrial_version=__version__,
        confidence=CONFIDENCE,
        sides=tuple(_describe(side) for side in sides),
        differences=tuple(compare_loads(sides)),
        contrasts=contrasts,
        caveats=tuple(find_caveats(sides, contrasts)),
    )


def unlike_names(paths: Sequence[Path]) -> tuple[str, ...]:
    """The last parts of the paths, as many as tell them apart."""
    parts = [path.absolute().parts for path in paths]
    for length in range(1, max(len(one) for one in parts) + 1):
        names = tuple("/".join(one[-length:]) for one in parts)
        if len(set(names)) == len(names):
            return names
    return tuple(str(path) for path in paths)


def _describe(side: Side) -> LogSide:
    return LogSide(
        key=side.key,
        path=str(side.path),
        runs=tuple(describe_run(run, confidence=CONFIDENCE) for run in side.runs),
        values=tuple(
            as_value(metric.name, log_value, side.known(metric.name), confidence=CONFIDENCE)
            for metric in METRICS
            if (log_value := side.level(metric.name)) is not None
        ),
        series=tuple(trace_run(measured.run) for measured in side.runs),
        distribution=describe_distribution(tuple(measured.run for measured in side.runs)),
    )


def _contrast(first: Side, second: Side, metric: Metric) -> LogContrast | None:
    levels = first.level(metric.name), second.level(metric.name)
    if levels[0] is None or levels[1] is None:
        return None
    known = first.known(metric.name), second.known(metric.name)
    numbers = {min(2, len(side.runs)) for side in (first, second)}
    # A run's own error beside that of several runs would mean two things in one interval.
    if len(numbers) > 1 or known[0] is None or known[1] is None:
        low = high = None
        basis = "none"
    else:
        found = difference(known[0], known[1], confidence=CONFIDENCE)
        low, high = math.exp(found.interval.low), math.exp(found.interval.high)
        basis = "within" if numbers == {1} else "between"
    return LogContrast(
        side=second.key,
        metric=metric.name,
        better=metric.better,
        ratio=math.exp(levels[1] - levels[0]),
        low=low,
        high=high,
        basis=basis,
    )
