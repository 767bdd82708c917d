"""What one --pgbench-log names: one run of pgbench, or several."""

import math
from dataclasses import dataclass
from pathlib import Path

from pgtrial.analysis.compare.log_run import MeasuredRun
from pgtrial.stats.interval import Known, known_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """``key`` is what tables call it; ``runs`` are in order of time."""

    key: str
    path: Path
    runs: tuple[MeasuredRun, ...]

    def level(self, metric: str) -> float | None:
        """Logarithm of its value: that of its run, or the mean over its runs; None if a run does not tell it."""
        logs = self._logs(metric)
        return math.fsum(logs) / len(logs) if len(logs) == len(self.runs) else None

    def known(self, metric: str) -> Known | None:
        """With several runs, what they differ by is the error; a single one only knows its own level."""
        if len(self.runs) == 1:
            return self.runs[0].known.get(metric)
        logs = self._logs(metric)
        return known_mean(logs) if len(logs) == len(self.runs) else None

    def _logs(self, metric: str) -> list[float]:
        return [math.log(run.values[metric]) for run in self.runs if run.values.get(metric, 0.0) > 0]
