"""The page in a real browser: every chart is drawn, nothing is complained about, nothing is asked of a network."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest

from pgtrial.analysis.findings import Findings
from pgtrial.language import find_language, speak
from pgtrial.report.html import render_html

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--enable-logging=stderr",
    "--virtual-time-budget=10000",
    "--window-size=1200,900",
    "--dump-dom",
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        # Where a browser is required, as in CI, its absence fails these tests instead.
        CHROMIUM is None and os.environ.get("PGTRIAL_REQUIRE_BROWSER") != "1",
        reason="no Chromium on this machine; apt-get install chromium",
    ),
]


def open_page(findings: Findings, folder: Path, *, unfolded: bool = True, script: str = "") -> tuple[str, list[str]]:
    """The document after its scripts and ``script`` ran, with everything ``unfolded`` that is folded, and what the
    console said.
    """
    page = folder / "report.html"
    before, end, after = render_html(findings).rpartition("</body>")
    html = f"{before}<script>{script}</script>{end}{after}"
    page.write_text(html.replace("<details>", "<details open>") if unfolded else html, encoding="utf-8")
    assert CHROMIUM is not None, "a browser is required here (PGTRIAL_REQUIRE_BROWSER) and there is none"
    done = subprocess.run(
        [CHROMIUM, *OPTIONS, f"--user-data-dir={folder / 'profile'}", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.parametrize("which", ["sample", "hostile"])
def test_every_chart_is_drawn_without_a_complaint(which, request, tmp_path):
    findings = request.getfixturevalue(which)
    document, complaints = open_page(findings, tmp_path)

    specifications = document.count('<script type="application/json">')
    drawn = len(re.findall(r'<div class="plot[^>]*>\s*<svg', document))
    assert complaints == []
    assert 'data-charts="drawn"' in document
    assert drawn == specifications
    assert specifications > 20
    assert "could not be drawn" not in re.sub(r"<script.*?</script>", "", document, flags=re.DOTALL)


# In one page, for a browser takes longer to start than to do this: a table is copied, sorted twice, and copied with
# what a spreadsheet could take for a formula. What came of it stands in the attributes of <body>.
USE = """
    const told = document.body.dataset, section = document.getElementById("effects"), texts = [];
    navigator.clipboard.writeText = async (text) => {
        texts.push(text);
        told.copied = encodeURIComponent(JSON.stringify(texts));
    };
    section.querySelector(".copy").click();
    for (const direction of ["ascending", "descending"]) {
        section.querySelectorAll("th button")[4].click();
        told[direction] = encodeURIComponent(section.outerHTML);
    }
    const doubtful = ["=cmd|'/C calc'!A0", "@SUM(A1)", "+1+cmd|'/C calc'!A0", "-3.5 %", "+2.1 % to +4 %", "−1 %"];
    const cells = section.querySelector("tbody tr").cells;
    doubtful.forEach((text, place) => { cells[place].textContent = text; });
    section.querySelector(".copy").click();
"""


@pytest.fixture(scope="module")
def used(sample: Findings, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """The page with all that is folded away still so, after it was used."""
    return open_page(sample, tmp_path_factory.mktemp("used"), unfolded=False, script=USE)


def told_of(document: str, name: str) -> str:
    found = re.search(rf'<body[^>]* data-{name}="([^"]*)"', document)
    assert found is not None
    return unquote(found[1])


def test_charts_that_are_folded_away_wait_until_they_are_opened(used):
    document, complaints = used

    plots = re.findall(r'<div class="plot[^>]*>(\s*<svg)?', re.sub(r"<body[^>]*>", "", document))
    assert complaints == []
    assert 20 < sum(map(bool, plots)) < len(plots)


@pytest.mark.parametrize("direction", ["ascending", "descending"])
def test_tables_sort_by_what_their_cells_say(used, direction):
    document, complaints = used
    section = told_of(document, direction)
    table = section[section.index("<tbody>") : section.index("</tbody>")]
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)[4] for row in table.split("</tr>")[:-1]]
    changes = [float(cell.replace("−", "-").replace("\u00a0", " ").removesuffix("%").strip()) for cell in cells]

    assert complaints == []
    assert f'aria-sort="{direction}"' in section
    assert len(set(changes)) > 10
    assert changes == sorted(changes, reverse=direction == "descending")


def test_a_page_with_a_decimal_comma_is_sorted_and_drawn_by_it(sample, tmp_path):
    with speak(find_language("ru")):
        document, complaints = open_page(
            sample, tmp_path, script='document.querySelectorAll("#effects th button")[4].click();'
        )
    section = document[document.index('<section id="effects"') :]
    table = section[section.index("<tbody>") : section.index("</tbody>")]
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)[4] for row in table.split("</tr>")[:-1]]
    changes = [
        float(cell.replace("−", "-").replace(",", ".").replace("\u00a0", " ").removesuffix("%").strip())
        for cell in cells
    ]
    labels = re.findall(r"<text[^>]*>([^<]*)</text>", document)

    assert complaints == []
    assert 'data-charts="drawn"' in document
    assert len(set(changes)) > 10
    assert changes == sorted(changes)
    assert any(re.search(r"\d,\d", label) for label in labels)
    assert [label for label in labels if re.search(r"(?<![p\d])\d+\.\d", label)] == []  # p99.9 is a name


def test_what_is_copied_from_a_table_is_no_formula(used):
    document, complaints = used

    line = "'=cmd|'/C calc'!A0\t'@SUM(A1)\t'+1+cmd|'/C calc'!A0\t-3.5 %\t+2.1 % to +4 %\t−1 %\t"
    assert complaints == []
    assert json.loads(told_of(document, "copied"))[1].split("\n")[1].startswith(line)


def test_every_table_can_be_copied(used):
    document, complaints = used

    assert complaints == []
    shown = re.sub(r"<script.*?</script>|<body[^>]*>", "", document, flags=re.DOTALL)
    assert shown.count('class="copy"') == shown.count("<table") > 20
    assert json.loads(told_of(document, "copied"))[0].startswith("Arm\tMetric\tScenario\tLoad\tChange")
