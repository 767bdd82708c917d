"""Turn what the sampler wrote into the run's samples.parquet and waits.parquet, when the load is off."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pgtrial.collectors import COLLECTORS, proc_diskstats, sessions
from pgtrial.collectors.base import FileCollector, QueryCollector, Reading
from pgtrial.engine.sampler.clock import HostClock
from pgtrial.engine.sampler.spool import Header, read_header, read_records
from pgtrial.errors import StoreError
from pgtrial.model.metric import Sample
from pgtrial.store import layout
from pgtrial.store.samples import WaitRow, write_samples, write_waits


def convert(*spools: Path, folder: Path, clock: HostClock | None = None) -> None:
    """Write both files into ``folder``, out of what one sampler wrote, or several that shared the work.

    Raises StoreError when a spool cannot be read or the files not written.
    ``clock`` puts right the times of what a reader on another machine has read; without it, its clock is taken to be
    ahead of ours all the time by what it was when the sampler started.
    """
    write_samples(
        (sample for spool in spools for sample in _samples(spool, read_header(spool), clock)), folder / layout.SAMPLES
    )
    write_waits((row for spool in spools for row in _waits(spool)), folder / layout.WAITS)


def _samples(spool: Path, header: Header, clock: HostClock | None) -> Iterator[Sample]:
    collectors = {collector.name: collector for collector in COLLECTORS}
    foreign = frozenset(header.foreign)
    clock = clock or HostClock.constant(header.clock_offset)
    names: dict[str, str] = {}  # of the block devices, by their numbers
    for t, source, payload in read_records(spool):
        if source == sessions.NAME:
            yield Sample(t, sessions.POLLS, "", payload["polls"])
            continue
        collector = collectors.get(source)
        if isinstance(collector, FileCollector | QueryCollector):
            ours = clock.ours(t) if source in foreign else t
            try:
                if source == proc_diskstats.NAME and not names:
                    names = proc_diskstats.device_names(payload)
                for metric, about, value in _readings(collector, payload, header, names):
                    yield Sample(ours, metric, about, value)
            except (ValueError, KeyError, IndexError) as err:
                raise StoreError(f"cannot understand what {source} said: {err}") from err


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
