"""After the load: convert logs and samples to the result folder's files, and check the run."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pgtrial.collectors import COLLECTORS, pg_stat_statements, proc_diskstats, sessions
from pgtrial.collectors.base import (
    ConsoleCollector,
    ExtensionCollector,
    FileCollector,
    ProcessCollector,
    QueryCollector,
    Reading,
)
from pgtrial.engine.folder import SPOOL
from pgtrial.engine.loads.generators import LoadOutcome
from pgtrial.engine.sampler.control import SamplerReport
from pgtrial.engine.sampler.spool import Header, read_header, read_records
from pgtrial.errors import StoreError
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
    collectors = {collector.name: collector for collector in COLLECTORS}
    followers = {
        name: collector.follow()
        for name, collector in collectors.items()
        if isinstance(collector, ProcessCollector | ExtensionCollector)
    }
    foreign = frozenset(header.foreign)
    clock = clock or HostClock.constant(header.clock_offset)
    names: dict[str, str] = {}  # of the block devices, by their numbers
    for t, source, payload in read_records(spool):
        if source == sessions.NAME:
            yield Sample(t, sessions.POLLS, "", payload["polls"])
            yield Sample(t, sessions.LATE, "", payload["late"])
            continue
        collector = collectors.get(source)
        ours = clock.ours(t) if source in foreign else t
        try:
            if source in followers:
                yield from followers[source](ours, payload)
            elif isinstance(collector, FileCollector | QueryCollector | ConsoleCollector):
                if source == proc_diskstats.NAME and not names:
                    names = proc_diskstats.device_names(payload)
                for metric, about, value in _readings(collector, payload, header, names):
                    yield Sample(ours, metric, about, value)
        except (ValueError, KeyError, IndexError) as err:
            raise _not_understood(source, err) from err


def _readings(
    collector: FileCollector | QueryCollector | ConsoleCollector,
    payload: Any,
    header: Header,
    names: Mapping[str, str],
) -> Iterator[Reading]:
    if not isinstance(collector, FileCollector):
        yield from collector.parse(payload["columns"], payload["rows"])
        return
    for reading in collector.parse(payload):
        if collector.by_number:
            yield reading._replace(object=names.get(reading.object, reading.object))
        elif reading.object in header.devices or not collector.per_device:
            yield reading


def _waits(spool: Path) -> Iterator[WaitRow]:
    for t, _, payload in read_records(spool, sessions.NAME):
        for group in sessions.COLLECTOR.parse(payload["columns"], payload["rows"]):
            yield WaitRow(t, payload["polls"], *group)


def _statements(spool: Path) -> Iterator[StatementRow]:
    texts: dict[str, str] = {}
    try:
        for _, _, payload in read_records(spool, pg_stat_statements.TEXTS):
            texts |= pg_stat_statements.parse_texts(payload)
        for t, _, payload in read_records(spool, pg_stat_statements.NAME):
            for counts in pg_stat_statements.parse_counts(payload):
                yield StatementRow(t, *counts, texts.get(counts.queryid, ""))
    except (ValueError, KeyError, IndexError) as err:
        raise _not_understood(pg_stat_statements.NAME, err) from err


def _not_understood(source: str, err: Exception) -> StoreError:
    return StoreError(f"cannot understand what {source} said: {err}")
