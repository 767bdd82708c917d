"""What the servers' logs say, on logs written into the runs' folders of simulated experiments."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.analysis.evidence import Event, Evidence, read_evidence
from pgtrial.analysis.log_events import MOST_MARKS, LogEvent, mark_events, read_log_events, summarize_log
from pgtrial.analysis.log_pairing import SEPARATE, add_up, pair_entries
from pgtrial.analysis.slices import windows
from pgtrial.findings.message import say
from pgtrial.model.run import RunRow
from pgtrial.postgres.existing.log_formats import parse_text
from pgtrial.store import layout
from pgtrial.store.server_log.entry import LogEntry
from pgtrial.store.server_log.stored import keep_entries, write_log
from support import INTERLEAVED, write_result_folder

END = (
    "checkpoint complete: wrote {buffers} buffers (56.5%); 0 WAL file(s) added, 0 removed, 4 recycled; write=2.000 s, "
    "sync=0.500 s, total=3.000 s; sync files=10, longest=0.002 s, average=0.001 s; distance=1024 kB, estimate=2048 kB"
)
VACUUM = (
    'automatic vacuum of table "{database}.public.{table}": index scans: 1\n'
    "pages: 2 removed, 14 remain, 14 scanned (100.00% of total)\n"
    "tuples: 1700 removed, 410 remain, 3 are dead but not yet removable\n"
    "system usage: CPU: user: 0.25 s, system: 0.04 s, elapsed: 1.50 s"
)
Write = Callable[..., Evidence]


def entry(t: float, message: str, **fields: object) -> LogEntry:
    return LogEntry(**{"t": t, "pid": 1, "severity": "LOG", "message": message, **fields})  # type: ignore[arg-type]


def begun(run: RunRow) -> float:
    """When the first measured second of a run began."""
    return windows(run)[0].started


@pytest.fixture
def write(evidence: Evidence, tmp_path: Path) -> Write:
    """Evidence whose runs have these logs: entries by run; their times count from the first measured second."""

    def build(logs: dict[int, list[LogEntry]], **changes: object) -> Evidence:
        changed = replace(evidence, folder=tmp_path, **changes)  # type: ignore[arg-type]
        for run in changed.valid:
            folder = layout.run_folder(tmp_path, run.folder)
            folder.mkdir(parents=True, exist_ok=True)
            entries = [replace(each, t=each.t + begun(run)) for each in logs.get(run.id, [])]
            if run.id in logs:
                write_log(entries, folder / layout.SERVER_LOG)
        return changed

    return build


def first(evidence: Evidence, arm: str = "on") -> RunRow:
    return evidence.runs_of(arm)[0]


def test_without_any_log_there_are_no_events_but_none_known(write: Write) -> None:
    found = write({})

    assert read_log_events(found) is None


def test_an_empty_log_tells_that_there_was_nothing(evidence: Evidence, write: Write) -> None:
    assert read_log_events(write({first(evidence).id: []})) == ()


def test_a_checkpoint_lasts_from_its_first_message_to_its_last(evidence: Evidence, write: Write) -> None:
    run = first(evidence)
    changed = write(
        {
            run.id: [
                entry(1.0, "checkpoint starting: time", backend_type="checkpointer"),
                entry(4.25, END.format(buffers=9250), backend_type="checkpointer"),
            ]
        }
    )

    events = read_log_events(changed)
    assert events is not None
    (event,) = events
    assert (event.run, event.kind, event.object) == (run.id, "checkpoint", "")
    assert (event.start - begun(run), event.end - begun(run)) == pytest.approx((1.0, 4.25), abs=2e-3)
    assert event.numbers["timed"] == 1.0
    assert event.numbers["buffers"] == 9250
    assert event.numbers["distance bytes"] == 1024**2
    assert say(event.description).startswith("timed, 9.25 k buffers, 2 s of writing, 500 ms of syncing, 1 MB of WAL")


def test_a_checkpoint_without_its_beginning_began_as_long_ago_as_it_took(evidence: Evidence, write: Write) -> None:
    run = first(evidence)
    changed = write({run.id: [entry(4.0, END.format(buffers=1), backend_type="checkpointer")]})

    (event,) = read_log_events(changed) or ()
    assert event.start - begun(run) == pytest.approx(1.0, abs=2e-3)
    assert "timed" not in event.numbers
    assert "requested" not in event.numbers


def test_a_checkpoint_without_its_end_lasts_until_the_end_of_the_log(evidence: Evidence, write: Write) -> None:
    run = first(evidence)
    changed = write({run.id: [entry(2.0, "checkpoint starting: wal"), entry(9.0, "something else")]})

    (event,) = read_log_events(changed) or ()
    assert (event.start - begun(run), event.end - begun(run)) == pytest.approx((2.0, 9.0), abs=2e-3)
    assert say(event.description) == "requested (wal), not over"


def test_a_wait_for_a_lock_is_one_event_however_often_it_is_logged(evidence: Evidence, write: Write) -> None:
    run = first(evidence)
    lock = "ShareLock on transaction 7"
    changed = write(
        {
            run.id: [
                entry(3.0, f"process 11 still waiting for {lock} after 1000.000 ms", pid=11),
                entry(3.1, f"process 12 still waiting for {lock} after 1000.000 ms", pid=12),
                entry(3.2, f"process 13 still waiting for {lock} after 1000.000 ms", pid=13),
                entry(5.0, f"process 11 acquired {lock} after 3000.000 ms", pid=11),
                entry(6.0, "canceling statement due to lock timeout", pid=12, severity="ERROR", sqlstate="55P03"),
                entry(8.0, "the last entry"),
            ]
        }
    )

    waits = [event for event in read_log_events(changed) or () if event.kind == "lock wait"]
    spans = [(event.start - begun(run), event.end - begun(run)) for event in waits]
    assert spans == [pytest.approx(span, abs=2e-3) for span in ((2.0, 5.0), (2.1, 6.0), (2.2, 8.0))]
    assert [event.numbers["seconds"] for event in waits] == pytest.approx([3.0, 3.9, 5.8], abs=2e-3)
    assert {event.object for event in waits} == {"ShareLock"}


def test_tables_of_the_loads_database_are_named_without_it(evidence: Evidence, write: Write) -> None:
    run = first(evidence)
    names = ("pgtrial", "pgtrial_0a1b2c3d", "sales", "pgtrial_0a1b2c3d_data")
    changed = write({run.id: [entry(i, VACUUM.format(database=name, table="t")) for i, name in enumerate(names)]})

    events = read_log_events(changed) or ()
    assert [event.object for event in events] == [
        "public.t",
        "public.t",
        "sales.public.t",
        "pgtrial_0a1b2c3d_data.public.t",
    ]
    assert events[0].end - events[0].start == pytest.approx(1.5)
    assert say(events[0].description) == "public.t, 1.5 s, 1.7 k tuples removed, 2 pages removed"


def test_only_what_overlaps_the_measured_time_is_summarized(evidence: Evidence, write: Write) -> None:
    run = first(evidence)
    length = windows(run)[-1].ended - begun(run)
    error = {"severity": "ERROR", "sqlstate": "40001"}
    changed = write(
        {
            run.id: [
                entry(-60.0, "before", **error),
                entry(-1.0, "checkpoint starting: time"),
                entry(2.0, END.format(buffers=10)),
                entry(3.0, "could not serialize access", **error),
                entry(3.5, "could not serialize access", **error),
                entry(length + 60.0, "after", **error),
            ]
        }
    )

    summaries = summarize_log(changed, read_log_events(changed) or ())
    assert [(each.arm, each.kind, each.count) for each in summaries] == [
        ("on", "checkpoint", 1),
        ("on", "error 40001", 2),
    ]
    assert say(summaries[1].text) == "could not serialize access"


def test_numbers_of_an_arm_are_sums_over_its_runs(evidence: Evidence, write: Write) -> None:
    start = "checkpoint starting: {}"
    logs = {
        run.id: [
            entry(1.0, start.format("time" if i else "wal")),
            entry(2.0, END.format(buffers=100)),
            entry(3.0, VACUUM.format(database="pgtrial", table="a")),
            entry(4.0, VACUUM.format(database="pgtrial", table="b")),
            entry(5.0, VACUUM.format(database="pgtrial", table="b")),
            entry(6.0, 'temporary file: path "base/pgsql_tmp/pgsql_tmp1.0", size 3145728'),
        ]
        for i, run in enumerate(evidence.runs_of("off"))
    }
    changed = write(logs)
    runs = len(logs)

    found = {each.kind: each for each in summarize_log(changed, read_log_events(changed) or ())}
    assert {each.arm for each in found.values()} == {"off"}
    assert found["checkpoint"].numbers["buffers"] == 100 * runs
    assert say(found["checkpoint"].text) == f"{runs - 1} timed, 1 requested"
    assert found["autovacuum"].count == 3 * runs
    assert found["autovacuum"].numbers["tuples removed"] == 1700 * 3 * runs
    assert say(found["autovacuum"].text) == f"public.b {2 * runs} times, 18 s; public.a {runs} times, 9 s"
    assert found["temporary file"].numbers["bytes"] == 3145728 * runs
    assert say(found["temporary file"].text) == "3 MB each, on average"


def test_of_a_russian_text_log_it_is_said_that_its_events_are_not_known(evidence: Evidence, write: Write) -> None:
    """As a server of 15.18 wrote it, with temporary files, waits for locks, errors and a deadlock."""
    log = Path(__file__).parents[1] / "postgres" / "existing" / "captured" / "ru.log"
    lines = log.read_text(encoding="utf-8").splitlines()
    entries = list(keep_entries(parse_text(lines, prefix="%n|%p|%e|%b|", zone=None), since=0.0))
    changed = write({first(evidence).id: [replace(each, t=each.t - entries[0].t + 1) for each in entries]})

    summaries = {each.kind: each for each in summarize_log(changed, read_log_events(changed) or ())}
    assert set(summaries) == {"checkpoint", "not English"}
    assert summaries["not English"].count > 20
    assert say(summaries["not English"].text).startswith("what these messages tell is not known")


def test_statements_are_summarized_by_the_most_frequent_one(evidence: Evidence, write: Write) -> None:
    message = "duration: 1500.000 ms  statement: SELECT {} FROM t"
    texts = [message.format(1), message.format(2), message.format("a")]
    changed = write({first(evidence).id: [entry(2.0 + i, text) for i, text in enumerate(texts)]})

    (found,) = summarize_log(changed, read_log_events(changed) or ())
    assert (found.kind, found.count, say(found.text)) == ("slow statement", 3, "2 times: SELECT ? FROM t")
    assert found.numbers["seconds"] == pytest.approx(4.5)


def test_marks_count_from_the_first_measured_second(evidence: Evidence, write: Write) -> None:
    run = first(evidence)
    changed = write(
        {
            run.id: [
                entry(-2.0, "checkpoint starting: time"),
                entry(1.0, END.format(buffers=10)),
                entry(4.0, "<script>alert('x')</script>", severity="ERROR", sqlstate="22012"),
            ]
        }
    )

    checkpoint, error = mark_events(changed, read_log_events(changed) or ())
    assert (checkpoint.run, checkpoint.kind) == (run.id, "checkpoint")
    assert (checkpoint.start, checkpoint.end) == pytest.approx((-2.0, 1.0), abs=2e-3)
    assert (error.start, error.kind) == (pytest.approx(4.0, abs=2e-3), "error 22012")
    assert say(error.text) == "<script>alert('x')</script>"  # whoever shows it has to escape it


def test_of_many_events_the_longest_are_marked(evidence: Evidence, write: Write) -> None:
    run = first(evidence)
    errors = [entry(1 + i / 1000, "x", severity="ERROR", sqlstate="22012") for i in range(MOST_MARKS + 50)]
    changed = write({run.id: [entry(1.0, "checkpoint starting: time"), *errors, entry(5.0, END.format(buffers=1))]})

    marks = mark_events(changed, read_log_events(changed) or ())
    assert len(marks) == MOST_MARKS
    assert sum(mark.kind == "checkpoint" for mark in marks) == 1
    assert [mark.start for mark in marks] == sorted(mark.start for mark in marks)


def test_a_flood_of_events_is_added_up_by_second(evidence: Evidence, write: Write) -> None:
    run = first(evidence)
    number = SEPARATE + 3000
    message = "duration: 1.000 ms  statement: SELECT 1"
    changed = write({run.id: [entry(1 + i / 1000, message) for i in range(number)]})

    events = read_log_events(changed) or ()
    assert len(events) < SEPARATE + 10
    (summary,) = summarize_log(changed, events)
    assert summary.count == number
    assert summary.numbers["seconds"] == pytest.approx(number / 1000)


@given(
    st.lists(
        st.tuples(st.sampled_from(["error", "lock wait"]), st.sampled_from(["", "a"]), st.floats(0, 5)),
        max_size=50,
    )
)
def test_adding_up_keeps_number_and_sums(found: list[tuple[str, str, float]]) -> None:
    events = [
        LogEvent(run=1, start=t, end=t + 0.1, kind=kind, object=about, numbers={"seconds": 0.1})
        for kind, about, t in found
    ]

    result = add_up(events * 100)

    assert sum(event.count for event in result) == 100 * len(events)
    total = sum(event.numbers["seconds"] for event in result)
    assert total == pytest.approx(10 * len(events))


@given(st.lists(st.tuples(st.floats(0, 100), st.text(max_size=40), st.sampled_from(["LOG", "ERROR"])), max_size=20))
def test_any_log_is_read(lines: list[tuple[float, str, str]]) -> None:
    entries = [LogEntry(t=t, severity=severity, message=message) for t, message, severity in lines]

    events = list(pair_entries(1, entries, is_own=lambda _: False))

    assert len(events) == sum(severity == "ERROR" for *_, severity in lines)


def test_times_are_read_in_the_zone_of_the_server(evidence: Evidence, write: Write, tmp_path: Path) -> None:
    run = first(evidence)
    settings = {**evidence.settings, run.id: {"log_timezone": ("Asia/Kathmandu", "configuration file")}}
    changed = write({run.id: []}, settings=settings)
    log = layout.run_folder(tmp_path, run.folder) / layout.SERVER_LOG
    log.write_text('{"timestamp": "2026-01-01 05:45:10.000 +0545", "message": "checkpoint starting: time"}\n')

    (event,) = read_log_events(changed) or ()
    assert event.start == 1_767_225_610.0


def test_the_clock_of_another_machine_is_put_right(evidence: Evidence, write: Write) -> None:
    run = first(evidence)
    clock = Event(run=run.id, t=0.0, kind="clock", data={"ahead": [4.0, 6.0], "error": [0.1, 0.1]})
    changed = write({run.id: [entry(9.0, "checkpoint starting: time")]}, events=(*evidence.events, clock))

    (event,) = read_log_events(changed) or ()
    assert event.start - begun(run) == pytest.approx(4.0, abs=2e-3)


def test_runs_of_slices_are_summarized_where_the_arm_was_at_work_and_not_marked(tmp_path: Path) -> None:
    text = INTERLEAVED.replace('"10s"', '"4s"').replace("blocks = 6", "blocks = 2")
    shared = read_evidence(write_result_folder(tmp_path / "shared", text=text))
    run = shared.runs_of("off")[0]
    at_work, pause = run.slices[1], (run.slices[0].ended + run.slices[1].started) / 2
    error = {"severity": "ERROR", "sqlstate": "22012"}
    entries = [entry((at_work.started + at_work.ended) / 2, "x", **error), entry(pause, "y", **error)]
    assert run.slices[0].ended < pause < at_work.started
    write_log(entries, layout.run_folder(shared.folder, run.folder) / layout.SERVER_LOG)

    events = read_log_events(shared) or ()
    (summary,) = summarize_log(shared, events)
    assert (len(events), summary.count, say(summary.text)) == (2, 1, "x")
    assert mark_events(shared, events) == ()


def test_events_of_invalid_runs_are_left_out(evidence: Evidence, write: Write) -> None:
    run = first(evidence)
    changed = write({run.id: [entry(1.0, "checkpoint starting: time")]})

    assert read_log_events(replace(changed, valid=())) is None
    assert summarize_log(changed, read_log_events(changed) or ())
