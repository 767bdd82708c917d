import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import vl_convert

from pgtrial.findings.message import verbatim
from pgtrial.findings.over_time import Mark
from pgtrial.findings.record import Estimate
from pgtrial.report.charts.associations import association_chart
from pgtrial.report.charts.base import KIND_COLOURS, kind_rank, place_bytes
from pgtrial.report.charts.curve import curve_charts, throughput_at
from pgtrial.report.charts.panels import main_block, run_panels
from pgtrial.report.charts.time_axis import merge_marks
from pgtrial.report.charts.waits import budget_charts
from pgtrial.report.charts.waterfall import MOST_NAMED, name_parts, waterfall_charts
from pgtrial.report.html import script_json


def all_charts(findings):
    panels = [chart for run in first_runs(findings) for chart in run.charts if chart is not None]
    links = association_chart(findings.causes.associations if findings.causes else ())
    found = [*waterfall_charts(findings), *budget_charts(findings), *curve_charts(findings), *panels]
    return found if links is None else [*found, links]


def first_runs(findings):
    """The runs of the block that is shown first."""
    runs = run_panels(findings)
    return [run for run in runs if run.block == main_block(runs)]


def find_values(value: Any, key: str) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, item in value.items():
            if name == key:
                yield item
            yield from find_values(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from find_values(item, key)


def change(findings, **parts):
    """The findings with other parts of their causes."""
    return findings.model_copy(update={"causes": findings.causes.model_copy(update=parts)})


@pytest.mark.parametrize("which", ["sample", "hostile"])
def test_every_chart_of_causes_compiles_and_draws(which, request):
    charts = all_charts(request.getfixturevalue(which))

    assert len(charts) == 32
    for chart in charts:
        # As the page has it: hidden characters are written out.
        assert vl_convert.vegalite_to_svg(json.loads(script_json(chart.spec))).startswith("<svg")
        assert chart.title
        assert chart.text


def test_without_causes_there_is_no_chart_of_them(minimal, sample):
    assert all_charts(minimal) == []
    without = sample.model_copy(update={"causes": None})
    assert len(all_charts(without)) == len(curve_charts(without))


# --- Waterfall ------------------------------------------------------------------------------------------------------


def test_bars_of_a_waterfall_follow_each_other_and_reach_the_whole_difference(sample):
    rows = waterfall_charts(sample)[0].spec["data"]["values"]

    *parts, whole = rows
    assert parts[0]["start"] == 0
    assert [row["end"] for row in parts[:-1]] == [row["start"] for row in parts[1:]]
    assert whole["start"] == 0
    assert parts[-1]["end"] == pytest.approx(whole["end"], rel=1e-3)
    assert whole["label"].startswith("in all: −")


def test_a_waterfall_says_its_message(sample):
    off, placebo = waterfall_charts(sample)

    assert off.title.startswith("A transaction of “off” takes 4.46 ms less than one of “on” over all load levels")
    assert "the largest part is IO WalSync (−4.96 ms)" in off.title
    assert placebo.title.startswith("No clear difference of the mean latency between “placebo” and “on”")


def test_a_waterfall_of_seconds_that_scatter_says_the_direction_that_the_ratio_has(sample):
    found = sample.causes.differences[0]
    wide = found.model_copy(
        update={
            "difference": Estimate(value=-0.004, low=-0.012, high=0.004),
            "ratio": Estimate(value=0.5, low=0.4, high=0.6),
        }
    )
    more = wide.model_copy(update={"ratio": Estimate(value=2.0, low=1.6, high=2.5)})

    titles = [waterfall_charts(change(sample, differences=(each,)))[0].title for each in (wide, more)]
    assert titles[0].startswith("A transaction of “off” takes less time than one of “on” over all load levels: −4 ms")
    assert titles[1].startswith("A transaction of “off” takes more time than one of “on” over all load levels: −4 ms")


def test_small_parts_of_a_waterfall_are_collected_without_an_interval(sample):
    found = sample.causes.differences[0]
    small = found.parts[0].model_copy(update={"event": "x", "seconds": Estimate(value=1e-6, low=0.0, high=2e-6)})
    many = found.model_copy(update={"parts": (*found.parts[:4], small, small)})

    rows = waterfall_charts(change(sample, differences=(many,)))[0].spec["data"]["values"]

    assert rows[-2]["label"].startswith("2 smaller parts: +2 µs")
    assert rows[-2]["low"] is None


def test_only_so_many_parts_have_bars_of_their_own(sample):
    part = sample.causes.differences[0].parts[0]

    named, rest = name_parts((part,) * 20)

    assert (len(named), len(rest)) == (MOST_NAMED, 20 - MOST_NAMED)


def test_without_a_difference_over_all_levels_those_of_the_levels_are_shown(sample):
    by_level = tuple(each for each in sample.causes.differences if each.load_level == 0)

    charts = waterfall_charts(change(sample, differences=by_level))

    assert [chart.title.count("with 4 clients") for chart in charts] == [1, 1]


# --- Budget ---------------------------------------------------------------------------------------------------------


def test_parts_of_a_bar_add_up_to_the_latency(sample):
    overall = budget_charts(sample)[0]
    bars = overall.spec["layer"][0]["data"]["values"]
    on = next(
        each for each in sample.causes.budgets if (each.arm, each.load_level, each.scenario) == ("on", "all", None)
    )

    assert sum(bar["value"] for bar in bars if bar["row"] == 0) == pytest.approx(on.latency.value, rel=1e-3)
    assert overall.title == (
        "A transaction takes 7.12 ms with “on” (IO WalSync: 4.96 ms of it) and 2.66 ms with “off” "
        "(CPU: 992 µs of it), over all load levels"
    )


def test_load_levels_are_compared_by_shares_with_the_latency_beside_them(sample):
    by_level = budget_charts(sample)[1]
    bars = by_level.spec["layer"][0]["data"]["values"]
    labels = [row["label"] for row in by_level.spec["layer"][1]["data"]["values"]]

    assert sum(bar["value"] for bar in bars if bar["row"] == 4) == pytest.approx(1, abs=1e-3)
    assert labels[0] == "4 clients, on: 4.45 ms (4.36 ms to 4.54 ms)"
    assert len(labels) == 6
    assert "“on” has IO WalSync at every load level" in by_level.title


def test_scenarios_have_bars_of_their_own_where_there_are_several(sample):
    charts = budget_charts(sample)
    one = tuple(each for each in sample.causes.budgets if each.scenario != "read")

    assert charts[2].title.startswith("By scenario: “update” with “on” takes longest, 7.12 ms")
    assert len(budget_charts(change(sample, budgets=one))) == 2


def test_a_single_load_level_needs_no_chart_by_level(sample):
    one = tuple(each for each in sample.causes.budgets if each.load_level == 0)

    assert len(budget_charts(change(sample, budgets=one))) == 1


def test_the_legend_of_a_budget_has_work_first_and_the_outside_last(sample):
    names = [name for _, name in budget_charts(sample)[0].legend]

    assert names[:2] == ["CPU", "CPU queue"]
    assert names[-1] == "outside the server"
    assert sorted(["new", *KIND_COLOURS], key=kind_rank)[-1] == "new"


# --- Inside a run ---------------------------------------------------------------------------------------------------


def domain_of(chart):
    return next(iter(find_values(chart.spec["layer"][-1]["encoding"]["y"], "domain")))


def test_throughput_is_on_top_and_waits_are_next_below_the_log(sample):
    titles = [chart.title.split(":")[0] for chart in first_runs(sample)[0].charts if chart]

    assert titles[:3] == ["Throughput", "The server’s log", "Average sessions by wait type"]
    assert titles[3:] == ["CPU time", "Disk vda", "Disk vda", "Dirty pages", "Memory"]


def test_runs_share_the_scale_of_each_row_and_the_time_axis(sample):
    runs = first_runs(sample)

    assert len(runs) == 3
    for row in range(2, 7):
        charts = [run.charts[row] for run in runs if run.charts[row] is not None]
        assert len({tuple(domain_of(chart)) for chart in charts}) == 1
    assert {chart.times for run in runs for chart in run.charts if chart} == {(0.0, 59.0)}


def test_the_block_in_the_middle_that_has_all_arms_is_shown_first(sample):
    runs = run_panels(sample)

    assert [run.block for run in runs] == [3, 6] * 3
    assert main_block(runs) == 3
    assert main_block([run for run in runs if (run.block, run.title[:2]) != (3, "on")]) == 6
    assert main_block([replace(run, block=run.block + more) for run in runs for more in (0, 10)]) == 6
    assert main_block([]) is None


def test_a_run_that_lacks_a_panel_has_an_empty_place_in_its_row(sample):
    on, off, placebo = first_runs(sample)

    assert len(on.charts) == len(off.charts) == len(placebo.charts)
    assert [chart is None for chart in placebo.charts].count(True) == 1


def test_a_gap_in_one_line_is_a_gap_in_the_whole_stack_and_not_a_zero(sample):
    waits = first_runs(sample)[0].charts[2]
    pieces = waits.spec["layer"][-1]["data"]["values"]

    assert [(piece["t"][0], piece["t"][-1]) for piece in pieces] == [(0, 5), (9, 59)]
    assert not list(find_values(waits.spec["layer"][-1]["encoding"], "stack"))


def test_a_gap_in_a_line_is_only_its_own(sample):
    response = next(chart for chart in first_runs(sample)[0].charts if chart and "time of a request" in chart.title)
    (lines,) = response.spec["layer"][-1]["data"]["values"]

    assert lines["v00"].count(None) == 0
    assert lines["v01"].count(None) == 3


def test_titles_of_panels_carry_what_is_seen(sample):
    titles = [chart.title for chart in first_runs(sample)[0].charts if chart]

    assert titles[2].startswith("Average sessions by wait type: mostly IO, ")
    assert titles[3].startswith("CPU time: mostly user, ")
    assert "Disk vda: bytes: largest is written, " in titles[4]
    assert " MB/s on average, at most " in titles[4]
    assert titles[-1].startswith("Memory: ")


def test_dips_lie_along_the_bottom_of_the_throughput(sample):
    chart = first_runs(sample)[1].charts[0]
    dips = chart.spec["layer"][-1]["data"]["values"]

    assert [(dip["start"], dip["end"]) for dip in dips] == [(18.0, 22.0), (48.0, 52.0)]
    assert dips[0]["text"] == "from 18 s on for 4 s, down by 61.0 %, near checkpoint"
    assert "near checkpoint" in chart.text


def test_load_levels_are_named_in_the_throughput(sample):
    chart = first_runs(sample)[0].charts[0]

    assert {"4 clients", "16 clients"} <= set(find_values(chart.spec, "label"))


def test_every_run_has_the_same_lanes_also_where_nothing_happened(sample):
    on, off = (run.charts[1] for run in first_runs(sample)[:2])

    assert on.title == "The server’s log: 2 × checkpoint, no autovacuum, no error 40001"
    assert off.title == "The server’s log: 2 × checkpoint, 3 × autovacuum, 400 × error 40001"
    assert len(on.spec["layer"][1]["data"]["values"]) == len(off.spec["layer"][1]["data"]["values"]) == 3


def test_without_a_log_there_are_no_lanes(sample):
    titles = [chart.title for chart in first_runs(change(sample, marks=()))[0].charts if chart]

    assert not any("log" in title for title in titles)


def mark(start: float, end: float | None = None) -> Mark:
    return Mark(run=1, start=start, end=start if end is None else end, kind="error 40001", text=verbatim("why"))


def test_events_that_no_eye_could_part_are_one_bar_that_counts_them():
    bars = merge_marks([mark(k / 100) for k in range(500)], (0.0, 300.0))

    assert len(bars) == 1
    assert bars[0]["text"] == "at 0 s: why, and 499 more"
    assert bars[0]["end"] == pytest.approx(5.99)


def test_events_that_are_apart_stay_apart_and_a_moment_can_be_seen():
    bars = merge_marks([mark(200.0, 210.0), mark(20.0)], (0.0, 300.0))

    assert [(bar["start"], bar["end"]) for bar in bars] == [(20.0, 21.0), (200.0, 210.0)]
    assert bars[1]["text"] == "at 3 min 20 s for 10 s: why"


def test_events_outside_the_measured_time_are_left_out_and_others_cut():
    bars = merge_marks([mark(-20.0, -10.0), mark(-5.0, 8.0), mark(295.0, 400.0), mark(301.0)], (0.0, 300.0))

    assert [(bar["start"], bar["end"]) for bar in bars] == [(0, 8.0), (295.0, 300.0)]


@pytest.mark.parametrize(("high", "ticks"), [(0, [0]), (3 * 2**20, [0, 2**20, 2**21, 3 * 2**20]), (900, [0, 500])])
def test_ticks_of_bytes_are_round_in_steps_of_1024(high, ticks):
    assert place_bytes(high) == ticks


# --- Load curve -----------------------------------------------------------------------------------------------------


def test_the_fitted_curve_is_the_law_itself(sample):
    fitted = sample.causes.curve_models[1]
    contention, coherency = fitted.contention.value, fitted.coherency.value
    # The derivative of X(N) is zero at the square root of (1 - σ) / κ (Gunther 2007).
    peak = ((1 - contention) / coherency) ** 0.5

    assert throughput_at(fitted, 1) == pytest.approx(fitted.throughput_of_one.value)
    assert throughput_at(fitted, peak) > max(throughput_at(fitted, peak * 0.99), throughput_at(fitted, peak * 1.01))
    assert throughput_at(sample.causes.curve_models[0], 4) is None


def test_the_fit_reaches_to_a_peak_that_is_near_and_marks_it(sample):
    chart = curve_charts(sample)[0]
    line, points = (layer["data"]["values"] for layer in chart.spec["layer"][-2:])

    assert [row["arm"] for row in line] == ["off"]
    assert (line[0]["load"][0], line[0]["load"][-1]) == (4, 20)
    assert [(point["shape"], point["load"]) for point in points] == [("diamond", 20.0), ("triangle-up", 9.0)]
    assert chart.title == "Throughput by number of clients: “off” peaks at about 20 clients"


def test_a_peak_that_is_far_away_is_no_message(sample):
    fitted = sample.causes.curve_models[1].model_copy(update={"peak": Estimate(value=400.0)})
    chart = curve_charts(change(sample, curve_models=(fitted,)))[0]

    assert chart.title.startswith("Throughput by number of clients: highest with “off” at 16 clients, 3.12 k tps (")
    assert chart.spec["layer"][-2]["data"]["values"][0]["load"][-1] == 16


def test_the_law_says_nothing_of_an_open_loop(sample):
    levels = tuple(level.model_copy(update={"rate": 100.0 * level.clients}) for level in sample.experiment.levels)
    rated = sample.model_copy(update={"experiment": sample.experiment.model_copy(update={"levels": levels})})

    assert len(curve_charts(rated)[0].spec["layer"]) == 3


# --- Associations ---------------------------------------------------------------------------------------------------


def test_only_real_associations_that_are_not_parts_of_each_other_are_drawn(sample):
    chart = association_chart(sample.causes.associations)

    assert [row["label"] for row in chart.spec["data"]["values"]] == [
        "waits.IO – vmstat.wa: +0.66",
        "waits.Lock – vmstat.cs: −0.41",
    ]
    assert chart.title.endswith("none of them is proof of a cause")
    assert association_chart(sample.causes.associations[:1]) is None
