"""What ran when, and which runs do not count."""

from pgtrial.findings.findings import Findings, RunFinding
from pgtrial.language import N_, tr
from pgtrial.model.run import RunState
from pgtrial.report.charts.schedule import NOT_COUNTED, order_chart, schedule_chart
from pgtrial.report.charts.time_axis import is_long
from pgtrial.report.sections.base import Section
from pgtrial.report.terms import state_word
from pgtrial.report.words import arm_label, format_metric, throughput_of
from pgtrial.units import format_duration

STATE_SYMBOLS = {
    RunState.DONE: "✔",
    RunState.INVALID: "✘",
    RunState.INTERRUPTED: "✘",
    RunState.RUNNING: "▶",
    RunState.PLANNED: "·",
}


def _build(findings: Findings) -> dict[str, object]:
    charts = [schedule_chart(findings), order_chart(findings)]
    return {
        "charts": [chart for chart in charts if chart is not None],
        "rows": [_row(findings, run) for run in findings.runs],
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


def _row(findings: Findings, run: RunFinding) -> dict[str, object]:
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
    name="schedule", title=N_("What ran when"), build=_build, is_open=lambda findings: not is_long(findings)
)
