"""What alarms may be about: read as the recorder writes it, and found by its name where it changes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pgtrial.collectors import WATCHED
from pgtrial.collectors.pg_stat_statements import StatementCounts
from pgtrial.engine.sampler.spool import Header
from pgtrial.model.metric import MetricKind
from pgtrial.stats.alarms.blocks import Aspect, blocks_of
from pgtrial.stats.alarms.detector import FEWEST_DAYS, Alarm, advance, begin, learn
from pgtrial.watch.compare import GAUGES
from pgtrial.watch.folder import Ages, Mark, Rows, WatchFolder, open_folder
from pgtrial.watch.layout import DAY, MINUTE, look
from pgtrial.watch.quotients import (
    AVAILABLE,
    AVAILABLE_NAME,
    METRICS,
    PER_CALL_NAME,
    QUOTIENTS,
    ROLLED_BACK_NAME,
)
from pgtrial.watch.recorder import Recorder
from pgtrial.watch.series import COMMITS_NAME, RATES
from pgtrial.watch.signals import Column, Minutes, Signals, choose_signals, read_minutes
from pgtrial.watch.sums import COUNTERS
from pgtrial.watch.windows import Window

START = 1795824000  # 2026-11-28 00:00 UTC
HEADER = Header(
    version_num=180000,
    interval=5.0,
    session_interval=1.0,
    sources=("disk", "proc_meminfo", "proc_vmstat", "pressure_memory", "pg_stat_database", "pg_stat_wal"),
    devices=("vda",),
    absent={},
)
COUNTS = StatementCounts(
    queryid="7",
    calls=40,
    rows=40,
    exec_time=0.2,
    shared_blks_hit=0,
    shared_blks_read=0,
    shared_blks_dirtied=300,
    shared_blks_written=0,
    temp_blks_read=0,
    temp_blks_written=0,
    wal_bytes=0,
)


def test_metrics_that_are_read_are_those_that_a_watch_writes() -> None:
    kinds = {metric.name: metric.kind for each in WATCHED for metric in each.metrics}
    counted = {*METRICS, *(name for *_, names in RATES for name in names)}
    assert {name: kinds.get(name) for name in counted} == dict.fromkeys(counted, MetricKind.COUNTER)
    gauges = {AVAILABLE, *(metric for *_, metric in GAUGES)}
    assert {name: kinds.get(name) for name in gauges} == dict.fromkeys(gauges, MetricKind.GAUGE)


class Kept:
    """The folder for a recorder, without what ages in it."""

    def __init__(self, folder: WatchFolder) -> None:
        self._folder = folder

    def write(self, rows: Rows) -> None:
        self._folder.write(rows)

    def maintain(self, now: float) -> tuple[()]:
        return ()


def table(**row: object) -> dict[str, object]:
    return {"columns": list(row), "rows": [[str(each) for each in row.values()]]}


def read_all(recorder: Recorder, second: int, *, rolled_back: bool) -> None:
    """What is read of a server after so many seconds with 100 commits each."""
    t, commits = START + second, 100 * second
    disk = (100 * second, 0, 0, 50 * second, 200 * second, 0, 0, 200 * second, 3, 0, 250 * second)
    recorder.add(t, "disk", f"254 0 vda {' '.join(map(str, disk))}\n254 16 vdb {' '.join(['7'] * 11)}\n")
    recorder.add(t, "proc_meminfo", "MemTotal: 8192 kB\nMemAvailable: 2048 kB\n")
    recorder.add(t, "proc_vmstat", f"pswpin {3 * second}\n")
    stall = f"avg10=0.00 avg60=0.00 avg300=0.00 total={20_000 * second}"
    recorder.add(t, "pressure_memory", f"some {stall}\nfull {stall}\n")
    recorder.add(
        t,
        "pg_stat_database",
        table(
            xact_commit=commits,
            xact_rollback=second if rolled_back else 0,
            deadlocks=second // MINUTE,
            temp_bytes=2000 * commits,
            blks_hit=40 * commits,
            blks_read=2 * commits,
        ),
    )
    recorder.add(t, "pg_stat_wal", table(wal_bytes=900 * commits))
    if second % MINUTE == 0:
        grown = {name: value * second if name != "queryid" else value for name, value in COUNTS._asdict().items()}
        recorder.add(t, "pg_stat_statements", table(**grown))


@pytest.mark.parametrize("rolled_back", [False, True])
def test_each_is_read_as_the_recorder_writes_it(rolled_back: bool, tmp_path: Path) -> None:
    window = Window(START, START + 10 * MINUTE)
    mark = Mark(server="db1:5432", database="shop")
    said: list[str] = []
    with open_folder(tmp_path / "w", mark, ages=Ages(), counters=COUNTERS, keep_free=0) as folder:
        recorder = Recorder(Kept(folder), tell=said.append)  # type: ignore[arg-type]
        recorder.add_header(START - 1.0, HEADER)
        for second in range(0, 10 * MINUTE + 1, 15):
            read_all(recorder, second, rolled_back=rolled_back)
        recorder.flush()
        recorder.finish()
    minutes = read_minutes(tmp_path / "w", look(tmp_path / "w"), window, ("7",))

    assert said == []
    expected = {
        COMMITS_NAME: 100.0,
        ROLLED_BACK_NAME: 1.0 if rolled_back else 0.0,
        "deadlocks": 1 / MINUTE,
        "temporary files per commit": 2000.0,
        "blocks per commit": 42.0,
        "blocks dirtied per commit": 3.0,
        "WAL per commit": 900.0,
        "time per device read": 0.5e-3,
        "time per device write": 1e-3,
        "requests at devices": 0.25,
        "some task stalled on memory": 0.02,
        "pages swapped in": 3.0,
        AVAILABLE_NAME: 2048.0 * 1024,
    }
    # Statements are read once in a minute: of the last one it is not known yet.
    found = {name: float(np.mean(minutes.of(name)[1:-1])) for name in expected}
    assert found == pytest.approx(expected, rel=1e-6)
    assert np.nanmean(minutes.of(PER_CALL_NAME, "7")) == pytest.approx(0.005)
    assert {each.name for each in QUOTIENTS} < set(expected)


def test_by_nothing_it_is_not_known() -> None:
    none, some = np.zeros(3), np.ones(3)
    for each in QUOTIENTS:
        rates = {**dict.fromkeys(each.below, none), **dict.fromkeys(each.above, some)}
        assert np.isnan(each.of(rates, 3)).all() == bool(each.below)
        assert np.isnan(each.of({}, 3)).all()


CALM = FEWEST_DAYS * DAY // MINUTE
WINDOW = Window(START, START + (FEWEST_DAYS + 1) * DAY)
PLANTED = CALM + 6 * 60
USUAL = {
    "blocks per commit": 40.0,
    "WAL per commit": 900.0,
    "time per device read": 0.5e-3,
    "time per device write": 1e-3,
    "requests at devices": 0.25,
    AVAILABLE_NAME: 4e9,
}
ALL = (ROLLED_BACK_NAME, *(each.name for each in QUOTIENTS), AVAILABLE_NAME, PER_CALL_NAME)


def minutes_with(changed: str) -> Minutes:
    """Fifteen days of a healthy server; what is ``changed`` grows by half, or from zero to twice its background."""
    rng = np.random.default_rng(28)

    def noisy(usual: float) -> np.ndarray:
        series: np.ndarray = usual * np.exp(0.05 * rng.normal(size=WINDOW.minutes))
        return series

    minutes = Minutes(WINDOW)
    minutes.put(("polls", ""), WINDOW, np.full(WINDOW.minutes, 60.0))
    minutes.put((COMMITS_NAME, ""), WINDOW, noisy(100.0))
    backgrounds = {each.name: 2 * each.background for each in QUOTIENTS} | {ROLLED_BACK_NAME: 0.2}
    for name in ALL:
        series = noisy(USUAL[name]) if name in USUAL else np.zeros(WINDOW.minutes)
        if name == PER_CALL_NAME:
            series = noisy(0.005)
        if name == changed:
            series[PLANTED:] = series[PLANTED:] * 1.5 + (0.0 if series.any() else backgrounds[name])
        minutes.put((name, "7" if name == PER_CALL_NAME else ""), WINDOW, series)
    return minutes


def watch(sets: list[Signals]) -> list[Alarm]:
    """Servers beside each other, learned from their calm days."""
    (signals,) = {each.signals for each in sets}
    values = np.stack([each.values for each in sets])
    first = START // MINUTE // 5 * 5
    learned = learn(values[..., :CALM], signals, first=first, resample=False)
    state, found = begin(learned, (first + CALM) // 5), list[Alarm]()
    for block in np.moveaxis(blocks_of(values[..., CALM:], signals, learned.floors), -1, 0):
        state, alarms = advance(learned, state, block)
        found += alarms
    return found


@pytest.fixture(scope="module")
def servers() -> tuple[list[Signals], list[Alarm]]:
    """The first one stays as it is, the others have one thing that changes each."""
    calm = Window(START, START + FEWEST_DAYS * DAY)
    sets = [
        choose_signals(minutes_with(changed), calm, {"7": "SELECT $1"}, server=f"db{number}/shop")
        for number, changed in enumerate(("", *ALL), start=1)
    ]
    return sets, watch(sets)


def test_each_server_has_noise_of_its_own() -> None:
    calm = Window(START, START + FEWEST_DAYS * DAY)
    one, again, other = (
        choose_signals(minutes_with(""), calm, {}, server=server) for server in ("db1/shop", "db1/shop", "db2/shop")
    )
    place = [each.signal for each in one.columns].index("deadlocks")  # none in fifteen days: noise alone
    assert (one.values[place] == again.values[place]).all()
    logs = np.log([one.values[place], other.values[place]])
    assert abs(np.corrcoef(logs)[0, 1]) < 0.05


def test_waits_are_a_mix_by_type_and_of_each_type_one_by_event() -> None:
    minutes = minutes_with("")
    rng = np.random.default_rng(29)
    usual = {
        "CPU": 1.5,
        "IO/DataFileRead": 0.4,
        "IO/WALSync": 0.2,
        "LWLock/BufferContent": 0.015,
        "LWLock/WALInsert": 0.015,
        "Lock/transactionid": 0.1,
    }
    waits = {wait: rng.poisson(60 * sessions, WINDOW.minutes) / 60 for wait, sessions in usual.items()}
    for wait, later in (("IO/BufFileWrite", 0.1), ("LWLock/WALWrite", 0.1), ("Lock/tuple", 0.5)):
        waits[wait] = np.where(np.arange(WINDOW.minutes) < PLANTED, 0.0, later)
    for wait, sessions in waits.items():
        minutes.put(("waits", wait), WINDOW, sessions)

    signals = choose_signals(minutes, Window(START, START + FEWEST_DAYS * DAY), {}, server="db1/shop")

    locks = sum(sessions for wait, sessions in waits.items() if wait.startswith("LWLock/"))
    expected = {
        ("waits", "CPU"): waits["CPU"],
        ("waits", "IO"): waits["IO/DataFileRead"] + waits["IO/WALSync"],
        ("waits", "LWLock"): locks,
        ("waits", "Lock"): waits["Lock/transactionid"],
        ("waits", "others"): waits["IO/BufFileWrite"] + waits["Lock/tuple"],
        ("waits of IO", "DataFileRead"): waits["IO/DataFileRead"],
        ("waits of IO", "WALSync"): waits["IO/WALSync"],
    }
    places = {(each.signal, each.part): place for place, each in enumerate(signals.columns) if each.part}
    assert list(places) == list(expected)
    half = 0.5 / 60  # of a poll
    for key, sessions in expected.items():
        assert signals.values[places[key]] == pytest.approx(sessions + half)
    # Of the others the one that has risen most is told, and none where none has.
    before, after = Window(START, START + DAY), Window(START + PLANTED * MINUTE, WINDOW.end)
    others = Column(signal="waits", part="others")
    assert signals.part_of(others, before, after) == "others (Lock tuple)"
    assert signals.part_of(others, after, before) == "others"
    assert signals.part_of(replace(others, part="IO"), before, after) == "IO"


def test_all_are_signals_of_a_server_on_which_most_stand_still(servers: tuple[list[Signals], list[Alarm]]) -> None:
    columns = [each.signal for each in servers[0][0].columns]
    assert columns == [COMMITS_NAME, *ALL]


def test_a_calm_server_is_silent(servers: tuple[list[Signals], list[Alarm]]) -> None:
    assert [alarm for alarm in servers[1] if alarm.set == 0] == []


@pytest.mark.parametrize("changed", ALL)
def test_what_changes_is_found_by_its_name(changed: str, servers: tuple[list[Signals], list[Alarm]]) -> None:
    sets, alarms = servers
    one = 1 + ALL.index(changed)
    (alarm,) = (each for each in alarms if each.set == one)
    first = START // MINUTE // 5
    assert 0 <= alarm.block - first - PLANTED // 5 <= 12
    named = {(sets[one].columns[each.stream.column].signal, each.stream.aspect): each for each in alarm.changes}
    assert {signal for signal, _ in named} == {changed}
    assert named[changed, Aspect.LEVEL].direction == 1
