"""Where the time of a transaction goes: latency cut into its parts, or, of samples alone, into waits."""

from collections.abc import Callable, Sequence

from pgtrial.findings.findings import Findings, WaitShare
from pgtrial.findings.record import ALL
from pgtrial.findings.rendering import join_and
from pgtrial.findings.session_time import BudgetPart, LatencyBudget
from pgtrial.language import ptr, tr
from pgtrial.report.cause_words import by_level, causes_of, estimate_text, lead_arms, levels_text
from pgtrial.report.charts.base import (
    OTHER_COLOUR,
    OWN_COLOUR,
    WAIT_COLOURS,
    Chart,
    Spec,
    duration_label,
    kind_colour,
    kind_rank,
    label_rows,
    shorten,
    wrap_spec,
)
from pgtrial.report.values import format_value
from pgtrial.report.words import level_label, part_name
from pgtrial.units import format_decimal, format_duration, format_percent


def wait_charts(findings: Findings) -> list[Chart]:
    """One chart over all load levels, then one per level where there are several."""
    found = {wait.load_level for wait in findings.waits}
    levels: list[int | str] = [ALL] if ALL in found else []
    if len(findings.experiment.levels) > 1 or not levels:
        levels += [level.index for level in findings.experiment.levels if level.index in found]
    charts = (_waits(findings, level) for level in levels)
    return [chart for chart in charts if chart is not None]


def _waits(findings: Findings, level: int | str) -> Chart | None:
    waits = [wait for wait in findings.waits if wait.load_level == level]
    if not waits:
        return None
    per_transaction = all(wait.seconds_per_transaction is not None for wait in waits)
    types = sorted({wait.wait_type for wait in waits}, key=_rank)
    rows = [_row(wait, types, per_transaction=per_transaction) for wait in waits]
    arms = [arm.name for arm in findings.experiment.arms if any(wait.arm == arm.name for wait in waits)]
    where = level_label(findings, level)
    title, text = _say(where, per_transaction=per_transaction)
    return Chart(
        title=": ".join(filter(None, (title, _message(findings, waits, per_transaction=per_transaction)))),
        text=text,
        legend=tuple((WAIT_COLOURS.get(name, OTHER_COLOUR), part_name(name, "")) for name in types),
        spec=wrap_spec(
            {
                "data": {"values": rows},
                "mark": {"type": "bar", "stroke": "var(--surface, white)", "strokeWidth": 0.5},
                "encoding": {
                    "y": {
                        "field": "arm",
                        "type": "nominal",
                        "sort": arms,
                        "axis": {"title": None, "labelLimit": 120, "ticks": False},
                    },
                    "x": {
                        "field": "value",
                        "type": "quantitative",
                        "stack": "zero",
                        "axis": {
                            "title": tr("time per transaction") if per_transaction else tr("sessions"),
                            **({"labelExpr": duration_label()} if per_transaction else {}),
                            "tickCount": 6,
                        },
                    },
                    "color": OWN_COLOUR,
                    "order": {"field": "rank", "type": "quantitative"},
                    "tooltip": [
                        {"field": "arm", "title": tr("arm")},
                        {"field": "type", "title": tr("wait type")},
                        {"field": "event", "title": tr("wait event")},
                        {"field": "text", "title": tr("per transaction") if per_transaction else tr("sessions")},
                    ],
                },
            },
            height=40 * len(arms),
        ),
    )


def _say(where: str, *, per_transaction: bool) -> tuple[str, str]:
    """Title and text alternative."""
    if per_transaction:
        return (
            tr("Time per transaction by wait type, {where}", where=where),
            tr(
                "Stacked bars by arm: time per transaction by wait type, {where}; the table below has the figures.",
                where=where,
            ),
        )
    return (
        tr("Active sessions by wait type, {where}", where=where),
        tr("Stacked bars by arm: active sessions by wait type, {where}; the table below has the figures.", where=where),
    )


def _message(findings: Findings, waits: list[WaitShare], *, per_transaction: bool) -> str:
    """How much the control and the claim's arm have in all, and the largest part of it."""
    words = []
    for arm in lead_arms(findings, (wait.arm for wait in waits)):
        sums: dict[str, float] = {}
        for wait in waits:
            if wait.arm == arm:
                sums[wait.wait_type] = sums.get(wait.wait_type, 0.0) + (
                    _value(wait, per_transaction=per_transaction) or 0.0
                )
        part, unit = max(sums, key=lambda kind: sums[kind]), "s" if per_transaction else "sessions"
        words.append(
            tr(
                "{time} with “{arm}” ({part}: {part_time} of it)",
                time=format_value(sum(sums.values()), unit),
                arm=arm,
                part=part_name(part, ""),
                part_time=format_value(sums[part], unit),
            )
        )
    return join_and(words)


def _value(wait: WaitShare, *, per_transaction: bool) -> float | None:
    return wait.seconds_per_transaction if per_transaction else wait.sessions


def _rank(name: str) -> tuple[int, str]:
    known = list(WAIT_COLOURS)
    return (known.index(name) if name in known else len(known), name)


def _row(wait: WaitShare, types: list[str], *, per_transaction: bool) -> Spec:
    value = _value(wait, per_transaction=per_transaction)
    return {
        "arm": wait.arm,
        "type": part_name(wait.wait_type, ""),
        "event": wait.wait_event,
        "colour": WAIT_COLOURS.get(wait.wait_type, OTHER_COLOUR),
        "rank": types.index(wait.wait_type),
        "value": shorten(value),
        "text": format_duration(value) if per_transaction and value is not None else format_decimal(wait.sessions, 2),
    }


ROW_HEIGHT = 42
MOST_ROWS = 40  # bars that a reader still compares; the table has the others


def budget_charts(findings: Findings) -> list[Chart]:
    """Over all load levels in time; by load level as shares, where there are several; by scenario in time."""
    budgets = by_level(findings, causes_of(findings).budgets)
    whole = [budget for budget in budgets if budget.scenario is None]
    by_load = [budget for budget in whole if budget.load_level != ALL]
    scenarios = _over_levels([budget for budget in budgets if budget.scenario is not None])
    charts = []
    if whole:
        charts.append(_overall(findings, _over_levels(whole)))
    if len({budget.load_level for budget in by_load}) > 1:
        charts.append(_by_level(findings, by_load[:MOST_ROWS]))
    if len({budget.scenario for budget in scenarios}) > 1:
        charts.append(_by_scenario(findings, scenarios[:MOST_ROWS]))
    return charts


def _over_levels(budgets: list[LatencyBudget]) -> list[LatencyBudget]:
    """Those over all load levels; without any, those of the first level."""
    level = ALL if any(budget.load_level == ALL for budget in budgets) else budgets[0].load_level if budgets else None
    return [budget for budget in budgets if budget.load_level == level]


def _largest(budget: LatencyBudget) -> BudgetPart | None:
    return max(budget.parts, key=lambda part: part.seconds.value, default=None)


def _overall(findings: Findings, budgets: Sequence[LatencyBudget]) -> Chart:
    by_arm = {budget.arm: budget for budget in budgets}
    words = [_time_text(by_arm[arm]) for arm in lead_arms(findings, by_arm)]
    where = levels_text(findings, [budgets[0].load_level])
    return _chart(
        budgets,
        label=lambda budget: budget.arm,
        title=(
            tr("A transaction takes {times}, {where}", times=join_and(words), where=where)
            if words
            else tr("Time per transaction {where}", where=where)
        ),
        is_share=False,
    )


def _time_text(budget: LatencyBudget) -> str:
    """ "1.42 ms with “small” (CPU: 1.1 ms of it)"."""
    part, time = _largest(budget), format_duration(budget.latency.value)
    if part is None:
        return tr("{time} with “{arm}”", time=time, arm=budget.arm)
    return tr(
        "{time} with “{arm}” ({part}: {part_time} of it)",
        time=time,
        arm=budget.arm,
        part=part_name(part.kind, part.event),
        part_time=format_duration(part.seconds.value),
    )


def _by_level(findings: Findings, budgets: Sequence[LatencyBudget]) -> Chart:
    words = []
    for arm in lead_arms(findings, (budget.arm for budget in budgets)):
        levels: dict[str, list[int | str]] = {}
        for budget in budgets:
            part = _largest(budget)
            if budget.arm == arm and part is not None:
                levels.setdefault(part_name(part.kind, part.event), []).append(budget.load_level)
        if levels:
            parts = join_and(
                [tr("{part} {where}", part=name, where=levels_text(findings, found)) for name, found in levels.items()]
            )
            words.append(tr("“{arm}” has {parts}", arm=arm, parts=parts))
    return _chart(
        budgets,
        label=lambda budget: f"{level_label(findings, budget.load_level)}, {budget.arm}",
        title=(
            tr("The largest part by load level: {parts}", parts="; ".join(words))
            if words
            else tr("Shares of the latency by load level")
        ),
        is_share=True,
    )


def _by_scenario(findings: Findings, budgets: Sequence[LatencyBudget]) -> Chart:
    slowest = max(budgets, key=lambda budget: budget.latency.value)
    known = findings.experiment.scenarios
    return _chart(
        sorted(budgets, key=lambda budget: known.index(budget.scenario) if budget.scenario in known else len(known)),
        label=lambda budget: f"{budget.scenario}, {budget.arm}",
        title=_slowest_text(slowest),
        is_share=False,
    )


def _slowest_text(slowest: LatencyBudget) -> str:
    part, time = _largest(slowest), format_duration(slowest.latency.value)
    if part is None:
        return tr(
            "By scenario: “{scenario}” with “{arm}” takes longest, {time}",
            scenario=slowest.scenario,
            arm=slowest.arm,
            time=time,
        )
    return tr(
        "By scenario: “{scenario}” with “{arm}” takes longest, {time} ({part}: {part_time} of it)",
        scenario=slowest.scenario,
        arm=slowest.arm,
        time=time,
        part=part_name(part.kind, part.event),
        part_time=format_duration(part.seconds.value),
    )


def _chart(
    budgets: Sequence[LatencyBudget], *, label: Callable[[LatencyBudget], str], title: str, is_share: bool
) -> Chart:
    kinds = sorted({part.kind for budget in budgets for part in budget.parts}, key=kind_rank)
    labels = [f"{label(budget)}: {estimate_text(budget.latency, 's')}" for budget in budgets]
    bars = [
        {
            "row": number,
            "label": text,
            "what": part_name(part.kind, part.event),
            "colour": kind_colour(part.kind),
            "rank": kinds.index(part.kind),
            "value": shorten(_share(part, budget) if is_share else part.seconds.value),
            "text": tr(
                "{time}, {share} of the latency",
                time=estimate_text(part.seconds, "s"),
                share=format_percent(_share(part, budget)),
            ),
        }
        for number, (budget, text) in enumerate(zip(budgets, labels, strict=True))
        for part in budget.parts
    ]
    return Chart(
        title=title,
        text=tr(
            "Stacked bars of what the mean latency is made of. {bars}. The table below has the parts.",
            bars="; ".join(labels),
        ),
        legend=tuple((kind_colour(kind), part_name(kind, "")) for kind in kinds),
        spec=_spec(bars, labels, is_share=is_share),
    )


def _share(part: BudgetPart, budget: LatencyBudget) -> float:
    return part.seconds.value / budget.latency.value if budget.latency.value else 0.0


def _spec(bars: list[Spec], labels: list[str], *, is_share: bool) -> Spec:
    y = {"field": "row", "type": "ordinal", "axis": None}
    axis = (
        {"title": tr("share of the mean latency"), "format": ".0%", "tickCount": 5}
        if is_share
        else {"title": tr("time per transaction"), "labelExpr": duration_label(), "tickCount": 6, "labelOverlap": True}
    )
    scale = {"domain": [0, 1]} if is_share else {"nice": False}
    return wrap_spec(
        {
            "layer": [
                {
                    "data": {"values": bars},
                    "mark": {
                        "type": "bar",
                        "height": 16,
                        "yOffset": 8,
                        "stroke": "var(--surface, white)",
                        "strokeWidth": 0.5,
                    },
                    "encoding": {
                        "x": {
                            "field": "value",
                            "type": "quantitative",
                            "stack": "zero",
                            "axis": axis,
                            "scale": scale,
                        },
                        "y": y,
                        "color": OWN_COLOUR,
                        "order": {"field": "rank", "type": "quantitative"},
                        "tooltip": [
                            {"field": "label", "title": ptr("tooltip", "all")},
                            {"field": "what", "title": ptr("tooltip", "part")},
                            {"field": "text", "title": tr("per transaction")},
                        ],
                    },
                },
                {
                    "data": {"values": [{"row": number, "label": label} for number, label in enumerate(labels)]},
                    **label_rows(y, dy=-9),
                },
            ]
        },
        height=ROW_HEIGHT * len(labels),
    )
