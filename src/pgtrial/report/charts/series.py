"""Time series of one metric: one chart per arm with the same axes, and the arm's events below it."""

from pgtrial.findings.findings import Findings, RunFinding, Series
from pgtrial.language import ntr, ptr, tr
from pgtrial.model.run import PhaseName
from pgtrial.report.cause_words import causes_of
from pgtrial.report.charts.base import COUNT_LABEL, Chart, Spec, arm_colours, duration_label, place_logs, shorten
from pgtrial.report.charts.schedule import NOT_COUNTED
from pgtrial.report.charts.time_axis import (
    FIRST,
    MARGIN,
    count_text,
    draw_lanes,
    lane_word,
    merge_marks,
    time_channel,
    time_title,
    wrap_timed,
)
from pgtrial.report.terms import phase_word, state_word
from pgtrial.report.words import RATES, REQUESTS, format_metric, is_sliced, level_label, metric_label


def events_chart(findings: Findings, arm: str, times: tuple[float, float]) -> Chart | None:
    """The lanes of an arm, all of its runs together; None where no arm has anything for a lane.

    Every arm has the same lanes, so that it can be seen of which there was none.
    """
    kinds = [kind for kind in FIRST if any(mark.kind == kind for mark in causes_of(findings).marks)]
    any_lost = any(run.state in NOT_COUNTED for run in findings.runs)
    if not kinds and not any_lost:
        return None
    counted = {run.id for run in findings.runs if run.arm == arm and run.state not in NOT_COUNTED}
    lost = [run for run in findings.runs if run.arm == arm and run.state in NOT_COUNTED]
    lanes: list[tuple[str, list[Spec]]] = []
    counts = []
    for kind in kinds:
        marks = [mark for mark in causes_of(findings).marks if mark.run in counted and mark.kind == kind]
        lanes.append((lane_word(kind, len(marks)), merge_marks(marks, times)))
        counts.append(count_text(kind, len(marks)))
    if any_lost:
        lanes.append((_lost_word(lost), [bar for run in lost for bar in _bars(findings, run, times)]))
        counts.append(
            ntr("{count} run not counted", "{count} runs not counted", len(lost)) if lost else tr("every run counted")
        )
    return Chart(
        title=f"{arm}: {', '.join(counts)}",
        text=tr(
            "What happened in the runs of arm {arm}: {events}.", arm=arm, events="; ".join(word for word, _ in lanes)
        ),
        times=times,
        spec=draw_lanes(lanes, times, titled=True),
    )


def _lost_word(lost: list[RunFinding]) -> str:
    if not lost:
        return tr("not counted: none")
    runs = ", ".join(tr("run {run} of block {block}", run=run.id, block=run.block) for run in lost)
    return tr("not counted: {runs}", runs=runs)


def _bars(findings: Findings, run: RunFinding, times: tuple[float, float]) -> list[Spec]:
    """How far into its measured time the run came; nothing where it did not come so far."""
    bands = [band for band in mark_phases(findings, run, times) if band["start"] >= 0]
    if not bands:
        return []
    text = tr(
        "run {run}, block {block}, {state}: {reason}",
        run=run.id,
        block=run.block,
        state=state_word(run.state),
        reason=run.reason or tr("no reason recorded"),
    )
    return [{"start": shorten(bands[0]["start"]), "end": shorten(bands[-1]["end"]), "text": text}]


# Beyond this ratio a linear axis shows only the spikes.
LOG_FROM = 20
# A warm-up without values is marked, but takes at most this share of the measured time's width; none at all where
# the checkpoint between the two took longer than the second share.
WARMUP_ROOM = 0.12
MOST_PAUSE = 0.5


def arms_of(findings: Findings, metric: str) -> list[str]:
    """The arms that have a value of the metric over time, in the order of the experiment and of their charts."""
    known = {
        series.arm
        for series in findings.series
        if series.metric == metric and any(shorten(value) is not None for value in series.value)
    }
    return [arm.name for arm in findings.experiment.arms if arm.name in known]


def series_charts(findings: Findings, metric: str) -> list[Chart]:
    """One chart per arm that has series of the metric; scales are shared so that they compare by eye."""
    chosen = [series for series in findings.series if series.metric == metric and series.t]
    values = [value for series in chosen for value in map(shorten, series.value) if value is not None]
    if not values:
        return []
    times = _time_axis(findings, chosen)
    charts = []
    for arm in arms_of(findings, metric):
        mine = [series for series in chosen if series.arm == arm]
        layers = [
            *_phase_layers(findings, mine, times),
            _lines(mine, arm_colours(findings)[arm], (min(values), max(values)), metric, sliced=is_sliced(findings)),
        ]
        charts.append(
            Chart(
                title=_title(arm, mine),
                text=tr(
                    "Time series of {metric} of arm {arm}, {runs}, with load levels marked; a break in a line is a gap "
                    "in the data.",
                    metric=metric_label(metric),
                    arm=arm,
                    runs=_runs_text(mine),
                ),
                times=times,
                spec=wrap_timed({"layer": layers}, times, height=150),
            )
        )
    return charts


def _runs_text(mine: list[Series]) -> str:
    return ntr("{count} run", "{count} runs", len(mine))


def _title(arm: str, mine: list[Series]) -> str:
    """With mean, least and most of what the lines of the arm show."""
    metric = mine[0].metric
    values = [value for series in mine for value in series.value if shorten(value) is not None and value is not None]
    mean, low, high = (format_metric(metric, value) for value in (sum(values) / len(values), min(values), max(values)))
    return tr(
        "{arm}: {metric} {mean} on average, between {low} and {high}, {runs}",
        arm=arm,
        metric=metric_label(metric),
        mean=mean,
        low=low,
        high=high,
        runs=_runs_text(mine),
    )


def _time_axis(findings: Findings, chosen: list[Series]) -> tuple[float, float]:
    """From the end of the warm-up, as much of it as there is room for, to the last value."""
    first, last = min(min(series.t) for series in chosen), max(max(series.t) for series in chosen)
    shown = {series.run for series in chosen}
    leads = [_lead(run) for run in findings.runs if run.id in shown]
    length = max((length for length, _ in leads), default=0.0)
    pause = max((pause for _, pause in leads), default=0.0)
    if pause > MOST_PAUSE * (last - first):
        return first, last
    return min(first, -min(length, pause + WARMUP_ROOM * (last - first))), last


def _lead(run: RunFinding) -> tuple[float, float]:
    """Seconds from the start and from the end of the warm-up to the first measured second; zero without one."""
    measured = [phase["start"] for phase in run.phases if phase["name"] == PhaseName.MEASURE]
    warmups = [phase for phase in run.phases if phase["name"] == PhaseName.WARMUP]
    if not measured or not warmups:
        return 0.0, 0.0
    return min(measured) - warmups[0]["start"], min(measured) - warmups[0]["end"]


def _lines(
    chosen: list[Series],
    colour: str,
    extent: tuple[float, float],
    metric: str,
    *,
    sliced: bool,
) -> Spec:
    rows = [
        {
            "run": tr("run {run}, block {block}", run=series.run, block=series.block),
            "t": [shorten(t) for t in series.t],
            "v": [shorten(value) for value in series.value],
        }
        for series in chosen
    ]
    low, high = extent
    scale: Spec = {"domain": [0, high * 1.05]}
    ticks: Spec = {"tickCount": 4}
    if low > 0 and high / low > LOG_FROM and metric not in RATES:
        scale = {"type": "log", "domain": [low / 1.1, high * 1.1]}
        ticks = {"values": place_logs(low / 1.1, high * 1.1)}
    is_rate = metric in RATES
    return {
        "data": {"values": rows},
        "transform": [{"flatten": ["t", "v"]}],
        "mark": {"type": "line", "strokeWidth": 1.2, "opacity": 0.75, "color": colour, "clip": True},
        "encoding": {
            "x": time_channel("t", title=time_title(is_sliced=sliced)),
            "y": {
                "field": "v",
                "type": "quantitative",
                "scale": scale,
                "axis": {
                    "title": tr(REQUESTS[metric]) if metric in REQUESTS else metric_label(metric),
                    "labelExpr": COUNT_LABEL if is_rate else duration_label(),
                    **ticks,
                    **MARGIN,
                },
            },
            "detail": {"field": "run"},
            "tooltip": {"field": "run", "title": ptr("tooltip", "line")},
        },
    }


def _phase_layers(findings: Findings, chosen: list[Series], times: tuple[float, float]) -> list[Spec]:
    """Bands and names of warm-up and load levels, as they lay in the first run shown."""
    run = next((run for run in findings.runs if run.id == chosen[0].run), None)
    bands = [] if run is None else mark_phases(findings, run, times)
    if not bands:
        return []
    x = {"field": "start", "type": "quantitative"}
    return [
        {
            "data": {"values": bands},
            "mark": {"type": "rect", "color": "currentColor", "clip": True},
            "encoding": {
                "x": x,
                "x2": {"field": "end"},
                "opacity": {"field": "shade", "type": "quantitative", "scale": None},
            },
        },
        {
            "data": {"values": bands},
            "mark": {
                "type": "text",
                "align": "left",
                "baseline": "top",
                "dx": 4,
                "dy": 2,
                "opacity": 0.7,
                "clip": True,
            },
            "encoding": {"x": x, "y": {"value": 0}, "text": {"field": "label"}},
        },
    ]


def mark_phases(findings: Findings, run: RunFinding, times: tuple[float, float]) -> list[Spec]:
    """Where warm-up and load levels lie in seconds since the run's first measured second, cut to ``times``."""
    measured = [phase["start"] for phase in run.phases if phase["name"] == PhaseName.MEASURE]
    if not measured:
        return []
    bands = []
    counted = 0.0  # of the load levels before
    for phase in run.phases:
        if phase["name"] not in {PhaseName.WARMUP, PhaseName.MEASURE}:
            continue
        start, end = phase["start"] - min(measured), phase["end"] - min(measured)
        if phase["name"] == PhaseName.MEASURE and is_sliced(findings):
            start, end = counted, counted + phase.get("seconds", end - start)
            counted = end
        start, end = max(start, times[0]), min(end, times[1])
        if start >= end:
            continue
        is_warmup = phase["name"] == PhaseName.WARMUP
        level = phase["level"]
        bands.append(
            {
                "start": shorten(start),
                "end": shorten(end),
                "label": phase_word(PhaseName.WARMUP) if is_warmup else level_label(findings, level),
                "shade": 0.14 if is_warmup else 0.02 + 0.04 * ((level or 0) % 2),
            }
        )
    return bands
