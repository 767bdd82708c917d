"""Several hosts: page, terminal and Markdown say the same, and drop none."""

from pathlib import Path

import pytest
import vl_convert

from pgtrial.analysis.analyze import analyze
from pgtrial.findings.findings import Findings
from pgtrial.findings.record import Estimate
from pgtrial.report.html import render_html
from pgtrial.report.markdown import render_summary
from pgtrial.report.sections import shown_sections
from pgtrial.report.sections.hosts import hosts_chart
from pgtrial.report.text import render_text
from support import EXPERIMENT, Simulation, write_result_folder

HOSTS = tuple(f"db-{number}" for number in range(1, 7))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    folder: Path = tmp_path_factory.mktemp("folder") / "x"
    truth = Simulation(hosts=HOSTS, host_gains={"db-3": -0.9}, run_sd=0.01)
    write_result_folder(folder, simulation=truth, text=EXPERIMENT.replace("blocks = 6", "blocks = 12"))
    return analyze(folder)


def plain(text: str) -> str:
    return " ".join(text.replace("\N{NO-BREAK SPACE}", " ").split())


def test_all_outputs_tell_on_how_many_hosts_and_name_the_one_that_differs(found: Findings) -> None:
    for text in (render_text(found), render_html(found), render_summary(found)):
        assert "the claim is supported on 5 of 6 hosts. Refuted on db-3." in plain(text)
        assert "Another effect than on the rest: db-3 (" in plain(text)
        assert "On a host that was not tested: " in plain(text)
        assert all(host in text for host in HOSTS)


def test_the_record_is_read_back(found: Findings) -> None:
    assert Findings.model_validate_json(found.model_dump_json()).hosts == found.hosts


def test_the_section_stands_behind_the_verdict(found: Findings) -> None:
    names = [section.name for section in shown_sections(found)]

    assert names[names.index("verdict") + 1] == "hosts"
    assert "hosts" not in [section.name for section in shown_sections(found.model_copy(update={"hosts": None}))]


def test_a_name_is_shown_as_it_is(found: Findings) -> None:
    """Names of hosts are checked where they are read; in findings of somebody else they may be anything."""
    assert found.hosts is not None
    first = found.hosts.hosts[0].model_copy(update={"host": "<b>|x\x1b[1m"})
    odd = found.hosts.model_copy(update={"hosts": (first, *found.hosts.hosts[1:])})
    forged = found.model_copy(update={"hosts": odd})

    assert "<b>|x" not in render_html(forged)
    assert "\x1b" not in render_text(forged)
    assert "| <b>|x" not in render_summary(forged)


def test_the_chart_has_each_host_by_its_effect_then_the_mean_and_what_to_expect_elsewhere(found: Findings) -> None:
    chart = hosts_chart(found)
    assert chart is not None
    rows = chart.spec["data"]["values"]

    assert rows[0]["name"] == "db-3"
    assert {row["name"] for row in rows[:6]} == set(HOSTS)
    assert [row["ratio"] for row in rows[:6]] == sorted(row["ratio"] for row in rows[:6])
    assert rows[0]["colour"] not in {row["colour"] for row in rows[1:]}
    mean, elsewhere = rows[6:]
    assert found.hosts is not None
    assert found.hosts.prediction is not None
    assert mean["ratio"] == pytest.approx(found.hosts.mean.value, rel=1e-3)
    assert (elsewhere["low"], elsewhere["high"]) == pytest.approx(
        (found.hosts.prediction.low, found.hosts.prediction.high), rel=1e-3
    )
    assert elsewhere["low"] < mean["low"] < mean["high"] < elsewhere["high"]
    assert all(row["label"] in chart.text for row in rows)
    assert vl_convert.vegalite_to_svg(chart.spec).startswith("<svg")


def test_the_chart_of_a_thousand_hosts_is_no_longer_than_some_screens(found: Findings) -> None:
    assert found.hosts is not None
    many = tuple(found.hosts.hosts[0].model_copy(update={"host": f"h{number}"}) for number in range(1000))
    chart = hosts_chart(found.model_copy(update={"hosts": found.hosts.model_copy(update={"hosts": many})}))

    assert chart is not None
    assert chart.spec["height"] < 6100
    assert vl_convert.vegalite_to_svg(chart.spec).startswith("<svg")


def test_effects_without_a_place_on_the_axis_have_no_chart(found: Findings) -> None:
    assert found.hosts is not None
    none = Estimate(value=0.0)
    hosts = tuple(host.model_copy(update={"effect": none}) for host in found.hosts.hosts)
    odd = found.hosts.model_copy(update={"hosts": hosts, "mean": none, "prediction": None})

    assert hosts_chart(found.model_copy(update={"hosts": odd})) is None
