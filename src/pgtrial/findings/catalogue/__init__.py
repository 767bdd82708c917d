"""The words of all that is concluded, by code: a table for each question."""

from collections.abc import Mapping
from dataclasses import replace

from pgtrial.findings.catalogue.advice import ADVICE, SEEN, WAIT_EVENTS
from pgtrial.findings.catalogue.base import Entry
from pgtrial.findings.catalogue.causes import DIFFERENCES, LOAD_KINDS, PARTS, SCORECARD, STABILITY, STATEMENTS
from pgtrial.findings.catalogue.disks import (
    DISK_LOADS,
    DISK_PARTS,
    DISK_USES,
    FILE_FACTS,
    FILE_USES,
    SERVER_SIZES,
)
from pgtrial.findings.catalogue.effects import CALIBRATION_CAVEATS, EFFECT_CAVEATS, NO_CURVE
from pgtrial.findings.catalogue.engagement import ACTS, ENGAGEMENT, NOT_TESTED
from pgtrial.findings.catalogue.hosts import HOST_CAVEATS, HOSTS
from pgtrial.findings.catalogue.limits import CHANGED_LIMITS, CLUES, DETAILS, LIMITS, RATES, RESOURCES
from pgtrial.findings.catalogue.measured import MEASURED_CAVEATS, MEASURED_PARTS
from pgtrial.findings.catalogue.method import METHOD_REASONS, WORKLOAD
from pgtrial.findings.catalogue.questions import (
    FACTORS,
    LEDGER,
    NOT_SLOWED,
    PAGE_DATA,
    PAGE_GAINS,
    SLOWED,
    SOAK,
    TRANSLATIONS,
)
from pgtrial.findings.catalogue.series import EVENT_KINDS, LOG_EVENTS, LOG_SUMMARIES, PANELS, SERIES
from pgtrial.findings.catalogue.sharing import SHARING_CAVEATS, SHARING_PARTS
from pgtrial.findings.catalogue.validity import VALIDITY_CAVEATS, VALIDITY_PARTS
from pgtrial.findings.catalogue.verdict import ADJUSTMENT, METRICS, NEEDED, SIZES, STOPPING, VERDICTS
from pgtrial.findings.catalogue.world import WORLD_CAVEATS, WORLD_PARTS

TABLES: tuple[Mapping[str, Entry], ...] = (
    VALIDITY_CAVEATS,
    VALIDITY_PARTS,
    SHARING_CAVEATS,
    SHARING_PARTS,
    WORLD_CAVEATS,
    WORLD_PARTS,
    MEASURED_CAVEATS,
    MEASURED_PARTS,
    EFFECT_CAVEATS,
    HOST_CAVEATS,
    HOSTS,
    NO_CURVE,
    CALIBRATION_CAVEATS,
    METHOD_REASONS,
    VERDICTS,
    SIZES,
    METRICS,
    ACTS,
    ENGAGEMENT,
    NOT_TESTED,
    FACTORS,
    NEEDED,
    STOPPING,
    ADJUSTMENT,
    WORKLOAD,
    SERIES,
    PANELS,
    EVENT_KINDS,
    LOG_EVENTS,
    LOG_SUMMARIES,
    PAGE_GAINS,
    PAGE_DATA,
    TRANSLATIONS,
    SEEN,
    ADVICE,
    WAIT_EVENTS,
    DISK_LOADS,
    DISK_PARTS,
    DISK_USES,
    SERVER_SIZES,
    FILE_USES,
    FILE_FACTS,
    PARTS,
    DIFFERENCES,
    STATEMENTS,
    STABILITY,
    LOAD_KINDS,
    SCORECARD,
    RESOURCES,
    LIMITS,
    CHANGED_LIMITS,
    SLOWED,
    NOT_SLOWED,
    LEDGER,
    SOAK,
    DETAILS,
    CLUES,
    RATES,
)
# A sentence that was written elsewhere, or by an earlier version, is its own value; a caveat's code remains.
VERBATIM = "text"
VERBATIM_CAVEAT = Entry(text="{text}", hint="{hint}")


def _collect() -> dict[str, Entry]:
    """Entries by code; those of variants filled in from their caveat's own."""
    entries = {VERBATIM: Entry(text="{text}"), "sentences": Entry(text="{parts:sentences}")}
    for table in TABLES:
        if twice := entries.keys() & table.keys():
            raise ValueError(f"codes that stand in two tables: {', '.join(sorted(twice))}")
        entries |= table
    for code, entry in entries.items():
        base = entries.get(code.partition(".")[0])
        if base is not None and base is not entry:
            entries[code] = replace(
                entry,
                text=entry.text or base.text,
                hint=entry.hint or base.hint,
                severity=entry.severity or base.severity,
            )
    return entries


ENTRIES = _collect()
