import json

import pytest
import vl_convert

from pgtrial.findings.storage import DiskStanding
from pgtrial.report.charts.disks import disk_charts
from pgtrial.report.charts.pages import gain_charts_by_clients, gain_charts_by_size
from pgtrial.report.html import render_html, script_json, template_environment
from pgtrial.report.sections import SECTIONS
from pgtrial.report.text import render_text
from pgtrial.report.words import EMULATED, arm_label


def section(findings, name: str) -> str:
    """One section's HTML, white space as a reader sees it, units with plain blanks."""
    found = next(each for each in SECTIONS if each.name == name)
    html = template_environment().get_template(f"sections/{name}.html").render(found.build(findings))
    return " ".join(html.split()).replace("\u00a0", " ")


def is_shown(findings, name: str) -> bool:
    return next(each for each in SECTIONS if each.name == name).is_shown(findings)


def change(findings, **parts):
    return findings.model_copy(update={"causes": findings.causes.model_copy(update=parts)})


def on_emulated(findings):
    """The same with the control on an emulated disk."""
    first, *rest = findings.experiment.arms
    arms = (first.model_copy(update={"disk": "ssd-ceph", "is_emulated": True}), *rest)
    return findings.model_copy(update={"experiment": findings.experiment.model_copy(update={"arms": arms})})


# --- Disk -----------------------------------------------------------------------------------------------------------


def test_the_plateau_is_named_with_value_limit_and_steadiness(sample):
    html = section(sample, "disks")

    assert "3 k reads per second" in html
    assert "in 97 % of the seconds, varying by 0.1 % where free demand would vary by 1.8 %" in html
    assert "3 k reads per second, enforced" in html
    assert "2 MB read per second, as its provider says" in html


@pytest.mark.parametrize(
    ("spread", "text"),
    [
        (0.012, "the same at 2 load levels within 1.2 %"),
        (0.4, "At 2 load levels the ceiling differs by 40 %."),
    ],
)
def test_a_ceiling_that_moves_with_the_load_is_not_called_the_same(sample, spread: float, text: str):
    first, *others = sample.causes.disks
    *below, last = first.levels
    levels = (*(load.model_copy(update={"standing": last.standing, "ceiling": last.ceiling}) for load in below), last)
    moved = first.model_copy(update={"levels": levels, "spread": spread})
    html = section(change(sample, disks=(moved, *others)), "disks")

    assert text in html
    assert ("the same at" in html) == (spread < 0.05)


def test_the_rule_for_the_size_of_server_is_printed_with_its_result(sample):
    html = section(sample, "disks")

    assert (
        "Rule: the CPUs that a disk can feed are those that the server uses while the disk stands at its limit." in html
    )
    assert "up to 2 CPUs" in html
    assert "1.29 to 1.31" in html
    assert "CPUs in use: the kernel&#39;s accounts of the server&#39;s processes." in html


def test_every_table_of_the_page_says_that_a_disk_is_emulated(sample):
    findings = on_emulated(sample)
    label = arm_label(findings, findings.experiment.arms[0].name)
    page = render_html(findings)

    assert label == f"on ({EMULATED})"
    tables = [part.partition("</table>")[0] for part in page.split("<table")[1:]]
    naming = [table for table in tables if "<td>on</td>" in table or ">on</th>" in table]
    assert naming == []
    assert sum(f">{label}<" in table for table in tables) > 10


def test_the_terminal_summary_says_so_as_well(sample):
    findings = on_emulated(sample)
    second = findings.experiment.arms[1].model_copy(update={"is_emulated": True})
    arms = (findings.experiment.arms[0], second, findings.experiment.arms[2])
    both = findings.model_copy(update={"experiment": findings.experiment.model_copy(update={"arms": arms})})

    assert f"off ({EMULATED})" in render_text(both, width=200)


def test_disks_that_are_no_subject_and_no_limit_are_left_out(sample):
    quiet = tuple(
        use.model_copy(
            update={
                "disk": "",
                "declared": {},
                "levels": tuple(load.model_copy(update={"standing": DiskStanding.NOT_LIMITING}) for load in use.levels),
            }
        )
        for use in sample.causes.disks
    )

    assert is_shown(sample, "disks")
    assert not is_shown(change(sample, disks=quiet), "disks")
    assert not is_shown(change(sample, disks=()), "disks")


def test_rates_are_drawn_beside_their_limits(sample):
    reads, volume = disk_charts(sample)

    assert reads.title == "Reads per second of the disk by load level: “on” at a limit"
    assert volume.title.startswith("Bytes read per second")
    limits = reads.spec["layer"][0]["data"]["values"]
    assert [limit["limit"] for limit in limits] == [3000.0]
    assert "declared for on: 3 k/s" in reads.text


# --- Huge pages -----------------------------------------------------------------------------------------------------


def test_each_cell_has_its_gain_and_interval(sample):
    html = section(sample, "pages")

    assert "+8.0 % (+7.0 % to +9.0 %)" in html
    assert "scale 10, about 150 MB" in html
    assert html.count('<th scope="col" class="number">16 clients</th>') == 1


def test_the_pages_of_the_runs_are_confirmed_or_not(sample):
    html = section(sample, "pages")

    assert "6 of 6 runs" in html
    assert "<strong>5 of 6 runs</strong>" in html
    assert "540 MB" in html


def test_misses_that_are_not_to_be_had_are_said_to_be_missing(sample):
    bare = sample.pages.model_copy(update={"translations": (), "reason": "No counters here."})
    html = section(sample.model_copy(update={"pages": bare}), "pages")

    assert "Not available: No counters here." in html
    assert "Data misses per transaction" in section(sample, "pages")


def test_gains_are_drawn_by_clients_and_by_size_of_the_data(sample):
    by_clients = gain_charts_by_clients(sample, sample.pages)
    by_size = gain_charts_by_size(sample, sample.pages)

    assert [chart.title.partition(":")[0] for chart in by_clients] == [
        "Gain from huge pages by load with scale 10, about 150 MB, which fits in shared_buffers",
        "Gain from huge pages by load with scale 100, about 1.46 GB, which does not fit in shared_buffers",
    ]
    assert by_clients[0].title.endswith(": 2MB +2.0 % to +8.0 %")
    assert len(by_size) == 3
    assert "over all load levels" in by_size[0].title or "all" in by_size[0].title
    assert "dashed: shared_buffers" in json.dumps(by_size[0].spec)


def test_arms_that_also_differ_otherwise_are_not_joined_by_lines(sample):
    gains = sample.pages.gains
    twice = sample.pages.model_copy(update={"gains": (*gains, *gains)})

    assert gain_charts_by_size(sample, twice) == []


def test_without_gains_there_is_no_chart(sample):
    nothing = tuple(gain.model_copy(update={"ratio": None}) for gain in sample.pages.gains)
    bare = sample.pages.model_copy(update={"gains": nothing})

    assert gain_charts_by_clients(sample, bare) == []
    assert gain_charts_by_size(sample, bare) == []
    assert "–" in section(sample.model_copy(update={"pages": bare}), "pages")


@pytest.mark.parametrize("which", ["sample", "hostile"])
def test_every_chart_of_disks_and_pages_compiles_and_draws(which, request):
    findings = request.getfixturevalue(which)
    charts = [
        *disk_charts(findings),
        *gain_charts_by_clients(findings, findings.pages),
        *gain_charts_by_size(findings, findings.pages),
    ]

    assert len(charts) == 7
    for chart in charts:
        assert vl_convert.vegalite_to_svg(json.loads(script_json(chart.spec))).startswith("<svg")
        assert chart.title
        assert chart.text
