"""The sections of the page, in reading order."""

from pgtrial.report.sections.base import Section
from pgtrial.report.sections.caveats import CAVEATS
from pgtrial.report.sections.curve import CURVE
from pgtrial.report.sections.effects import EFFECTS
from pgtrial.report.sections.latency import LATENCY
from pgtrial.report.sections.method import METHOD
from pgtrial.report.sections.noise import NOISE
from pgtrial.report.sections.schedule import SCHEDULE
from pgtrial.report.sections.series import SERIES
from pgtrial.report.sections.settings import SETTINGS
from pgtrial.report.sections.time import TIME
from pgtrial.report.sections.verdict import VERDICT
from pgtrial.report.sections.waits import WAITS

SECTIONS: tuple[Section, ...] = (
    VERDICT,
    EFFECTS,
    NOISE,
    SERIES,
    LATENCY,
    CURVE,
    WAITS,
    SCHEDULE,
    TIME,
    SETTINGS,
    CAVEATS,
    METHOD,
)
