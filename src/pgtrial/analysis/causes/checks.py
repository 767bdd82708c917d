"""Checks of the samples, second by second as they were read, against the thresholds of experiment_file/checks.toml.

Each gives one of four levels for an arm at a load level. A check says that something is large. Whether it limits the
load is concluded elsewhere, from all of them together.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.causes.check_advice import CheckContext, advise
from pgtrial.analysis.causes.sessions import Array, estimate_mean, find_objects, find_series, group_cells
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.log_pairing import LogEvent
from pgtrial.analysis.timelines.seconds import place_events
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.experiment_file.check_rules import CheckKind, CheckRule, change_rule, check_rules
from pgtrial.findings.causes import Check, Level
from pgtrial.stats.trend import trend
from pgtrial.units import parse_bytes

# The series that a check looks at: sums of metrics, over other sums, in one run at one load level.


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
        ratios = np.full(self.above.shape, np.nan)
        np.divide(self.above, self.below, out=ratios, where=self.below > 0)
        return ratios


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
        term: Array | float | None = find_series(timeline, metric, about)
        if term is None:
            term = _find_constant(evidence, metric, timeline.run)
        if term is None:
            return None
        total = total + term
    return total


def _find_constant(evidence: Evidence, metric: str, run: int) -> float | None:
    """What was recorded of the machine, "machine.memory", or of a run's settings, "settings.autovacuum_max_workers"."""
    if metric.startswith(_MACHINE):
        text = evidence.fact(f"machine/{metric.removeprefix(_MACHINE)}", run)
    elif metric.startswith(_SETTINGS):
        text = evidence.settings.get(run, {}).get(metric.removeprefix(_SETTINGS), ("", ""))[0]
    else:
        return None
    try:
        return float(text) if text.isdecimal() else parse_bytes(text)
    except ValueError:
        return None


# SQLSTATE classes that no load should meet, however rarely: resources, system error, internal error.
_SEVERE_CLASSES = ("53", "58", "XX")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """An arm at a load level; ``entries`` of the log that began in it, None where there is no log."""

    evidence: Evidence
    arm: str
    level: int
    timelines: tuple[Timeline, ...]
    entries: tuple[LogEvent, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    value: float | None
    share: float | None
    level: Level


def check_samples(
    evidence: Evidence, timelines: Sequence[Timeline], log_events: Sequence[LogEvent] | None
) -> tuple[Check, ...]:
    """Every check whose metrics were read, for each arm and load level, in the order of the file.

    ``log_events`` is None where there is no log, so that nothing is said about it.
    """
    rules = [_changed(evidence, rule) for rule in check_rules().values()]
    placed = place_events(evidence.valid, timelines, log_events or ())
    cells = [
        _Cell(
            evidence=evidence,
            arm=arm,
            level=level,
            timelines=members,
            entries=None
            if log_events is None
            else tuple(event for line in members for event, start, _ in placed[line.run, line.level] if start >= 0),
        )
        for (arm, level), members in group_cells(timelines).items()
    ]
    return tuple(check for cell in cells for rule in rules for check in _check(rule, cell))


def grade(rule: CheckRule, value: float) -> Level:
    """The worst level whose limit the value reaches; checks.toml says what happens at a limit itself."""
    is_higher_worse = rule.is_higher_worse or rule.kind is CheckKind.TIME  # then it is the share of the time
    worst = Level.OK
    for level, limit in rule.limits():
        if (value > 0 and value >= limit) if is_higher_worse else value < limit:
            worst = Level(level)
    return worst


def _changed(evidence: Evidence, rule: CheckRule) -> CheckRule:
    table = evidence.experiment.checks.get(rule.id)
    return change_rule(rule, {key: limit.value for key, limit in table.limits().items()}) if table else rule


def _check(rule: CheckRule, cell: _Cell) -> Iterator[Check]:
    if rule.kind is CheckKind.LOG:
        if cell.entries is not None:
            yield from _check_log(rule, cell, cell.entries)
        return
    for about in find_objects(cell.timelines, rule.metric[0]):
        read = [read_checked(cell.evidence, rule, timeline, about) for timeline in cell.timelines]
        judged = _JUDGES[rule.kind](rule, [series for series in read if series is not None], cell.evidence.confidence)
        if judged is not None:
            yield _record(rule, cell, judged, about=about)


def _record(rule: CheckRule, cell: _Cell, judged: _Judged, *, about: str, entries: tuple[str, ...] = ()) -> Check:
    facts = CheckContext(timelines=cell.timelines, metric=rule.metric[0], about=about, entries=entries)
    return Check(
        id=rule.id,
        name=rule.name,
        arm=cell.arm,
        load_level=cell.level,
        object=about,
        value=judged.value,
        unit=rule.unit,
        threshold=rule.threshold,
        share=judged.share,
        level=judged.level,
        advice=None if judged.level is Level.OK else advise(rule.id, facts),
    )


def _judge_time(rule: CheckRule, series: Sequence[CheckedSeries], _: float) -> _Judged | None:
    known = sum(int(run.is_known.sum()) for run in series)
    if not known:
        return None
    values = np.concatenate([run.values for run in series])
    # A comparison with NaN is false: what is not known is not beyond.
    beyond = values > rule.threshold if rule.is_higher_worse else values < rule.threshold
    share = float(beyond.sum()) / known
    seen = values[~np.isnan(values)]
    return _Judged(value=float(np.median(seen)) if seen.size else None, share=share, level=grade(rule, share))


def _judge_total(rule: CheckRule, series: Sequence[CheckedSeries], _: float) -> _Judged | None:
    """The ratio of the sums, so that a busy second counts for more than a quiet one; without ``per`` the mean."""
    above = sum(float(run.above[run.is_known].sum()) for run in series)
    below = sum(float(run.below[run.is_known].sum()) for run in series)
    return _Judged(value=above / below, share=None, level=grade(rule, above / below)) if below > 0 else None


def _judge_trend(rule: CheckRule, series: Sequence[CheckedSeries], confidence: float) -> _Judged | None:
    """Change over the measured time, mean over the runs; only a remark where it may as well be zero."""
    fits = [(trend(run.values, confidence=confidence), run.values.size) for run in series]
    trends = [(fit, seconds) for fit, seconds in fits if fit is not None]
    estimate = estimate_mean((fit.slope * seconds for fit, seconds in trends), confidence=confidence)
    if estimate is None:
        return None
    low, high = estimate.low, estimate.high
    if len(trends) == 1:  # no blocks to tell how sure it is, but the run's own noise
        low, high = trends[0][0].low, trends[0][0].high
    level = grade(rule, estimate.value)
    is_sure = low is not None and high is not None and (low > 0 or high < 0)
    if not is_sure and level in (Level.WARNING, Level.ALARM):
        level = Level.INFO
    return _Judged(value=estimate.value, share=None, level=level)


_JUDGES: Mapping[CheckKind, Callable[[CheckRule, Sequence[CheckedSeries], float], _Judged | None]] = {
    CheckKind.TIME: _judge_time,
    CheckKind.TOTAL: _judge_total,
    CheckKind.TREND: _judge_trend,
}


def _check_log(rule: CheckRule, cell: _Cell, entries: Sequence[LogEvent]) -> Iterator[Check]:
    """Entries of a kind per minute, by object (for errors their SQLSTATE); one that is ok where there are none."""
    seconds = sum(timeline.seconds for timeline in cell.timelines)
    mine = sorted((event for event in entries if event.kind in rule.metric), key=lambda event: event.object)
    groups = {about: tuple(group) for about, group in groupby(mine, key=lambda event: event.object)}
    for about, events in (groups or {"": ()}).items():
        value = sum(event.count for event in events) * 60 / seconds if seconds else 0.0
        is_severe = bool(events) and about.startswith(_SEVERE_CLASSES)
        judged = _Judged(value=value, share=None, level=Level.ALARM if is_severe else grade(rule, value))
        yield _record(rule, cell, judged, about=about, entries=tuple(event.text for event in events))
