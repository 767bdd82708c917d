"""The series that a check looks at: sums of metrics, over other sums, in one run at one load level."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.causes.cells import Array, find_series
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.timeline import Timeline
from pgtrial.experiment_file.check_rules import CheckRule
from pgtrial.units import parse_bytes

_MACHINE = "machine."
_SETTINGS = "settings."


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSeries:
    """``above`` the line of the fraction and ``below`` it, both (seconds,).

    ``is_known`` tells where the check can say something, also where there is no value because nothing happened.
    """

    above: Array
    below: Array
    is_known: NDArray[np.bool_]

    @property
    def values(self) -> Array:
        """(seconds,) NaN where nothing is below the line."""
        found = np.full(self.above.shape, np.nan)
        np.divide(self.above, self.below, out=found, where=self.below > 0)
        return found


def read_checked(evidence: Evidence, rule: CheckRule, timeline: Timeline, about: str) -> CheckedSeries | None:
    """None where a series was not read."""
    above = _add_up(evidence, rule.metric, timeline, about)
    below = _add_up(evidence, rule.per, timeline, about) if rule.per else np.ones(timeline.seconds)
    if above is None or below is None:
        return None
    is_known = ~np.isnan(above) & ~np.isnan(below)
    beside = find_series(timeline, rule.known_by, about) if rule.known_by else None
    if beside is not None:
        is_known |= ~np.isnan(beside)
    return CheckedSeries(above=above, below=below, is_known=is_known)


def _add_up(evidence: Evidence, metrics: tuple[str, ...], timeline: Timeline, about: str) -> Array | None:
    total = np.zeros(timeline.seconds)
    for metric in metrics:
        found: Array | float | None = find_series(timeline, metric, about)
        if found is None:
            found = _find_constant(evidence, metric, timeline.run)
        if found is None:
            return None
        total = total + found
    return total


def _find_constant(evidence: Evidence, metric: str, run: int) -> float | None:
    """What was recorded of the machine, "machine.memory", or of a run's settings, "settings.autovacuum_max_workers"."""
    if metric.startswith(_MACHINE):
        text = evidence.fingerprints.get(None, {}).get(f"machine/{metric.removeprefix(_MACHINE)}", "")
    elif metric.startswith(_SETTINGS):
        text = evidence.settings.get(run, {}).get(metric.removeprefix(_SETTINGS), ("", ""))[0]
    else:
        return None
    try:
        return float(text) if text.isdecimal() else parse_bytes(text)
    except ValueError:
        return None
