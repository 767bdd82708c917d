"""Every metric in every arm, as a table: what an article prints of a test, with the effect and its interval."""

from collections.abc import Iterator, Mapping

from pgtrial.findings.findings import ArmMetric, Findings, MetricFinding
from pgtrial.findings.record import parts_of
from pgtrial.language import N_
from pgtrial.model.observable import OF_DEVICES
from pgtrial.model.series import WAIT
from pgtrial.report.cause_words import by_arm, causes_of
from pgtrial.report.sections.base import Section
from pgtrial.report.values import format_signed, format_value
from pgtrial.report.words import arm_label, change_cells, metric_label

_LEAST = 0.01  # sessions in a wait event, below which it is left to the exports
_SHARED = ("cgroup.", "server.", "slru.", "watermark.")  # whose objects are left to them as well


def _build(findings: Findings) -> dict[str, object]:
    return {"rows": [row for metric in _shown(findings) for row in _rows(findings, metric)]}


def _shown(findings: Findings) -> Iterator[MetricFinding]:
    """Without devices that do no more than a few requests, seldom events, and other objects."""
    devices = {use.device for use in causes_of(findings).disks}
    for metric in findings.metrics:
        name, _, about = metric.metric.partition("/")
        if name.startswith(OF_DEVICES) and devices and about not in devices:
            continue
        if name.startswith(WAIT) and all(arm.mean < _LEAST for arm in metric.arms):
            continue
        if not name.startswith(_SHARED):
            yield metric


def _rows(findings: Findings, metric: MetricFinding) -> Iterator[Mapping[str, object]]:
    unit = "share" if metric.unit == "ratio" else metric.unit
    arms = by_arm(findings, metric.arms)
    for number, arm in enumerate(arms):
        yield {
            "metric": _label(metric) if number == 0 else "",
            "span": len(arms),
            "arm": arm_label(findings, arm.arm),
            "cells": [
                *(format_value(value, unit) for value in (arm.mean, arm.median, arm.lowest, arm.highest)),
                "" if arm.change is None else format_signed(arm.change.value, unit),
                *_effect(arm),
            ],
        }


def _label(metric: MetricFinding) -> str:
    return metric_label(metric.metric, metric.scenario)


def _effect(arm: ArmMetric) -> tuple[str, str]:
    if arm.ratio is None:
        return "", ""
    change, interval = change_cells(*parts_of(arm.ratio))
    return change, "" if interval == "–" else interval


METRICS = Section(
    name="metrics", title=N_("All metrics"), build=_build, is_shown=lambda findings: bool(findings.metrics)
)
