"""What a page says of a result: the findings in the words of the report, as parts of a template."""

import re
from datetime import UTC, datetime
from typing import Any

from gallery.published import find_device
from pgtrial.analysis.engagement import is_idle
from pgtrial.findings.causes import WEIGHTED, ArmScore
from pgtrial.findings.findings import ArmMetric, CurvePoint, Effect, Findings
from pgtrial.findings.message import say
from pgtrial.findings.naming import name_gain
from pgtrial.findings.record import ALL
from pgtrial.model.caveat import Severity
from pgtrial.model.observable import OF_DEVICES
from pgtrial.model.series import WAITS
from pgtrial.report.cause_words import by_arm, by_level, causes_of, order_levels
from pgtrial.report.markdown import escape, table
from pgtrial.report.narrative.worst import worst_text
from pgtrial.report.sections.over_time import RARE
from pgtrial.report.summary_words import placebo_text
from pgtrial.report.terms import verdict_word
from pgtrial.report.values import format_value
from pgtrial.report.words import (
    VERDICT_SYMBOLS,
    arm_label,
    change_text,
    claim_text,
    effect_word,
    find_effect,
    format_metric,
    interval_text,
    is_finished,
    level_label,
    metric_label,
    placebo_arm,
    plural,
    sort_caveats,
)
from pgtrial.units import format_duration, format_share

# Checks whose values the published tables have, in their order; the latency and the throughput stand above them.
_FIGURES = (
    "hit-ratio",
    "cpu-busy",
    "io-wait",
    "blocked",
    "device-busy",
    "device-queue",
    "read-response",
    "write-response",
    "dirty-pages",
    "wait-io",
    "wait-lock",
    "wait-lwlock",
)
# Of the runs at all load levels, in the order of the table: what the articles have of the disk, of waits and of memory.
_MEANS = {
    "iostat.iops": "requests to the disk",
    "iostat.bytes": "bytes read and written",
    "iostat.rareq": "size of a read",
    "iostat.wareq": "size of a write",
    "iostat.r_await": "time of a read",
    "iostat.w_await": "time of a write",
    "iostat.aqu": "requests under way",
    "vmstat.b": "blocked processes",
    "waits.IO": "sessions waiting for I/O",
    "waits.LWLock": "sessions waiting for LWLocks",
    "waits.Lock": "sessions waiting for locks",
    "waits.IPC": "sessions waiting for other processes",
    "cgroup.swapped": "memory of the server swapped out",
}
_LEAST_SESSIONS = 0.01  # on average, of a kind of waits that has a row
_SPEED = ("pgbench.tps", "pgbench.latency_p95", "fio.bandwidth", "fio.iops", "fio.latency_mean", "fio.latency_p99")
_MISSING = "–"
NOTHING_ACTED = "Nothing that the arms set had anything to act on."


def describe_result(findings: Findings) -> dict[str, Any]:
    """What the template of a result shows; every text is Markdown, every table a list of lines."""
    asked = findings.hypothesis
    return {
        "answer": answer(findings),
        "claim": escape(claim_text(findings)),
        "subject": metric_label(asked.metric) + (f" of {escape(asked.scenario)}" if asked.scenario else ""),
        "control": escape(arm_label(findings, asked.control)),
        "effects": _effects(findings),
        "placebo": escape(placebo_text(findings)) if placebo_arm(findings) else "",
        "why": escape(say(causes_of(findings).text)),
        "settings": [f"- {escape(say(each.text))}" for each in findings.engagements],
        "limits": _limits(findings),
        "disks": _disks(findings),
        "files": _files(findings),
        "pages": escape(say(findings.pages.text)) if findings.pages is not None else "",
        "gains": _gains(findings),
        "figures": _figures(findings),
        "means": _means(findings),
        "figures_level": escape(level_label(findings, _last_level(findings))),
        "stability": _stability(findings),
        "advice": _advice(findings),
        "scorecard": _scorecard(findings),
        "caveats": _caveats(findings),
        "source": _source(findings),
    }


def answer(findings: Findings) -> str:
    """The verdict and its reason, in one paragraph that stands for the page in the index: with what got worse, what a
    claim about one scenario leaves out, and what has to be said beside a verdict, so that it hides none of them.
    """
    asked = findings.hypothesis
    word = verdict_word(asked.verdict, not_tested=asked.not_tested)
    parts = [
        f"**{VERDICT_SYMBOLS[asked.verdict]} {word}** – {escape(say(asked.reason))}",
        escape(worst_text(findings)),
        _of_all_scenarios(findings),
        *map(escape, findings.beside_verdict),
        NOTHING_ACTED if is_idle(findings.engagements) and not asked.not_tested else "",
        "" if is_finished(findings) else "Not finished.",
    ]
    return " ".join(filter(None, parts))


def _of_all_scenarios(findings: Findings) -> str:
    """The effect on the whole load, of a claim that is about one scenario of it."""
    asked = findings.hypothesis
    if asked.scenario is None:
        return ""
    effect = find_effect(findings.effects, arm=asked.arm, metric=asked.metric, scenario=None)
    if effect is None or effect.ratio is None:
        return ""
    change = f"{change_text(effect.ratio)} ({interval_text(effect.low, effect.high)})"
    return f"All scenarios together: {metric_label(asked.metric)} {change}."


def _effects(findings: Findings) -> list[str]:
    """Every arm's effect on the metric of the hypothesis, over all load levels and at each of them."""
    asked = findings.hypothesis
    found = [
        effect
        for effect in (*findings.effects, *findings.placebo)
        if (effect.metric, effect.scenario) == (asked.metric, asked.scenario)
    ]
    if len(findings.experiment.levels) == 1:
        found = [effect for effect in found if effect.load_level == ALL]
    if findings.pages is not None:  # other arms have other data, and are compared by themselves
        found = [effect for effect in found if effect.arm == asked.arm]
    found = by_arm(findings, by_level(findings, found))
    heads = ["arm", "load", "change", f"{format_share(asked.confidence)} interval", "decision", "blocks"]
    return table(heads, [_effect_row(findings, effect) for effect in found], right={2, 3, 5}) if found else []


def _effect_row(findings: Findings, effect: Effect) -> list[str]:
    return [
        escape(arm_label(findings, effect.arm)),
        escape(level_label(findings, effect.load_level)),
        change_text(effect.ratio),
        interval_text(effect.low, effect.high),
        effect_word(findings, effect),
        str(effect.blocks),
    ]


def _limits(findings: Findings) -> list[str]:
    limits = by_arm(findings, by_level(findings, causes_of(findings).limits))
    rows = [
        [escape(arm_label(findings, each.arm)), escape(level_label(findings, each.load_level)), escape(say(each.text))]
        for each in limits
    ]
    return table(["arm", "load", "what limits it"], rows) if rows else []


def _disks(findings: Findings) -> list[str]:
    """What each arm's disk is to the load, and the size of server that it can feed."""
    uses = [use for use in causes_of(findings).disks if use.text is not None]
    return [f"- {escape(arm_label(findings, use.arm))}: {escape(say(use.text))}" for use in uses]


def _files(findings: Findings) -> list[str]:
    """Where the speed of a load on files ends, in each arm."""
    uses = by_arm(findings, sorted(causes_of(findings).files, key=lambda use: use.load_level))
    return [f"- {escape(arm_label(findings, use.arm))}: {escape(say(use.text))}" for use in uses]


def _gains(findings: Findings) -> list[str]:
    """Huge pages against ordinary ones of the same data, at all load levels and at each of them."""
    if findings.pages is None or not findings.pages.gains:
        return []
    cells = {(gain.arm, gain.load_level): gain for gain in findings.pages.gains}
    levels = order_levels(findings, (level for _, level in cells))
    if len(findings.experiment.levels) == 1:
        levels = [ALL]
    rows = [
        [
            escape(arm_label(findings, arm)),
            *(escape(name_gain(cells[arm, level]).say()) if (arm, level) in cells else _MISSING for level in levels),
        ]
        for arm in dict.fromkeys(gain.arm for gain in findings.pages.gains)
    ]
    return table(["arm", *(escape(level_label(findings, level)) for level in levels)], rows)


def _last_level(findings: Findings) -> int | str:
    return findings.experiment.levels[-1].index if findings.experiment.levels else ALL


def _figures(findings: Findings) -> list[str]:
    """Arms side by side at the last load level: speed, and medians of what the checks look at."""
    level = _last_level(findings)
    arms = [arm.name for arm in findings.experiment.arms]
    rows: dict[str, dict[str, str]] = {}
    points = {(point.metric, point.arm): point for point in findings.curve if point.load_level == level}
    for metric in _SPEED:
        for arm in arms:
            if (metric, arm) in points:
                rows.setdefault(metric_label(metric), {})[arm] = _point(points[metric, arm])
    checks = [check for check in causes_of(findings).checks if check.load_level == level and check.id in _FIGURES]
    for check in sorted(checks, key=lambda check: (_FIGURES.index(check.id), check.object)):
        name = f"{check.name} ({check.object})" if check.object else check.name
        rows.setdefault(name, {})[check.arm] = format_value(check.value, check.unit)
    for kind in causes_of(findings).kinds:
        if kind.load_level == level:
            rows.setdefault("kind of load", {})[kind.arm] = kind.kind
            rows.setdefault("blocks read or hit per block dirtied", {})[kind.arm] = format_value(
                kind.read_per_dirtied, ""
            )
    if not rows:
        return []
    heads = ["", *(escape(arm_label(findings, arm)) for arm in arms)]
    cells = [[escape(name), *(row.get(arm, _MISSING) for arm in arms)] for name, row in rows.items()]
    return table(heads, cells, right=set(range(1, len(heads))))


def _means(findings: Findings) -> list[str]:
    """Means of the runs over all load levels; of other arms than the control with the change and its interval."""
    arms = [arm.name for arm in findings.experiment.arms]
    known = {metric.metric: metric for metric in findings.metrics if metric.scenario is None}
    device = find_device(findings, findings.hypothesis.control)
    rows = []
    for name, label in _MEANS.items():
        is_of_device = name.startswith(OF_DEVICES)
        metric = known.get(f"{name}/{device}" if is_of_device else name)
        least = _LEAST_SESSIONS if name.startswith(WAITS) else 0.0
        if metric is not None and any(each.mean > least for each in metric.arms):
            found = {each.arm: _mean(name, each) for each in metric.arms}
            rows.append(
                [f"{label} ({escape(device)})" if is_of_device else label, *(found.get(arm, _MISSING) for arm in arms)]
            )
    heads = ["", *(escape(arm_label(findings, arm)) for arm in arms)]
    return table(heads, rows, right=set(range(1, len(heads)))) if rows else []


def _mean(name: str, found: ArmMetric) -> str:
    mean = format_metric(name, found.mean)
    if found.ratio is None or found.ratio.low is None or found.ratio.high is None:
        return mean
    return f"{mean}, {change_text(found.ratio.value)} ({interval_text(found.ratio.low, found.ratio.high)})"


def _point(point: CurvePoint) -> str:
    text = format_metric(point.metric, point.value)
    if point.low is None or point.high is None:
        return text
    return f"{text} ({format_metric(point.metric, point.low)} to {format_metric(point.metric, point.high)})"


def _stability(findings: Findings) -> list[str]:
    """Whether dips go together with what the log tells, and rhythms that noise does not explain; one line for each."""
    lines = []
    for each in causes_of(findings).stability:
        where = f"{arm_label(findings, each.arm)}, {level_label(findings, each.load_level)}"
        if each.aligned:
            lines.append(f"- {escape(where)}: {escape(say(each.aligned))}")
        lines += [
            f"- {escape(where)}: a rhythm of {format_duration(period.seconds)}"
            + (f", as {escape(period.like)}" if period.like else "")
            + f"; noise alone has one as strong with a probability of {period.false_alarm:.2g}."
            for period in each.periods
            if period.false_alarm < RARE
        ]
    return lines


def _advice(findings: Findings) -> list[str]:
    """The fast arm, the stable one, and where they are not the same; one line for each."""
    scores = causes_of(findings).scorecard
    if scores is None:
        return []
    lines = [f"- {each.goal}: {escape(say(each.text))}" for each in scores.recommendations]
    return [*lines, *([f"- {escape(say(scores.trade_off))}"] if scores.trade_off else [])]


def _scorecard(findings: Findings) -> list[str]:
    """The arms against the criteria that the file declares; [] where it declares none."""
    scores = causes_of(findings).scorecard
    if scores is None or all(each.goal != WEIGHTED for each in scores.recommendations):
        return []
    criteria = [metric_label(value.criterion) for value in scores.arms[0].values]
    heads = ["arm", *criteria, "Pareto front", "score", "best score in"]
    return table(heads, [_score_row(findings, arm) for arm in scores.arms], right=set(range(1, len(heads))))


def _score_row(findings: Findings, arm: ArmScore) -> list[str]:
    changes = [
        _MISSING
        if value.ratio is None
        else f"{change_text(value.ratio.value)} ({interval_text(value.ratio.low, value.ratio.high)})"
        for value in arm.values
    ]
    score = _MISSING if arm.score is None else f"{arm.score:+.2f}".replace("-", "−")
    best = _MISSING if arm.best_share is None else format_share(arm.best_share)
    return [escape(arm_label(findings, arm.arm)), *changes, "yes" if arm.is_pareto else "no", score, best]


def _caveats(findings: Findings) -> list[str]:
    """Warnings and worse; remarks are only counted, and what the settings acted on has a paragraph of its own."""
    told = [caveat for caveat in sort_caveats(findings.caveats) if caveat.code != "not-engaged"]
    grave = [caveat for caveat in told if caveat.severity is not Severity.INFO]
    lines = [f"- {caveat.severity}: {escape(caveat.text)}" for caveat in grave]
    remarks = len(told) - len(grave)
    if remarks:
        lines.append(f"- and {plural(remarks, 'remark')} in the report")
    return lines


def _source(findings: Findings) -> str:
    """When and where it was measured, in a sentence."""
    experiment = findings.experiment
    facts = {f"{fact.group}/{fact.name}": fact.value for fact in findings.fingerprint.facts}
    parts = []
    if experiment.started is not None:
        parts.append(f"{datetime.fromtimestamp(experiment.started, UTC):%Y-%m-%d}")
    version = experiment.target.get("postgres version", "")
    machine = [
        f"PostgreSQL {version}" if version else "",
        f"{facts['machine/CPUs']} CPUs" if "machine/CPUs" in facts else "",
        f"{facts['machine/memory']} of memory" if "machine/memory" in facts else "",
        f"Linux {_major(facts['kernel/release'])}" if "kernel/release" in facts else "",
    ]
    parts.append(", ".join(filter(None, machine)))
    parts.append(f"{experiment.blocks_complete} of {plural(experiment.blocks_planned, 'block')}")
    if experiment.started is not None and experiment.ended is not None:
        parts.append(format_duration(experiment.ended - experiment.started))
    parts.append(f"pgtrial {findings.pgtrial_version}")
    return " · ".join(escape(part) for part in parts if part)


def _major(release: str) -> str:
    """ "6.1" of "6.1.0-18-amd64": what a reader can compare."""
    found = re.match(r"\d+\.\d+", release)
    return found[0] if found else release
