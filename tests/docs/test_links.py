"""Pages lead to what exists, and the site's navigation leads to every page.

Links are checked as a reader of the repository follows them; anchors by GitHub's rule for headings.
"""

import posixpath
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("*/README.md"), *(ROOT / "examples").rglob("*.md"))
    if ".venv" not in path.parts
)
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\[[^\[\]]*\]\((?P<target>[^)\s]+)\)")
LISTED = re.compile(r"^\s*- (?:[^:\n]+: )?(?P<page>[\w./-]+(?:\.md|/))$", re.MULTILINE)


@cache
def read(path: Path) -> str:
    """A page without its blocks of code."""
    return FENCED.sub("", path.read_text(encoding="utf-8"))


def links(path: Path) -> Iterator[str]:
    """Targets of links, those to other sites left out."""
    for found in LINK.finditer(CODE.sub("``", read(path))):
        if not re.match(r"[a-z]+:", found["target"]):
            yield found["target"]


@cache
def anchors(path: Path) -> frozenset[str]:
    """What "#…" may name on a page."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#{1,6} (.+?)(?: #+)?$", read(path), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return frozenset(found)


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_every_link_leads_to_something(page: Path) -> None:
    broken = []
    for target in links(page):
        file, _, anchor = target.partition("#")
        path = page.parent / file if file else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            broken.append(target)

    assert broken == []


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_lists_and_tables_read_the_same_on_the_site(page: Path) -> None:
    """MkDocs knows lists and tables only after an empty line, and a nested list only if it is set in by four blanks."""
    wrong, before = [], ""
    for line in read(page).splitlines():
        item = re.match(r"( *)([-*+]|\d+\.) ", line)
        is_continued = re.match(r" *([-*+]|\d+\.) ", before) or before.startswith("  ")
        starts_list = item and before.strip() and not is_continued
        is_flat = item and len(item[1]) in {1, 2, 3}
        starts_table = line.startswith("|") and before.strip() and not before.startswith("|")
        if starts_list or is_flat or starts_table:
            wrong.append(line)
        before = line

    assert wrong == []


def listed() -> list[str]:
    """Pages of the navigation, as paths on the site; a directory stands for those in it."""
    _, _, navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")
    found = [entry["page"] for entry in LISTED.finditer(navigation)]
    folders = {entry: sorted((DOCS / entry).glob("*.md")) for entry in found if entry.endswith("/")}
    return [
        *(entry for entry in found if entry not in folders),
        *(path.relative_to(DOCS).as_posix() for paths in folders.values() for path in paths),
    ]


def repository_path(page: str) -> Path:
    """The file that a page of the site is made from; see tools/docs_site.py."""
    if page == "index.md":
        return ROOT / "README.md"
    outside = page.removeprefix("repository/")
    return ROOT / outside if outside != page else DOCS / page


def test_the_navigation_names_every_page_once() -> None:
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    named = Counter(listed())

    assert set(named) >= pages | {"index.md"}
    assert set(named.values()) == {1}


def test_the_navigation_names_nothing_else() -> None:
    assert [page for page in listed() if not repository_path(page).is_file()] == []


def test_pages_outside_that_are_linked_are_in_the_navigation() -> None:
    outside = {
        posixpath.normpath((page.parent.relative_to(ROOT) / target.partition("#")[0]).as_posix())
        for page in (ROOT / "README.md", *DOCS.rglob("*.md"))
        for target in links(page)
        if target.partition("#")[0].endswith(".md")
    }

    named = {repository_path(page).relative_to(ROOT).as_posix() for page in listed()}
    assert outside - named == set()
