"""The reader of another machine's files, here as a process of this machine behind pipes, as ssh would put it."""

import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from subprocess import Popen

import pytest

from pgtrial.collectors import COLLECTORS
from pgtrial.collectors.base import FileCollector, Reading
from pgtrial.engine.sampler import files as sampler_files
from pgtrial.engine.sampler.files import LocalFiles, ReaderError, RemoteFiles, Wanted, reader_argv, wanted_files
from pgtrial.engine.sampler.reader import Troubles
from pgtrial.model.metric import MetricKind
from support import PATIENCE

HERE = reader_argv(sys.executable)
INTERVAL = 0.1
FILES = {collector.name: collector for collector in COLLECTORS if isinstance(collector, FileCollector)}


class End:
    """This end of a reader, and what it has been told."""

    def __init__(
        self, wanted: Wanted, *, command: Sequence[str] = HERE, interval: float = INTERVAL, clock_offset: float = 0.0
    ) -> None:
        self.readings: list[tuple[float, str, str]] = []
        self.troubles: list[str] = []
        self.files = RemoteFiles(
            command,
            wanted,
            interval=interval,
            clock_offset=clock_offset,
            add=lambda *reading: self.readings.append(reading),
            troubles=Troubles(self.troubles.append),
        )

    def close(self) -> None:
        self.files.finish()

    def wait_for(self, count: int) -> None:
        """Until so many readings have come."""
        self.files._receive_until(lambda: len(self.readings) >= count, patience=PATIENCE)
        assert len(self.readings) >= count

    def texts(self, source: str) -> list[str]:
        return [text for _, found, text in self.readings if found == source]

    @property
    def pid(self) -> int:
        return self.files._process.pid


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("first")
    return tmp_path / "file"


@pytest.fixture
def end(path: Path) -> Iterator[End]:
    """A reader of one file."""
    end = End([("source", [str(path)])])
    with closing(end):
        yield end


def test_file_is_read_anew_at_each_tick(end: End, path: Path) -> None:
    end.files.start()
    path.write_text("second, and longer: é")
    end.wait_for(3)

    assert end.texts("source")[0] == "first"
    assert end.texts("source")[-1] == "second, and longer: \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"


def test_nothing_is_read_before_the_start(end: End) -> None:
    time.sleep(2 * INTERVAL)
    begun = time.time()
    end.files.start()

    (t, _, _), *_ = end.readings
    assert begun <= t <= time.time()


def test_what_is_there_and_what_is_not_is_known_at_once(path: Path) -> None:
    with closing(End([("here", [str(path)]), ("gone", [f"{path}x", f"{path}y"])])) as end:
        assert end.files.sources == ["here"]
        assert end.files.absent == {"gone": f"{path}y: No such file or directory"}


def test_last_reading_is_taken_when_it_is_told_to_end(path: Path) -> None:
    end = End([("source", [str(path)])], interval=60)
    end.files.start()
    path.write_text("last")
    end.files.finish()

    assert end.texts("source") == ["first", "last"]
    assert (end.troubles, end.files.late, end.files.fd) == ([], 0, None)


def test_times_are_those_of_the_reading_however_late_it_is_received(end: End) -> None:
    end.files.start()
    time.sleep(10 * INTERVAL)
    received = time.time()
    end.files.receive()

    times = [t for t, _, _ in end.readings]
    assert len(times) >= 5
    assert all(t < received for t in times[:5])
    assert all(later > earlier for earlier, later in pairwise(times))


def test_interval_is_kept_on_a_busy_machine(end: End) -> None:
    busy = [Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(2)]
    try:
        # One busy processor is enough, where the reader has no other.
        for pid in (end.pid, *(process.pid for process in busy)):
            os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))})
        begun = time.monotonic()
        end.files.start()
        time.sleep(20 * INTERVAL)
        end.files.finish()
        taken = time.monotonic() - begun
    finally:
        for process in busy:
            process.kill()
            process.wait()

    times = [t for t, _, _ in end.readings][:-1]  # the last is out of turn
    places = [(t - times[0]) / INTERVAL for t in times]
    # Each lies at a tick of its own, or up to half an interval after it, as the first one may; others are counted.
    assert all(abs(place - round(place)) <= 0.5 for place in places)
    assert 20 <= len(times) + end.files.late <= taken / INTERVAL + 4
    assert end.troubles == []


def test_missed_ticks_are_counted_and_not_made_up(end: End) -> None:
    end.files.start()
    begun = time.monotonic()
    os.kill(end.pid, signal.SIGSTOP)
    time.sleep(6 * INTERVAL)
    os.kill(end.pid, signal.SIGCONT)
    end.wait_for(2)
    end.files.finish()

    assert 4 <= end.files.late <= (time.monotonic() - begun) / INTERVAL + 1
    assert 3 <= len(end.readings) <= 4


def counters(texts: dict[str, str]) -> dict[tuple[str, str], float]:
    """Readings of all metrics that only grow."""
    names = {metric.name for file in FILES.values() for metric in file.metrics if metric.kind is MetricKind.COUNTER}
    return {(r.metric, r.object): r.value for r in parsed(texts) if r.metric in names}


def parsed(texts: dict[str, str]) -> list[Reading]:
    return [reading for source, text in texts.items() for reading in FILES[source].parse(text)]


def test_what_is_read_there_is_what_is_read_here() -> None:
    wanted, here = wanted_files(()), []
    local = LocalFiles(wanted, add=lambda *reading: here.append(reading), troubles=Troubles(here.append))
    with closing(End(wanted, interval=60)) as end:
        local.tick()
        end.files.start()
        local.tick()

    count = len(local.sources)
    assert list(end.files.sources) == list(local.sources)
    assert end.files.absent == local.absent
    before, there, after = (
        {source: text for _, source, text in readings}
        for readings in (here[:count], end.readings[:count], here[count:])
    )
    assert [(r.metric, r.object) for r in parsed(before)] == [(r.metric, r.object) for r in parsed(there)]
    low, middle, high = counters(before), counters(there), counters(after)
    assert len(middle) > 50
    assert [name for name in middle if not low[name] <= middle[name] <= high[name]] == []
    assert here[0][0] <= end.readings[0][0] <= here[count][0]


@pytest.mark.parametrize(
    "reading",
    [
        '[{now}.5, "sessions", {{"polls": 1}}]',
        '[{now}.5, "sessions", "text"]',
        '[{now}.5, "source", 5]',
        '[{now}.5, "source", "\\ud800"]',
        '[{now}.5, "source", "text", 1]',
        '["now", "source", "text"]',
        '[NaN, "source", "text"]',
        '[1e300, "source", "text"]',
        '[{now}00.5, "source", "text"]',
        '[0.0, "source", "text"]',
        '[1{zeros}, "source", "text"]',
        "[[], [], []]",
        "[" * 100000,
    ],
)
def test_what_was_not_asked_for_is_no_reading(end: End, reading: str) -> None:
    end.files.start()
    count = len(end.readings)
    text = '{"readings": [' + reading.format(now=int(time.time()), zeros="0" * 400) + '], "troubles": [], "late": 0}'
    end.files._take(text.encode())
    end.files._take(b"[]")
    end.wait_for(count + 1)

    (trouble,) = end.troubles
    assert "sent what is not a reading" in trouble
    assert set(end.texts("source")) == {"first"}
    assert len(end.texts("source")) == len(end.readings)


@pytest.mark.parametrize(
    "message",
    [
        '{"late": "1", "readings": [], "troubles": []}',
        '{"late": 1e9, "readings": [], "troubles": []}',
        '{"late": -1, "readings": [], "troubles": []}',
        '{"late": 0, "readings": [], "troubles": [5]}',
    ],
)
def test_a_message_of_another_form_is_a_trouble(end: End, message: str) -> None:
    end.files.start()
    end.files._take(message.encode())

    (trouble,) = end.troubles
    assert "sent what is not a reading" in trouble
    assert end.files.late == 0


def test_times_are_near_by_the_clock_of_that_machine(path: Path) -> None:
    ahead = "import time; now = time.time; time.time = lambda: now() + 86400; "
    python, *options, program = HERE
    with closing(
        End([("source", [str(path)])], command=(python, *options, ahead + program), clock_offset=86400)
    ) as end:
        end.files.start()
    assert end.troubles == []

    end = End([("source", [str(path)])], command=(python, *options, ahead + program))
    with pytest.raises(ReaderError, match="does not answer"):
        end.files.start()


def test_sources_that_nobody_asked_for_are_no_answer(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler_files, "_START_PATIENCE", 0.3)
    hello = """echo '{"sources": ["sessions"], "absent": {}}'; sleep 60"""
    with pytest.raises(ReaderError, match="does not answer"):
        End([("source", [str(path)])], command=("sh", "-c", hello))


def test_a_line_without_an_end_ends_the_reader(end: End, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end.files.start()
    monkeypatch.setattr(sampler_files, "_LONGEST_LINE", 1 << 17)
    path.write_text("x" * 300_000)
    end.files._receive_until(lambda: False, patience=PATIENCE)

    assert end.troubles == ["the reader on the server's machine sent a line of more than 131072 bytes"]
    assert end.files.fd is None
    assert not Path(f"/proc/{end.pid}").exists()


def test_reader_that_is_killed_is_a_trouble(end: End) -> None:
    end.files.start()
    os.kill(end.pid, signal.SIGKILL)
    end.files._receive_until(lambda: False, patience=PATIENCE)

    assert end.troubles == ["the reader on the server's machine ended: status -9"]
    assert end.files.fd is None
    end.files.finish()
    assert len(end.troubles) == 1


def test_reader_that_ends_is_named_in_its_last_words(path: Path) -> None:
    command = f"{shlex.join(HERE)}; echo Connection to db1 closed. >&2; exit 255"
    end = End([("source", [str(path)])], command=("sh", "-c", command))
    end.files.start()
    (reader,) = Path(f"/proc/{end.pid}/task/{end.pid}/children").read_text().split()
    os.kill(int(reader), signal.SIGTERM)
    end.files._receive_until(lambda: False, patience=PATIENCE)

    assert end.troubles == ["the reader on the server's machine ended: Connection to db1 closed."]


def test_reader_that_falls_silent_does_not_hold_up_the_end(end: End, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler_files, "_END_PATIENCE", 0.2)
    end.files.start()
    os.kill(end.pid, signal.SIGSTOP)
    end.files.finish()

    assert end.troubles == ["the reader on the server's machine does not answer"]
    assert not Path(f"/proc/{end.pid}").exists()


def test_file_that_cannot_be_read_any_more_is_one_trouble(path: Path) -> None:
    with Popen(["sleep", "60"]) as other:
        status = f"/proc/{other.pid}/stat"
        end = End([("gone", [status]), ("source", [str(path)])])
        end.files.start()
        other.kill()
    with closing(end):
        end.wait_for(len(end.readings) + 4)

    assert end.troubles == [f"cannot read {status}: No such process"]
    assert len(end.texts("source")) > len(end.texts("gone"))


def test_what_a_machine_says_at_a_login_is_passed_over(path: Path) -> None:
    greeting = 'echo Welcome to db1; echo 42; echo "{}"; exec '
    with closing(End([("source", [str(path)])], command=("sh", "-c", greeting + shlex.join(HERE)))) as end:
        end.files.start()

    assert end.texts("source") == ["first", "first"]
    assert end.troubles == []


def test_what_is_no_reading_is_a_trouble(end: End) -> None:
    end.files.start()
    end.files._take(b"broadcast message: going down")

    assert end.troubles == [
        "the reader on the server's machine sent what is not a reading: broadcast message: going down"
    ]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("sh", "-c", "echo 'ssh: connect to host db1 port 22: No route to host' >&2; exit 255"), "No route to host"),
        (("false",), "ended: status 1"),
        (("/nowhere/ssh", "db1"), 'cannot start "/nowhere/ssh": No such file or directory'),
        (("sleep", "60"), "does not answer"),
        (("sh", "-c", "echo hello; sleep 60"), "does not answer"),
        (("yes",), "does not answer"),
        (("sh", "-c", "head -c 300000 /dev/zero; sleep 60"), "sent a line of more than 131072 bytes"),
    ],
)
def test_reader_that_does_not_start_says_why(
    command: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler_files, "_START_PATIENCE", 0.3)
    monkeypatch.setattr(sampler_files, "_LONGEST_LINE", 1 << 17)
    with pytest.raises(ReaderError, match=re.escape(words)):
        End([], command=command)
