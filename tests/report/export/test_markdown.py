import pytest
from markdown_it import MarkdownIt

from pgtrial.export.markdown import render_markdown


def tokens(text: str):
    """Every token of the page, those inside of others too."""
    for token in MarkdownIt("commonmark", {"html": True}).enable("table").parse(text):
        yield token
        yield from token.children or []


def test_it_begins_with_the_verdict_and_has_a_section_for_the_rest(sample):
    page = render_markdown(sample)

    assert page.startswith("## ✔ synchronous-commit: supported\n")
    headings = [line for line in page.splitlines() if line.startswith("#")]
    assert headings[1:] == ["### Settings", "### Remarks", "### How it was measured"]
    assert "| `synchronous_commit` | `on`    | `off`   | `on`    |" in page


@pytest.mark.parametrize("name", ["sample", "minimal", "hostile"])
def test_every_row_of_a_table_has_the_cells_of_its_head(name, request):
    cells = None
    for token in tokens(render_markdown(request.getfixturevalue(name))):
        if token.type == "thead_open":
            cells, heads = 0, None
        elif token.type == "tr_open":
            cells = 0
        elif token.type in ("th_open", "td_open"):
            cells += 1
        elif token.type == "tr_close":
            heads = heads or cells
            assert cells == heads


def test_an_experiment_without_a_run_is_said_to_be_so(minimal):
    page = render_markdown(minimal)

    assert "## ! nothing-yet: invalid" in page
    assert "No effect could be estimated." in page


def test_hostile_texts_become_no_markup_no_html_no_link_and_no_mention(hostile):
    page = render_markdown(hostile)
    found = list(tokens(page))

    # Names in the type of code are shown by <code> where they hold what would end a cell.
    html = {token.content for token in found if token.type in ("html_inline", "html_block")}
    assert html <= {"<code>", "</code>"}
    assert not [token for token in found if token.type in ("link_open", "image")]
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "@team" not in page
    assert "<script" not in page
