"""Over time: series by arm, the inside of runs, their stability, what ran when, and where the time went."""

from pgtrial.analysis.causes.stability import FROM_LOG
from pgtrial.findings.findings import Findings, RunFinding
from pgtrial.findings.message import say
from pgtrial.findings.over_time import Dip, DipSign, DipWait, Period, Stability
from pgtrial.findings.record import Estimate
from pgtrial.language import N_, ptr, tr
from pgtrial.model.run import RunState
from pgtrial.report.cause_words import (
    by_level,
    causes_of,
    difference_text,
    estimate_text,
    lead_arms,
    levels_text,
)
from pgtrial.report.charts.base import Chart
from pgtrial.report.charts.courses import course_charts
from pgtrial.report.charts.panels import main_block, run_panels
from pgtrial.report.charts.schedule import NOT_COUNTED, order_chart, overhead_chart, schedule_chart
from pgtrial.report.charts.series import arms_of, events_chart, series_charts
from pgtrial.report.charts.time_axis import is_long, widest_times
from pgtrial.report.sections.base import Section, always
from pgtrial.report.terms import means_word, state_word
from pgtrial.report.values import format_value
from pgtrial.report.words import (
    arm_label,
    format_metric,
    format_p,
    is_sliced,
    latency_of,
    level_label,
    metric_label,
    part_name,
    throughput_of,
)
from pgtrial.stats.dips import FEWEST
from pgtrial.units import format_duration, format_percent


def _build_series(findings: Findings) -> dict[str, object]:
    throughput = throughput_of(findings)
    latency = series_charts(findings, latency_of(findings, "p95"))
    groups = [charts for charts in (_add_events(findings, throughput), latency) if charts]
    return {
        "groups": groups,
        "has_lanes": bool(groups) and len(groups[0]) > len(arms_of(findings, throughput)),
        "times": widest_times(chart for charts in groups for chart in charts),
        "takes_turns": is_sliced(findings),
    }


def _add_events(findings: Findings, metric: str) -> list[Chart]:
    """The series of each arm, and below them the arm's events on the same axis."""
    found: list[Chart] = []
    for arm, chart in zip(arms_of(findings, metric), series_charts(findings, metric), strict=True):
        events = None if chart.times is None else events_chart(findings, arm, chart.times)
        found += [chart] if events is None else [chart, events]
    return found


SERIES = Section(name="series", title=N_("Over time"), build=_build_series, is_open=always, is_shown=is_long)


def _build_courses(findings: Findings) -> dict[str, object]:
    charts = course_charts(findings)
    return {"charts": charts, "times": widest_times(charts)}


COURSES = Section(
    name="courses",
    title=N_("Arms over each other"),
    build=_build_courses,
    is_shown=lambda findings: is_long(findings) and bool(causes_of(findings).courses),
)


def _build_panels(findings: Findings) -> dict[str, object]:
    runs = run_panels(findings)
    main = main_block(runs)
    return {
        "times": widest_times(chart for run in runs for chart in run.charts if chart is not None),
        "runs": [run for run in runs if run.block == main],
        "others": [
            {"block": block, "runs": [run for run in runs if run.block == block]}
            for block in sorted({run.block for run in runs} - {main})
        ],
        "rows": 1 + max((len(run.charts) for run in runs), default=0),
        "has_marks": bool(causes_of(findings).marks),
        "means": means_word(causes_of(findings).tier),
    }


PANELS = Section(
    name="panels",
    title=N_("Inside the runs"),
    build=_build_panels,
    is_shown=lambda findings: is_long(findings) and bool(causes_of(findings).panels),
)


MOST_DIPS = 12
RARE = 0.05  # probability of a false alarm from which on a period is not shown as one


def _build_stability(findings: Findings) -> dict[str, object]:
    found = by_level(findings, causes_of(findings).stability)
    dips = sorted(((dip, each) for each in found for dip in each.dips), key=lambda pair: -pair[0].depth)
    periods = sorted(((period, each) for each in found for period in each.periods), key=lambda pair: -pair[0].share)
    return {
        "is_short": not any(map(_is_known, found)),
        "least": format_duration(FEWEST),
        "message": _message(findings, found),
        "waits": [_dip_wait(findings, wait, each) for each in found for wait in each.waits],
        "signs": [_sign(findings, sign, each) for each in found for sign in each.signs],
        "without_signs": [
            tr(
                "{arm}, {level}: none of {count} metrics is unlike itself before dips.",
                arm=arm_label(findings, each.arm),
                level=level_label(findings, each.load_level),
                count=each.signs_tried,
            )
            for each in found
            if each.signs_tried and not each.signs
        ],
        "rows": [_stability_row(findings, each) for each in found if _is_known(each)],
        "aligned": [
            f"{arm_label(findings, each.arm)}, {level_label(findings, each.load_level)}: {say(each.aligned)}"
            for each in found
            if each.aligned
        ],
        "dips": [_dip(findings, *pair) for pair in dips[:MOST_DIPS]],
        "further": len(dips) - MOST_DIPS if len(dips) > MOST_DIPS else 0,
        "periods": [_period(findings, *pair) for pair in periods],
    }


def _is_known(stability: Stability) -> bool:
    """Whether a run was long enough for anything to be said about it."""
    is_even_known = stability.coefficient_of_variation is not None or stability.stalled is not None
    return is_even_known or bool(stability.dips or stability.periods)


def _message(findings: Findings, found: list[Stability]) -> str:
    """How much control and claim's arm vary at the highest load level that both have; "" where that is not known."""
    arms = lead_arms(findings, (each.arm for each in found))
    if len(arms) < 2:
        return ""
    for level in sorted({each.load_level for each in found}, reverse=True):
        variation: dict[str, Estimate] = {
            each.arm: each.coefficient_of_variation
            for each in found
            if each.load_level == level and each.coefficient_of_variation is not None
        }
        if all(arm in variation for arm in arms):
            words = [
                tr("of “{arm}” by {share}", arm=arm, share=format_value(variation[arm].value, "share")) for arm in arms
            ]
            return tr(
                "Throughput varies from second to second {shares} of its mean ({where}).",
                shares=", ".join(words),
                where=levels_text(findings, [level]),
            )
    return ""


def _stability_row(findings: Findings, each: Stability) -> dict[str, object]:
    trend = each.trend
    return {
        "arm": arm_label(findings, each.arm),
        "level": level_label(findings, each.load_level),
        "variation": estimate_text(each.coefficient_of_variation, "share"),
        "lowest": estimate_text(each.lowest, "1/s"),
        "dips": estimate_text(each.dip_share, "share"),
        "stalled": estimate_text(each.stalled, "share"),
        "trend": difference_text(trend, "1/s"),
    }


def _dip(findings: Findings, dip: Dip, each: Stability) -> dict[str, object]:
    return {
        "arm": arm_label(findings, each.arm),
        "level": level_label(findings, each.load_level),
        "run": dip.run,
        "start": format_value(dip.start, "s"),
        "length": format_value(dip.length, "s"),
        "depth": format_value(dip.depth, "share"),
        "half": _recovery(dip.half_recovery),
        "most": _recovery(dip.recovery),
        "stalled": format_value(dip.stalled, "s") if dip.stalled else ptr("time", "none"),
        "near": ", ".join(map(say, dip.near)) or "–",
        "more": say(dip.more) or "–",
    }


def _dip_wait(findings: Findings, wait: DipWait, each: Stability) -> dict[str, object]:
    return {
        "arm": arm_label(findings, each.arm),
        "level": level_label(findings, each.load_level),
        "wait": part_name(wait.kind, wait.event),
        "inside": format_value(wait.inside, ""),
        "outside": format_value(wait.outside, ""),
        "chance": format_p(wait.chance),
        "is_rare": wait.chance < RARE,
    }


def _sign(findings: Findings, sign: DipSign, each: Stability) -> dict[str, object]:
    return {
        "arm": arm_label(findings, each.arm),
        "level": level_label(findings, each.load_level),
        "metric": metric_label(sign.metric),
        "lead": format_value(sign.lead, "s"),
        "before": format_value(sign.before, sign.unit),
        "usual": format_value(sign.usual, sign.unit),
        "chance": format_p(sign.chance),
    }


def _recovery(seconds: float | None) -> str:
    return tr("not in this run") if seconds is None else format_value(seconds, "s")


def _period(findings: Findings, period: Period, each: Stability) -> dict[str, object]:
    return {
        "arm": arm_label(findings, each.arm),
        "level": level_label(findings, each.load_level),
        "seconds": format_value(period.seconds, "s"),
        "share": format_value(period.share, "share"),
        "false_alarm": format_p(period.false_alarm),
        "is_rare": period.false_alarm < RARE,
        "like": _like(period.like),
    }


def _like(name: str) -> str:
    """Settings by their names."""
    return {"": tr("nothing known"), FROM_LOG: tr("checkpoints of the log")}.get(name, name)


STABILITY = Section(
    name="stability",
    title=N_("Stability"),
    build=_build_stability,
    is_shown=lambda findings: bool(causes_of(findings).stability),
)


STATE_SYMBOLS = {
    RunState.DONE: "✔",
    RunState.INVALID: "✘",
    RunState.INTERRUPTED: "✘",
    RunState.RUNNING: "▶",
    RunState.PLANNED: "·",
}


def _build_schedule(findings: Findings) -> dict[str, object]:
    charts = [schedule_chart(findings), order_chart(findings)]
    return {
        "charts": [chart for chart in charts if chart is not None],
        "rows": [_schedule_row(findings, run) for run in findings.runs],
        "ended": any(run.ended is not None for run in findings.runs),
        "lost": [_lost(run) for run in findings.runs if run.state in NOT_COUNTED],
    }


def _lost(run: RunFinding) -> dict[str, object]:
    return {
        "id": run.id,
        "arm": run.arm,
        "block": run.block,
        "state": state_word(run.state),
        "reason": run.reason or tr("no reason recorded"),
    }


def _schedule_row(findings: Findings, run: RunFinding) -> dict[str, object]:
    took = None if run.started is None or run.ended is None else run.ended - run.started
    return {
        "id": run.id,
        "slot": run.slot,
        "block": run.block,
        "arm": arm_label(findings, run.arm),
        "attempt": run.attempt,
        "state": state_word(run.state),
        "symbol": STATE_SYMBOLS[RunState(run.state)],
        "counts": run.state not in NOT_COUNTED,
        "reason": run.reason,
        "tps": format_metric(throughput_of(findings), run.tps),
        "took": "–" if took is None else format_duration(took),
        "overhead": "–" if run.overhead is None else format_duration(run.overhead),
    }


SCHEDULE = Section(
    name="schedule", title=N_("What ran when"), build=_build_schedule, is_open=lambda findings: not is_long(findings)
)


def _build_time(findings: Findings) -> dict[str, object]:
    share = findings.overhead.share
    return {
        "chart": overhead_chart(findings),
        "share": None if share is None else format_percent(share),
    }


TIME = Section(name="time", title=N_("Where the time went"), build=_build_time)
