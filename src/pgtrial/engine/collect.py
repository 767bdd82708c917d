"""What a run leaves: turned into the result folder's files, judged, and the rest removed."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from pgtrial.engine.load import LoadOutcome
from pgtrial.engine.sampler.control import HostClock, SamplerReport, convert
from pgtrial.errors import StoreError
from pgtrial.hosts.operations import Operations
from pgtrial.model.run import LoadLevel
from pgtrial.store import layout
from pgtrial.store.transactions import IngestReport, LevelLog, LoadLog, ingest

_SPOOL = "spool"  # of the sampler
_SHARED_SPOOL = "spool-machine"  # of the sampler of the machine, in one run of a block
_LOGS = "pgbench"
_CLOCK_STEP = 0.2  # s; far above what reading two clocks one after the other makes, below what confuses the samples


class InvalidRunError(Exception):
    """The run happened but cannot count; the message says why."""


def make_raw_folders(folder: Path) -> tuple[Path, Path]:
    """Make the folder of a run, in it one for the sampler and one for the load's logs: these two. Raises StoreError."""
    spool, logs = folder / _SPOOL, folder / _LOGS
    try:
        folder.mkdir(parents=True)
        spool.mkdir()
        logs.mkdir()
    except OSError as err:
        raise StoreError(f'cannot write to the result folder: "{err.filename}": {err.strerror}') from err
    return spool, logs


def make_shared_spool(folder: Path) -> Path:
    """Make a folder for the sampler whose readings are those of all runs of a block. Raises StoreError."""
    spool = folder / _SHARED_SPOOL
    try:
        spool.mkdir()
    except OSError as err:
        raise StoreError(f'cannot write to the result folder: "{err.filename}": {err.strerror}') from err
    return spool


def collect(
    folder: Path, logs: Sequence[LoadLog], *, clock: HostClock | None, shared: Path | None = None
) -> IngestReport:
    """Write the run's Parquet files out of what load and sampler wrote; ``clock`` is the one of their host.

    ``shared`` is the spool of the machine that the run has in common with the others of its block.
    """
    is_sliced = any(isinstance(log, LevelLog) and log.slices for log in logs)
    report = ingest(logs, folder / layout.TRANSACTIONS, slices=folder / layout.SLICES if is_sliced else None)
    convert(folder / _SPOOL, *([] if shared is None else [shared]), folder=folder, clock=clock)
    return report


def discard_raw(folder: Path) -> None:
    """Remove what the files were made from, or would have been: the load's logs can be larger than all the rest."""
    for name in (_SPOOL, _SHARED_SPOOL, _LOGS):
        shutil.rmtree(folder / name, ignore_errors=True)


def clock_offset(ops: Operations) -> float:
    """Seconds by which a machine's clock is ahead of one that nobody can set, and that stops while it sleeps."""
    now, steady = ops.clock()
    return now - steady


def check_run(
    outcomes: Sequence[tuple[LoadLevel, LoadOutcome]],
    logs: Sequence[LoadLog],
    *,
    sampler: SamplerReport,
    ingested: IngestReport,
    clock_step: float,
    program: str = "pgbench",
) -> None:
    """Raise InvalidRunError for whatever makes the run's numbers untrue.

    ``clock_step`` is by how many seconds the machine's clock was set during the run, ``program`` the load generator.
    """
    if abs(clock_step) > _CLOCK_STEP:
        raise InvalidRunError(f"the machine's clock was set by {clock_step:.1f} s, or it slept")
    if sampler.errors:
        raise InvalidRunError(f"sampler: {sampler.errors[0]}")
    windows = [log.window for log in logs]
    for gap in sampler.gaps:
        if any(gap.start < end and gap.end > start for start, end in windows):
            raise InvalidRunError(f"sampler: no sample of {gap.source} for {gap.end - gap.start:.1f} s")
    told = 0
    for level, outcome in outcomes:
        failed = sum(summary.failed or 0 for summary in outcome.summaries)
        if failed:
            raise InvalidRunError(f"{level.label}: {failed} transactions failed")
        for summary in outcome.summaries:
            if summary.processed is None:
                raise InvalidRunError(f"{level.label}: {program} ended without a summary")
            told += summary.processed + (summary.skipped or 0)
    if not 0 <= told - ingested.transactions <= ingested.unlogged:
        raise InvalidRunError(
            f"{program} did {told} transactions but its log has {ingested.transactions}: is the disk full?"
        )
