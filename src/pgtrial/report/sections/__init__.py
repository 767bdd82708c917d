"""The sections of the page, in reading order."""

from pgtrial.report.sections.associations import ASSOCIATIONS
from pgtrial.report.sections.base import Section
from pgtrial.report.sections.caveats import CAVEATS
from pgtrial.report.sections.checks import CHECKS
from pgtrial.report.sections.curve import CURVE
from pgtrial.report.sections.disks import DISKS
from pgtrial.report.sections.effects import EFFECTS
from pgtrial.report.sections.files import FILES
from pgtrial.report.sections.latency import LATENCY
from pgtrial.report.sections.limits import LIMITS
from pgtrial.report.sections.method import METHOD
from pgtrial.report.sections.narrative import NARRATIVE
from pgtrial.report.sections.noise import NOISE
from pgtrial.report.sections.pages import PAGES
from pgtrial.report.sections.panels import PANELS
from pgtrial.report.sections.schedule import SCHEDULE
from pgtrial.report.sections.scorecard import SCORECARD
from pgtrial.report.sections.series import SERIES
from pgtrial.report.sections.server_log import SERVER_LOG
from pgtrial.report.sections.settings import SETTINGS
from pgtrial.report.sections.stability import STABILITY
from pgtrial.report.sections.time import TIME
from pgtrial.report.sections.verdict import VERDICT
from pgtrial.report.sections.why import WHY

SECTIONS: tuple[Section, ...] = (
    VERDICT,
    NARRATIVE,
    EFFECTS,
    NOISE,
    WHY,
    LIMITS,
    FILES,
    SCORECARD,
    DISKS,
    PAGES,
    CURVE,
    SERIES,
    PANELS,
    STABILITY,
    LATENCY,
    CHECKS,
    ASSOCIATIONS,
    SERVER_LOG,
    SCHEDULE,
    TIME,
    SETTINGS,
    CAVEATS,
    METHOD,
)
