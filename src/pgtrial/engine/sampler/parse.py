"""What a sampler has read, parsed: one reading after the other, for a file of a run as for a server that is watched."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from pgtrial.collectors import COLLECTORS, Collector, pg_stat_statements, proc, sessions
from pgtrial.collectors.base import (
    ConsoleCollector,
    ExtensionCollector,
    FileCollector,
    ProcessCollector,
    QueryCollector,
    Reading,
)
from pgtrial.engine.sampler.spool import Header
from pgtrial.hosts.clock import HostClock
from pgtrial.model.metric import Sample
from pgtrial.store.samples import StatementRow, WaitRow


class ReadingError(Exception):
    """A source said what its collector does not understand: a bug, or a server or kernel that pgtrial does not know."""

    def __init__(self, source: str, err: Exception) -> None:
        super().__init__(f"cannot understand what {source} said: {err}")


class Parser:
    """Parses the readings of one sampler, in their order. What it gives is read at once: an iterator is used up.

    ``clock`` is that of the machine of a reader elsewhere; without it, its clock is taken to be ahead of ours all the
    time by what it was when the sampler started.
    """

    def __init__(
        self, header: Header, *, clock: HostClock | None = None, collectors: Sequence[Collector] = COLLECTORS
    ) -> None:
        self._collectors = {collector.name: collector for collector in collectors}
        self._followers = {
            name: collector.follow()
            for name, collector in self._collectors.items()
            if isinstance(collector, ProcessCollector | ExtensionCollector)
        }
        self._devices = frozenset(header.devices)
        self._foreign = frozenset(header.foreign)
        self._clock = clock or HostClock.constant(header.clock_offset)
        self._names: dict[str, str] = {}  # of the block devices, by their numbers

    def samples(self, t: float, source: str, payload: Any) -> Iterator[Sample]:
        """Samples of a reading; none of what is no reading. Raises ReadingError."""
        if source == sessions.NAME:
            yield Sample(t, sessions.POLLS, "", payload["polls"])
            yield Sample(t, sessions.LATE, "", payload["late"])
            return
        try:
            for sample in self._samples(t, source, payload):
                yield _finite(sample) if source in self._foreign else sample
        except (ValueError, KeyError, IndexError, OverflowError) as err:
            raise ReadingError(source, err) from err

    def _samples(self, t: float, source: str, payload: Any) -> Iterator[Sample]:
        collector = self._collectors.get(source)
        ours = self._clock.ours(t) if source in self._foreign else t
        if source in self._followers:
            yield from self._followers[source](ours, payload)
        elif isinstance(collector, FileCollector | QueryCollector | ConsoleCollector):
            if source == proc.DISK and not self._names:
                self._names = proc.device_names(payload)
            for metric, about, value in self._readings(collector, payload):
                yield Sample(ours, metric, about, value)

    def _readings(
        self, collector: FileCollector | QueryCollector | ConsoleCollector, payload: Any
    ) -> Iterator[Reading]:
        if not isinstance(collector, FileCollector):
            yield from collector.parse(payload["columns"], payload["rows"])
            return
        for reading in collector.parse(payload):
            if collector.by_number:
                yield reading._replace(object=self._names.get(reading.object, reading.object))
            elif reading.object in self._devices or not collector.per_device:
                yield reading


def _finite(sample: Sample) -> Sample:
    """The same: another machine may say anything. Raises ValueError, OverflowError."""
    if not math.isfinite(sample.value):
        raise ValueError(f"{sample.metric} is {sample.value}")
    return sample


def wait_rows(t: float, payload: Any) -> Iterator[WaitRow]:
    """The rows of a reading of sessions. Raises ReadingError."""
    try:
        for group in sessions.COLLECTOR.parse(payload["columns"], payload["rows"]):
            yield WaitRow(t, payload["polls"], *group)
    except (ValueError, KeyError, IndexError) as err:
        raise ReadingError(sessions.NAME, err) from err


def statement_rows(t: float, payload: Any, texts: dict[str, str]) -> Iterator[StatementRow]:
    """The rows of a reading of pg_stat_statements, with the texts that are known. Raises ReadingError."""
    try:
        for counts in pg_stat_statements.parse_counts(payload):
            yield StatementRow(t, *counts, texts.get(counts.queryid, ""))
    except (ValueError, KeyError, IndexError) as err:
        raise ReadingError(pg_stat_statements.NAME, err) from err


def statement_texts(payload: Any) -> dict[str, str]:
    """Texts by queryid. Raises ReadingError."""
    try:
        return pg_stat_statements.parse_texts(payload)
    except (ValueError, KeyError, IndexError) as err:
        raise ReadingError(pg_stat_statements.NAME, err) from err
