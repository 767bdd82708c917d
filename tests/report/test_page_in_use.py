"""The page in the hands of a reader: every chart is drawn and nothing is asked of a network, all charts of a section
are zoomed at once, keys alone, tables that are sorted and copied, and what axe-core says.

Drawing its charts takes a page seconds, so tests share three pages, and leave them as they found them: one of each
size, of which the wide one is unfolded when nothing else needs it as it was opened, and one with strange names.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from pgtrial.findings.findings import Findings
from pgtrial.language import find_language, speak
from pgtrial.report.html import write_html
from support.programs import skip_for_want

Shared = Callable[..., AbstractContextManager[Any]]

PATIENCE, POLL = 120_000, 100  # ms
SIZES = {"wide": (1200, 900), "phone": (390, 800)}
UNDRAWN = ".plot:not([data-drawn]), .plot[data-drawn]:empty, .plot > svg:not([aria-hidden])"

# What a browser that knows the width of folded charts has drawn before a section is opened.
UNDRAWN_OF_SECTIONS = ".plot:not([data-drawn]):not(details:not(.fold) *)"

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(sample: Findings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_html(sample, path)
    return path


class Tab:
    """A page with everything drawn, and whatever it complained about or asked for."""

    def __init__(self, chromium: Any, report: Path, size: str) -> None:
        width, height = SIZES[size]
        self.address = report.as_uri()
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.context = chromium.new_context(viewport={"width": width, "height": height})
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", lambda said: self.complaints.append(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(self.address)
        self.page.wait_for_selector("html[data-charts=drawn]", state="attached")
        self.page.evaluate("document.querySelectorAll('.fold').forEach((each) => { each.open = true; })")
        self.page.wait_for_selector(UNDRAWN_OF_SECTIONS, state="detached")

    def unfold(self) -> None:
        self.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        self.page.wait_for_selector(UNDRAWN, state="detached")

    def check(self) -> None:
        assert self.complaints == []
        assert {url for url in self.asked if not url.startswith("data:")} == {self.address}


# Returns a function that puts folds, tables, places and focus back.
REMEMBER = """() => {
    const folded = [...document.querySelectorAll("details:not([open])")];
    const tables = [...document.querySelectorAll("main tbody")].map((body) => [body, [...body.rows]]);
    return () => {
        folded.forEach((details) => { details.open = false; });
        for (const [body, rows] of tables) {
            body.replaceChildren(...rows);
        }
        document.querySelectorAll("[aria-sort]").forEach((heading) => heading.removeAttribute("aria-sort"));
        document.querySelectorAll("[data-zoomed] [data-step=reset]").forEach((button) => button.click());
        history.replaceState(null, "", location.pathname);
        document.body.tabIndex = -1; // where the next Tab begins
        document.body.focus();
        document.body.removeAttribute("tabindex");
        scrollTo({ top: 0, behavior: "instant" });
    };
}"""


@pytest.fixture(scope="module")
def shared(chromium: Any, report: Path) -> Iterator[Shared]:
    """``shared(size, unfolded=...)`` is a page that tests use one after the other, each as if it had just been opened.

    ``unfolding``: a test that draws what was folded away; others then find that page with all unfolded. The test fails
    if the page complained; what a failed test has left behind is not used again.
    """
    tabs: dict[tuple[str, bool], tuple[Tab, Any, list[int]]] = {}

    @contextlib.contextmanager
    def use(size: str = "wide", *, unfolded: bool = False, unfolding: bool = False) -> Iterator[Any]:
        key = (size, unfolded)
        if key not in tabs:
            add(Tab(chromium, report, size), size, unfolded=unfolded)
        tab, put_back, drawn = tabs.pop(key)
        with contextlib.ExitStack() as stack:
            stack.callback(tab.context.close)
            yield tab.page
            tab.page.mouse.move(0, 0)
            tab.page.evaluate("(putBack) => putBack()", put_back)
            if not unfolding:
                wait_until(tab.page, lambda: drawings_of(tab.page) == drawn)
            tab.check()
            if not unfolding:
                tabs[key] = (tab, put_back, drawn)
            elif (size, True) not in tabs:
                add(tab, size, unfolded=True)
            else:
                return
            stack.pop_all()

    def add(tab: Tab, size: str, *, unfolded: bool) -> None:
        if unfolded:
            tab.unfold()
        tabs[size, unfolded] = (tab, tab.page.evaluate_handle(REMEMBER), drawings_of(tab.page))

    yield use
    for tab, _, _ in tabs.values():
        tab.context.close()


@pytest.fixture
def unfolding(shared: Shared) -> Shared:
    return partial(shared, unfolding=True)


@pytest.fixture
def unfolded(shared: Shared) -> Shared:
    return partial(shared, unfolded=True)


def shown_of(page: Any, section: str) -> str:
    """The stretch of time that the buttons of a section say is shown."""
    text: str = page.locator(f"#{section} .time-tools output").text_content()
    return text.replace("\u00a0", " ")


# A number for each chart over time of a section that is drawn: of where its marks are and what its texts say.
DRAWINGS = """(section) => {
    const numberOf = (text) => {
        let number = 0;
        for (let at = 0; at < text.length; at += 1) {
            number = (Math.imul(number, 31) + text.charCodeAt(at)) | 0;
        }
        return number;
    };
    const drawingOf = (svg) => [...svg.querySelectorAll("path, line, text")].map((each) =>
        ["d", "transform", "x2", "y2"].map((name) => each.getAttribute(name)).concat(each.textContent).join("|"));
    const drawn = [...document.querySelectorAll(`#${section} .plot[data-timed][data-drawn] svg`)];
    return drawn.map((svg) => numberOf(drawingOf(svg).sort().join("\\n")));
}"""


def drawings_of(page: Any, section: str = "content") -> list[int]:
    """Numbers that differ where charts over time do, of a section or of all that are drawn."""
    found: list[int] = page.evaluate(DRAWINGS, section)
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


@pytest.mark.parametrize("section", ["series", "panels", "latency"])
def test_all_charts_of_a_section_are_zoomed_at_once_and_reset(shared: Shared, section: str) -> None:
    with shared() as page:
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


def test_a_section_is_zoomed_alone(shared: Shared) -> None:
    with shared() as page:
        before, others = drawings_of(page, "latency"), drawings_of(page, "panels")
        page.locator("#latency [data-step=in]").click()
        wait_until(page, lambda: before[-1] != drawings_of(page, "latency")[-1])

        assert drawings_of(page, "panels") == others
        assert shown_of(page, "panels") != shown_of(page, "latency")


def test_dragging_over_a_chart_shows_what_was_dragged_over(shared: Shared) -> None:
    with shared() as page:
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


def test_keys_do_what_the_buttons_do(shared: Shared) -> None:
    with shared() as page:
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


def test_the_time_shown_never_leaves_what_was_measured(shared: Shared) -> None:
    with shared() as page:
        tools = page.locator("#latency")
        tools.locator("[data-step=out]").click()
        assert shown_of(page, "latency") == "From 0 s to 60 s"
        tools.locator("[data-step=in]").click()
        for _ in range(5):
            tools.locator("[data-step=later]").click()
        assert shown_of(page, "latency") == "From 30 s to 60 s"


def test_a_drawn_chart_keeps_its_text_for_those_who_cannot_see_it(shared: Shared, report: Path) -> None:
    written = re.findall(r'<div class="plot" role="img" aria-label="([^"]+)"', report.read_text(encoding="utf-8"))
    with shared() as page:
        plots = page.evaluate(
            """() => [...document.querySelectorAll(".plot")].map((plot) => [plot.getAttribute("role"),
                plot.getAttribute("aria-label"), plot.querySelector("svg")?.getAttribute("aria-hidden") ?? "true"])"""
        )

        assert [text for _, text, _ in plots] == [unescape(text) for text in written]
        assert {(role, is_hidden) for role, _, is_hidden in plots} == {("img", "true")}


def test_sections_are_reached_and_tables_sorted_by_keys_alone(shared: Shared) -> None:
    with shared() as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "content"

        link = page.locator("nav a[href='#effects']")
        link.focus()
        page.keyboard.press("Enter")
        wait_until(page, lambda: page.evaluate("scrollY") > 0)
        nav, heading = page.locator("nav").bounding_box(), page.locator("#effects h2").bounding_box()
        is_beside = nav["x"] + nav["width"] <= heading["x"]
        assert is_beside or nav["y"] + nav["height"] <= heading["y"] + 1
        assert heading["y"] < 300

        page.locator("#effects details summary").first.press("Enter")
        heading = page.locator("#effects th button").nth(4)
        heading.focus()
        page.keyboard.press("Space")
        assert page.locator("#effects th").nth(4).get_attribute("aria-sort") == "ascending"


def changes_of(page: Any) -> list[float]:
    """What the fifth cells of the first table of effects say, in the order of its rows."""
    cells = page.evaluate(
        """[...document.querySelector("#effects tbody").rows].map((row) => row.cells[4].textContent.trim())"""
    )
    plain = str.maketrans({"−": "-", ",": ".", "\u00a0": " "})
    return [float(cell.translate(plain).removesuffix("%").strip()) for cell in cells]


def test_tables_sort_by_what_their_cells_say(shared: Shared) -> None:
    with shared() as page:
        for direction in ("ascending", "descending"):
            page.evaluate("""document.querySelectorAll("#effects th button")[4].click()""")
            changes = changes_of(page)

            assert page.locator(f"#effects [aria-sort={direction}]").count() == 1
            assert len(set(changes)) > 10
            assert changes == sorted(changes, reverse=direction == "descending")


# Of the first table of effects, above whose rows there is one more with the given texts.
COPY = """(texts) => {
    let copied = null;
    navigator.clipboard.writeText = async (text) => { copied = text; };
    const body = document.querySelector("#effects tbody");
    const row = body.rows[0].cloneNode(true);
    texts.forEach((text, place) => { row.cells[place].textContent = text; });
    body.prepend(row);
    document.querySelector("#effects .copy").click();
    delete navigator.clipboard.writeText;
    return copied;
}"""


def test_what_is_copied_from_a_table_is_no_formula(shared: Shared) -> None:
    texts = ["=cmd|'/C calc'!A0", "@SUM(A1)", "+1+cmd|'/C calc'!A0", "-3.5 %", "+2.1 % to +4 %", "−1 %"]
    with shared() as page:
        copied = page.evaluate(COPY, texts)

    shown = "'=cmd|'/C calc'!A0\t'@SUM(A1)\t'+1+cmd|'/C calc'!A0\t-3.5 %\t+2.1 % to +4 %\t−1 %\t"
    assert copied.split("\n")[1].startswith(shown)


def test_every_table_can_be_copied(shared: Shared) -> None:
    with shared() as page:
        copied, document = page.evaluate(COPY, []), page.content()

    shown = re.sub(r"<script.*?</script>", "", document, flags=re.DOTALL)
    assert shown.count('class="copy"') == shown.count("<table") > 20
    assert copied.startswith("Arm\tMetric\tScenario\tLoad\tChange")


def test_charts_that_are_folded_away_wait_until_they_are_opened_and_show_the_same_time(unfolding: Shared) -> None:
    with unfolding() as page:
        plots = re.findall(r'<div class="plot[^>]*>(\s*<svg)?', page.content())
        assert 20 < sum(map(bool, plots)) < len(plots)

        page.locator("#panels [data-step=in]").first.click()
        page.locator("#panels details:not(.fold) summary").first.click()
        number = page.locator("#panels .plot").count()
        assert number > 30
        wait_until(page, lambda: len(texts_of(page, "panels")) == number)
        wait_until(page, lambda: all("20 s" in each and "50 s" not in each for each in texts_of(page, "panels")))
        page.locator("#panels [data-step=reset]").first.click()
        wait_until(page, lambda: all("50 s" in each for each in texts_of(page, "panels")))


def test_a_link_opens_what_it_leads_to_and_paper_has_everything(chromium: Any, report: Path) -> None:
    context = chromium.new_context(viewport={"width": 1200, "height": 900})
    with contextlib.closing(context):
        page = context.new_page()
        page.goto(f"{report.as_uri()}#caveats")
        page.wait_for_selector("#caveats > details[open]")
        page.wait_for_selector("html[data-charts=drawn]", state="attached")
        assert page.locator("#method > details[open]").count() == 0
        assert page.locator(UNDRAWN_OF_SECTIONS).count() == 0

        page.locator("nav a[href='#method']").click()
        page.wait_for_selector("#method > details[open]")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator("details:not([open])").count() == 0
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.locator("#noise > details[open]").count() == 0
        assert page.locator("#method > details[open]").count() == 1


@pytest.mark.parametrize("size", SIZES)
def test_nothing_is_wider_than_the_screen(unfolded: Shared, size: str) -> None:
    with unfolded(size) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]


_COLOUR_RULES = ("color-contrast", "link-in-text-block")  # those of the category that axe-core runs by default
_ONLY_COLOURS = {"runOnly": list(_COLOUR_RULES)}
_WITHOUT_COLOURS = {"rules": {name: {"enabled": False} for name in _COLOUR_RULES}}
# Of the rows of a table, the texts at an axis, and the charts, that differ in nothing but what they say and where,
# axe-core looks at the first. Returns a function that puts the others back.
REMOVE_COPIES = """() => {
    const shapeOf = (one) => {
        const copy = one.cloneNode(true);
        copy.removeAttribute("transform");
        const texts = document.createTreeWalker(copy, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            texts.currentNode.data = texts.currentNode.data.trim() === "" ? "" : "x";
        }
        return copy.outerHTML;
    };
    const places = new Set(["aria-label", "clip-path", "d", "height", "id", "transform", "viewBox", "width", "x", "x1",
        "x2", "y", "y1", "y2"]);
    const looksOf = (element) => [...element.attributes].filter(({ name }) => !places.has(name));
    const lookOf = (element) =>
        [element.tagName, ...looksOf(element).map(({ name, value }) => `${name}=${value}`)].join(" ");
    const plots = [...document.querySelectorAll(".plot")];
    const parents = [...document.querySelectorAll("main tbody, .plot svg g:has(> text)")];
    const whole = [...plots, ...parents].map((parent) => [parent, [...parent.childNodes]]);
    const looks = new Set();
    for (const plot of plots) {
        const look = [...new Set([...plot.querySelectorAll("*")].map(lookOf))].sort().join("\\n");
        if (looks.has(look)) {
            plot.replaceChildren();
        }
        looks.add(look);
    }
    for (const parent of parents) {
        const shapes = new Set();
        for (const child of [...parent.children]) {
            const shape = shapeOf(child);
            if (shapes.has(shape)) {
                child.remove();
            }
            shapes.add(shape);
        }
    }
    return () => whole.forEach(([parent, nodes]) => parent.replaceChildren(...nodes));
}"""


@pytest.mark.parametrize(
    ("size", "scheme", "rules"),
    [
        ("wide", "light", {}),
        ("wide", "dark", _ONLY_COLOURS),
        ("phone", "light", _WITHOUT_COLOURS),
    ],
)
def test_axe_finds_nothing_serious(unfolded: Shared, size: str, scheme: str, rules: dict[str, object]) -> None:
    """By all rules; a dark page differs from a light one in colours alone, and a small one in everything else."""
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        skip_for_want("axe-core", "make setup-test")
    axe = Axe()
    options = {"resultTypes": ["violations"], **rules}
    with unfolded(size) as page:
        page.emulate_media(color_scheme=scheme)
        put_back = page.evaluate_handle(REMOVE_COPIES)
        found = axe.run(page, options=options).response["violations"]

        assert [
            f"{each['id']} ({each['impact']}): {[node['html'][:120] for node in each['nodes'][:3]]}"
            for each in found
            if each["impact"] in {"serious", "critical"}
        ] == []
        page.evaluate("(putBack) => putBack()", put_back)
        page.emulate_media(color_scheme="light")


def test_every_chart_is_drawn_without_a_complaint(unfolded: Shared) -> None:
    with unfolded() as page:
        check_drawn(page.content())


@pytest.fixture(scope="module")
def strange(chromium: Any, hostile: Findings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """A page with names that are markup, in a language with a decimal comma, with all unfolded."""
    path = tmp_path_factory.mktemp("strange") / "report.html"
    with speak(find_language("ru")):
        write_html(hostile, path)
    tab = Tab(chromium, path, "wide")
    with contextlib.closing(tab.context):
        tab.unfold()
        yield tab


def test_every_chart_of_hostile_names_is_drawn_without_a_complaint(strange: Tab) -> None:
    check_drawn(strange.page.content())
    strange.check()


def check_drawn(document: str) -> None:
    specifications = document.count('<script type="application/json">')
    drawn = len(re.findall(r'<div class="plot[^>]*>\s*<svg', document))
    assert 'data-charts="drawn"' in document
    assert drawn == specifications
    assert specifications > 20
    assert "could not be drawn" not in re.sub(r"<script.*?</script>", "", document, flags=re.DOTALL)


def test_a_page_with_a_decimal_comma_is_sorted_and_drawn_by_it(strange: Tab) -> None:
    strange.page.evaluate("""document.querySelectorAll("#effects th button")[4].click()""")
    changes, document = changes_of(strange.page), strange.page.content()
    labels = re.findall(r"<text[^>]*>([^<]*)</text>", document)

    assert 'data-charts="drawn"' in document
    assert len(set(changes)) > 10
    assert changes == sorted(changes)
    assert any(re.search(r"\d,\d", label) for label in labels)
    assert [label for label in labels if re.search(r"(?<![p\d])\d+\.\d", label)] == []  # p99.9 is a name
    strange.check()
