"""The words of all that is concluded, by code: a table for each question."""

from collections.abc import Mapping
from dataclasses import replace

from pgtrial.findings.catalogue.advice import ADVICE, SEEN, WAIT_EVENTS
from pgtrial.findings.catalogue.base import Entry
from pgtrial.findings.catalogue.causes import CAUSES
from pgtrial.findings.catalogue.disks import STORAGE
from pgtrial.findings.catalogue.effects import CALIBRATION_CAVEATS, EFFECT_CAVEATS, NO_CURVE
from pgtrial.findings.catalogue.engagement import ACTS, ENGAGEMENT
from pgtrial.findings.catalogue.hosts import HOST_CAVEATS, HOSTS
from pgtrial.findings.catalogue.limits import CLUES, LIMITS
from pgtrial.findings.catalogue.measured import MEASURED_CAVEATS, MEASURED_PARTS
from pgtrial.findings.catalogue.method import METHOD_REASONS, WORKLOAD
from pgtrial.findings.catalogue.questions import QUESTIONS
from pgtrial.findings.catalogue.series import LOG, PANELS, SERIES
from pgtrial.findings.catalogue.sharing import SHARING_CAVEATS, SHARING_PARTS
from pgtrial.findings.catalogue.validity import VALIDITY_CAVEATS, VALIDITY_PARTS
from pgtrial.findings.catalogue.verdict import METRICS, VERDICTS
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
    METRICS,
    ACTS,
    ENGAGEMENT,
    QUESTIONS,
    WORKLOAD,
    SERIES,
    PANELS,
    LOG,
    SEEN,
    ADVICE,
    WAIT_EVENTS,
    STORAGE,
    CAUSES,
    LIMITS,
    CLUES,
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
