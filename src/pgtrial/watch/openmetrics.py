"""What a watch reads, for Prometheus: OpenMetrics text, for node exporter's textfile collector or by HTTP.

The machine's own figures are left to node exporter. Values have no times of their own, which it does not take; so what
has not been read for a while is left out, and a server that is away leaves nothing but ``pgtrial_up 0``: a gap is a gap
here, too. Sessions are counted over all polls, which makes averages of them in PromQL right between any two scrapes.

Source: the OpenMetrics specification 1.0, sections "Text Format" and "Counter".
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pgtrial.collectors import WATCHED, blocking, sessions
from pgtrial.errors import StoreError
from pgtrial.model.metric import Metric, MetricKind, Sample
from pgtrial.safe_files import remove_file, share_file
from pgtrial.store.samples import WaitRow
from pgtrial.watch.folder import Mark
from pgtrial.watch.sums import LONGEST

UP, LAST = "pgtrial_up", "pgtrial_last_reading_timestamp_seconds"
POLLS, SESSIONS = "pgtrial_session_polls", "pgtrial_session_samples"
_OF_SERVER = ("pg_", "backend_cpu.", "relations.", "server_life.", "blocking.")
_SUFFIXES = {"s": "_seconds", "B": "_bytes"}

_Labels = tuple[tuple[str, str], ...]


def family(metric: Metric) -> str:
    """The name of a metric family, to which a counter's samples add "_total"."""
    name = f"pgtrial_{metric.name.replace('.', '_')}"
    suffix = _SUFFIXES.get(metric.unit, "")
    return name if name.endswith(suffix) else name + suffix


METRICS: Mapping[str, Metric] = {
    metric.name: metric for collector in WATCHED for metric in collector.metrics if metric.name.startswith(_OF_SERVER)
}


class Figures:
    """What was read last of one server."""

    def __init__(self, mark: Mark) -> None:
        self._server: _Labels = (("server", mark.server), ("database", mark.database))
        self._is_up = False
        self._readings: dict[tuple[str, str], Sample] = {}
        self._polls = 0
        self._sessions: Counter[tuple[str, str, str, str]] = Counter()

    def begin(self, *, is_up: bool) -> None:
        """Readings begin anew: of a server that is there, or without one."""
        self._is_up = is_up
        self._readings.clear()

    def add(self, samples: Iterable[Sample]) -> None:
        for sample in samples:
            if sample.metric == sessions.POLLS:
                self._polls += int(sample.value)
            # Who blocks whom is told with the texts of statements, of which there is no end.
            elif sample.metric in METRICS and not (sample.metric == blocking.SESSIONS and sample.object):
                self._readings[sample.metric, sample.object] = sample

    def add_sessions(self, rows: Iterable[WaitRow]) -> None:
        for row in rows:
            self._sessions[row.backend_type, row.state, row.wait_type, row.wait_event] += row.sessions

    def text(self, now: float) -> str:
        """All of it, without what was not read in the last minutes before ``now``, seconds since the epoch."""
        self._readings = {key: each for key, each in self._readings.items() if abs(now - each.t) <= LONGEST}
        return "".join(f"{line}\n" for line in (*self._lines(), "# EOF"))

    def _lines(self) -> Iterator[str]:
        yield from _head(UP, MetricKind.GAUGE, "Whether the server answers.")
        yield self._line(UP, (), float(self._is_up))
        if self._is_up and self._readings:
            yield from _head(LAST, MetricKind.GAUGE, "When the server was last read.")
            yield self._line(LAST, (), max(sample.t for sample in self._readings.values()))
        yield from _head(POLLS, MetricKind.COUNTER, "How often sessions were polled.")
        yield self._line(f"{POLLS}_total", (), float(self._polls))
        if self._sessions:
            yield from _head(SESSIONS, MetricKind.COUNTER, "Sessions that were found, over all polls.")
        names = ("backend_type", "state", "wait_type", "wait_event")
        for key, count in sorted(self._sessions.items()):
            yield self._line(f"{SESSIONS}_total", tuple(zip(names, key, strict=True)), float(count))
        found: dict[str, list[Sample]] = {}
        for sample in self._readings.values() if self._is_up else ():
            if math.isfinite(sample.value):
                found.setdefault(sample.metric, []).append(sample)
        for name in sorted(found):
            metric = METRICS[name]
            yield from _head(family(metric), metric.kind, f"{name}, as pgtrial has it.")
            suffix = "_total" if metric.kind is MetricKind.COUNTER else ""
            for sample in found[name]:
                labels = (("object", sample.object),) if sample.object else ()
                yield self._line(family(metric) + suffix, labels, sample.value)

    def _line(self, name: str, labels: _Labels, value: float) -> str:
        pairs = ",".join(f'{key}="{_escape(text)}"' for key, text in (*self._server, *labels))
        return f"{name}{{{pairs}}} {value!r}"


class Textfile(Figures):
    """The file of one server in ``directory``, which has to be there."""

    def __init__(self, directory: Path, name: str, mark: Mark) -> None:
        super().__init__(mark)
        self._directory = directory
        self._name = f"pgtrial-{name}.prom"

    def write(self, now: float) -> None:
        """Put the file in place of the last one. Raises StoreError."""
        try:
            share_file(self._directory / self._name, self.text(now))
        except OSError as err:
            raise StoreError(
                f'cannot write "{self._directory / self._name}": {err.strerror}',
                hint="--textfile names the directory of its textfile collector; let this user write there.",
            ) from err

    def remove(self) -> None:
        """What is no longer read should not be told for ever."""
        try:
            remove_file(self._directory, self._name)
        except OSError as err:
            raise StoreError(f'cannot remove "{self._directory / self._name}": {err.strerror}') from err


def _head(name: str, kind: MetricKind, about: str) -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    yield f"# HELP {name} {about}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
