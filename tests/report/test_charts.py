import json
import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.findings.findings import Findings
from pgtrial.report.charts.base import (
    Chart,
    arm_colours,
    place_changes,
    place_counts,
    place_logs,
    place_seconds,
    shorten,
)
from pgtrial.report.charts.curve import curve_charts
from pgtrial.report.charts.distribution import distribution_charts
from pgtrial.report.charts.forest import latency_forest, primary_forest, scenario_forest, throughput_forest
from pgtrial.report.charts.picture import blocks_chart
from pgtrial.report.charts.schedule import order_chart, overhead_chart, schedule_chart
from pgtrial.report.charts.series import mark_phases, series_charts
from pgtrial.report.charts.waits import wait_charts

SINGLE = (
    primary_forest,
    latency_forest,
    throughput_forest,
    scenario_forest,
    blocks_chart,
    schedule_chart,
    order_chart,
    overhead_chart,
)
MANY = (curve_charts, distribution_charts, wait_charts)


def all_charts(findings: Findings) -> list[Chart]:
    found = [chart for draw in SINGLE if (chart := draw(findings)) is not None]
    found += [chart for draw_all in MANY for chart in draw_all(findings)]
    return found + [c for metric in ("pgbench.tps", "pgbench.latency_p95") for c in series_charts(findings, metric)]


def find_key(value: Any, key: str) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, item in value.items():
            if name == key:
                yield item
            yield from find_key(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from find_key(item, key)


def rows_of(chart: Chart) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = chart.spec["data"]["values"]
    return values


def test_every_specification_compiles_and_draws(sample):
    charts = all_charts(sample)

    assert len(charts) == 24
    for chart in charts:
        assert vl_convert.vegalite_to_svg(chart.spec).startswith("<svg")


def test_without_runs_there_is_no_chart(minimal):
    assert all_charts(minimal) == []


def test_specifications_are_plain_json_without_addresses(sample):
    for chart in all_charts(sample):
        text = json.dumps(chart.spec, allow_nan=False)
        assert "http" not in text
        assert not list(find_key(chart.spec, "url"))


def test_every_arm_has_one_colour_everywhere(sample):
    colours = arm_colours(sample)

    assert len(set(colours.values())) == 3
    for chart in all_charts(sample):
        for row in find_key(chart.spec, "values"):
            for item in row:
                if isinstance(item, dict) and item.get("arm") in colours and "rank" not in item:
                    assert item["colour"] == colours[item["arm"]]


def test_forest_shows_the_whole_first_then_each_load_level(sample):
    chart = primary_forest(sample)

    assert chart is not None
    labels = [row["label"].split(":")[0] for row in rows_of(chart)]
    assert labels == [
        "off, all load levels",
        "placebo, all load levels",
        "off, 4 clients",
        "placebo, 4 clients",
        "off, 16 clients",
        "placebo, 16 clients",
    ]
    assert all(len(row["blocks"]) == 6 for row in rows_of(chart))
    assert "Right of the band is better" in chart.title


def test_forest_of_latency_says_that_less_is_better(sample):
    chart = latency_forest(sample)

    assert chart is not None
    assert "Left of the band is better" in chart.title


def test_forest_without_an_interval_shows_the_point_alone(sample):
    bare = tuple(effect.model_copy(update={"low": None, "high": None}) for effect in sample.effects)
    chart = primary_forest(sample.model_copy(update={"effects": bare, "placebo": ()}))

    assert chart is not None
    assert all(row["low"] is None and row["ratio"] for row in rows_of(chart))
    assert vl_convert.vegalite_to_svg(chart.spec)


def test_an_effect_that_was_not_measured_is_left_out(sample):
    bare = tuple(effect.model_copy(update={"ratio": None}) for effect in sample.effects)
    chart = primary_forest(sample.model_copy(update={"effects": bare}))

    assert chart is not None
    assert {row["arm"] for row in rows_of(chart)} == {"placebo"}


def test_gaps_in_a_series_stay_gaps(sample):
    gapped = next(series for series in sample.series if None in series.value)
    chart = next(c for c in series_charts(sample, gapped.metric) if c.title.startswith(f"{gapped.arm}:"))
    lines = chart.spec["layer"][-1]["data"]["values"]
    line = next(line for line in lines if line["run"].startswith(f"run {gapped.run},"))

    assert line["v"].count(None) == gapped.value.count(None)
    assert 0 not in line["v"]


def test_arms_share_the_axes_of_a_series(sample):
    domains = [
        [layer["encoding"]["y"]["scale"]["domain"] for layer in chart.spec["layer"][-1:]]
        for chart in series_charts(sample, "pgbench.tps")
    ]

    assert domains == [domains[0]] * 3


def test_phases_lie_where_the_run_had_them(sample):
    bands = mark_phases(sample, sample.runs[0], (-10.0, 59.0))

    assert [band["label"] for band in bands] == ["warm-up", "4 clients", "16 clients"]
    assert bands[0]["end"] == pytest.approx(-0.4)
    assert (bands[1]["start"], bands[1]["end"], bands[2]["start"], bands[2]["end"]) == (0, 30, 30, 59)


def test_the_end_of_the_warm_up_is_on_the_axis(sample):
    first, last = series_charts(sample, "pgbench.tps")[0].times

    assert -8 < first < -4
    assert last == 59


def test_a_schedule_without_lost_runs_has_no_crosses(sample):
    done = tuple(run for run in sample.runs if run.state == "done")
    whole, clean = schedule_chart(sample), schedule_chart(sample.model_copy(update={"runs": done}))

    assert whole is not None
    assert clean is not None
    assert len(whole.spec["layer"]) == len(clean.spec["layer"]) + 2


def test_one_load_level_has_no_curve_and_no_rows_by_level(sample):
    one = sample.experiment.model_copy(update={"levels": sample.experiment.levels[:1]})
    chart = primary_forest(sample.model_copy(update={"experiment": one}))

    assert curve_charts(sample.model_copy(update={"experiment": one})) == []
    assert chart is not None
    assert len(rows_of(chart)) == 2


def test_runs_that_do_not_count_are_crossed_out(sample):
    chart = schedule_chart(sample)

    assert chart is not None
    crossed = chart.spec["layer"][-1]["data"]["values"]
    assert [row["state"] for row in crossed] == ["invalid: pgbench aborted: client 3 lost its connection"]


def test_waits_without_throughput_are_shown_as_sessions(sample):
    bare = tuple(wait.model_copy(update={"seconds_per_transaction": None}) for wait in sample.waits)
    chart = wait_charts(sample.model_copy(update={"waits": bare}))[0]

    assert chart.title == (
        "Active sessions by wait type, all load levels: 7.3 sessions with “on” (IO: 3.4 sessions of it) and "
        "6.6 sessions with “off” (CPU: 3.9 sessions of it)"
    )
    assert rows_of(chart)[0]["value"] == pytest.approx(3.4)


def test_shorten_makes_a_gap_of_what_is_not_a_number():
    assert shorten(float("nan")) is None
    assert shorten(None) is None
    assert shorten(1234.567) == 1235


@given(low=st.floats(1e-3, 1), factor=st.floats(1.01, 1e5))
def test_ticks_lie_on_the_axis_and_are_few(low, factor):
    high = low * factor

    for ticks in (place_changes(low, high), place_logs(low, high)):
        assert all(low <= tick <= high * (1 + 1e-6) for tick in ticks)
        assert len(ticks) <= 12
        assert ticks == sorted(set(ticks))


def test_ticks_of_changes_include_no_effect():
    assert 1 in place_changes(0.97, 1.08)
    assert 1 in place_changes(0.5, 30)


@pytest.mark.parametrize("span", [1, 7, 65, 601, 3700, 90_000, 40 * 86_400])
def test_ticks_of_time_are_round_and_few(span):
    ticks = place_seconds(-0.05 * span, span)

    assert 0 in ticks
    assert 2 <= len(ticks) <= 10
    assert all(math.isclose(b - a, ticks[1] - ticks[0]) for a, b in pairwise(ticks))


@pytest.mark.parametrize(
    ("first", "last", "ticks"),
    [
        (1, 2, [1, 2]),
        (3, 3, [3]),
        (1, 9, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (1, 12, [2, 4, 6, 8, 10, 12]),
        (1, 100, [20, 40, 60, 80, 100]),
    ],
)
def test_counted_things_have_whole_numbers_each_once(first, last, ticks):
    assert place_counts(first, last) == ticks


@pytest.mark.parametrize(("high", "tick"), [(12.0, "× 10"), (40.0, "× 20")])
def test_effects_of_many_times_are_factors_in_labels_and_on_the_axis(sample, high, tick):
    effects = tuple(
        effect.model_copy(update={"ratio": 11.2, "low": 10.4, "high": high, "block_ratios": (11.0, 11.4)})
        for effect in sample.effects
    )
    chart = primary_forest(sample.model_copy(update={"effects": effects}))
    assert chart is not None
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", vl_convert.vegalite_to_svg({**chart.spec, "width": 800}))

    assert any(": × 11.2 (× 10.4 to × " in text for text in texts)
    assert tick in texts
    assert not any(text.startswith("+9") for text in texts)


def test_every_block_of_the_arm_and_of_the_placebo_is_a_dot(sample):
    chart = blocks_chart(sample)
    assert chart is not None
    dots = chart.spec["layer"][-1]["data"]["values"]

    assert [(dot["arm"], dot["place"]) for dot in dots] == [
        (arm, block) for arm in ("off", "placebo") for block in range(1, 7)
    ]
    assert [name for _, name in chart.legend] == ["off", "placebo"]


def test_blocks_have_the_numbers_that_their_runs_have(sample):
    runs = tuple(run for run in sample.runs if (run.arm, run.block) != ("off", 2))
    effects = tuple(
        effect.model_copy(update={"block_ratios": effect.block_ratios[:1] + effect.block_ratios[2:]})
        for effect in sample.effects
    )
    chart = blocks_chart(sample.model_copy(update={"runs": runs, "effects": effects}))
    assert chart is not None
    dots = chart.spec["layer"][-1]["data"]["values"]

    assert [dot["place"] for dot in dots if dot["arm"] == "off"] == [1, 3, 4, 5, 6]
    assert [dot["place"] for dot in dots if dot["arm"] == "placebo"] == [1, 2, 3, 4, 5, 6]


def test_runs_of_a_load_on_files_are_counted_in_requests(sample):
    workload = {**sample.experiment.workload, "kind": "fio"}
    chart = order_chart(
        sample.model_copy(update={"experiment": sample.experiment.model_copy(update={"workload": workload})})
    )
    assert chart is not None

    titles = [axis.get("title") for axis in find_key(chart.spec, "axis") if axis]
    assert "file requests per second" in titles
    assert "transactions per second" not in titles


def test_a_block_without_a_ratio_leaves_its_place_empty(sample):
    effects = tuple(
        effect.model_copy(update={"block_ratios": (None, *effect.block_ratios[1:])}) for effect in sample.effects
    )
    chart = blocks_chart(sample.model_copy(update={"effects": effects, "placebo": ()}))
    assert chart is not None

    assert [dot["place"] for dot in chart.spec["layer"][-1]["data"]["values"]] == [2, 3, 4, 5, 6]


def test_load_levels_of_arms_that_took_turns_are_as_long_as_what_counts(turns):
    run = next(run for run in turns.runs if run.state == "done")
    bands = mark_phases(turns, run, (-5.0, 100.0))

    assert [(band["start"], band["end"]) for band in bands[1:]] == [(0.0, 10.0), (10.0, 20.0)]
