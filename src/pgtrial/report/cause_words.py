"""How causes are put into words and numbers; sections, titles of charts and the terminal summary use the same ones.

All of it is in the language in use.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from pgtrial.findings.causes import Causes, Level
from pgtrial.findings.findings import Findings
from pgtrial.findings.naming import name_series
from pgtrial.findings.record import ALL, Estimate
from pgtrial.findings.rendering import join_and
from pgtrial.language import tr
from pgtrial.model.series import WAIT, WAITS, find_metric
from pgtrial.report.values import format_signed, format_value
from pgtrial.report.words import METRIC_LABELS, control_of, level_label, metric_label, part_name
from pgtrial.store import layout


class _OfArm(Protocol):
    @property
    def arm(self) -> str: ...


class _OfLevel(Protocol):
    @property
    def load_level(self) -> int | str: ...


class _OfArmAndLevel(_OfArm, _OfLevel, Protocol):
    pass


_Armed = TypeVar("_Armed", bound=_OfArm)
_Record = TypeVar("_Record", bound=_OfLevel)
_Level = TypeVar("_Level", int, int | str)
_Cell = TypeVar("_Cell", bound=_OfArmAndLevel)

LEVEL_SYMBOLS = {Level.ALARM: "‼", Level.WARNING: "!", Level.INFO: "i", Level.OK: "✔"}

# By the first word of a metric's name. What is not listed is of the machine and the server's views: samples.
_FILES: dict[str, tuple[str, ...]] = {
    "tps": (layout.TRANSACTIONS,),
    "latency": (layout.WAITS, layout.TRANSACTIONS),  # parts of the budget
    "wait": (layout.WAITS,),
    "waits": (layout.WAITS,),
    "sessions": (layout.WAITS,),
    "log": (layout.SERVER_LOG,),
    "limit": (),  # another suspect, not a file
}


def causes_of(findings: Findings) -> Causes:
    """The causes; empty ones where the analysis gave none."""
    return findings.causes or Causes(tier="")


def file_of(metric: str) -> str:
    """The file of a run's folder that a metric of the causes comes from; "" for what is no metric."""
    if metric in METRIC_LABELS:  # what pgbench logged; other metrics of that name are of its process
        return layout.TRANSACTIONS
    return join_and(_FILES.get(metric.partition(".")[0], (layout.SAMPLES,)))


def metric_words(name: str) -> str:
    """What a metric is, in words; "" of one that nothing is known of."""
    metric, _, about = name.partition("/")
    if metric in METRIC_LABELS:
        return metric_label(metric)
    for prefix in (WAITS, WAIT):
        if metric.startswith(prefix):
            return tr("sessions in {part}", part=part_name(metric.removeprefix(prefix), about))
    series = find_metric(metric)
    return name_series(series.name).say() if series is not None else ""


def estimate_text(estimate: Estimate | None, unit: str) -> str:
    """ "1.2 ms (1.1 ms to 1.3 ms)"; a dash where there is none."""
    if estimate is None:
        return "–"
    return _with_range(estimate, format_value(estimate.value, unit), range_text(estimate, unit))


def difference_text(estimate: Estimate | None, unit: str) -> str:
    """A difference with its interval: "−1.2 ms (−1.3 ms to −1.1 ms)"; a dash where there is none."""
    if estimate is None:
        return "–"
    return _with_range(estimate, format_signed(estimate.value, unit), range_text(estimate, unit, signed=True))


def range_text(estimate: Estimate, unit: str, *, signed: bool = False) -> str:
    """The interval alone: "1.1 ms to 1.3 ms"; a dash where there is none."""
    if estimate.low is None or estimate.high is None:
        return "–"
    write = format_signed if signed else format_value
    return tr("{low} to {high}", low=write(estimate.low, unit), high=write(estimate.high, unit))


def _with_range(estimate: Estimate, text: str, interval: str) -> str:
    return text if estimate.low is None or estimate.high is None else f"{text} ({interval})"


def levels_text(findings: Findings, levels: Iterable[int | str]) -> str:
    """ "with 4 clients and 16 clients"; "at every load level" where it is each of several."""
    found = list(levels)
    known = {level.index for level in findings.experiment.levels}
    if len(known) > 1 and found == [ALL]:
        return tr("over all load levels")
    if len(known) > 1 and known <= set(found):
        return tr("at every load level")
    return tr("with {levels}", levels=join_and([level_label(findings, level) for level in found]))


def order_levels(findings: Findings, levels: Iterable[_Level]) -> list[_Level]:
    """Each load level once: all of them first, then in the order of the experiment."""
    known = [known.index for known in findings.experiment.levels]

    def rank(level: _Level) -> int:
        return known.index(level) if isinstance(level, int) and level in known else -1

    return sorted(dict.fromkeys(levels), key=rank)


def by_level(findings: Findings, records: Iterable[_Cell]) -> list[_Cell]:
    """By load level as :func:`order_levels` has them, those of one level by arm."""
    found = by_arm(findings, records)
    levels = order_levels(findings, (each.load_level for each in found))
    return sorted(found, key=lambda each: levels.index(each.load_level))


def distinct_levels(findings: Findings, records: Iterable[_Record]) -> list[_Record]:
    """Without those of the only load level, where there is one and it is the same as all of them."""
    found = list(records)
    if len(findings.experiment.levels) > 1 or not any(record.load_level == ALL for record in found):
        return found
    return [record for record in found if record.load_level == ALL]


def order_arms(findings: Findings, arms: Iterable[str]) -> list[str]:
    """Each arm once, in the order of the experiment."""
    known = [known.name for known in findings.experiment.arms]
    return sorted(dict.fromkeys(arms), key=lambda arm: known.index(arm) if arm in known else len(known))


def by_arm(findings: Findings, records: Iterable[_Armed]) -> list[_Armed]:
    """By arm as :func:`order_arms` has them; those of one arm stay in their order."""
    found = list(records)
    arms = order_arms(findings, (each.arm for each in found))
    return sorted(found, key=lambda each: arms.index(each.arm))


def lead_arms(findings: Findings, present: Iterable[str]) -> list[str]:
    """The control and the claim's arm, of which titles speak, as far as they are among ``present``."""
    found = set(present)
    return [arm for arm in dict.fromkeys((control_of(findings), findings.hypothesis.arm)) if arm in found]
