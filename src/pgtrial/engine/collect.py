"""After the load: convert logs and samples to the result folder's files, and check the run."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pgtrial.collectors import pg_stat_statements, sessions
from pgtrial.engine.folder import SPOOL
from pgtrial.engine.loads.generators import LoadOutcome
from pgtrial.engine.sampler.control import SamplerReport
from pgtrial.engine.sampler.parse import Parser, statement_rows, statement_texts, wait_rows
from pgtrial.engine.sampler.spool import Header, read_header, read_records
from pgtrial.hosts.clock import HostClock
from pgtrial.hosts.operations import Operations
from pgtrial.model.metric import Sample
from pgtrial.model.run import LoadLevel
from pgtrial.store import layout
from pgtrial.store.samples import StatementRow, WaitRow, write_samples, write_statements, write_waits
from pgtrial.store.transactions import CommandLog, IngestReport, LevelLog, LoadLog, ingest

_LOST = 1.0  # s of a window in which a generator was silent; less than its first report, which is of a whole second
_CLOCK_STEP = 0.2  # s; far above what reading two clocks one after the other makes, below what confuses the samples


class InvalidRunError(Exception):
    """The run happened but cannot count; the message says why."""


def collect(
    folder: Path, logs: Sequence[LoadLog], *, clock: HostClock | None, shared: Path | None = None, own: bool = True
) -> IngestReport:
    """Convert a run's logs and samples to Parquet files; ``clock`` is that of the servers' machine.

    ``shared`` is the spool of the machine that the run has in common with the others of its block. It has one of its
    ``own`` where its server was sampled.
    """
    is_sliced = any(isinstance(log, LevelLog | CommandLog) and log.slices for log in logs)
    report = ingest(logs, folder / layout.TRANSACTIONS, slices=folder / layout.SLICES if is_sliced else None)
    spools = [*([folder / SPOOL] if own else []), *([] if shared is None else [shared])]
    convert(*spools, folder=folder, clock=clock)
    return report


def clock_offset(ops: Operations) -> float:
    """Seconds between a machine's wall clock and its monotonic clock, which nobody can set."""
    now, steady = ops.clock()
    return now - steady


def check_presence(
    label: str, outcome: LoadOutcome, *, window: tuple[float, float], program: str, takes_turns: bool = False
) -> None:
    """Raise InvalidRunError where a generator did not work for all of the window, which its status does not tell.

    One that ``takes_turns`` stands still while others work, and is only not to end before.
    """
    start, end = window
    if outcome.first_ended < end:
        raise InvalidRunError(f"{label}: {program} ended {end - outcome.first_ended:.1f} s before the end of its time")
    for begin, until in () if takes_turns else outcome.silences:
        if min(until, end) - max(begin, start) > _LOST:
            raise InvalidRunError(f"{label}: {program} stood still for {until - begin:.1f} s")


def check_clock(step: float) -> None:
    """Raise InvalidRunError where the machine's clock was set during the run, by ``step`` seconds."""
    if abs(step) > _CLOCK_STEP:
        raise InvalidRunError(f"the machine's clock jumped by {step:.1f} s, or the machine slept")


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
    check_clock(clock_step)
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


def convert(*spools: Path, folder: Path, clock: HostClock | None = None) -> None:
    """Write the files of ``folder`` from the spool of one sampler, or of several that shared the work.

    Without statements there is no file of them. Raises StoreError when a spool cannot be read or the files not written.
    ``clock`` puts right the times of what a reader on another machine has read; without it, its clock is taken to be
    ahead of ours all the time by what it was when the sampler started.
    """
    write_samples(
        (sample for spool in spools for sample in _samples(spool, read_header(spool), clock)), folder / layout.SAMPLES
    )
    write_waits((row for spool in spools for row in _waits(spool)), folder / layout.WAITS)
    statements = [row for spool in spools for row in _statements(spool)]
    if statements:
        write_statements(statements, folder / layout.STATEMENTS)


def _samples(spool: Path, header: Header, clock: HostClock | None) -> Iterator[Sample]:
    parser = Parser(header, clock=clock)
    for t, source, payload in read_records(spool):
        yield from parser.samples(t, source, payload)


def _waits(spool: Path) -> Iterator[WaitRow]:
    for t, _, payload in read_records(spool, sessions.NAME):
        yield from wait_rows(t, payload)


def _statements(spool: Path) -> Iterator[StatementRow]:
    texts: dict[str, str] = {}
    for _, _, payload in read_records(spool, pg_stat_statements.TEXTS):
        texts |= statement_texts(payload)
    for t, _, payload in read_records(spool, pg_stat_statements.NAME):
        yield from statement_rows(t, payload, texts)
