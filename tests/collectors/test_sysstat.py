"""vmstat, iostat and sar beside the collectors, on the same interval and with some work in the middle of it.

What they say of a counter must lie between what its increase over a somewhat shorter interval than theirs gives, and
that over a somewhat longer one: both are known from readings taken all the time, however slow the machine is. What they
say of a momentary value must lie between what was read just before and just after it, which it may fail to do once, if
something came and went in between, but not always.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from pgtrial.analysis.timelines.read import compute
from pgtrial.analysis.timelines.timeline import Array
from pgtrial.collectors import proc
from pgtrial.model.formulas import Source, TimelineMetric
from pgtrial.model.series import find_metric
from support.programs import skip_for_want

INTERVAL = 4  # s
SLACK = 0.1  # s that a program may take from setting its alarm to its first reading
CLOCK = 0.01  # s: sysstat's interval is a difference of two uptimes in whole hundredths
EVERY = 0.02  # s
ATTEMPTS = 50
TICKS = 0.5  # %: CPU time is told in whole ticks, each of which is 0.25 % of the interval on one CPU
# Idle time that is not over counts as idle or as waiting for I/O, whatever it is at the moment of the reading.
IDLE = 1.0  # %
FILES = tuple(each for each in proc.COLLECTORS if each.name in (proc.STAT, proc.DISK, proc.VMSTAT, proc.MEMINFO))
PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "vmstat": ("-n", "-w", str(INTERVAL), "2"),
    "iostat": ("-d", "-x", "-y", "-o", "JSON", str(INTERVAL), "1"),
    "sar": ("-u", "-B", "-W", "-w", "-d", "-p", str(INTERVAL), "1"),
}
# CPU time in user mode and in the kernel, writes that are waited for, and reads that the page cache does not have.
WORK = """
import os, sys, time
until = time.process_time() + 0.4
while time.process_time() < until:
    sum(range(1000))
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
for k in range(40):
    os.pwrite(fd, os.urandom(65536), k * 65536)
    os.fdatasync(fd)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
while os.read(fd, 65536):
    pass
"""

Readings = dict[tuple[str, str], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A program's output, and when it was started and had ended."""

    output: str
    started: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Everything that was read, with when reading began and had ended, and the programs."""

    begun: Sequence[float]
    done: Sequence[float]
    readings: Sequence[Readings]
    ran: Mapping[str, Ran]

    def limits(self, program: str, name: str, about: str = "") -> tuple[float, float] | None:
        """What a program may say of a metric; None where nothing is known of it.

        Its interval began after it was started, and no later than it ended but INTERVAL, give or take SLACK; so did
        the interval end.
        """
        ran, metric = self.ran[program], metric_of(name)
        latest_begin = ran.ended - INTERVAL + SLACK
        earliest_end = ran.started + INTERVAL - SLACK
        longest = increase(self._last(ran.started), self._first(ran.ended))
        shortest = increase(self._first(latest_begin), self._last(earliest_end))
        top = replace(metric, per=())
        low, high = compute_one(top, shortest, about), compute_one(top, longest, about)
        if low is None or high is None:
            return None
        if not metric.per:
            return low / (ran.ended - ran.started + CLOCK), high / (INTERVAL - SLACK - CLOCK)
        below = replace(metric, of=metric.per, per=())
        least, most = compute_one(below, shortest, about), compute_one(below, longest, about)
        if most == 0:
            return 0.0, 0.0  # sysstat says 0 where there was nothing
        return (low / most, high / least) if least and most else None

    def _first(self, t: float) -> Readings:
        """The first readings that were begun at or after a time."""
        return self.readings[int(np.searchsorted(self.begun, t))]

    def _last(self, t: float) -> Readings:
        """The last readings that were ended at or before a time."""
        return self.readings[int(np.searchsorted(self.done, t, side="right")) - 1]


def increase(begin: Readings, end: Readings) -> Readings:
    return {key: value - begin[key] for key, value in end.items() if key in begin}


def metric_of(name: str) -> TimelineMetric:
    metric = find_metric(name)
    assert isinstance(metric, TimelineMetric)
    return metric


def compute_one(metric: TimelineMetric, values: Readings, about: str) -> float | None:
    """A metric of one object from single values in place of series; counters are their increases."""

    def read(source: Source) -> Mapping[str, Array]:
        return source.select({name: np.array([value]) for (raw, name), value in values.items() if raw == source.metric})

    found = compute(metric, read, page_size=float(os.sysconf("SC_PAGE_SIZE"))).get(about)
    return None if found is None else float(found[0])


def read_texts() -> list[str]:
    return [Path(each.path).read_text() for each in FILES]


def read_now() -> Readings:
    return parse(read_texts())


class Reader(threading.Thread):
    """Reads the files of the collectors every EVERY seconds until it is told to stop."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[tuple[float, float, list[str]]] = []
        self.is_over = threading.Event()

    def run(self) -> None:
        while not self.is_over.wait(EVERY):
            begun, texts = time.time(), read_texts()
            self.texts.append((begun, time.time(), texts))


@pytest.fixture(scope="module")
def programs() -> Mapping[str, str]:
    """Environment for the programs; without them the test is skipped, or fails where they are required, as in CI."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        how = "apt install procps sysstat"
        skip_for_want(" and ".join(missing), how, required_by="PGTRIAL_REQUIRE_SYSSTAT")
    return {**os.environ, "LC_ALL": "C", "S_TIME_FORMAT": "ISO", "S_COLORS": "never"}


@pytest.fixture(scope="module")
def beside(programs: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Beside:
    file = tmp_path_factory.mktemp("work") / "file"
    reader = Reader()
    reader.start()
    try:
        wait_for(reader, time.time())
        running = {
            program: (
                time.time(),
                subprocess.Popen((program, *options), stdout=subprocess.PIPE, text=True, env=programs),
            )
            for program, options in PROGRAMS.items()
        }
        time.sleep(1)
        subprocess.run([sys.executable, "-c", WORK, file], check=True)
        ran = {}
        for program, (started, process) in running.items():
            output, _ = process.communicate()
            ran[program] = Ran(output=output, started=started, ended=time.time())
        wait_for(reader, time.time())
    finally:
        reader.is_over.set()
        reader.join()
    begun, done, texts = zip(*reader.texts, strict=True)
    return Beside(begun=begun, done=done, readings=[parse(each) for each in texts], ran=ran)


def wait_for(reader: Reader, t: float) -> None:
    """Wait until something has been read that was begun after ``t``."""
    while not reader.texts or reader.texts[-1][0] < t:
        time.sleep(EVERY)


def parse(texts: Sequence[str]) -> Readings:
    return {
        (reading.metric, reading.object): reading.value
        for collector, text in zip(FILES, texts, strict=True)
        for reading in collector.parse(text)
    }


def check(
    beside: Beside, program: str, figure: float, name: str, about: str = "", *, factor: float, unit: float
) -> None:
    """``factor`` turns a base unit into the program's; ``unit`` is its last digit, or what else it may be wrong by."""
    limits = beside.limits(program, name, about)
    if limits is not None:
        low, high = (limit * factor for limit in limits)
        assert low - unit <= figure <= high + unit, (name, about)


VMSTAT = {
    "si": ("vmstat.si", 1 / 1024, 1.0),
    "so": ("vmstat.so", 1 / 1024, 1.0),
    "bi": ("vmstat.bi", 1 / 1024, 1.0),
    "bo": ("vmstat.bo", 1 / 1024, 1.0),
    "in": ("vmstat.in", 1.0, 1.0),
    "cs": ("vmstat.cs", 1.0, 1.0),
    "us": ("vmstat.us", 100.0, 1.0 + TICKS),
    "sy": ("vmstat.sy", 100.0, 1.0 + TICKS),
    "id": ("vmstat.id", 100.0, 1.0 + IDLE),
    "wa": ("vmstat.wa", 100.0, 1.0 + IDLE),
    "st": ("vmstat.st", 100.0, 1.0 + TICKS),
}


def test_vmstat_says_the_same_of_an_interval(beside: Beside) -> None:
    _, header, _since_boot, line = beside.ran["vmstat"].output.splitlines()
    figures = dict(zip(header.split(), map(float, line.split()), strict=True))
    # Newer versions take guests out of "us" and show them apart; with us they stay programs.
    figures["us"] += figures.get("gu", 0.0)

    for column, (name, factor, unit) in VMSTAT.items():
        check(beside, "vmstat", figures[column], name, factor=factor, unit=unit)


MOMENTARY = {
    "r": ("vmstat.r", 1.0),
    "b": ("vmstat.b", 1.0),
    "swpd": ("vmstat.swpd", 1 / 1024),
    "free": ("vmstat.free", 1 / 1024),
    "buff": ("vmstat.buff", 1 / 1024),
    "cache": ("vmstat.cache", 1 / 1024),
}


def test_vmstat_says_the_same_of_a_moment(programs: Mapping[str, str]) -> None:
    missing = set(MOMENTARY)
    for _ in range(ATTEMPTS):
        before = read_now()
        output = subprocess.run(("vmstat", "-w"), capture_output=True, text=True, check=True, env=programs).stdout
        after = read_now()
        _, header, line = output.splitlines()
        figures = dict(zip(header.split(), map(float, line.split()), strict=True))
        for column in tuple(missing):
            name, factor = MOMENTARY[column]
            ours = [compute_one(metric_of(name), readings, "") for readings in (before, after)]
            limits = [value * factor for value in ours if value is not None]
            if min(limits) - 0.5 <= figures[column] <= max(limits) + 0.5:
                missing.remove(column)
        if not missing:
            break

    assert not missing


IOSTAT = {
    "r/s": ("iostat.r", 1.0),
    "rkB/s": ("iostat.r_bytes", 1 / 1024),
    "rrqm/s": ("iostat.rrqm", 1.0),
    "r_await": ("iostat.r_await", 1000.0),
    "rareq-sz": ("iostat.rareq", 1 / 1024),
    "w/s": ("iostat.w", 1.0),
    "wkB/s": ("iostat.w_bytes", 1 / 1024),
    "wrqm/s": ("iostat.wrqm", 1.0),
    "w_await": ("iostat.w_await", 1000.0),
    "wareq-sz": ("iostat.wareq", 1 / 1024),
    "d/s": ("iostat.d", 1.0),
    "dkB/s": ("iostat.d_bytes", 1 / 1024),
    "d_await": ("iostat.d_await", 1000.0),
    "f/s": ("iostat.f", 1.0),
    "f_await": ("iostat.f_await", 1000.0),
    "aqu-sz": ("iostat.aqu", 1.0),
    "util": ("iostat.util", 100.0),
}


def test_iostat_says_the_same_of_every_device(beside: Beside) -> None:
    (host,) = json.loads(beside.ran["iostat"].output)["sysstat"]["hosts"]
    (statistics,) = host["statistics"]

    assert statistics["disk"]
    for device in statistics["disk"]:
        for column, (name, factor) in IOSTAT.items():
            # Kernels before 5.5 do not count flushes, those before 4.18 no discards.
            if column in device:
                check(beside, "iostat", device[column], name, device["disk_device"], factor=factor, unit=0.01)


SAR = {
    "%system": ("vmstat.sy", 100.0, TICKS),
    "%iowait": ("vmstat.wa", 100.0, IDLE),
    "%steal": ("vmstat.st", 100.0, TICKS),
    "%idle": ("vmstat.id", 100.0, IDLE),
    "cswch/s": ("vmstat.cs", 1.0, 0.01),
    "pgpgin/s": ("vmstat.bi", 1 / 1024, 0.01),
    "pgpgout/s": ("vmstat.bo", 1 / 1024, 0.01),
    "majflt/s": ("reclaim.major", 1.0, 0.01),
    "pgscank/s": ("reclaim.kswapd", 1.0, 0.01),
    "pgscand/s": ("reclaim.direct", 1.0, 0.01),
    "pswpin/s": ("vmstat.si", 1 / os.sysconf("SC_PAGE_SIZE"), 0.01),
    "pswpout/s": ("vmstat.so", 1 / os.sysconf("SC_PAGE_SIZE"), 0.01),
}
SAR_DEVICES = {
    "rkB/s": ("iostat.r_bytes", 1 / 1024),
    "wkB/s": ("iostat.w_bytes", 1 / 1024),
    "dkB/s": ("iostat.d_bytes", 1 / 1024),
    "aqu-sz": ("iostat.aqu", 1.0),
    "%util": ("iostat.util", 100.0),
}


def sar_rows(output: str) -> list[dict[str, str]]:
    """Rows of all tables of sar, without averages: words by the names of their columns."""
    rows = []
    for table in output.split("\n\n"):
        header, *lines = [line.split()[1:] for line in table.splitlines() if not line.startswith("Average")] or [[]]
        rows += [dict(zip(header, line, strict=True)) for line in lines]
    return rows


def test_sar_says_the_same(beside: Beside) -> None:
    rows = sar_rows(beside.ran["sar"].output)
    figures = {column: float(word) for row in rows if "DEV" not in row for column, word in row.items() if word != "all"}

    check(beside, "sar", figures["%user"] + figures["%nice"], "vmstat.us", factor=100.0, unit=TICKS)
    for column, (name, factor, unit) in SAR.items():
        check(beside, "sar", figures[column], name, factor=factor, unit=unit)


def test_sar_says_the_same_of_every_device(beside: Beside) -> None:
    rows = [row for row in sar_rows(beside.ran["sar"].output) if "DEV" in row]

    assert rows
    for row in rows:
        for column, (name, factor) in SAR_DEVICES.items():
            check(beside, "sar", float(row[column]), name, row["DEV"], factor=factor, unit=0.01)
