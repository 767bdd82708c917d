"""Paragraphs to text for a terminal, to Markdown, and to plain data."""

from collections.abc import Sequence

from pgtrial.report.markdown import bullets, code, escape, heading
from pgtrial.report.narrative.parts import Cited, Paragraph
from pgtrial.report.text import wrap_lines
from pgtrial.safe_text import make_visible


def write_text(paragraphs: Sequence[Paragraph], *, width: int = 80, with_sources: bool = False) -> str:
    """Titles and wrapped lines; with sources, below each paragraph every number and its path in findings.json."""
    blocks = []
    for paragraph in paragraphs:
        lines = [paragraph.title, *wrap_lines(paragraph.text, width, indent="  ")]
        if with_sources:
            lines += [f"    {make_visible(text)} ← {paths}" for text, paths in list_sources(paragraph)]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def write_markdown(paragraphs: Sequence[Paragraph], *, with_sources: bool = False) -> str:
    """A heading and a paragraph each; nothing that a name holds is read as Markdown or HTML."""
    blocks = []
    for paragraph in paragraphs:
        blocks += [heading(2, paragraph.title), escape(paragraph.text)]
        sources = list_sources(paragraph)
        if with_sources and sources:
            blocks.append("\n".join(bullets([f"{escape(text)} ← {code(paths)}" for text, paths in sources])))
    return "\n\n".join(blocks)


def as_data(paragraphs: Sequence[Paragraph]) -> list[dict[str, object]]:
    """For JSON: each paragraph with its text, and what is cited in it with its paths, in order."""
    return [
        {
            "name": paragraph.name,
            "title": paragraph.title,
            "text": paragraph.text,
            "cited": [
                {"text": part.text, "paths": list(part.paths)} for part in paragraph.parts if isinstance(part, Cited)
            ],
        }
        for paragraph in paragraphs
    ]


def list_sources(paragraph: Paragraph) -> list[tuple[str, str]]:
    """Each thing that holds a number, once, with the paths that it comes from; long texts are cut."""
    found: dict[str, str] = {}
    for part in paragraph.parts:
        is_label = isinstance(part, Cited) and part.paths[0].endswith(".metric")  # "latency p50"
        if isinstance(part, Cited) and not is_label and any(character.isdigit() for character in part.text):
            text = part.text if len(part.text) <= 60 else f"{part.text[:59]}…"
            found.setdefault(text, _shorten(part.paths))
    return list(found.items())


def _shorten(paths: Sequence[str]) -> str:
    shown = ", ".join(make_visible(path) for path in paths[:3])
    return shown if len(paths) <= 3 else f"{shown}, …"
