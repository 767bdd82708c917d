"""The pages of docs/gallery: one for each experiment, an index, and their images."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from gallery.charts import Picture, draw_charts
from gallery.entries import FOLDER, Earlier, Entry
from gallery.kept import KEPT, keep, read_kept
from gallery.published import (
    FIGURES,
    Here,
    bottleneck_lines,
    index_table,
    keep_figures,
    page_table,
    read_figures,
    rows_of,
)
from gallery.results import describe_result
from pgtrial.findings.findings import Findings
from pgtrial.report.markdown import escape

ROOT = FOLDER.parent
PAGES = ROOT / "docs" / "gallery"
IMAGES = "images"
BEGIN, END = "<!-- begin: result -->", "<!-- end: result -->"
NO_RESULT = "There is no result of this experiment yet."
# What a page says below a result that was measured before a day, the first that fits. Nothing of it can be found out
# afterwards.
_OLD_SERVER = (
    "This result is older than 25 November 2026. Until then sessions were looked at by the clock, which could count "
    "too much as idle in transaction; reports among short inserts were called a mixed load; blocks dirtied were not "
    "counted; and it was not told whether the settings had anything to act on. `make gallery` measures it anew."
)
_OLD_EVIDENCE = (
    "This result is older than 30 November 2026. Of some settings, huge pages among them, pgtrial did not know until "
    "then by what one sees that they had something to act on."
)
_BEFORE = (("2026-11-25", _OLD_SERVER), ("2026-11-30", _OLD_EVIDENCE))
_OLD_FILE = "This result is of an earlier form of the file below, in which {what}."
_MEASURED = re.compile(r"^\*(?P<day>\d{4}-\d\d-\d\d) · (?P<server>PostgreSQL )?.*\*$", re.MULTILINE)
_LONGEST_TEXT = 700  # characters of an image's text alternative; the tables have what is cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A picture of a page, with its path relative to that."""

    title: str
    text: str
    path: str


def write_page(entry: Entry, findings: Findings | None, folder: Path = PAGES) -> Path:
    """Write the page of an entry and its images, of a new result if there is one, else of what is kept of the last one;
    where nothing is kept, with the result that the page has had.
    """
    path = folder / f"{entry.name}.md"
    kept = read_kept(entry.name, _kept(folder)) if findings is None else keep(entry.name, findings, _kept(folder))
    if kept is None:
        result = read_result(path)
    else:
        pictures = draw_charts(kept, entry.charts)
        result = render_result(kept, write_images(entry, pictures, folder))
        keep_figures(entry.name, (*entry.published, *entry.bottleneck), kept, _figures(folder))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_page(entry, result, folder), encoding="utf-8")
    return path


def write_index(entries: Sequence[Entry], folder: Path = PAGES) -> None:
    """Write the index; its answers are those of the pages that are there."""
    rows = [
        {
            "name": entry.name,
            "title": entry.title,
            "article": entry.article,
            "answer": first_paragraph(read_result(folder / f"{entry.name}.md")),
        }
        for entry in entries
    ]
    published = [
        row
        for entry in entries
        for row in rows_of(entry.published, figures_of(entry, folder), page=f"[{entry.article}]({entry.name}.md)")
    ]
    text = _template("index.md.j2").render(rows=rows, published=index_table(published))
    (folder / "index.md").write_text(text, encoding="utf-8")


def write_images(entry: Entry, pictures: Iterable[Picture], folder: Path) -> list[Shown]:
    """Write the images of an entry in place of those that it has had."""
    images = folder / IMAGES
    images.mkdir(parents=True, exist_ok=True)
    for old in images.glob(f"{entry.name}.*.svg"):
        old.unlink()
    shown = []
    for picture in pictures:
        name = f"{entry.name}.{picture.name}.svg"
        (images / name).write_text(picture.svg, encoding="utf-8")
        shown.append(Shown(title=escape(picture.title), text=escape(_cut(picture.text)), path=f"{IMAGES}/{name}"))
    return shown


def render_result(findings: Findings, pictures: Sequence[Shown]) -> str:
    """The part of a page that comes from a result folder."""
    return _template("result.md.j2").render(pictures=pictures, **describe_result(findings)).strip()


def render_page(entry: Entry, result: str, folder: Path = PAGES) -> str:
    """The whole page around a result."""
    place = entry.quick.relative_to(ROOT).as_posix()
    run = f".venv/bin/pgtrial run {place}"
    figures = figures_of(entry, folder)
    return _template("page.md.j2").render(
        entry=entry,
        result=f"{BEGIN}\n\n{result}\n\n{END}",
        remarks=remarks_on(result, entry.earlier),
        published=page_table(entry.published, figures),
        bottleneck=bottleneck_lines(entry.bottleneck, figures),
        command=f"make setup\nsudo {run} --allow-host-changes" if entry.changes_host else f"make setup\n{run}",
        full=[{"name": file.name, "link": Path(os.path.relpath(file, folder)).as_posix()} for file in entry.full],
        files=[
            {
                "place": file.relative_to(ROOT).as_posix(),
                "language": file.suffix.removeprefix("."),
                "text": file.read_text(encoding="utf-8").rstrip(),
            }
            for file in (entry.quick, *entry.scripts)
        ],
    )


def figures_of(entry: Entry, folder: Path) -> Mapping[str, Here]:
    """What was found in an experiment, as the pages in ``folder`` have it."""
    return read_figures(entry.name, _figures(folder))


def _figures(folder: Path) -> Path:
    """What was found stands beside what was published, unless the pages are somebody's own."""
    return FIGURES if folder == PAGES else folder / FIGURES.name


def _kept(folder: Path) -> Path:
    """The same of the findings."""
    return KEPT if folder == PAGES else folder / KEPT.name


def read_result(path: Path) -> str:
    """The result that a page has; NO_RESULT where there is no page, or none in it."""
    if not path.exists():
        return NO_RESULT
    found = re.search(f"{re.escape(BEGIN)}\n(.*?)\n{re.escape(END)}", path.read_text(encoding="utf-8"), re.DOTALL)
    return found[1].strip() if found else NO_RESULT


def remarks_on(result: str, earlier: Iterable[Earlier] = ()) -> list[str]:
    """What has been mended since a server was measured, and so holds of newer results only; and whether the file that
    the page shows is another one than was measured.
    """
    found = _MEASURED.search(result)
    if found is None:
        return []
    mended = [text for day, text in _BEFORE if found["server"] and found["day"] < day][:1]
    changed = [_OLD_FILE.format(what=each.what) for each in earlier if found["day"] < each.until]
    return [*mended, *changed]


def first_paragraph(text: str) -> str:
    return text.partition("\n\n")[0].replace("\n", " ")


def _cut(text: str) -> str:
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"{text[:_LONGEST_TEXT].rpartition('; ')[0] or text[:_LONGEST_TEXT].rpartition(' ')[0]} …"


@cache
def _template(name: str) -> Template:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=False,  # what is made is Markdown; texts of an experiment are escaped for it
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(name)
