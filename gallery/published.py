"""Published | here | agree? | why not: the figures of the articles against the intervals of the experiments here.

What an article reports stands in gallery.toml, what was found here in figures.json, which every new result rewrites.
Agreement is not judged by eye: a published figure agrees if the interval here holds it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pgtrial.findings.findings import Findings
from pgtrial.findings.record import ALL
from pgtrial.language import tr
from pgtrial.model.observable import OF_DEVICES, find_observable
from pgtrial.report.markdown import escape, table
from pgtrial.report.values import format_value
from pgtrial.report.words import change_text, format_metric, interval_text
from pgtrial.stats.interval import mean_and_sd, t_interval

FIGURES = Path(__file__).with_name("figures.json")
_HEADS = ("what", "published", "here", "agree?", "why not")
_MISSING = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A figure of an article: of a metric in an arm, ``low`` to ``high`` in its base unit, or as a ratio to the control
    if ``is_change``. ``why`` is a reason for another result here, Markdown.
    """

    what: str
    metric: str
    arm: str
    scenario: str | None
    is_change: bool
    low: float
    high: float
    why: str

    @property
    def key(self) -> str:
        """By which figures.json has it."""
        return f"{self.metric} {self.arm}{f' {self.scenario}' if self.scenario else ''}{' change' * self.is_change}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """What was found here, in the same unit; without an interval nothing is tested. ``note`` says of what it is, if not
    of the runs at all load levels.
    """

    value: float
    low: float | None = None
    high: float | None = None
    note: str = ""


def read_published(rows: Iterable[Mapping[str, Any]]) -> tuple[Published, ...]:
    """ValueError for one that is neither a change nor a value."""
    found = []
    for row in rows:
        numbers = row.get("change", row.get("value"))
        if not isinstance(numbers, list) or len(numbers) not in (1, 2):
            raise ValueError(f'"{row.get("what")}" has neither a change nor a value, or more than two ends of it')
        is_change = "change" in row
        ends = [1 + number if is_change else number for number in numbers]
        found.append(
            Published(
                what=row["what"],
                metric=row["metric"],
                arm=row["arm"],
                scenario=row.get("scenario"),
                is_change=is_change,
                low=min(ends),
                high=max(ends),
                why=row.get("why", "").strip(),
            )
        )
    return tuple(found)


def find_here(findings: Findings, published: Published) -> Here | None:
    """Over all load levels: an effect, or the mean of the arm's runs with a t interval over its blocks."""
    if published.is_change:
        for effect in findings.effects:
            place = (effect.metric, effect.arm, effect.scenario, effect.load_level)
            if place == (published.metric, published.arm, published.scenario, ALL) and effect.ratio is not None:
                return Here(value=effect.ratio, low=effect.low, high=effect.high)
    device = find_device(findings, published.arm)
    for metric in findings.metrics:
        name, _, about = metric.metric.partition("/")
        if (name, metric.scenario) != (published.metric, published.scenario):
            continue
        if name.startswith(OF_DEVICES) and about != device:
            continue
        for arm in metric.arms:
            if arm.arm != published.arm:
                continue
            if published.is_change:
                ratio = arm.ratio
                return None if ratio is None else Here(value=ratio.value, low=ratio.low, high=ratio.high)
            return _mean([value for value in arm.values if value is not None], findings.hypothesis.confidence)
    return None


def find_device(findings: Findings, arm: str) -> str:
    """The device with the most requests under way, as claims about devices have it."""
    queues = {
        metric.metric.partition("/")[2]: each.mean
        for metric in findings.metrics
        if metric.metric.startswith(f"{OF_DEVICES}aqu/")
        for each in metric.arms
        if each.arm == arm
    }
    return max(queues, key=lambda about: (queues[about], about), default="")


def _mean(values: Sequence[float], confidence: float) -> Here | None:
    if len(values) < 2:
        return Here(value=values[0]) if values else None
    mean, sd = mean_and_sd(values)
    interval = t_interval(mean, sd, len(values), confidence=confidence)
    return Here(value=mean, low=interval.low, high=interval.high)


def keep_figures(name: str, published: Sequence[Published], findings: Findings, path: Path) -> None:
    """Write what was found in an experiment in the place of what was there."""
    figures = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    found = {each.key: here for each in published if (here := find_here(findings, each)) is not None}
    figures[name] = {key: asdict(here) for key, here in found.items()}
    path.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_figures(name: str, path: Path) -> Mapping[str, Here]:
    figures = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {key: Here(**here) for key, here in figures.get(name, {}).items()}


def judge(published: Published, here: Here | None) -> str:
    """Whether the interval here holds the published figure; of a change also whether it holds none."""
    if here is None:
        return "not measured"
    if here.low is None or here.high is None:
        return "not tested: no interval"
    if here.high < published.low or here.low > published.high:
        return "**no**"
    if published.is_change and here.low <= 1 <= here.high:
        return "yes, and so would no change"
    return "yes"


_ALIKE_HEADS = ("what", "article", "here", "alike?")


def is_alike(published: Published, here: Here | None) -> bool | None:
    """Whether what was found here reaches into the article's range; None where it is not known."""
    if here is None:
        return None
    low, high = (here.value if end is None else end for end in (here.low, here.high))
    return high >= published.low and low <= published.high


def bottleneck_lines(bottleneck: Sequence[Published], figures: Mapping[str, Here]) -> list[str]:
    """Was the quick file limited by what limited the article? A sentence and its table, as lines of Markdown."""
    if not bottleneck:
        return []
    alike = {each.what: is_alike(each, figures.get(each.key)) for each in bottleneck}
    others = [what for what, found in alike.items() if found is False]
    sentence = "What limited the article limits the quick file as well."
    if others:
        sentence = f"In the quick file not as in the article: {'; '.join(others)}."
    elif None in alike.values():
        sentence = "Whether the quick file is limited by what limited the article was not measured in all of this."
    words = {True: "yes", False: "**no**", None: "not measured"}
    rows = [
        [
            each.what,
            _write(each.metric, each.low, each.high, is_change=False),
            _write_here(each, figures.get(each.key)),
            words[alike[each.what]],
        ]
        for each in bottleneck
    ]
    return [sentence, "", *table(list(_ALIKE_HEADS), rows)]


def page_table(published: Sequence[Published], figures: Mapping[str, Here]) -> list[str]:
    """The table of a page, as lines of Markdown."""
    return table(list(_HEADS), rows_of(published, figures)) if published else []


def rows_of(published: Sequence[Published], figures: Mapping[str, Here], *, page: str = "") -> list[list[str]]:
    """With ``page`` each row begins with a link to its experiment."""
    rows = []
    for each in published:
        here = figures.get(each.key)
        verdict = judge(each, here)
        rows.append(
            [
                *([page] if page else []),
                each.what,
                _write(each.metric, each.low, each.high, is_change=each.is_change),
                _write_here(each, here),
                verdict,
                _MISSING if verdict.startswith("yes") or not each.why else each.why,
            ]
        )
    return rows


def index_table(rows: Sequence[Sequence[str]]) -> list[str]:
    return table(["experiment", *_HEADS], [list(row) for row in rows])


def _write(metric: str, low: float, high: float, *, is_change: bool) -> str:
    first, last = (change_text(end) if is_change else _value(metric, end) for end in (low, high))
    return first if first == last else tr("{low} to {high}", low=first, high=last)


def _write_here(published: Published, here: Here | None) -> str:
    if here is None:
        return _MISSING
    if published.is_change:
        interval = interval_text(here.low, here.high)
        value = change_text(here.value)
    else:
        value = _value(published.metric, here.value)
        ends = [here.low, here.high]
        low, high = (_value(published.metric, end) if end is not None else _MISSING for end in ends)
        interval = _MISSING if None in ends else tr("{low} to {high}", low=low, high=high)
    text = value if interval == _MISSING else f"{value} ({interval})"
    return escape(f"{text}, {here.note}" if here.note else text)


def _value(metric: str, value: float) -> str:
    known = find_observable(metric)
    return format_value(value, "share") if known and known.metric.unit == "share" else format_metric(metric, value)
