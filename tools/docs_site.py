"""Hook of MkDocs: the site has README.md as its first page, and the files outside of docs/ that pages link to.

Pages are written to be read in the repository too, where a link leads from docs/ to an example or to the code. On the
site such a file lies below repository/. A link to a directory leads to its README.md, or is no link. A directory in
the navigation stands for its pages, some of which are written by programs.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = "docs/"
HOME, HOME_PAGE = "README.md", "index.md"
OUTSIDE = "repository/"

_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
# Text, target and anchor of a link within the repository; one to another site has a scheme, one in the page only a "#".
_LINK = re.compile(r"\[(?P<text>[^\[\]]*)\]\((?![a-z]+:|#)(?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")


def site_path(path: str) -> str:
    """Where a file of the repository lies on the site; both relative, with slashes."""
    if path == HOME:
        return HOME_PAGE
    return path.removeprefix(DOCS) if path.startswith(DOCS) else OUTSIDE + path


def repository_path(path: str) -> str:
    """The file of the repository that is at a place of the site."""
    if path == HOME_PAGE:
        return HOME
    return path.removeprefix(OUTSIDE) if path.startswith(OUTSIDE) else DOCS + path


def resolve(page: str, target: str) -> str | None:
    """The file that a link on a page leads to; both in the repository. None where there is none to lead to."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    if (ROOT / path).is_dir():
        path = posixpath.join(path, HOME)
    return path if not path.startswith("..") and (ROOT / path).is_file() else None


def linked_files(page: str, text: str) -> Iterator[str]:
    """The files of the repository that a page links to."""
    for part in _FENCED.split(text)[::2]:
        for link in _LINK.finditer(part):
            if (path := resolve(page, link["target"])) is not None:
                yield path


def rewrite_links(page: str, text: str) -> str:
    """The page with links that lead where its targets are on the site.

    A link to a directory without a README.md becomes its text; what does not exist is left for MkDocs to complain of.
    """

    def rewrite(link: re.Match[str]) -> str:
        path = resolve(page, link["target"])
        if path is not None:
            target = posixpath.relpath(site_path(path), posixpath.dirname(site_path(page)) or ".")
            return f"[{link['text']}]({target}{link['anchor'] or ''})"
        is_directory = (ROOT / posixpath.dirname(page) / link["target"]).is_dir()
        return link["text"] if is_directory else link[0]

    parts = _FENCED.split(text)
    parts[::2] = [_LINK.sub(rewrite, part) for part in parts[::2]]
    return "".join(parts)


def expand(navigation: Sequence[Mapping[str, Any]], docs: Path) -> list[dict[str, Any]]:
    """The navigation with the pages of a directory, its index.md first, in the place of an entry such as "gallery/".

    Without a page in the directory there is no entry.
    """
    expanded: list[dict[str, Any]] = []
    for entry in navigation:
        for title, target in entry.items():
            if not isinstance(target, str) or not target.endswith("/"):
                expanded.append({title: target})
            elif pages := sorted(docs.glob(f"{target}*.md"), key=lambda path: (path.name != "index.md", path.name)):
                expanded.append({title: [path.relative_to(docs).as_posix() for path in pages]})
    return expanded


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Called by MkDocs with what mkdocs.yml says."""
    config.nav = expand(config.nav or [], Path(config.docs_dir))
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Called by MkDocs with the files of docs/: add those outside."""
    waiting = [HOME, *(repository_path(file.src_uri) for file in files.documentation_pages())]
    seen = set(waiting)
    while waiting:
        page = waiting.pop()
        if not page.startswith(DOCS):
            files.append(File.generated(config, site_path(page), abs_src_path=str(ROOT / page)))
        if page.endswith(".md"):
            found = set(linked_files(page, (ROOT / page).read_text(encoding="utf-8"))) - seen
            waiting += sorted(path for path in found if not path.startswith(DOCS))
            seen |= found
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Called by MkDocs with the text of a page."""
    return rewrite_links(repository_path(page.file.src_uri), markdown)
