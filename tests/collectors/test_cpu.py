"""CPU time of processes: what their titles say, and sums over those that come and go."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.collectors import process_cpu
from pgtrial.collectors.base import Follower
from pgtrial.collectors.process_cpu import kind_of
from pgtrial.model.metric import Sample

SERVER = """\
ns
ended 10 5 9
100 50000000 1000000 9 itself
101 2000000000 30000000 9 postgres: pgtrial: checkpointer
102 40000000 0 9 postgres: pgtrial: autovacuum worker pgtrial
103 1500000000 500000000 9 postgres: pgtrial: postgres pgtrial [local] idle in transaction
104 500000000 100000000 9 postgres: pgtrial: postgres pgtrial [local] SELECT
"""

BACKENDS, LOAD, _ = process_cpu.COLLECTORS


def last(samples: "list[Sample]") -> dict[str, float]:
    """Value of the latest sample of each metric and object."""
    return {
        f"{one.metric.partition('.')[2]} {one.object}".strip(): one.value for one in sorted(samples, key=lambda s: s.t)
    }


def follow(follower: Follower, *texts: str) -> list[Sample]:
    return [sample for t, text in enumerate(texts) for sample in follower(float(t), text)]


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("postgres: checkpointer", "checkpointer"),
        ("postgres: 15/main: checkpointer", "checkpointer"),
        ("postgres: pgtrial: background writer", "background writer"),
        ("postgres: pgtrial: walwriter", "walwriter"),
        ("postgres: pgtrial: logger", "logger"),
        ("postgres: pgtrial: archiver last was 000000010000000000000001", "archiver"),
        ("postgres: pgtrial: startup recovering 000000010000000000000001", "startup"),
        ("postgres: pgtrial: walreceiver streaming 0/3000148", "walreceiver"),
        ("postgres: pgtrial: walsender rep 10.0.0.1(5123) streaming 0/3000148", "walsender"),
        ("postgres: pgtrial: autovacuum launcher", "autovacuum launcher"),
        ("postgres: pgtrial: autovacuum worker shop", "autovacuum worker"),
        ("postgres: pgtrial: parallel worker for PID 5210", "parallel worker"),
        ("postgres: pgtrial: io worker 2", "io worker"),
        ("postgres: pgtrial: logical replication launcher", "logical replication launcher"),
        ("postgres: pgtrial: logical replication worker for subscription 16400", "logical replication worker"),
        (
            "postgres: pgtrial: logical replication parallel apply worker for subscription 16400",
            "logical replication parallel worker",
        ),
        ("postgres: pgtrial: pg_wait_sampling collector", "pg_wait_sampling collector"),
        ("postgres: pgtrial: some worker 17", "some worker"),
        ("postgres: pgtrial: postgres pgtrial [local] SELECT waiting", "client backend"),
        ("postgres: app shop 192.168.1.5(50312) idle", "client backend"),
        ("postgres: 15/main: app shop ::1(50312) COMMIT", "client backend"),
        ("itself", "postmaster"),
        ("", None),
        ("/usr/lib/postgresql/15/bin/postgres -D /data", None),
    ],
)
def test_titles_are_the_kinds_of_pg_stat_activity(title: str, kind: str | None) -> None:
    assert kind_of(title) == kind


def test_times_are_seconds_by_kind() -> None:
    assert last(follow(BACKENDS.follow(), SERVER)) == {
        "run postmaster": pytest.approx(0.05),
        "queue postmaster": pytest.approx(0.001),
        "run checkpointer": pytest.approx(2.0),
        "queue checkpointer": pytest.approx(0.03),
        "run autovacuum worker": pytest.approx(0.04),
        "queue autovacuum worker": 0.0,
        "run client backend": pytest.approx(2.0),
        "queue client backend": pytest.approx(0.6),
    }


def test_kernel_that_does_not_keep_waiting_has_no_reading_of_it() -> None:
    text = "ticks\nended 0 0 9\n100 5 3 9 itself\n101 120 80 9 postgres: checkpointer\n"

    assert last(follow(BACKENDS.follow(), text)) == {
        "run postmaster": pytest.approx(0.08),
        "run checkpointer": pytest.approx(2.0),
    }


def test_what_an_ended_process_has_used_stays_in_the_sum() -> None:
    after = (
        "ns\nended 210 5 9\n100 50000000 1000000 9 itself\n101 2000000000 30000000 9 postgres: pgtrial: checkpointer\n"
    )

    found = last(follow(BACKENDS.follow(), SERVER, after))

    # 2.00 s and no more were told of: both sessions and the worker had used 2.04 s when they were last seen.
    assert found["run client backend"] == pytest.approx(2.0)
    assert found["run autovacuum worker"] == pytest.approx(0.04)
    assert found["queue client backend"] == pytest.approx(0.6)


def test_what_is_used_after_the_last_reading_goes_to_those_that_have_ended() -> None:
    texts = (
        "ns\nended 100 0 9\n1 0 0 9 itself\n7 1000000000 0 9 postgres: u d [local] SELECT",
        "ns\nended 260 0 9\n1 0 0 9 itself",  # 1.6 s in all, of which 1 s was seen
        "ns\nended 290 0 9\n1 0 0 9 itself",  # told of a reading later
        "ns\nended 340 0 9\n1 0 0 9 itself",  # nobody had been seen
    )

    found = last(follow(BACKENDS.follow(), *texts))

    assert found["run client backend"] == pytest.approx(1.9)
    assert found["run short-lived"] == pytest.approx(0.5)


def test_ended_process_that_the_kernel_has_not_yet_told_of_counts_once() -> None:
    texts = (
        "ns\nended 0 0 9\n1 0 0 9 itself\n7 1000000000 0 9 postgres: u d [local] SELECT",
        "ns\nended 0 0 9\n1 0 0 9 itself",
        "ns\nended 100 0 9\n1 0 0 9 itself",
    )

    found = last(follow(BACKENDS.follow(), *texts))

    assert found == {"run postmaster": 0, "queue postmaster": 0, "run client backend": 1, "queue client backend": 0}


def test_new_process_of_an_old_number_begins_anew() -> None:
    texts = (
        "ns\nended 0 0 9\n1 0 0 9 itself\n7 1000000000 0 9 postgres: u d [local] SELECT",
        "ns\nended 100 0 9\n1 0 0 9 itself\n7 250000000 0 9 postgres: autovacuum worker d",
    )

    found = last(follow(BACKENDS.follow(), *texts))

    assert [found["run client backend"], found["run autovacuum worker"]] == pytest.approx([1.0, 0.25])


def test_process_counts_from_when_it_has_a_title() -> None:
    texts = (
        "ns\nended 0 0 9\n1 0 0 9 itself\n7 1000000 0 9 ",
        "ns\nended 0 0 9\n1 0 0 9 itself\n7 900000000 0 9 postgres: u d [local] idle",
    )
    samples = follow(BACKENDS.follow(), *texts)

    assert [(s.t, s.value) for s in samples if (s.metric, s.object) == ("backend_cpu.run", "client backend")] == [
        (0.0, 0.0),
        (1.0, pytest.approx(0.9)),
    ]


def test_kind_that_comes_later_was_zero_at_the_reading_before() -> None:
    texts = (
        "ns\nended 0 0 9\n1 0 0 9 itself",
        "ns\nended 0 0 9\n1 0 0 9 itself",
        "ns\nended 0 0 9\n1 0 0 9 itself\n9 700000000 0 9 postgres: autovacuum worker d",
    )
    samples = follow(BACKENDS.follow(), *texts)

    assert [(s.t, s.value) for s in samples if (s.metric, s.object) == ("backend_cpu.run", "autovacuum worker")] == [
        (1.0, 0.0),
        (2.0, pytest.approx(0.7)),
    ]


def test_threads_of_all_load_generators_are_one_sum_that_is_zero_without_any() -> None:
    texts = ("ns", "ns\n7 1000000000 500000000 9 pgbench\n8 250000000 0 9 pgbench", "ns", "ns\n7 125000000 0 9 pgbench")
    samples = follow(LOAD.follow(), *texts)

    assert [s.value for s in samples if s.metric == "pgbench_cpu.run"] == pytest.approx([0.0, 1.25, 1.25, 1.375])
    assert [s.value for s in samples if s.metric == "pgbench_cpu.queue"] == pytest.approx([0.0, 0.5, 0.5, 0.5])


@given(st.lists(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), unique_by=lambda one: one[0]), max_size=12))
def test_sums_never_fall_and_are_what_the_kernel_says_in_all(steps: list[list[tuple[int, int]]]) -> None:
    """Each step is which processes run, and how many ticks each has used since; the others end at it."""
    follower = BACKENDS.follow()
    used: dict[int, int] = {}
    ended = 0
    sums = [0.0]
    for t, step in enumerate(steps):
        ended += sum(used.pop(pid) for pid in set(used) - {pid for pid, _ in step})
        for pid, ticks in step:
            used[pid] = used.get(pid, 0) + ticks
        text = "\n".join(
            (
                "ns",
                f"ended {ended} 0 9",
                *(f"{pid} {n * 10_000_000} 0 9 postgres: walsender" for pid, n in used.items()),
            )
        )
        samples = [s for s in follower(float(t), text) if s.t == t and s.metric.endswith(".run")]
        sums.append(sum(s.value for s in samples))
        assert sums[-1] == pytest.approx((sum(used.values()) + ended) / 100)
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(sums))


def test_readings_are_of_declared_metrics() -> None:
    for collector, text in ((BACKENDS, SERVER), (LOAD, "ns\n7 1 1 9 pgbench")):
        names = {metric.name for metric in collector.metrics}
        assert {sample.metric for sample in follow(collector.follow(), text)} == names
