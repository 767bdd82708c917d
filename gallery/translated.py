"""The gallery in another language, on one page: questions, verdicts, and what was published beside what is found here.

Texts stand in gallery.<code>.toml, verdicts on the pages, figures in figures.json. What else the pages show is made
of result folders, in English, and is linked to.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gallery.entries import FOLDER, Entry
from gallery.pages import NO_RESULT, PAGES, figures_of, first_paragraph, read_result
from gallery.published import Published, rows_of
from gallery.results import NOTHING_ACTED
from pgtrial.language import find_language, ptr, speak
from pgtrial.report.markdown import table

CODES = ("ru",)
_VERDICT = re.compile(r"\*\*(?P<symbol>\S) (?P<word>[^*]+)\*\*")


def write_translations(entries: Sequence[Entry], folder: Path = PAGES) -> None:
    for code in CODES:
        (folder / f"{code}.md").write_text(render(entries, code, folder), encoding="utf-8")


def render(entries: Sequence[Entry], code: str, folder: Path = PAGES) -> str:
    """The page. KeyError for a text that its language does not have."""
    texts = tomllib.loads((FOLDER / f"gallery.{code}.toml").read_text(encoding="utf-8"))
    page = texts["page"]
    lines = [f"# {page['title']}", "", "<!-- Written by python -m gallery. -->", "", page["intro"].strip(), ""]
    with speak(find_language(code)):
        for entry in entries:
            own = texts[entry.name]
            lines += [f"## {own['title']} ({entry.article})", "", own["question"].strip(), ""]
            result = read_result(folder / f"{entry.name}.md")
            if verdict := _verdict(result):
                idle = f" {page['idle']}" if NOTHING_ACTED in first_paragraph(result) else ""
                lines += [f"{page['answer']}: {verdict}.{idle}", ""]
            lines += [f"**{page['reading']}** {own['reading'].strip()}", ""]
            lines += [f"[{entry.article}: {page['more']}]({entry.name}.md)", ""]
            if entry.published:
                lines += [f"{page['table']}:", "", *table(page["heads"], _rows(entry, texts, folder)), ""]
        lines += [page["agrees"], ""]
    return "\n".join(lines)


def _verdict(result: str) -> str:
    found = _VERDICT.match("" if result == NO_RESULT else first_paragraph(result))
    return f"**{found['symbol']} {ptr('verdict', found['word'])}**" if found else ""


def _rows(entry: Entry, texts: Mapping[str, Any], folder: Path) -> list[list[str]]:
    words, why = texts["words"], texts[entry.name].get("why", "")
    published = [_translated(each, words, why) for each in entry.published]
    figures = {
        key: replace(here, note=", ".join(words[part] for part in filter(None, here.note.split(", "))))
        for key, here in figures_of(entry, folder).items()
    }
    rows = rows_of(published, figures)
    return [[*row[:3], words[row[3]], row[4]] for row in rows]


def _translated(published: Published, words: Mapping[str, str], why: str) -> Published:
    return replace(published, what=words[published.what], why=why if published.why else "")
