"""Is an arm enough? Its values against the limits that the file declares."""

from pgtrial.findings.findings import Findings
from pgtrial.language import N_, tr
from pgtrial.report.acceptance_words import ACCEPTANCE_HEADS, acceptance_rows, acceptance_text
from pgtrial.report.sections.base import Section, always
from pgtrial.units import format_share


def _build_acceptance(findings: Findings) -> dict[str, object]:
    return {
        "text": acceptance_text(findings),
        "heads": [tr(head) for head in ACCEPTANCE_HEADS],
        "rows": acceptance_rows(findings),
        "confidence": format_share(findings.hypothesis.confidence),
    }


ACCEPTANCE = Section(
    name="acceptance",
    title=N_("Is it enough?"),
    build=_build_acceptance,
    is_shown=lambda findings: bool(findings.acceptance),
    is_open=always,
)
