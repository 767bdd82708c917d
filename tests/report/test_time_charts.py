"""Charts over time: one axis for all of a group, the lanes of an arm, latency as a heat map."""

import json
from typing import Any

import pytest
import vl_convert

from pgtrial.report.charts.base import arm_colours
from pgtrial.report.charts.courses import course_charts
from pgtrial.report.charts.distribution import PALEST, heat_maps
from pgtrial.report.charts.panels import run_panels
from pgtrial.report.charts.series import arms_of, events_chart, series_charts
from pgtrial.report.charts.time_axis import FROM, TICKS, TO, time_channel, widest_times
from pgtrial.report.html import render_html, template_environment
from pgtrial.report.sections import SECTIONS

TIMES = (-5.0, 59.0)


def section(findings: Any, name: str) -> str:
    found = next(each for each in SECTIONS if each.name == name)
    return template_environment().get_template(f"sections/{name}.html").render(found.build(findings))


def marks_with_x(spec: Any) -> list[Any]:
    """Layers, or the one layer, whose marks lie along the time axis or may be drawn beyond it."""
    layers = spec.get("layer", [spec])
    return [layer for layer in layers if layer["encoding"].get("x", {}).get("field") in {"t", "start"}]


def test_every_chart_over_time_has_the_shared_axis_and_no_mark_leaves_it(sample):
    charts = [
        *series_charts(sample, "pgbench.tps"),
        *heat_maps(sample),
        *(chart for run in run_panels(sample) for chart in run.charts if chart is not None),
    ]

    assert len(charts) > 20
    for chart in charts:
        assert chart.times is not None
        values = {each["name"]: each["value"] for each in chart.spec["params"]}
        assert (values[FROM], values[TO]) == chart.times
        assert all(chart.times[0] <= tick <= chart.times[1] for tick in values[TICKS])
        assert json.dumps(time_channel("t")["scale"]) in json.dumps(chart.spec)
        assert marks_with_x(chart.spec)
        assert all(layer["mark"]["clip"] is True for layer in marks_with_x(chart.spec))


def test_a_zoomed_specification_shows_less_and_has_ticks_of_its_own(sample):
    chart = series_charts(sample, "pgbench.tps")[0]
    zoomed = [{"name": FROM, "value": 10.0}, {"name": TO, "value": 12.0}, {"name": TICKS, "value": [10.5, 11.5]}]

    drawing = vl_convert.vegalite_to_svg({**chart.spec, "width": 600, "params": zoomed})

    assert ">10.5 s<" in drawing
    assert ">11.5 s<" in drawing
    assert ">30 s<" not in drawing
    assert ">30 s<" in vl_convert.vegalite_to_svg({**chart.spec, "width": 600})


def test_the_times_of_a_group_reach_over_all_of_its_charts(sample):
    maps, panels = heat_maps(sample), [chart for chart in run_panels(sample)[0].charts if chart is not None]

    assert widest_times([*maps, *panels]) == (0.0, 60.0)
    assert widest_times([]) == (0.0, 0.0)


@pytest.mark.parametrize("name", ["series", "panels", "latency"])
def test_a_section_with_charts_over_time_has_one_set_of_buttons_for_all_of_them(sample, name):
    html = section(sample, name)

    assert html.count('class="time-tools"') == 1
    assert html.index('class="time-tools"') < html.index("data-timed")
    assert html.count("<button") == 5
    assert 'data-step="reset"' in html


def test_what_has_no_time_axis_is_not_zoomed(sample):
    assert "data-timed" not in section(sample, "effects")
    assert section(sample, "latency").count(" data-timed>") == len(heat_maps(sample))


def test_titles_of_series_say_what_is_seen(sample):
    charts = series_charts(sample, "pgbench.tps")

    for arm, chart in zip(arms_of(sample, "pgbench.tps"), charts, strict=True):
        assert chart.title.startswith(f"{arm}: throughput ")
        assert " tps on average, between " in chart.title
        assert chart.title.endswith(", 6 runs")


def test_an_arm_without_a_value_has_no_chart_over_time(sample):
    empty = tuple(
        series.model_copy(update={"value": (None,) * len(series.t)}) if series.arm == "off" else series
        for series in sample.series
    )
    changed = sample.model_copy(update={"series": empty})

    assert arms_of(changed, "pgbench.tps") == ["on", "placebo"]
    assert len(series_charts(changed, "pgbench.tps")) == 2


# --- What else happened ---------------------------------------------------------------------------------------------


def lanes_of(chart: Any) -> tuple[list[str], list[Any]]:
    """(words of the lanes, bars in them)."""
    bars, words = (layer["data"]["values"] for layer in chart.spec["layer"])
    return [row["word"] for row in words], bars


def test_runs_that_do_not_count_have_a_lane_that_says_how_far_they_came(sample):
    chart = events_chart(sample, "off", TIMES)
    assert chart is not None
    lost = next(run for run in sample.runs if run.state == "invalid")
    words, bars = lanes_of(chart)
    (bar,) = [bar for bar in bars if bar["row"] == len(words) - 1]

    assert words[-1] == f"not counted: run {lost.id} of block 2"
    assert (bar["start"], bar["end"]) == (0.0, 42.0)  # 30 s of one load level, and 0.4 of that of the next
    assert bar["text"].endswith("invalid: pgbench aborted: client 3 lost its connection")
    assert chart.title.endswith("1 run not counted")


def test_every_arm_has_the_same_lanes(sample):
    charts = [events_chart(sample, arm.name, TIMES) for arm in sample.experiment.arms]
    lanes = [[word.split(":")[0] for word in lanes_of(chart)[0]] for chart in charts]

    assert lanes == [["checkpoint", "autovacuum", "not counted"]] * 3
    assert lanes_of(charts[0])[0][-1] == "not counted: none"
    assert charts[0] is not None
    assert charts[0].title.endswith("every run counted")


def test_checkpoints_of_all_runs_of_an_arm_are_counted(sample):
    runs = {run.id for run in sample.runs if run.arm == "on" and run.state == "done"}
    number = sum(mark.run in runs and mark.kind == "checkpoint" for mark in sample.causes.marks)
    chart = events_chart(sample, "on", TIMES)

    assert chart is not None
    assert number > 1
    assert lanes_of(chart)[0][0] == f"checkpoint: {number}"
    assert chart.title.startswith(f"on: {number} × checkpoint, ")


def test_without_events_and_lost_runs_there_are_no_lanes(sample):
    done = tuple(run for run in sample.runs if run.state == "done")
    quiet = sample.model_copy(update={"runs": done, "causes": sample.causes.model_copy(update={"marks": ()})})

    assert events_chart(quiet, "on", TIMES) is None
    assert "The lanes below" not in section(quiet, "series")
    assert "The lanes below" in section(sample, "series")


def test_a_run_that_never_measured_has_no_bar_but_is_named(sample):
    runs = tuple(
        run.model_copy(update={"phases": run.phases[:3]}) if run.state == "invalid" else run for run in sample.runs
    )
    chart = events_chart(sample.model_copy(update={"runs": runs}), "off", TIMES)

    words, bars = lanes_of(chart)
    assert words[-1].startswith("not counted: run ")
    assert [bar for bar in bars if bar["row"] == len(words) - 1] == []


# --- Latency over time ----------------------------------------------------------------------------------------------


def fields_of(chart: Any) -> list[Any]:
    values: list[Any] = chart.spec["data"]["values"]
    return values


def test_every_heat_map_compiles_and_draws_its_fields_in_the_colour_of_its_arm(sample):
    charts = heat_maps(sample)

    assert [chart.title.split(":")[0] for chart in charts] == ["on", "off", "placebo"]
    for arm, chart in zip(("on", "off", "placebo"), charts, strict=True):
        drawing = vl_convert.vegalite_to_svg({**chart.spec, "width": 600})
        colour = arm_colours(sample)[arm]
        number = sum(len(column["row"]) for column in fields_of(chart))
        assert drawing.count(f'fill="{colour}"') == number
        assert all(swatch.startswith(colour) for swatch, _ in chart.legend)


def test_heat_maps_share_their_axes_and_their_scale_of_colour(sample):
    encodings = [chart.spec["encoding"] for chart in heat_maps(sample)]

    assert len({json.dumps(encoding["y"]["scale"]) for encoding in encodings}) == 1
    assert {json.dumps(encoding["opacity"]["scale"]) for encoding in encodings} == {
        json.dumps({"type": "log", "domain": [1, 900], "range": [PALEST, 1]})
    }


def test_a_field_without_a_transaction_is_not_drawn(sample):
    fields = fields_of(heat_maps(sample)[0])

    assert [column["row"] for column in fields if column["start"] != 30.0] == [[0, 1, 2, 3, 4]] * (len(fields) - 1)
    assert [column["row"] for column in fields if column["start"] == 30.0] == [[0, 1, 2, 3, 4, 5]]


def test_the_title_of_a_heat_map_says_what_is_usual_and_when_it_was_worst(sample):
    on = heat_maps(sample)[0]

    assert on.title == "on: most transactions take 12.6 ms to 17.8 ms, the slowest 50.3 ms to 71.1 ms, first at 30 s"
    assert on.title.partition(": ")[2] in on.text
    assert [name for _, name in on.legend] == ["1 transaction", "30 transactions", "900 transactions"]


def test_a_single_transaction_is_a_map_too(sample):
    one = sample.latency_maps[0].model_copy(
        update={"start": (0.0,), "end": (1.0,), "counts": ((0, 1, 0, 0, 0, 0),), "runs": 1}
    )
    (chart,) = heat_maps(sample.model_copy(update={"latency_maps": (one,)}))

    assert [name for _, name in chart.legend] == ["1 transaction"]
    assert vl_convert.vegalite_to_svg({**chart.spec, "width": 600}).startswith("<svg")


def test_findings_without_maps_have_a_page_without_them(sample, minimal):
    assert heat_maps(minimal) == []
    assert "time-tools" not in section(sample.model_copy(update={"latency_maps": ()}), "latency")
    assert render_html(sample.model_copy(update={"latency_maps": ()}))


# --- Arms over each other -------------------------------------------------------------------------------------------


def test_a_course_is_a_small_chart_with_a_line_of_each_arm_in_its_colour(sample):
    charts = course_charts(sample)

    assert next(chart.title.partition(":")[0] for chart in charts) == "throughput"
    for chart in charts:
        assert chart.times == (0.0, 59.5)
        assert {name: colour for colour, name in chart.legend} == arm_colours(sample)
        (lines,) = [chart.spec["encoding"]["color"]["scale"]]
        assert lines["range"] == [arm_colours(sample)[arm] for arm in lines["domain"]]
        assert vl_convert.vegalite_to_svg({**chart.spec, "width": 300}).count("<path") > len(lines["domain"])


def test_courses_share_their_buttons_and_are_left_out_of_short_runs(sample):
    html = section(sample, "courses")
    (found,) = [each for each in SECTIONS if each.name == "courses"]
    short = tuple(series.model_copy(update={"t": (0.0,), "value": (1.0,)}) for series in sample.series)

    assert html.count('class="time-tools"') == 1
    assert html.count(" data-timed>") == len(course_charts(sample))
    assert found.is_shown(sample)
    assert not found.is_shown(sample.model_copy(update={"series": short}))
