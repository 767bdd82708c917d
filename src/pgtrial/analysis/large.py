"""Folders from elsewhere that would take long to read.

What reading takes grows with the readings, and how many there may be with how long the runs took, which a folder says
itself. One that was measured here is read whatever it has.
"""

import os
from pathlib import Path

from pgtrial.analysis.evidence import Evidence
from pgtrial.errors import StoreError
from pgtrial.safe_files import is_plain
from pgtrial.store import layout, parquet
from pgtrial.store.belongings import Belongings
from pgtrial.units import read_count

VARIABLE = "PGTRIAL_MOST_READINGS"
# Real runs of two hours have some 2.6 million, with 350 readings a second.
MOST_READINGS = 2_700_000
_LOG_BYTES = 7  # of a server's log that take as long to read as a reading: lines may be short
_FILES = (layout.SAMPLES, layout.WAITS, layout.STATEMENTS, layout.TRANSACTIONS, layout.SLICES)


def refuse_large(evidence: Evidence) -> None:
    """Raise StoreError for a folder with more readings than are read without being asked to."""
    folder = evidence.folder
    if _is_measured_here(folder):
        return
    runs = [layout.run_folder(folder, run.folder) for run in evidence.valid]
    found = parquet.count_values([path for run in runs for name in _FILES if is_plain(path := run / name)])
    found += sum(path.stat().st_size for run in runs if is_plain(path := run / layout.SERVER_LOG)) // _LOG_BYTES
    if found > _most():
        raise StoreError(
            f'result folder "{folder}" has {found:,} readings, and was not measured here',
            detail=f"To read them takes some {found / 1e6:.0f} s, and as many times 90 MB.",
            hint=f"If that is what you want of whoever made it, set {VARIABLE}={found} in the environment.",
        )


def _most() -> int:
    return read_count(os.environ.get(VARIABLE, "")) or MOST_READINGS


def _is_measured_here(folder: Path) -> bool:
    try:
        return Belongings.of(folder).is_measured_here()
    except (OSError, StoreError):
        return False
