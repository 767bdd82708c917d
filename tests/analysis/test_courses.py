from typing import Any

import numpy as np
import pytest

from pgtrial.analysis.courses import MAX_POINTS, draw_courses
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.timelines.timeline import Timeline


def make(arm: str, run: int, seconds: int = 20, *, offset: float = 0.0, level: int = 0, **series: Any) -> Timeline:
    names = {"io": ("waits.IO", ""), "util": ("iostat.util", "vda"), "swap": ("vmstat.swpd", "")}
    spread = {names[name]: np.full(seconds, float(value)) for name, value in series.items()}
    return Timeline(
        run=run,
        arm=arm,
        block=run,
        level=level,
        started=0.0,
        offset=offset,
        tps=np.arange(seconds) + 100.0 * run,
        latency=np.full(seconds, 0.01),
        series={**spread, ("iostat.aqu", "vda"): np.ones(seconds)},
        means={("iostat.aqu", "vda"): 1.0},
    )


def course(found: Any, metric: str) -> Any:
    return next(each for each in found if each.metric == metric)


def test_a_line_is_the_mean_of_the_runs_of_an_arm_at_the_same_time(evidence: Evidence) -> None:
    found = draw_courses(evidence, [make("on", 1), make("on", 3), make("off", 2)])

    tps = course(found, "pgbench.tps")
    assert tps.t == tuple(second + 0.5 for second in range(20))
    assert [(line.arm, line.value[:3]) for line in tps.lines] == [("on", (200, 201, 202)), ("off", (200, 201, 202))]


def test_between_load_levels_nothing_is_known_and_arms_have_the_same_times(evidence: Evidence) -> None:
    found = draw_courses(evidence, [make("on", 1, 5), make("on", 1, 5, offset=8.0, level=1), make("off", 2, 5, io=2.0)])

    tps, io = course(found, "pgbench.tps"), course(found, "waits.IO")
    assert [value is None for value in tps.lines[0].value] == [False] * 5 + [True] * 3 + [False] * 5
    assert [line.arm for line in io.lines] == ["off"]
    assert len(tps.lines[1].value) == len(tps.t) == 13


def test_long_runs_have_few_points_and_what_is_zero_throughout_has_no_course(evidence: Evidence) -> None:
    found = draw_courses(evidence, [make("on", 1, 1000, swap=0.0, util=0.5), make("off", 2, 1000, swap=0.0, util=1.0)])

    names = [each.metric for each in found]
    assert names[:2] == ["pgbench.tps", "pgbench.latency_mean"]
    assert "vmstat.swpd" not in names
    util = course(found, "iostat.util/vda")
    assert util.unit == "share"
    assert len(util.t) <= MAX_POINTS
    assert {line.arm: set(line.value) for line in util.lines} == {"on": {0.5}, "off": {1.0}}


def test_the_experiments_own_folder_has_courses_of_all_arms(findings: Any) -> None:
    assert findings.causes is not None
    tps = course(findings.causes.courses, "pgbench.tps")

    assert [line.arm for line in tps.lines] == ["on", "off", "placebo"]
    means = [np.mean([value for value in line.value if value is not None]) for line in tps.lines]
    assert means[1] == pytest.approx(2 * means[0], rel=0.1)


def test_without_timelines_there_is_nothing_to_draw(evidence: Evidence) -> None:
    assert draw_courses(evidence, []) == ()
