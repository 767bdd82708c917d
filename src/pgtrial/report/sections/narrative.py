"""In plain words: the whole report in a few paragraphs, each number with its place in the findings."""

from pgtrial.findings.findings import Findings
from pgtrial.language import N_
from pgtrial.report.narrative.parts import Cited, Paragraph, Part
from pgtrial.report.narrative.story import tell_story
from pgtrial.report.narrative.write import list_sources
from pgtrial.report.sections.base import Section, always


def _build(findings: Findings) -> dict[str, object]:
    return {"paragraphs": [_paragraph(paragraph) for paragraph in tell_story(findings)]}


def _paragraph(paragraph: Paragraph) -> dict[str, object]:
    return {
        "name": paragraph.name,
        "title": paragraph.title,
        "parts": [_part(part) for part in paragraph.parts],
        "sources": list_sources(paragraph),
    }


def _part(part: Part) -> dict[str, str]:
    """A part with its paths; fixed words have none."""
    if isinstance(part, Cited):
        return {"text": part.text, "paths": ", ".join(part.paths)}
    return {"text": part, "paths": ""}


NARRATIVE = Section(name="narrative", title=N_("In plain words"), build=_build, is_open=always)
