"""The page in the hands of a reader: all charts of a section zoomed at once, keys alone, and what axe-core says."""

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from pgtrial.analysis.findings import Findings
from pgtrial.report.html import write_html

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
IS_REQUIRED = os.environ.get("PGTRIAL_REQUIRE_BROWSER") == "1"
PATIENCE, POLL = 120_000, 100  # ms
TIMED = ("series", "panels", "latency")  # sections with charts over time
SIZES = {"wide": (1200, 900), "phone": (390, 800)}

pytestmark = pytest.mark.browser
if not IS_REQUIRED:  # where a browser is required, as in CI, its absence fails these tests instead
    pytest.importorskip("playwright.sync_api", reason="no playwright; make setup-test installs it")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine; apt-get install chromium", allow_module_level=True)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    assert CHROMIUM is not None, "a browser is required here (PGTRIAL_REQUIRE_BROWSER) and there is none"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture(scope="module")
def report(sample: Findings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_html(sample, path)
    return path


@contextlib.contextmanager
def opened(chromium: Any, report: Path, *, size: str = "wide", scheme: str = "light") -> Iterator[Any]:
    """The page with everything drawn; the test fails if it complained."""
    width, height = SIZES[size]
    complaints: list[str] = []
    context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    with contextlib.closing(context):
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda said: complaints.append(said.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(report.as_uri())
        page.wait_for_selector("html[data-charts=drawn]", state="attached")
        yield page
    assert complaints == []


def shown_of(page: Any, section: str) -> str:
    """The stretch of time that the buttons of a section say is shown."""
    text: str = page.locator(f"#{section} .time-tools output").text_content()
    return text.replace("\u00a0", " ")


def drawings_of(page: Any, section: str) -> list[list[str]]:
    """Of each chart over time of a section that is drawn: where its marks are and what its texts say."""
    found: list[list[str]] = page.evaluate(
        """(section) => [...document.querySelectorAll(`#${section} .plot[data-timed][data-drawn] svg`)].map((svg) =>
            [...svg.querySelectorAll("path, line, text")].map((each) => ["d", "transform", "x2", "y2"].map(
                (name) => each.getAttribute(name)).concat(each.textContent).join("|")).sort())""",
        section,
    )
    return found


def texts_of(page: Any, section: str) -> list[list[str]]:
    """What stands at the axes of each chart over time of a section that is drawn."""
    found: list[list[str]] = page.evaluate(
        """(section) => [...document.querySelectorAll(`#${section} .plot[data-timed][data-drawn]`)].map((plot) =>
            [...plot.querySelectorAll(".role-axis-label text")].map((text) => text.textContent))""",
        section,
    )
    return found


def times_of(page: Any, section: str) -> tuple[float, float]:
    """The same as numbers, in seconds."""
    found = re.fullmatch(r"From ([\d.]+) s to ([\d.]+) s", shown_of(page, section))
    assert found is not None
    return float(found[1]), float(found[2])


def wait_until(page: Any, is_so: Callable[[], bool]) -> None:
    """Until something has become so in the page; a machine under load may take its time."""
    for _ in range(PATIENCE // POLL):
        if is_so():
            return
        page.wait_for_timeout(POLL)
    pytest.fail("it did not become so")


@pytest.fixture(scope="module")
def drawn(chromium: Any, report: Path) -> Iterator[tuple[Any, dict[str, list[list[str]]]]]:
    """The page, and its charts over time as they are drawn at first: to draw them takes seconds."""
    with opened(chromium, report) as page:
        yield page, {section: drawings_of(page, section) for section in TIMED}


@pytest.fixture
def page(drawn: tuple[Any, dict[str, list[list[str]]]]) -> Iterator[Any]:
    """The page, for tests that only zoom, all of which is undone after each."""
    page, before = drawn
    yield page
    page.evaluate("document.querySelectorAll('[data-step=reset]').forEach((each) => each.click())")
    wait_until(page, lambda: all(drawings_of(page, section) == before[section] for section in TIMED))


@pytest.mark.parametrize("section", TIMED)
def test_all_charts_of_a_section_are_zoomed_at_once_and_reset(page: Any, section: str) -> None:
    before, whole = drawings_of(page, section), shown_of(page, section)
    assert len(before) >= 3

    page.locator(f"#{section} [data-step=in]").click()
    assert shown_of(page, section) != whole
    wait_until(
        page,
        lambda: all(one != other for one, other in zip(before, drawings_of(page, section), strict=True)),
    )

    page.locator(f"#{section} [data-step=reset]").click()
    assert shown_of(page, section) == whole
    wait_until(page, lambda: drawings_of(page, section) == before)


def test_a_section_is_zoomed_alone(page: Any) -> None:
    before, others = drawings_of(page, "latency"), drawings_of(page, "panels")
    page.locator("#latency [data-step=in]").click()
    wait_until(page, lambda: before[-1] != drawings_of(page, "latency")[-1])

    assert drawings_of(page, "panels") == others
    assert shown_of(page, "panels") != shown_of(page, "latency")


def test_dragging_over_a_chart_shows_what_was_dragged_over(page: Any) -> None:
    plot = page.locator("#latency .plot[data-timed]").first
    plot.scroll_into_view_if_needed()
    area = plot.locator("svg .root .background").first.bounding_box()
    page.mouse.move(area["x"] + area["width"] / 6, area["y"] + 40)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] / 2, area["y"] + 60, steps=5)
    assert plot.locator(".brush").count() == 1
    page.mouse.up()

    assert plot.locator(".brush").count() == 0
    assert times_of(page, "latency") == pytest.approx((10, 30), abs=0.2)  # a pixel is 0.06 s

    page.keyboard.down("Shift")
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"], area["y"] + 60, steps=5)
    page.mouse.up()
    page.keyboard.up("Shift")
    assert times_of(page, "latency") == pytest.approx((0, 20), abs=0.2)


def test_keys_do_what_the_buttons_do(page: Any) -> None:
    page.locator("#latency [data-step=in]").focus()
    said = []
    for key in ("+", "ArrowRight", "ArrowLeft", "-", "Enter", "0"):
        page.keyboard.press(key)
        said.append(shown_of(page, "latency"))

    assert said == [
        "From 15 s to 45 s",
        "From 22.5 s to 52.5 s",
        "From 15 s to 45 s",
        "From 0 s to 60 s",
        "From 15 s to 45 s",
        "From 0 s to 60 s",
    ]


def test_the_time_shown_never_leaves_what_was_measured(page: Any) -> None:
    tools = page.locator("#latency")
    tools.locator("[data-step=out]").click()
    assert shown_of(page, "latency") == "From 0 s to 60 s"
    tools.locator("[data-step=in]").click()
    for _ in range(5):
        tools.locator("[data-step=later]").click()
    assert shown_of(page, "latency") == "From 30 s to 60 s"


def test_a_chart_that_is_unfolded_later_shows_the_same_time(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        page.locator("#panels [data-step=in]").first.click()
        page.locator("#panels details summary").first.click()
        number = page.locator("#panels .plot").count()
        assert number > 30
        wait_until(page, lambda: len(texts_of(page, "panels")) == number)
        wait_until(page, lambda: all("20 s" in each and "50 s" not in each for each in texts_of(page, "panels")))


def test_a_drawn_chart_keeps_its_text_for_those_who_cannot_see_it(page: Any, report: Path) -> None:
    written = re.findall(r'<div class="plot" role="img" aria-label="([^"]+)"', report.read_text(encoding="utf-8"))
    plots = page.evaluate(
        """() => [...document.querySelectorAll(".plot")].map((plot) => [plot.getAttribute("role"),
            plot.getAttribute("aria-label"), plot.querySelector("svg")?.getAttribute("aria-hidden") ?? "true"])"""
    )

    assert [text for _, text, _ in plots] == [unescape(text) for text in written]
    assert {(role, is_hidden) for role, _, is_hidden in plots} == {("img", "true")}


def test_sections_are_reached_and_tables_sorted_by_keys_alone(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "content"

        link = page.locator("nav a[href='#effects']")
        link.focus()
        page.keyboard.press("Enter")
        wait_until(page, lambda: page.evaluate("scrollY") > 0)
        top = page.evaluate("document.querySelector('#effects h2').getBoundingClientRect().top")
        assert page.evaluate("document.querySelector('nav').getBoundingClientRect().bottom") <= top + 1 < 300

        page.locator("#effects details summary").first.press("Enter")
        heading = page.locator("#effects th button").nth(4)
        heading.focus()
        page.keyboard.press("Space")
        assert page.locator("#effects th").nth(4).get_attribute("aria-sort") == "ascending"


LESS = """() => {
    const look = (each) => [each.tagName, each.textContent.trim() !== "",
        ...[...each.attributes].map(({name, value}) => ["class", "style"].includes(name) ? value : name)].join();
    for (const body of document.querySelectorAll("tbody")) {
        const seen = new Map();
        for (const row of [...body.rows]) {
            const looks = [row, ...row.querySelectorAll("*")].map(look).join(";");
            seen.set(looks, (seen.get(looks) ?? 0) + 1);
            if (seen.get(looks) > 2) row.remove();
        }
    }
    const focused = "a, [tabindex], [focusable]";
    for (const mark of document.querySelectorAll("svg[aria-hidden=true] *"))
        if (!mark.matches(focused) && !mark.querySelector(focused)) mark.remove();
}"""


@pytest.fixture(scope="module", params=[(size, scheme) for size in SIZES for scheme in ("light", "dark")], ids="-".join)
def unfolded(chromium: Any, report: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Any, str, float]]:
    """The page with all there is in it to be seen, its size, and how wide it is.

    Of the rows of a table that differ in nothing but their texts two are left, and of the drawings, which are hidden
    from those who listen to the page, what can have the focus all the same: axe-core takes most of its time for the
    others.
    """
    size, scheme = request.param
    with opened(chromium, report, size=size, scheme=scheme) as page:
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        page.wait_for_selector(".plot:not([data-drawn])", state="detached")
        width = page.evaluate("document.documentElement.scrollWidth")
        page.evaluate(LESS)
        yield page, size, width


def test_nothing_is_wider_than_the_screen(unfolded: tuple[Any, str, float]) -> None:
    _, size, width = unfolded

    assert width <= SIZES[size][0]


def test_axe_finds_nothing_serious(unfolded: tuple[Any, str, float]) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="no axe-core; make setup-test installs it"
    ).Axe()
    page, *_ = unfolded
    found = axe.run(page).response["violations"]

    assert [
        f"{each['id']} ({each['impact']}): {[node['html'][:120] for node in each['nodes'][:3]]}"
        for each in found
        if each["impact"] in {"serious", "critical"}
    ] == []
