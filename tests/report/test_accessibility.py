"""What readers without a mouse, with a screen reader or with weak eyes need of the page, as far as its source tells.

tests/report/test_page_in_use.py has a browser and axe-core judge the same page.
"""

import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pgtrial.report.html import render_html

STYLE = (Path(__file__).parents[2] / "src/pgtrial/report/style.css").read_text()
# WCAG 2.2, 1.4.3 for text and 1.4.11 for what a control is known by.
TEXT, CONTROL = 4.5, 3.0
# (colour of the text, what it stands on)
PAIRS = (
    ("ink", "surface"),
    ("ink", "raised"),
    ("ink", "open-fill"),
    ("quiet", "surface"),
    ("quiet", "raised"),
    ("link", "surface"),
    ("good", "surface"),
    ("good", "good-fill"),
    ("bad", "surface"),
    ("bad", "raised"),
    ("bad", "bad-fill"),
    ("open", "surface"),
    ("open", "raised"),
    ("open", "open-fill"),
    ("void", "surface"),
    ("void", "void-fill"),
)


class Outline(HTMLParser):
    """The elements of a page in order, and for each table heading where it is."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[tuple[bool, dict[str, str | None]]] = []  # (whether it heads a column, attributes)
        self._is_head = False
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "thead":
            self._is_head = True
        if tag == "th":
            self.headings.append((self._is_head, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag == "thead":
            self._is_head = False


@pytest.fixture(scope="module")
def outline(sample: Any) -> Outline:
    return Outline(render_html(sample))


def colours(theme: int) -> dict[str, str]:
    """The palette by role; 0 for light, 1 for dark."""
    pairs = re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", STYLE)
    return {name: (light, dark)[theme] for name, light, dark in pairs}


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.2 defines it."""
    channels = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_computed_as_published() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)  # the grey that WCAG's guide names


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_every_text_can_be_read_on_its_ground(text: str, ground: str, theme: int) -> None:
    palette = colours(theme)

    assert contrast(palette[text], palette[ground]) >= TEXT


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_buttons_and_the_mark_of_the_focus_stand_out(theme: int) -> None:
    palette = colours(theme)

    assert contrast(palette["control"], palette["surface"]) >= CONTROL
    assert contrast(palette["control"], palette["raised"]) >= CONTROL
    assert contrast(palette["link"], palette["surface"]) >= CONTROL


def test_every_colour_of_a_text_is_tested() -> None:
    used = set(re.findall(r"(?<![a-z-])color: var\(--([a-z-]+)\)", STYLE))

    assert used == {text for text, _ in PAIRS}


def test_the_focus_is_shown_and_nowhere_taken_away() -> None:
    assert ":focus-visible { outline: 2px solid" in STYLE
    assert re.findall(r"([^\n}]*)\{[^}]*outline: none", STYLE) == ["main:focus "]  # which the skip link leads to


def test_headings_go_down_one_step_at_a_time(outline: Outline) -> None:
    levels = [int(tag[1]) for tag, _ in outline.elements if re.fullmatch("h[1-6]", tag)]

    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))


def test_headings_of_tables_say_what_they_head(outline: Outline) -> None:
    assert len(outline.headings) > 50
    assert all(
        attributes.get("scope") == ("col" if heads_column else "row") for heads_column, attributes in outline.headings
    )


def test_the_first_thing_to_reach_leads_past_the_navigation(outline: Outline) -> None:
    links = [attributes for tag, attributes in outline.elements if tag == "a"]
    main = next(attributes for tag, attributes in outline.elements if tag == "main")

    assert links[0]["href"] == f"#{main['id']}"
    assert links[0]["class"] == "skip"
    assert main["tabindex"] == "-1"


def test_names_of_the_page_are_unique(outline: Outline) -> None:
    names = [attributes["id"] for _, attributes in outline.elements if "id" in attributes]

    assert len(names) == len(set(names))
    assert {
        attributes["aria-labelledby"] for _, attributes in outline.elements if "aria-labelledby" in attributes
    } <= set(names)


def test_the_language_of_the_page_is_declared_and_it_can_be_enlarged(outline: Outline) -> None:
    viewport = next(a["content"] for tag, a in outline.elements if tag == "meta" and a.get("name") == "viewport")

    assert next(attributes for tag, attributes in outline.elements if tag == "html")["lang"] == "en"
    assert viewport is not None
    assert "user-scalable" not in viewport
    assert "maximum-scale" not in viewport


def test_groups_of_buttons_have_names(outline: Outline) -> None:
    groups = [attributes for _, attributes in outline.elements if attributes.get("role") == "group"]

    assert groups
    assert all(group.get("aria-label") for group in groups)


def test_what_depends_on_the_size_is_no_colour() -> None:
    """So axe-core need not look at the colours once for each size."""
    by_size = re.findall(r"@media \((?:min|max)-width: [\w.]+\) \{\n(.*?)\n\}", STYLE, flags=re.DOTALL)

    assert len(by_size) == len(re.findall(r"@media .*width", STYLE)) > 0
    assert re.findall(r"color|background|opacity|font|var\(", "".join(by_size)) == []
