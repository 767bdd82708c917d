"""Alarms of a watched server: a planted change is found and named, calm time is silent, too little of it is said."""

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pgtrial.cli.main import main
from pgtrial.errors import SpecError, StoreError
from pgtrial.stats.alarms.audit import audit
from pgtrial.stats.alarms.blocks import Aspect
from pgtrial.store import parquet
from pgtrial.watch import alarms, raised
from pgtrial.watch.alarm_words import contract_text, shift_cells, summary
from pgtrial.watch.alarms import Watched, find_alarms
from pgtrial.watch.folder import Ages, Mark, open_folder
from pgtrial.watch.layout import DAY, HOUR, KINDS, MINUTE, MINUTES, SAMPLES, STATEMENTS, WAITS, file_name, hour_parts
from pgtrial.watch.raised import Kept, ServerAlarm, Shift, keep, read_kept
from pgtrial.watch.sums import COUNTERS
from pgtrial.watch.windows import Window

START = 1795824000  # 2026-11-28 00:00 UTC
CALM, WATCHED = 14, 2  # days
SHIFT = START + CALM * DAY + DAY + 10 * HOUR
AHEAD = 4102444800  # 2100-01-01 00:00 UTC
GAP = range(START + 3 * DAY, START + 3 * DAY + 5 * HOUR, HOUR)
MARK = Mark(server="db1:5432", database="shop")
QUERIES = {
    SAMPLES: "SELECT t, metric, '' AS object, 12::BIGINT AS count, total, "
    "nullif(seconds, 'nan'::DOUBLE) AS seconds, low, low AS high FROM {rows}",
    WAITS: "SELECT t, backend AS backend_type, 'app' AS application, state, type AS wait_type, event AS wait_event, "
    "'SELECT ?' AS query, sessions FROM {rows}",
    STATEMENTS: "SELECT t, queryid, 60.0::DOUBLE AS seconds, calls, calls AS rows, exec_time, "
    + ", ".join(
        f"0::BIGINT AS {name}"
        for name in (
            "shared_blks_hit",
            "shared_blks_read",
            "shared_blks_dirtied",
            "shared_blks_written",
            "temp_blks_read",
            "temp_blks_written",
            "wal_bytes",
        )
    )
    + ", query FROM {rows}",
}


def day_of_minutes(day: int, *, shifted: bool, failing: bool, moved_to: str) -> dict[str, dict[str, np.ndarray]]:
    """By kind the columns of the minutes of a day, which a watch would have summed up; alike for each call.

    No transaction is ever rolled back, unless they are ``failing``: one in a hundred, from SHIFT on. From there on half
    of the waits for the lightweight lock WALWrite are ``moved_to`` another one.
    """
    rng = np.random.default_rng([20261128, day])
    t = START + day * DAY + MINUTE * np.arange(DAY // MINUTE)
    late = (t >= SHIFT) if shifted else np.zeros(t.size, dtype=bool)
    rhythm = 1 + 0.2 * np.sin(2 * np.pi * t / DAY)
    commits = 100 * rhythm * np.exp(0.05 * rng.normal(size=t.size)) * np.where(late, 0.8, 1.0)
    cpu = 1.5 * rhythm * np.exp(0.05 * rng.normal(size=t.size))
    polls, calls = np.full(t.size, 60.0), np.full(t.size, 900.0)
    rollbacks = np.where((t >= SHIFT) & failing, 0.01 * commits, 0.0)
    moved = np.where(t >= SHIFT, 0.2 * rhythm, 0.0)
    locks = {"WALWrite": 0.4 * rhythm - moved, "BufferMapping": 0.2 * rhythm}
    locks[moved_to] = locks.get(moved_to, 0.0) + moved
    noise = np.random.default_rng([20261129, day]).normal(size=(2, t.size))
    blocks, available = 400 * commits * np.exp(0.05 * noise[0]), 4e9 * np.exp(0.01 * noise[1])
    samples = {
        "pg_stat_database.xact_commit": (60 * commits, 60.0),
        "pg_stat_database.xact_rollback": (60 * rollbacks, 60.0),
        "pg_stat_database.deadlocks": (np.zeros(t.size), 60.0),
        "pg_stat_database.blks_hit": (60 * blocks, 60.0),
        "pg_stat_database.blks_read": (np.zeros(t.size), 60.0),
        "backend_cpu.run": (60 * cpu, 60.0),
        "proc_meminfo.MemAvailable": (12 * available, np.nan),
        "pg_stat_statements.calls": (calls, 60.0),
        "sessions.polls": (polls, np.nan),
    }
    waits = {
        ("client backend", "active", "", ""): 1.5 * rhythm,
        ("client backend", "active", "IO", "DataFileRead"): 0.5 * rhythm * np.where(late, 3.0, 1.0),
        **{("client backend", "active", "LWLock", lock): sessions for lock, sessions in locks.items()},
        ("client backend", "idle", "Client", "ClientRead"): np.full(t.size, 10.0),
        ("checkpointer", "active", "IO", "DataFileWrite"): np.full(t.size, 0.2),
    }
    statements = {("7", "SELECT  $1\nFROM item"): 12.0 * rhythm, ("8", "UPDATE item"): 5.0 * rhythm, ("9", ""): 2.0}

    def table(*rows: tuple[object, ...], names: str) -> dict[str, np.ndarray]:
        columns = zip(*rows, strict=True)
        return {
            name: np.concatenate([np.broadcast_to(np.asarray(each), t.shape) for each in column])
            for name, column in zip(names.split(), columns, strict=True)
        }

    return {
        SAMPLES: table(
            *((t, metric, total, seconds, total / 60) for metric, (total, seconds) in samples.items()),
            names="t metric total seconds low",
        ),
        WAITS: table(
            *((t, *names, rng.poisson(60 * mean)) for names, mean in waits.items()),
            names="t backend state type event sessions",
        ),
        STATEMENTS: table(
            *(
                (t, queryid, 300, time * np.exp(0.1 * rng.normal(size=t.size)), query)
                for (queryid, query), time in statements.items()
            ),
            names="t queryid calls exec_time query",
        ),
    }


# What is known of a minute of the day, where that is not all of it: the network was gone for half a minute, then for
# ten minutes but some seconds, for twenty, and for half a minute in each of ten.
CUTS = {
    600: 0.5,
    **{700 + minute: 0.05 if minute in (0, 9) else 0.0 for minute in range(10)},
    **{800 + minute: 0.05 if minute in (0, 19) else 0.0 for minute in range(20)},
    **{900 + minute: 0.5 for minute in range(10)},
}


def cut(columns: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The rows with what is known of their minutes: less time, and what counted in it; of no time no row."""
    minutes = (columns["t"] % DAY // MINUTE).astype(int)
    known = np.array([CUTS.get(int(minute), 1.0) for minute in minutes])
    if "metric" in columns:
        known = np.where(columns["metric"] == "proc_meminfo.MemAvailable", np.ceil(known), known)  # a gauge
    parts = {name: columns[name] * known for name in ("total", "seconds", "calls", "exec_time") if name in columns}
    if "sessions" in columns:
        parts["sessions"] = rng.binomial(columns["sessions"], known)
    return {name: each[known > 0] for name, each in (columns | parts).items()}


def write_day(
    root: Path,
    day: int,
    *,
    shifted: bool = False,
    failing: bool = False,
    moved_to: str = "WALWrite",
    is_cut: bool = False,
) -> None:
    """As a watch leaves a day whose readings are too old to be kept."""
    rng = np.random.default_rng([20261130, day])
    with parquet.session(threads=1) as db:
        for kind, whole in day_of_minutes(day, shifted=shifted, failing=failing, moved_to=moved_to).items():
            columns = cut(whole, rng) if is_cut else whole
            db.register("columns", columns)
            db.execute("CREATE OR REPLACE TEMP TABLE of_day AS SELECT * REPLACE (t::DOUBLE AS t) FROM columns")
            for hour in range(START + day * DAY, START + (day + 1) * DAY, HOUR):
                if hour in GAP:
                    continue
                place = root.joinpath(*hour_parts(hour))
                place.mkdir(parents=True, exist_ok=True)
                rows = f"(SELECT * FROM of_day WHERE t >= {hour} AND t < {hour + HOUR})"
                query = QUERIES[kind].replace("{rows}", rows)
                parquet.write_query(db, query, place / file_name(kind, MINUTES, 1))


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("watch") / "shop"
    with open_folder(root, MARK, ages=Ages(), counters=COUNTERS, keep_free=0):
        for day in range(CALM + WATCHED):
            write_day(root, day)
    return root


@pytest.fixture(scope="module")
def shifted(calm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("watch") / "the shop"
    shutil.copytree(calm, root)
    write_day(root, CALM + WATCHED - 1, shifted=True)
    return root


@pytest.fixture(scope="module")
def found(shifted: Path) -> Watched:
    return find_alarms(shifted)


def test_a_planted_change_is_found_and_named(found: Watched) -> None:
    alarm = found.alarms[0]
    assert SHIFT < alarm.at <= SHIFT + HOUR
    assert SHIFT - 600 <= alarm.onset <= alarm.at
    shifts = {(each.signal, each.part, each.aspect.value): each for each in found.alarms[0].shifts}
    commits, io = shifts["commits", "", "level"], shifts["waits", "IO", "share"]
    assert not commits.is_more
    assert commits.low < 0.8 < commits.high
    assert io.is_more
    assert io.low < 3.0 < io.high
    assert not any(signal == "statements" for signal, _, _ in shifts)


def test_what_is_watched_is_known_and_changes(found: Watched) -> None:
    assert [(each.signal, each.part) for each in found.columns] == [
        ("commits", ""),
        ("active client sessions", ""),
        ("time at work per commit", ""),
        ("CPU of the server", ""),
        ("transactions rolled back", ""),
        ("deadlocks", ""),
        ("blocks per commit", ""),
        ("memory available", ""),
        ("time per call", "7"),
        ("time per call", "8"),
        ("time per call", "9"),
        ("waits", "CPU"),
        ("waits", "IO"),
        ("waits", "LWLock"),
        ("waits", "others"),
        ("waits of LWLock", "BufferMapping"),
        ("waits of LWLock", "WALWrite"),
        ("statements", "7"),
        ("statements", "8"),
        ("statements", "9"),
        ("statements", "others"),
    ]
    assert found.calm == Window(START, START + CALM * DAY)
    assert found.rest == Window(START + CALM * DAY, START + (CALM + WATCHED) * DAY)
    assert found.audit.days == WATCHED


def test_the_first_rollbacks_in_weeks_are_an_alarm(calm: Path, tmp_path: Path) -> None:
    root = tmp_path / "w"
    shutil.copytree(calm, root)
    write_day(root, CALM + WATCHED - 1, failing=True)
    (alarm,) = find_alarms(root).alarms
    assert SHIFT < alarm.at <= SHIFT + HOUR
    shift = alarm.shifts[0]
    assert (shift.signal, shift.is_more) == ("transactions rolled back", True)
    # A hundredth on a background of a thousandth.
    level = next(each for each in alarm.shifts if each.aspect.value == "level")
    assert level.low < 11 < level.high


@pytest.mark.parametrize(
    ("moved_to", "more", "about"),
    [
        ("BufferMapping", "waits of LWLock: BufferMapping", {"waits of LWLock"}),
        ("XidGen", "waits: others (LWLock XidGen)", {"waits", "waits of LWLock"}),  # calm time has none of it
    ],
)
def test_waits_that_move_within_their_type_are_an_alarm_that_names_them(
    calm: Path, tmp_path: Path, moved_to: str, more: str, about: set[str]
) -> None:
    root = tmp_path / "w"
    shutil.copytree(calm, root)
    write_day(root, CALM + WATCHED - 1, moved_to=moved_to)
    alarm = find_alarms(root).alarms[0]
    assert SHIFT < alarm.at <= SHIFT + HOUR
    assert {each.signal for each in alarm.shifts} <= about
    assert {shift_cells(each)[0]: each.is_more for each in alarm.shifts}[more]
    assert summary(alarm).startswith("waits")


def test_the_same_minutes_without_it_are_silent(calm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "w"
    shutil.copytree(calm, root)  # nothing is kept in the folder that the others copy
    assert main(["alarms", str(root), "--fail-on-alarm"]) == 0
    printed = capsys.readouterr().out
    assert "no alarm\n" in printed
    assert "0 alarms in 2.0 days without gaps: 0 in 30 days, 95 % interval 0 to 55.3." in printed
    assert "The time is too short to know whether it holds" in printed
    assert "compare-times" not in printed


def test_a_network_that_goes_now_and_then_raises_no_alarm(calm: Path, tmp_path: Path) -> None:
    root = tmp_path / "w"
    shutil.copytree(calm, root)
    for day in range(CALM, CALM + WATCHED):
        write_day(root, day, is_cut=True)
    found = find_alarms(root)
    assert found.alarms == ()
    unknown = sum(not known for known in CUTS.values())
    assert found.audit.days == pytest.approx(WATCHED * (1 - unknown * MINUTE / DAY))


def test_alarms_are_kept_when_what_they_were_found_from_is_not(
    found: Watched, shifted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Minutes age, and calm time moves with them over the time of an alarm; the contract is about all of them."""
    root = tmp_path / "w"
    shutil.copytree(shifted, root, ignore=shutil.ignore_patterns("alarms.json"))
    with monkeypatch.context() as patch:
        patch.setattr(alarms, "find_alarms", lambda *_: found)
        assert main(["alarms", str(root), "--calm", "2026-11-28T00:00/2026-12-12T00:00"]) == 0
        assert read_kept(root, 30.0) is None  # of a calm time that somebody names, only what comes after it counts
        assert main(["alarms", str(root)]) == 0
    for day in range(WATCHED):
        shutil.rmtree(root.joinpath(hour_parts(START + day * DAY)[0]))
        write_day(root, CALM + WATCHED + day, shifted=True)

    later = find_alarms(root)

    assert later.calm == Window(START + WATCHED * DAY, START + (CALM + WATCHED) * DAY)
    assert later.alarms[: len(found.alarms)] == found.alarms
    assert later.time_of(1) == found.time_of(1)
    assert (later.kept.since, later.kept.until) == (found.calm.end, START + (CALM + 2 * WATCHED) * DAY - HOUR)
    assert (later.audit.days, later.audit.alarms) == (2 * WATCHED, len(later.alarms))
    assert later.kept.days == pytest.approx(2 * WATCHED - 1 / 24)
    monkeypatch.setattr(alarms, "find_alarms", lambda *_: later)
    capsys.readouterr()
    assert main(["alarms", str(root)]) == 0
    printed = capsys.readouterr().out
    assert "alarms are kept since 2026-12-12T00:00 UTC" in printed
    assert "in 4.0 days without gaps" in printed


def test_an_alarm_that_is_found_again_a_little_earlier_is_the_one_that_is_kept(found: Watched) -> None:
    """The last minutes of a folder are not whole yet when alarms are looked for."""
    (alarm,) = found.alarms
    kept = replace(found.kept, until=alarm.at - HOUR, alarms=found.alarms)
    others = [replace(alarm, at=alarm.at + seconds) for seconds in (-2 * HOUR, -300, 0, 300, HOUR + 300)]
    assert kept.with_new(others) == (alarm, others[-1])


def test_alarms_are_found_again_after_a_clock_was_ahead(found: Watched, shifted: Path, tmp_path: Path) -> None:
    """What was kept then is of a time that is still to come: until it, each alarm would be one that is known."""
    root = tmp_path / "w"
    shutil.copytree(shifted, root, ignore=shutil.ignore_patterns("alarms.json"))
    (alarm,) = found.alarms
    ahead = replace(found.kept, until=AHEAD + DAY, days=WATCHED + 5.0, alarms=(replace(alarm, at=AHEAD),))
    keep(root, ahead, 30.0)
    assert find_alarms(root) == found
    keep(root, replace(ahead, since=AHEAD), 30.0)
    assert find_alarms(root) == found


def test_what_was_kept_stays_where_its_minutes_are_gone(
    found: Watched, shifted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "w"
    shutil.copytree(shifted, root, ignore=shutil.ignore_patterns("alarms.json"))
    kept = replace(found.kept, until=found.kept.until + DAY, alarms=found.alarms)
    keep(root, kept, 30.0)
    monkeypatch.setattr(alarms, "time", lambda: float(kept.until))
    assert find_alarms(root).kept == kept


def test_who_may_not_write_to_the_folder_sees_alarms_all_the_same(
    found: Watched, shifted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "w"
    shutil.copytree(shifted, root, ignore=shutil.ignore_patterns("alarms.json"))
    monkeypatch.setattr(alarms, "find_alarms", lambda *_: found)
    (root / "alarms.json").mkdir()  # which nobody can write over
    assert main(["alarms", str(root)]) == 0
    streams = capsys.readouterr()
    assert "1 alarm in 2.0 days" in streams.out
    assert "alarms are not kept" in streams.err


KEPT = Kept(since=START, until=START + DAY, days=1.0, alarms=())
SHIFT_OF = Shift(
    signal="commits", part="", text="", aspect=Aspect.LEVEL, is_more=False, size=0.8, low=0.7, high=0.9, onset=SHIFT
)
RAISED = ServerAlarm(at=SHIFT + 600, shifts=(SHIFT_OF,))


def watched(rest: Window | None, alarm: ServerAlarm = RAISED) -> Watched:
    """A folder in which an alarm was kept."""
    return Watched(
        calm=Window(START, SHIFT + DAY),
        rest=rest,
        columns=(),
        alarms=(alarm,),
        audit=audit(1, days=1.0, allowed=1.0),
        kept=replace(KEPT, alarms=(alarm,)),
    )


@pytest.mark.parametrize(
    ("rest", "end"),
    [
        (None, SHIFT + HOUR),
        (Window(SHIFT - DAY, SHIFT - HOUR), SHIFT + HOUR),  # the clock was set back
        (Window(SHIFT - DAY, SHIFT + 900), SHIFT + 900),
        (Window(SHIFT - DAY, SHIFT + DAY), SHIFT + HOUR),
    ],
)
def test_an_alarm_that_was_kept_has_its_time_whatever_was_read(rest: Window | None, end: int) -> None:
    found = watched(rest)
    assert found.time_of(1) == Window(SHIFT, end)
    assert found.around_last == (Window(SHIFT - HOUR, SHIFT), Window(SHIFT, end))
    with pytest.raises(SpecError, match="no alarm 2: the last one is 1"):
        found.time_of(2)


@pytest.mark.parametrize(("end", "is_last"), [(RAISED.at - 1, False), (RAISED.at, True), (RAISED.at + HOUR, False)])
def test_an_alarm_after_what_was_read_is_not_one_of_its_last_hour(end: int, is_last: bool) -> None:
    assert watched(Window(START, end)).has_alarm_in_last(HOUR) is is_last
    assert not watched(None).has_alarm_in_last(HOUR)


def test_what_root_keeps_is_of_the_folder_s_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the user who watches could not read it the next time."""
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", lambda _file, uid, gid: given.append((uid, gid)))
    keep(tmp_path, KEPT, 30.0)
    owner = tmp_path.stat()
    assert given == [(owner.st_uid, owner.st_gid)]
    assert read_kept(tmp_path, 30.0) == KEPT


def test_what_another_user_has_kept_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(tmp_path, KEPT, 30.0)
    before = (tmp_path / "alarms.json").read_bytes()

    def refuse(path: Path, *, limit: int) -> bytes:
        raise PermissionError(errno.EACCES, f"Permission denied, of {limit} bytes", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(raised, "read_file", refuse)
        assert read_kept(tmp_path, 30.0) is None
        with pytest.raises(StoreError, match=r"cannot write .*alarms\.json.*Permission denied"):
            keep(tmp_path, replace(KEPT, days=0.5), 30.0)
    assert (tmp_path / "alarms.json").read_bytes() == before


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"30": 7}',
        '{"30": {"since": 1, "until": 2, "days": "many", "alarms": []}}',
        '{"30": {"since": 1, "until": 2, "days": -1, "alarms": []}}',
        '{"30": {"since": 1, "until": 2, "days": 1.5, "alarms": [{"at": 2, "shifts": []}]}}',
        '{"30": {"since": 1, "until": 2, "days": 1.5, "alarms": [{"at": 2, "shifts": [{"signal": 1}]}]}}',
    ],
)
def test_damaged_notes_of_alarms_are_refused_by_name(tmp_path: Path, content: str) -> None:
    assert read_kept(tmp_path, 30.0) is None
    (tmp_path / "alarms.json").write_text(content)
    with pytest.raises(StoreError, match=r"alarms\.json.*damaged"):
        read_kept(tmp_path, 30.0)


def test_the_command_names_the_next_one(
    found: Watched, shifted: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alarms, "find_alarms", lambda *_: found)
    assert main(["alarms", str(shifted), "--fail-on-alarm"]) == 0
    printed = capsys.readouterr().out
    assert "database shop at db1:5432" in printed
    assert "  2026-12-13T10:" in printed
    assert "waits: IO" in printed
    assert "An alarm is observation, not cause" in printed
    (line,) = (each for each in printed.splitlines() if "pgtrial compare-times" in each)
    assert f"pgtrial compare-times '{shifted}' 2026-12-13T09:00/10:00 2026-12-13T10:00/11:00" in line

    assert main(["alarms", str(shifted), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema_version"] == 1
    assert document["alarms"][0]["shifts"]
    assert document["audit"]["alarms"] == 1
    assert document["compare"] in line


def test_a_stricter_contract_needs_more_evidence_and_is_said(
    found: Watched, shifted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strict = find_alarms(shifted, one_in=365)

    assert strict.alarms[0].at >= found.alarms[0].at
    assert strict.alarms[0].onset <= strict.alarms[0].at
    assert "at most 1 false alarm in 365 days for" in contract_text(strict.audit, strict.one_in)


@pytest.mark.parametrize("words", ["6d", "400d", "soon"])
def test_a_contract_that_two_weeks_cannot_hold_is_a_usage_error(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["alarms", str(tmp_path), "--contract", words]) == 2
    assert "--contract" in capsys.readouterr().err


@pytest.mark.parametrize(("after", "status"), [(HOUR, 3), (2 * HOUR, 0)])
def test_an_alarm_of_the_last_hour_fails_where_asked_for(
    found: Watched, shifted: Path, monkeypatch: pytest.MonkeyPatch, after: int, status: int
) -> None:
    ended = replace(found, rest=Window(START + CALM * DAY, SHIFT + after))
    monkeypatch.setattr(alarms, "find_alarms", lambda *_: ended)
    assert main(["alarms", str(shifted), "--fail-on-alarm"]) == status
    assert main(["alarms", str(shifted)]) == 0


@pytest.mark.parametrize("command", ["compare-times", "question"])
def test_an_alarm_is_the_one_of_the_same_contract_and_calm_time(
    command: str, found: Watched, shifted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Window | None, float]] = []

    def find(_root: Path, window: Window | None, one_in: float) -> Watched:
        asked.append((window, one_in))
        return found

    monkeypatch.setattr(alarms, "find_alarms", find)
    words = [command, str(shifted), "2026-12-13T09:00/10:00", "--alarm", "1"]
    more = [] if command == "compare-times" else ["--server", f"host={tmp_path}", "-o", str(tmp_path / "q")]
    main([*words, *more, "--contract", "90d", "--calm", "2026-11-29T00:00/2026-12-13T00:00"])
    main([*words, *more])

    assert asked == [(Window(START + DAY, START + 15 * DAY), 90.0), (None, 30.0)]


@pytest.mark.parametrize("option", [("--contract", "90d"), ("--calm", "2026-11-29T00:00/2026-12-13T00:00")])
def test_what_chooses_among_alarms_goes_with_an_alarm(
    option: tuple[str, str], shifted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare-times", str(shifted), "now-1h", *option]) == 2
    assert f"{option[0]} goes with --alarm" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "days"),
    [
        (["--calm", "2026-12-01T00:00/2026-12-10T00:00"], "9.0"),
        (["--calm", "2027-12-01T00:00/2027-12-20T00:00"], "0.0"),
    ],
)
def test_too_little_calm_time_is_said(
    calm: Path, capsys: pytest.CaptureFixture[str], options: list[str], days: str
) -> None:
    assert main(["alarms", str(calm), *options]) == 2
    message = capsys.readouterr().err
    assert f"the folder has {days} days of {options[1]}" in message
    assert "needs 14 days, 10.5 of them read" in message


def test_gaps_are_no_calm_time(calm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "w"
    shutil.copytree(calm, root)
    for day in range(1, 10):
        shutil.rmtree(root.joinpath(hour_parts(START + day * DAY)[0]))
    assert main(["alarms", str(root)]) == 2
    assert "the folder has 5.0 days of 2026-11-28T00:00/2026-12-12T00:00" in capsys.readouterr().err


def test_an_empty_folder_has_no_calm_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_folder(tmp_path / "w", MARK, ages=Ages(), counters=COUNTERS, keep_free=0):
        pass
    assert main(["alarms", str(tmp_path / "w")]) == 2
    assert "the folder has 0.0 days in minutes" in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_refused_by_name(
    calm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    root = tmp_path / "w"
    shutil.copytree(calm, root)
    damaged = sorted(root.rglob(f"{kind}-minutes-*.parquet"))[20]
    damaged.write_bytes(damaged.read_bytes()[:300])
    assert main(["alarms", str(root)]) == 1
    assert damaged.name in capsys.readouterr().err


def test_a_folder_of_another_kind_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["alarms", str(tmp_path)]) == 1
    assert "watch.json" in capsys.readouterr().err
