"""The narrative: its paragraphs, in reading order."""

from pgtrial.findings.findings import Findings
from pgtrial.language import tr
from pgtrial.report.narrative.asked import ASKED
from pgtrial.report.narrative.base import Paragraph, Teller
from pgtrial.report.narrative.certainty import CERTAINTY
from pgtrial.report.narrative.done import DONE
from pgtrial.report.narrative.found import FOUND
from pgtrial.report.narrative.next_steps import NEXT
from pgtrial.report.narrative.refutation import REFUTATION
from pgtrial.report.narrative.why import WHY

TELLERS: tuple[Teller, ...] = (ASKED, DONE, FOUND, WHY, CERTAINTY, NEXT, REFUTATION)


def tell_story(findings: Findings) -> tuple[Paragraph, ...]:
    """The paragraphs that have something to say. Nothing in them is worked out anew, and no model takes part."""
    paragraphs = (
        Paragraph(name=teller.name, title=tr(teller.title), sentences=tuple(filter(None, teller.tell(findings))))
        for teller in TELLERS
    )
    return tuple(paragraph for paragraph in paragraphs if paragraph.sentences)
