"""Turn what the sampler wrote into the run's samples.parquet and waits.parquet, when the load is off."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pgtrial.collectors import COLLECTORS, sessions
from pgtrial.collectors.base import FileCollector, QueryCollector, Reading
from pgtrial.engine.sampler_spool import read_header, read_records
from pgtrial.errors import StoreError
from pgtrial.model.metric import Sample
from pgtrial.store import layout
from pgtrial.store.samples import WaitRow, write_samples, write_waits


def convert(spool: Path, folder: Path) -> None:
    """Write both files into ``folder``. Raises StoreError when the spool cannot be read or the files not written."""
    devices = frozenset(read_header(spool).devices)
    write_samples(_samples(spool, devices), folder / layout.SAMPLES)
    write_waits(_waits(spool), folder / layout.WAITS)


def _samples(spool: Path, devices: frozenset[str]) -> Iterator[Sample]:
    collectors = {collector.name: collector for collector in COLLECTORS}
    for t, source, payload in read_records(spool):
        if source == sessions.NAME:
            yield Sample(t, sessions.POLLS, "", payload["polls"])
            continue
        collector = collectors.get(source)
        if isinstance(collector, FileCollector | QueryCollector):
            try:
                for metric, about, value in _readings(collector, payload):
                    if about in devices or not _is_per_device(collector):
                        yield Sample(t, metric, about, value)
            except (ValueError, KeyError, IndexError) as err:
                raise StoreError(f"cannot understand what {source} said: {err}") from err


def _readings(collector: FileCollector | QueryCollector, payload: Any) -> Iterator[Reading]:
    if isinstance(collector, FileCollector):
        return collector.parse(payload)
    return collector.parse(payload["columns"], payload["rows"])


def _is_per_device(collector: FileCollector | QueryCollector) -> bool:
    return isinstance(collector, FileCollector) and collector.per_device


def _waits(spool: Path) -> Iterator[WaitRow]:
    for t, _, payload in read_records(spool, sessions.NAME):
        for group in sessions.COLLECTOR.parse(payload["columns"], payload["rows"]):
            yield WaitRow(t, payload["polls"], *group)
