"""What is escaped is given to a renderer of CommonMark, and must come out as it went in."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pgtrial.report.markdown import bullets, code, escape, heading, table
from pgtrial.safe_text import make_visible

RENDERER = MarkdownIt("commonmark").enable("table").enable("strikethrough")
HOSTILE = (
    "</td><script>alert(1)</script>",
    "a | b || c",
    "`code` and ``more``",
    "**bold** _it_ __b__ ~~gone~~",
    "[link](javascript:alert(1)) ![image](http://example.com/x.png)",
    "<http://example.com> <a@example.com>",
    "&lt; &amp; &#35;",
    "# heading #",
    "1. one",
    "12) twelve",
    "- item",
    "+ item",
    "---",
    "===",
    "- - -",
    "> quote",
    "```sh",
    "    indented",
    "\\ \\* \\\\",
    "a\\|b",
    "two\n\nparagraphs\n- item",
    "[x]: y",
    "shared_buffers=1GB,work_mem=64MB",
    "$a$ {{ 7*7 }} {: .class }",
    "+99.2 % (−3 to 5), p <0.0001",
)
# Letters and digits of everywhere, and all that means something to Markdown.
TEXTS = st.text(
    st.characters(categories=("L", "N", "P", "S", "Zs")) | st.sampled_from("\\`*_{}[]()#+-.!|<>&~=@:/$\n \t"),
    min_size=1,
).filter(str.strip)


class _Reader(HTMLParser):
    """Tags and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.cells: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag in {"td", "th"}:
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self.cells:
            self.cells[-1] += data

    @property
    def text(self) -> str:
        return "".join(self.texts).rstrip("\n").replace("\u2060", "")


def plain(text: str) -> str:
    """What a reader should see."""
    return make_visible(" ".join(text.split()))


@pytest.mark.parametrize("text", HOSTILE)
def test_escaped_text_is_one_paragraph_that_shows_it(text: str) -> None:
    page = _Reader(RENDERER.render(escape(text)))

    assert page.tags == ["p"]
    assert page.text == plain(text)


@given(TEXTS)
def test_any_text_comes_out_as_it_went_in(text: str) -> None:
    page = _Reader(RENDERER.render(escape(text)))

    assert page.tags == ["p"]
    assert page.text == plain(text)


@given(TEXTS)
def test_code_shows_any_text_and_nothing_else(text: str) -> None:
    page = _Reader(RENDERER.render(f"x {code(text)}"))

    assert page.tags == ["p", "code"]
    assert page.text == f"x {plain(text)}"


@given(st.lists(TEXTS, min_size=2, max_size=4))
def test_no_text_leaves_its_cell(texts: list[str]) -> None:
    lines = table([f"head{k}" for k in range(len(texts))], [list(map(escape, texts)), list(map(code, texts))])
    page = _Reader(RENDERER.render("\n".join(lines)))

    cells = [cell.replace("\u2060", "").rstrip("\n") for cell in page.cells]
    assert cells[len(texts) :] == [*map(plain, texts), *map(plain, texts)]


def test_columns_of_numbers_are_set_to_the_right() -> None:
    lines = table(("arm", "change"), [("`off`", "+99.2 %"), ("`placebo`", "−1.2 %")], right=(1,))

    assert lines == [
        "| arm       |  change |",
        "| --------- | ------: |",
        "| `off`     | +99.2 % |",
        "| `placebo` |  −1.2 % |",
    ]
    assert 'style="text-align:right"' in RENDERER.render("\n".join(lines))


@pytest.mark.parametrize("text", ["https://example.com", "see HTTP://example.com/", "www.example.com"])
def test_an_address_does_not_become_a_link_by_itself(text: str) -> None:
    written = escape(text)
    shown = _Reader(RENDERER.render(written))

    assert shown.text == text
    assert re.search(r"(?i)https?://|www\.", "".join(shown.texts)) is None


def test_nobody_is_mentioned() -> None:
    assert escape("ask @somebody, a@b") == "ask @&#8288;somebody, a@&#8288;b"
    assert escape("5 @ 10") == "5 @ 10"


def test_hidden_characters_are_written_out() -> None:
    assert escape("a\x1b[31m\u202eb") == r"a\\x1b\[31m\\u202eb"
    assert code("a\x1b\u202eb") == r"`a\x1b\u202eb`"


def test_names_of_settings_stay_readable() -> None:
    assert escape("synchronous_commit = off") == "synchronous_commit = off"
    assert code("shared_buffers=1GB") == "`shared_buffers=1GB`"


def test_headings_and_lists_hold_one_line_each() -> None:
    assert heading(2, "a\n# b") == r"## a \# b"
    assert bullets([escape("one\n- two")]) == ["- one - two"]
