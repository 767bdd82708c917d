"""Convert fio's latency histogram logs to rows of transactions.parquet: one "transaction" is one request.

A line of such a log is "time, direction, block size, n0, n1, …": the requests of one thread since its line before, by
bucket of its latency. Time is in milliseconds since the epoch (--log_unix_epoch). A line is written with the first
request that ends after the interval, so lines of a thread that hardly gets on are further apart, and what is done after
the last line is in none. Source: fio's iolog.c (flush_hist_samples) and stat.c (add_clat_sample).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pgtrial.errors import WorkloadError
from pgtrial.model.histogram import FINE, bucket_value
from pgtrial.store.pgbench_log import check_whole

_LONGEST_LINE = 1 << 20  # bytes; of whole ones with some 1,900 counts, and whoever writes the log may write anything
_LEADING = 3  # fields before the counts
_GROUP = 64  # counts come in groups of so many


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramLog:
    """The histogram logs of one fio process at one load level, one file per thread.

    ``window`` is the measured time, first second included, last excluded, in seconds since the epoch; ``interval`` the
    seconds between two lines. ``all_latencies`` are those of the whole process by bucket, where it has told them: then
    what is after the last line is known.
    """

    level: int
    scenario: str
    files: tuple[Path, ...]
    window: tuple[float, float]
    interval: float
    all_latencies: Mapping[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondRow:
    """What ended in a second of the measured time; ``count`` without what ``failed``, sums in seconds.

    ``latency_sum`` is None of a load that tells of no latencies.
    """

    second: int
    count: int
    latency_sum: float | None
    buckets: tuple[int, ...]
    bucket_counts: tuple[int, ...]
    failed: int = 0
    lag_sum: float | None = None
    retried: int = 0
    retries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramRead:
    """The contents of the logs of a process: all ``requests``, the rows of the window, and its first and last line.

    ``unlogged`` is an upper bound on the requests after the last lines, as far as it can be known.
    """

    requests: int
    rows: tuple[SecondRow, ...]
    first: float | None
    last: float | None
    unlogged: int


@dataclass(slots=True)
class _Seconds:
    """Counts by second and bucket."""

    window: tuple[float, float]
    counts: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))

    def add(self, begin: float, end: float, found: Mapping[int, int]) -> None:
        """Spread requests evenly over the time between two lines; what of it lies in the window counts.

        Cumulated shares are rounded, not the shares: so the seconds of a line add up to it.
        """
        start, stop = self.window
        second = max(0, int(begin - start))
        while (low := max(begin, start + second)) < (high := min(end, start + second + 1, stop)):
            before, after = (low - begin) / (end - begin), (high - begin) / (end - begin)
            for bucket, count in found.items():
                own = round(count * after) - round(count * before)
                if own:
                    self.counts[second][bucket] += own
            second += 1


def read_histograms(log: HistogramLog) -> HistogramRead:
    """Read the logs. Raises WorkloadError when one is missing, cut off, or has a line that is not a histogram."""
    seconds = _Seconds(log.window)
    requests, unlogged = 0, 0
    inside: list[float] = []
    rest = dict(log.all_latencies or {})
    for path in log.files:
        with path.open("rb") as file:
            check_whole(file, path, program="fio")
        before: dict[str, float] = {}
        largest = 0
        for told, direction, found in _lines(path):
            t = told
            begin = before.get(direction, t - log.interval)
            before[direction] = t
            count = sum(found.values())
            requests, largest = requests + count, max(largest, count)
            if log.all_latencies is not None:  # all were in the window, whose ends are known to 1 ms
                begin, t = max(begin, log.window[0]), min(t, log.window[1])
                for bucket, number in found.items() if t > begin else ():
                    rest[bucket] = rest.get(bucket, 0) - number
            if log.window[0] <= t < log.window[1]:
                inside.append(t)
            if t > begin:
                seconds.add(begin, t, found)
        unlogged += 2 * largest
    if log.all_latencies is not None:
        if any(count < 0 for count in rest.values()):
            raise WorkloadError("fio's log has requests that its report does not have")
        seconds.add(max(inside, default=log.window[0]), log.window[1], rest)
        requests, unlogged = sum(log.all_latencies.values()), 0
        inside += log.window
    return HistogramRead(
        requests=requests,
        rows=tuple(_row(second, counts) for second, counts in sorted(seconds.counts.items())),
        first=min(inside, default=None),
        last=max(inside, default=None),
        unlogged=unlogged,
    )


def _lines(path: Path) -> Iterator[tuple[float, str, dict[int, int]]]:
    """(time in s, direction, count by bucket) of every line."""
    with path.open(encoding="ascii", errors="replace") as file:
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), ""), start=1):
            fields = line.split(",")
            counts = fields[_LEADING:]
            try:
                # Most are zero, and turning each into a number would take longer than all the rest.
                found = {FINE + place: int(text) for place, text in enumerate(counts) if text.strip() != "0"}
                t = int(fields[0]) / 1000
            except ValueError:
                found, t = {}, -1.0
            if t < 0 or not counts or len(counts) % _GROUP or any(count < 0 for count in found.values()):
                raise WorkloadError(
                    f'fio\'s log "{path}" has a line that is not a histogram', detail=f"Line {number} is {line[:60]!r}."
                )
            yield t, fields[1].strip(), found


def _row(second: int, counts: Mapping[int, int]) -> SecondRow:
    buckets = tuple(sorted(counts))
    return SecondRow(
        second=second,
        count=sum(counts.values()),
        latency_sum=sum(bucket_value(bucket) * counts[bucket] for bucket in buckets),
        buckets=buckets,
        bucket_counts=tuple(counts[bucket] for bucket in buckets),
    )
