"""Turn what the sampler wrote into the run's Parquet files of samples, waits and statements, when the load is off."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pgtrial.collectors import COLLECTORS, pg_stat_statements, proc_diskstats, sessions
from pgtrial.collectors.base import ExtensionCollector, FileCollector, ProcessCollector, QueryCollector, Reading
from pgtrial.engine.sampler.clock import HostClock
from pgtrial.engine.sampler.spool import Header, read_header, read_records
from pgtrial.errors import StoreError
from pgtrial.model.metric import Sample
from pgtrial.store import layout
from pgtrial.store.samples import StatementRow, WaitRow, write_samples, write_statements, write_waits


def convert(*spools: Path, folder: Path, clock: HostClock | None = None) -> None:
    """Write the files into ``folder``, out of what one sampler wrote, or several that shared the work.

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
            continue
        collector = collectors.get(source)
        ours = clock.ours(t) if source in foreign else t
        try:
            if source in followers:
                yield from followers[source](ours, payload)
            elif isinstance(collector, FileCollector | QueryCollector):
                if source == proc_diskstats.NAME and not names:
                    names = proc_diskstats.device_names(payload)
                for metric, about, value in _readings(collector, payload, header, names):
                    yield Sample(ours, metric, about, value)
        except (ValueError, KeyError, IndexError) as err:
            raise _not_understood(source, err) from err


def _readings(
    collector: FileCollector | QueryCollector, payload: Any, header: Header, names: Mapping[str, str]
) -> Iterator[Reading]:
    if isinstance(collector, QueryCollector):
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
