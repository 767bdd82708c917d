"""The Python in the documentation is run, and what it gives is compared with what the page shows.

Code blocks of the language "pycon" of a page are one session, in a directory with the result folder of a simulated
experiment. "…" stands for any text.
"""

import doctest
import io
import re
from pathlib import Path

import pytest

from support import write_result_folder

ROOT = Path(__file__).parents[2]
FINISHED = "results/commit-20260120T101500Z"
BLOCK = re.compile(r"^```pycon\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if BLOCK.search(page.read_text(encoding="utf-8"))]


class Page(doctest.OutputChecker):
    """Output is as expected where the rest is the same around each "…"."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(want.replace("…", "..."), got, optionflags | doctest.ELLIPSIS)


def session(page: Path) -> doctest.DocTest:
    """The blocks of a page, at their lines."""
    text = page.read_text(encoding="utf-8")
    kept = [""] * (text.count("\n") + 1)
    for block in BLOCK.finditer(text):
        first = text.count("\n", 0, block.start("text"))
        for number, line in enumerate(block["text"].splitlines()):
            kept[first + number] = line
    return doctest.DocTestParser().get_doctest("\n".join(kept) + "\n", {}, page.name, str(page), 0)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_of_a_page_gives_what_it_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_result_folder(tmp_path / FINISHED)
    monkeypatch.chdir(tmp_path)
    said = io.StringIO()

    result = doctest.DocTestRunner(checker=Page()).run(session(page), out=said.write)

    assert result.attempted > 0
    assert not result.failed, said.getvalue()


def test_there_is_such_a_page() -> None:
    assert ROOT / "docs/python.md" in PAGES


def test_output_that_is_another_one_is_found() -> None:
    checker = Page()

    assert checker.check_output("a … c\n", "a b c\n", 0)
    assert not checker.check_output("a … c\n", "a b d\n", 0)
