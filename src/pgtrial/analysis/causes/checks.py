"""Checks of the samples, second by second as they were read, against the thresholds of experiment_file/checks.toml.

Each gives one of four levels for an arm at a load level. A check says that something is large. Whether it limits the
load is concluded elsewhere, from all of them together.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from pgtrial.analysis.cause_findings import Check, Level
from pgtrial.analysis.causes.cells import estimate_mean, find_objects, group_cells
from pgtrial.analysis.causes.check_advice import Facts, advise
from pgtrial.analysis.causes.check_values import CheckedSeries, read_checked
from pgtrial.analysis.causes.log_event import LogEvent, place_events
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.timeline import Timeline
from pgtrial.experiment_file.check_rules import CheckKind, CheckRule, change_rule, check_rules
from pgtrial.language import tr
from pgtrial.stats.trend import trend

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
            timelines=found,
            entries=None
            if log_events is None
            else tuple(event for each in found for event, start, _ in placed[each.run, each.level] if start >= 0),
        )
        for (arm, level), found in group_cells(timelines).items()
    ]
    return tuple(check for cell in cells for rule in rules for check in _check(rule, cell))


def grade(rule: CheckRule, value: float) -> Level:
    """The worst level whose limit the value reaches; checks.toml says what happens at a limit itself."""
    is_higher_worse = rule.is_higher_worse or rule.kind is CheckKind.TIME  # then it is the share of the time
    found = Level.OK
    for level, limit in rule.limits():
        if (value > 0 and value >= limit) if is_higher_worse else value < limit:
            found = Level(level)
    return found


def _changed(evidence: Evidence, rule: CheckRule) -> CheckRule:
    table = evidence.experiment.checks.get(rule.id)
    return change_rule(rule, {key: each.value for key, each in table.limits().items()}) if table else rule


def _check(rule: CheckRule, cell: _Cell) -> Iterator[Check]:
    if rule.kind is CheckKind.LOG:
        if cell.entries is not None:
            yield from _check_log(rule, cell, cell.entries)
        return
    for about in find_objects(cell.timelines, rule.metric[0]):
        found = [read_checked(cell.evidence, rule, timeline, about) for timeline in cell.timelines]
        judged = _JUDGES[rule.kind](rule, [each for each in found if each is not None], cell.evidence.confidence)
        if judged is not None:
            yield _record(rule, cell, judged, about=about)


def _record(rule: CheckRule, cell: _Cell, judged: _Judged, *, about: str, entries: tuple[str, ...] = ()) -> Check:
    facts = Facts(timelines=cell.timelines, metric=rule.metric[0], about=about, entries=entries)
    return Check(
        id=rule.id,
        name=tr(rule.name),
        arm=cell.arm,
        load_level=cell.level,
        object=about,
        value=judged.value,
        unit=rule.unit,
        threshold=rule.threshold,
        share=judged.share,
        level=judged.level,
        advice="" if judged.level is Level.OK else advise(rule.id, facts),
    )


def _judge_time(rule: CheckRule, series: Sequence[CheckedSeries], _: float) -> _Judged | None:
    known = sum(int(each.is_known.sum()) for each in series)
    if not known:
        return None
    values = np.concatenate([each.values for each in series])
    # A comparison with NaN is false: what is not known is not beyond.
    beyond = values > rule.threshold if rule.is_higher_worse else values < rule.threshold
    share = float(beyond.sum()) / known
    seen = values[~np.isnan(values)]
    return _Judged(value=float(np.median(seen)) if seen.size else None, share=share, level=grade(rule, share))


def _judge_total(rule: CheckRule, series: Sequence[CheckedSeries], _: float) -> _Judged | None:
    """The ratio of the sums, so that a busy second counts for more than a quiet one; without ``per`` the mean."""
    above = sum(float(each.above[each.is_known].sum()) for each in series)
    below = sum(float(each.below[each.is_known].sum()) for each in series)
    return _Judged(value=above / below, share=None, level=grade(rule, above / below)) if below > 0 else None


def _judge_trend(rule: CheckRule, series: Sequence[CheckedSeries], confidence: float) -> _Judged | None:
    """Change over the measured time, mean over the runs; only a remark where it may as well be zero."""
    found = [(trend(each.values, confidence=confidence), each.values.size) for each in series]
    trends = [(each, seconds) for each, seconds in found if each is not None]
    estimate = estimate_mean((each.slope * seconds for each, seconds in trends), confidence=confidence)
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
    found = {about: tuple(group) for about, group in groupby(mine, key=lambda event: event.object)}
    for about, events in (found or {"": ()}).items():
        value = sum(event.count for event in events) * 60 / seconds if seconds else 0.0
        is_severe = bool(events) and about.startswith(_SEVERE_CLASSES)
        judged = _Judged(value=value, share=None, level=Level.ALARM if is_severe else grade(rule, value))
        yield _record(rule, cell, judged, about=about, entries=tuple(event.text for event in events))
