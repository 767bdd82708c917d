"""The site builds without a complaint, and needs nothing from elsewhere."""

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from support.programs import skip_for_want

ROOT = Path(__file__).parents[2]
# What a browser loads by itself. "a" is not among them: a link is followed by a person.
LOADED = {
    "audio": ("src",),
    "embed": ("src",),
    "iframe": ("src",),
    "image": ("href", "xlink:href"),
    "img": ("src", "srcset"),
    "input": ("src",),
    "link": ("href",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "track": ("src",),
    "use": ("href", "xlink:href"),
    "video": ("src", "poster"),
}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup",  # pages of the address bar, which nobody sees
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--virtual-time-budget=15000",
    "--dump-dom",
)
ELSEWHERE = re.compile(r"^(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
STYLES = re.compile(r"(?:url\(|@import)\s*[\"']?\s*((?:https?:)?//[^\"')\s]*)", re.IGNORECASE)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},  # of Material, about the future of MkDocs
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


class _Loaded(HTMLParser):
    """Addresses that a page loads, and its styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.styles: list[str] = []
        self._in_style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_style = tag == "style"
        for name, value in attrs:
            if name in LOADED.get(tag, ()) and value:
                self.found.append(value)
            elif name == "style" and value:
                self.styles.append(value)

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.styles.append(data)


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    found = set()
    for page in pages:
        loaded = _Loaded(page.read_text(encoding="utf-8"))
        found |= {address for address in loaded.found if ELSEWHERE.match(address)}
        found |= {address for style in loaded.styles for address in STYLES.findall(style)}

    assert pages
    assert found == set()


def test_no_style_loads_anything_from_elsewhere(site: Path) -> None:
    styles = sorted(site.rglob("*.css"))

    assert styles
    assert [address for path in styles for address in STYLES.findall(path.read_text(encoding="utf-8"))] == []


def test_what_a_page_loads_is_in_the_site(site: Path) -> None:
    missing = {
        (page.name, address)
        for page in site.rglob("*.html")
        if page.name != "404.html"  # which is served below any address, and so names the root
        for address in _Loaded(page.read_text(encoding="utf-8")).found
        if not address.startswith(("data:", "#")) and not (page.parent / re.split("[?#]", address)[0]).exists()
    }

    assert missing == set()


def test_the_search_knows_every_page_and_works_without_a_server(site: Path) -> None:
    script = (site / "search/search_index.js").read_text(encoding="utf-8")
    index = json.loads(script.removeprefix("var __index = "))
    known = {entry["location"].partition("#")[0] for entry in index["docs"]}

    assert {page.relative_to(site).as_posix() for page in site.rglob("*.html")} - {"404.html"} <= known | {"index.html"}
    assert "assets/iframe-worker.js" in (site / "index.html").read_text(encoding="utf-8")


@pytest.mark.browser
def test_a_browser_finds_a_word_in_the_files(site: Path, tmp_path: Path) -> None:
    if CHROMIUM is None:
        skip_for_want("Chromium", "apt install chromium", required_by="PGTRIAL_REQUIRE_BROWSER")
    address = f"{(site / 'index.html').as_uri()}?q=placebo"
    done = subprocess.run(
        [CHROMIUM, *OPTIONS, f"--user-data-dir={tmp_path}", address],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )

    found = re.findall(r'<a href="([^"]+)" class="md-search-result__link"', done.stdout)
    assert any("tutorial/first-experiment.html" in address for address in found)


def test_the_first_page_is_the_readme(site: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")

    assert "Is that claim about PostgreSQL performance true on your machine?" in text.replace("&#39;", "'").replace(
        "’", "'"
    )
    assert 'href="cli.html"' in text


def test_files_outside_of_docs_that_pages_link_to_are_in_the_site(site: Path) -> None:
    for name in ("src/pgtrial/experiment_file/checks.toml", "examples/versions.toml", "LICENSE"):
        assert (site / "repository" / name).read_bytes() == (ROOT / name).read_bytes()


def test_every_block_of_code_and_table_is_one_on_the_site(site: Path) -> None:
    """Python-Markdown is stricter than GitHub: what it does not know stays text."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        html = (site / page.relative_to(ROOT / "docs").with_suffix(".html")).read_text(encoding="utf-8")

        assert "```" not in html, page.name
        blocks = len(re.findall(r"^```", text, re.MULTILINE)) // 2
        assert html.count('<div class="highlight">') == blocks, page.name
        plain = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        assert html.count("<table>") == len(re.findall(r"^\|[-:| ]+\|$", plain, re.MULTILINE)), page.name
