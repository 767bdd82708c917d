import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.timelines.panels import MAX_POINTS, MAX_RUNS, MAX_TYPES, OTHER, make_panels
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.findings.catalogue.series import LINE_NAMES
from pgtrial.findings.over_time import Panel
from pgtrial.model.run import RunRow
from pgtrial.model.series import METRICS


def make_timeline(
    run: RunRow, series: Mapping[tuple[str, str], Sequence[float]], *, level: int = 0, offset: float = 0.0
) -> Timeline:
    arrays = {key: np.array(value, dtype=np.float64) for key, value in series.items()}
    seconds = next(iter(arrays.values())).size
    return Timeline(
        run=run.id,
        arm=run.slot.arm,
        block=run.slot.block,
        level=level,
        started=1e9 + offset,
        offset=offset,
        tps=np.ones(seconds),
        latency=np.ones(seconds),
        series=arrays,
    )


@pytest.fixture
def run(evidence: Evidence) -> RunRow:
    return evidence.runs_of("on")[0]


def lines(panel: Panel) -> dict[str, tuple[float | None, ...]]:
    return {line.name: line.value for line in panel.lines}


def test_values_are_those_of_the_seconds(evidence: Evidence, run: RunRow) -> None:
    timeline = make_timeline(run, {("vmstat.us", ""): [0.25, 0.5, 0.75], ("vmstat.wa", ""): [0, math.nan, 0.1]})

    (panel,) = make_panels(evidence, [timeline])

    assert (panel.run, panel.arm, panel.block, panel.topic) == (run.id, "on", run.slot.block, "cpu")
    assert (panel.unit, panel.stacked) == ("share", True)
    assert panel.t == (0.5, 1.5, 2.5)
    assert lines(panel) == {"programs": (0.25, 0.5, 0.75), "waiting for I/O": (0.0, None, 0.1)}


def test_a_long_run_has_means_of_several_seconds(evidence: Evidence, run: RunRow) -> None:
    value = np.arange(700.0)
    value[3:6] = math.nan
    value[6] = math.nan

    (panel,) = make_panels(evidence, [make_timeline(run, {("vmstat.available", ""): value.tolist()})])

    (line,) = panel.lines
    assert len(line.value) == len(panel.t) == 234 <= MAX_POINTS
    assert panel.t[:3] == (1.5, 4.5, 7.5)
    assert line.value[:3] == (1.0, None, 7.5)
    assert line.value[-1] == 699


def test_levels_stand_one_after_the_other_with_a_gap(evidence: Evidence, run: RunRow) -> None:
    first = make_timeline(run, {("vmstat.st", ""): [1, 1]})
    second = make_timeline(run, {("vmstat.st", ""): [0, 0]}, level=1, offset=4.04)

    (panel,) = make_panels(evidence, [second, first])

    assert panel.t == (0.5, 1.5, 2.5, 3.5, 4.5, 5.5)
    assert lines(panel) == {"stolen": (1, 1, None, None, 0, 0)}


def test_of_many_runs_there_are_the_first_the_middle_and_the_last(evidence: Evidence) -> None:
    timelines = [make_timeline(run, {("vmstat.us", ""): [0.5]}) for run in evidence.valid]

    panels = make_panels(evidence, timelines)

    assert len(evidence.runs_of("on")) > MAX_RUNS
    assert [(panel.arm, panel.block) for panel in panels] == [
        (arm, block) for arm in ("on", "off", "placebo") for block in (1, 3, 6)
    ]


def test_few_runs_are_all_there(evidence: Evidence) -> None:
    few = replace(evidence, valid=evidence.valid[:6])

    panels = make_panels(few, [make_timeline(run, {("vmstat.us", ""): [0.5]}) for run in few.valid])

    assert [(panel.arm, panel.block) for panel in panels] == [
        (arm, block) for arm in ("on", "off", "placebo") for block in (1, 2)
    ]


def test_waits_are_stacked_by_type_the_largest_first(evidence: Evidence) -> None:
    first, second = evidence.runs_of("on")[0], evidence.runs_of("off")[0]
    sessions = {name: 10.0 - place for place, name in enumerate(("CPU", "IO", "Lock", "IPC", "LWLock", "BufferPin"))}
    series = {("waits." + name, ""): [value, value] for name, value in sessions.items()}
    small = {("waits.Timeout", ""): [1.0, 0.0], ("waits.Extension", ""): [0.5, 2.0], ("waits.Client", ""): [0.0, 0.0]}
    active = {("sessions.active", ""): [1.0, 1.0]}

    panels = make_panels(
        evidence, [make_timeline(first, {**series, **small, **active}), make_timeline(second, {**series, **active})]
    )

    assert len(sessions) == MAX_TYPES
    assert [(panel.topic, panel.stacked, panel.unit) for panel in panels] == [("waits", True, "")] * 2
    assert list(lines(panels[0])) == [*sessions, OTHER]
    assert lines(panels[0])[OTHER] == (1.5, 2.0)
    # The same lines for every run, so that one colour is one type.
    assert list(lines(panels[1])) == [*sessions, OTHER]


def test_every_device_has_its_panels(evidence: Evidence, run: RunRow) -> None:
    series = {
        (metric, device): [1.0, 2.0]
        for device in ("vdb", "vda")
        for metric in ("iostat.util", "iostat.r", "iostat.w", "iostat.w_bytes", "iostat.w_await", "iostat.aqu")
    }
    series |= {("iostat.f", "vda"): [0.0, 3.0], ("iostat.d", "vda"): [0.0, 0.0], ("iostat.f", "vdb"): [0.0, 0.0]}

    panels = make_panels(evidence, [make_timeline(run, series)])

    assert [(panel.title.say(), panel.unit) for panel in panels] == [
        (f"disk {device}: {title}", unit)
        for device in ("vda", "vdb")
        for title, unit in (
            ("requests", "1/s"),
            ("bytes", "B/s"),
            ("time of a request", "s"),
            ("requests under way", ""),
        )
    ]
    assert list(lines(panels[0])) == ["reads", "writes", "flushes"]
    assert list(lines(panels[4])) == ["reads", "writes"]


def test_the_catalogue_has_words_for_every_line_and_for_nothing_else(evidence: Evidence, run: RunRow) -> None:
    types = [f"waits.{number}" for number in range(MAX_TYPES + 1)]
    names = (*(metric.name for metric in METRICS), "sessions.active", *types)
    series = {(name, device): [1.0, 2.0] for name in names for device in ("", "vda")}

    panels = make_panels(evidence, [make_timeline(run, series)])

    assert {name for panel in panels for name in lines(panel) if f"waits.{name}" not in types} == set(LINE_NAMES)


def test_memory_and_write_back_are_told_with_their_limits(evidence: Evidence, run: RunRow) -> None:
    series = {
        ("vmstat.available", ""): [8e9],
        ("vmstat.swpd", ""): [0.0],
        ("dirty.bytes", ""): [1e6],
        ("dirty.writeback", ""): [0.0],
        ("dirty.threshold", ""): [2e9],
        ("dirty.background", ""): [1e9],
    }

    memory, write_back = make_panels(evidence, [make_timeline(run, series)])

    assert (memory.topic, memory.unit, lines(memory)) == ("memory", "B", {"available": (8e9,)})
    assert (write_back.topic, write_back.unit) == ("write-back", "B")
    assert list(lines(write_back)) == ["dirty", "being written", "limit for writers", "limit for background writing"]


def test_values_have_no_more_digits_than_can_be_seen(evidence: Evidence, run: RunRow) -> None:
    (panel,) = make_panels(evidence, [make_timeline(run, {("vmstat.available", ""): [123_456_789.0, 0.000123456]})])

    assert panel.lines[0].value == (123_500_000.0, 0.0001235)


def test_without_samples_there_are_no_panels(evidence: Evidence, run: RunRow) -> None:
    assert make_panels(evidence, []) == ()
    assert make_panels(evidence, [make_timeline(run, {("db.hit", ""): [1.0]})]) == ()
