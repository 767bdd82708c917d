"""The sections of a comparison of plain pgbench logs, in reading order."""

from pgtrial.findings.comparison import LogComparison, LogRun
from pgtrial.report.charts.loads import change_chart, latency_chart, side_colours, throughput_chart
from pgtrial.report.comparison.base import Part
from pgtrial.report.comparison.differences import tabulate_differences
from pgtrial.report.comparison.words import (
    BASES,
    find_value,
    log_answer_text,
    value_interval,
    value_text,
    when_text,
)
from pgtrial.report.words import change_text, interval_text, metric_label, sort_caveats
from pgtrial.units import format_count, format_duration, format_percent, format_share


def _answer(found: LogComparison) -> dict[str, object]:
    return {
        "answer": log_answer_text(found),
        "caveats": [caveat for caveat in found.caveats if caveat.code == "unblocked"],
    }


def _differences(found: LogComparison) -> dict[str, object]:
    return tabulate_differences(found.differences, [side.key for side in found.sides])


def _changes(found: LogComparison) -> dict[str, object]:
    first = found.sides[0]
    sides = {side.key: side for side in found.sides}
    return {
        "first": first.key,
        "chart": change_chart(found),
        "confidence": format_share(found.confidence),
        "bases": [BASES[basis] for basis in dict.fromkeys(one.basis for one in found.contrasts) if BASES[basis]],
        "rows": [
            {
                "side": one.side,
                "metric": metric_label(one.metric),
                "before": value_text(find_value(first.values, one.metric)),
                "after": value_text(find_value(sides[one.side].values, one.metric)),
                "change": change_text(one.ratio),
                "interval": interval_text(one.low, one.high),
            }
            for one in found.contrasts
        ],
    }


def _charts(found: LogComparison) -> dict[str, object]:
    charts = (throughput_chart(found), latency_chart(found))
    return {"charts": [chart for chart in charts if chart is not None]}


def _runs(found: LogComparison) -> dict[str, object]:
    colours = side_colours(found)
    metrics = list(dict.fromkeys(value.metric for side in found.sides for run in side.runs for value in run.values))
    return {
        "metrics": [metric_label(metric) for metric in metrics],
        "rows": [
            {"side": side.key, "colour": colours[side.key], **_run(run, metrics)}
            for side in found.sides
            for run in side.runs
        ],
    }


def _run(run: LogRun, metrics: list[str]) -> dict[str, object]:
    return {
        "name": run.name,
        "files": ", ".join(run.files),
        "when": when_text(run.started),
        "length": format_duration(run.seconds),
        "clients": "–" if run.clients is None else str(run.clients),
        "transactions": format_count(run.transactions),
        "failed": format_count(run.failed),
        "skipped": format_count(run.skipped),
        "logged": format_percent(run.logged_share),
        "stretch": "–" if run.stretch is None else format_duration(run.stretch),
        "cells": [
            (value_text(find_value(run.values, metric)), value_interval(find_value(run.values, metric)))
            for metric in metrics
        ],
    }


def _caveats(found: LogComparison) -> dict[str, object]:
    return {"caveats": sort_caveats(found.caveats)}


LOG_PARTS: tuple[Part[LogComparison], ...] = (
    Part(name="answer", title="What the logs show", template="logs.html", build=_answer),
    Part(name="differences", title="Differences", template="differences.html", build=_differences),
    Part(name="changes", title="Changes", template="changes.html", build=_changes),
    Part(name="course", title="Over time", template="charts.html", build=_charts),
    Part(name="runs", title="Runs", template="runs.html", build=_runs),
    Part(name="caveats", title="Caveats", template="caveats.html", build=_caveats),
    Part(name="method", title="Method", template="log_method.html", build=lambda found: {}),
)
