"""Published figures beside those found here."""

from pathlib import Path

import pytest
from gallery.entries import Entry, read_entries
from gallery.published import (
    FIGURES,
    Here,
    Published,
    bottleneck_lines,
    find_here,
    judge,
    keep_figures,
    read_figures,
    read_published,
    rows_of,
)

from pgtrial.analysis.analyze import analyze
from pgtrial.model.observable import find_observable
from support import write_result_folder


def published(low: float, high: float | None = None, *, is_change: bool = False) -> Published:
    return Published(
        what="speed",
        metric="pgbench.tps",
        arm="off",
        scenario=None,
        is_change=is_change,
        low=low,
        high=low if high is None else high,
        why="another disk",
    )


@pytest.mark.parametrize(
    ("figure", "here", "verdict"),
    [
        (published(1849, 2155), Here(value=1900, low=1890, high=1920), "yes"),
        (published(6687, 6786), Here(value=6310, low=6270, high=6350), "**no**"),
        (published(1.7076, is_change=True), Here(value=1.02, low=0.96, high=1.08), "**no**"),
        (published(0.987, is_change=True), Here(value=0.98, low=0.82, high=1.17), "yes, and so would no change"),
        (published(0.6, is_change=True), Here(value=0.58, low=0.5, high=0.7), "yes"),
        (published(0.6), Here(value=0.6), "not tested: no interval"),
        (published(0.6), None, "not measured"),
    ],
)
def test_a_figure_agrees_if_the_interval_here_holds_it(figure: Published, here: Here | None, verdict: str) -> None:
    assert judge(figure, here) == verdict


def test_the_reason_is_given_where_it_does_not_agree() -> None:
    figure = published(0.6, is_change=True)
    agrees, differs = (
        rows_of([figure], {figure.key: here})[0]
        for here in (Here(value=0.58, low=0.5, high=0.7), Here(value=1.1, low=0.9, high=1.3))
    )

    assert agrees == ["speed", "−40.0 %", "−42.0 % (−50.0 % to −30.0 %)", "yes", "–"]
    assert differs[-2:] == ["**no**", "another disk"]


def test_what_is_found_is_kept_until_there_is_a_new_result(tmp_path: Path) -> None:
    findings = analyze(write_result_folder(tmp_path / "r"))
    change, value = published(2.0, is_change=True), published(4000)
    path = tmp_path / "figures.json"

    keep_figures("one", [change, value], findings, path)
    found = read_figures("one", path)

    assert found == {change.key: find_here(findings, change), value.key: find_here(findings, value)}
    assert judge(change, found[change.key]) == "yes"
    assert read_figures("another", path) == {}


@pytest.mark.parametrize("row", [{"what": "x"}, {"what": "x", "change": []}, {"what": "x", "value": [1, 2, 3]}])
def test_a_row_needs_a_figure(row: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="neither a change nor a value"):
        read_published([{"metric": "pgbench.tps", "arm": "a", **row}])


@pytest.mark.parametrize("entry", [entry for entry in read_entries() if entry.published], ids=lambda entry: entry.name)
def test_every_published_figure_is_of_a_known_metric_and_has_a_reason_where_it_differs(entry: Entry) -> None:
    figures = read_figures(entry.name, FIGURES)

    for each in entry.published:
        assert find_observable(each.metric) is not None
        assert each.why or judge(each, figures.get(each.key)) != "**no**", each.what
    assert set(figures) <= {each.key for each in (*entry.published, *entry.bottleneck)}


def bottleneck(what: str, metric: str, low: float, high: float) -> Published:
    return Published(what=what, metric=metric, arm="off", scenario=None, is_change=False, low=low, high=high, why="")


def test_a_page_says_whether_it_was_limited_by_what_limited_the_article() -> None:
    busy, waiting = bottleneck("disk busy", "iostat.util", 0.9, 1.0), bottleneck("waiting", "vmstat.wa", 0.5, 0.7)
    near, far = Here(value=0.88, low=0.85, high=0.91), Here(value=0.03, low=0.02, high=0.04)

    both, one, none = (
        bottleneck_lines([busy, waiting], found)
        for found in (
            {busy.key: near, waiting.key: Here(value=0.6)},
            {busy.key: near, waiting.key: far},
            {busy.key: near},
        )
    )

    assert both[0] == "What limited the article limits the quick file as well."
    assert one[0] == "In the quick file not as in the article: waiting."
    assert none[0].startswith("Whether the quick file is limited by what limited the article was not measured")
    assert [cell.strip() for cell in one[-1].split("|")[1:-1]] == [
        "waiting",
        "50.0 % to 70.0 %",
        "3.0 % (2.0 % to 4.0 %)",
        "**no**",
    ]
    assert bottleneck_lines([], {}) == []


def test_what_limited_an_article_is_a_metric_of_an_arm_of_its_file() -> None:
    for entry in read_entries():
        for each in entry.bottleneck:
            assert find_observable(each.metric) is not None
            assert not each.is_change
            assert 0 < each.low <= each.high <= 1
