"""The sections of the page, in reading order: what was asked for first, and that is the ledger where there is one."""

from pgtrial.findings.findings import Findings
from pgtrial.report.sections.base import Section
from pgtrial.report.sections.causes import LIMITS, WHY
from pgtrial.report.sections.effects import EFFECTS, NOISE, SCORECARD
from pgtrial.report.sections.factors import FACTORS
from pgtrial.report.sections.hosts import HOSTS
from pgtrial.report.sections.load import CURVE, LATENCY
from pgtrial.report.sections.method import METHOD, SETTINGS
from pgtrial.report.sections.metrics import METRICS
from pgtrial.report.sections.observations import ASSOCIATIONS, CHECKS, SERVER_LOG
from pgtrial.report.sections.over_time import COURSES, PANELS, SCHEDULE, SERIES, STABILITY, TIME
from pgtrial.report.sections.questions import ACCEPTANCE, LEDGER, PROOFS, SOAK
from pgtrial.report.sections.storage import DISKS, FILES, PAGES
from pgtrial.report.sections.verdict import CAVEATS, NARRATIVE, VERDICT

SECTIONS: tuple[Section, ...] = (
    LEDGER,
    SOAK,
    VERDICT,
    HOSTS,
    ACCEPTANCE,
    NARRATIVE,
    EFFECTS,
    FACTORS,
    NOISE,
    WHY,
    LIMITS,
    PROOFS,
    FILES,
    SCORECARD,
    METRICS,
    DISKS,
    PAGES,
    CHECKS,
    ASSOCIATIONS,
    SERVER_LOG,
    CURVE,
    LATENCY,
    SERIES,
    COURSES,
    PANELS,
    STABILITY,
    SCHEDULE,
    TIME,
    SETTINGS,
    CAVEATS,
    METHOD,
)

# What compares arms, or takes runs for independent of each other: windows of a soak are not.
_OF_BLOCKS = {
    VERDICT,
    HOSTS,
    ACCEPTANCE,
    NARRATIVE,
    EFFECTS,
    FACTORS,
    NOISE,
    WHY,
    LIMITS,
    SCORECARD,
    METRICS,
    ASSOCIATIONS,
    STABILITY,
}


def shown_sections(findings: Findings) -> list[Section]:
    """Those that have something to say."""
    left_out = _OF_BLOCKS if findings.soak is not None else set()
    return [section for section in SECTIONS if section not in left_out and section.is_shown(findings)]
