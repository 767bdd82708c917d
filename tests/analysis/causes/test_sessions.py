import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgtrial.analysis.causes.sessions import SAMPLED, WAIT_SAMPLING, SessionSplit, split_sessions, tier
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.analysis.reduction import Reduction, SessionGroup
from pgtrial.findings.session_time import BLOCKED, CPU, CPU_QUEUE, IDLE_IN_TRANSACTION
from pgtrial.model.metric import Sample
from pgtrial.store import layout
from pgtrial.store.samples import WaitRow, write_samples, write_waits
from support import EXPERIMENT, INTERLEAVED, write_result_folder
from support.folder import first_file, first_window

SHORT = EXPERIMENT.replace('"10s"', '"4s"')
COUNT = "pg_wait_sampling.count"
CELL = (1, 0)
READ = ("Client", "ClientRead")
SYNC = ("IO", "WALSync")
LOCK = ("LWLock", "WALWrite")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_result_folder(tmp_path_factory.mktemp("template") / "one", text=SHORT, runs=1)


@pytest.fixture
def one(template: Path, tmp_path: Path) -> Path:
    """A result folder of its own with one run of one level of 4 s."""
    return shutil.copytree(template, tmp_path / "one")


def group(state: str, sessions: float, kind: tuple[str, str] = ("", ""), scenario: str = "all") -> SessionGroup:
    return SessionGroup(
        scenario=scenario, state=state, wait_type=kind[0], wait_event=kind[1], query="", sessions=sessions
    )


# 2 sessions on a CPU, 1 in a wait, 1 between two statements, 4 idle.
GROUPS = (
    group("active", 2.0),
    group("active", 1.0, SYNC),
    group("idle in transaction", 0.75, READ),
    group("idle in transaction (aborted)", 0.25, READ),
    group("idle", 4.0, READ),
)


@pytest.fixture
def split(template: Path) -> Callable[..., SessionSplit]:
    evidence = read_evidence(template)

    def make(*groups: SessionGroup, level: str = SAMPLED, scenario: str | None = None, **reduced: Any) -> SessionSplit:
        reduction = replace(reduce_runs(evidence), sessions={CELL: groups or GROUPS}, **reduced)
        found = split_sessions(reduction, evidence.valid[0], 0, tier=level, scenario=scenario)
        assert found is not None
        return found

    return make


def accounts(running: float, queued: float) -> dict[str, Any]:
    """What the kernel's accounts say of client backends, sessions on average over 4 s."""
    counters = {"backend_cpu.run": running, "backend_cpu.queue": queued}
    return {"increases": {(*CELL, name): {"client backend": 4 * value} for name, value in counters.items()}}


def test_sessions_are_averages_over_polls_in_all_states_and_by_statement(one: Path) -> None:
    start, end = first_window(one)
    rows = [
        WaitRow(start, 10, "client backend", "pgtrial/read", "active", "", "", "SELECT ?", 20),
        WaitRow(start + 1, 10, "client backend", "pgtrial/read", "active", "", "", "SELECT ?", 10),
        WaitRow(start + 1, 10, "client backend", "pgtrial/write", "idle", *READ, "", 5),
        WaitRow(start, 10, "client backend", "psql", "active", "", "", "SELECT ?", 10),
        WaitRow(start, 10, "parallel worker", "pgtrial/read", "active", "", "", "SELECT ?", 10),
        WaitRow(end, 10, "client backend", "pgtrial/read", "active", "", "", "SELECT ?", 99),
    ]
    write_waits(rows, first_file(one, layout.WAITS))

    assert reduce_runs(read_evidence(one)).sessions == {
        CELL: (
            SessionGroup(scenario="read", state="active", wait_type="", wait_event="", query="SELECT ?", sessions=1.5),
            SessionGroup(
                scenario="write", state="idle", wait_type=READ[0], wait_event=READ[1], query="", sessions=0.25
            ),
        )
    }


def test_a_second_that_goes_on_after_the_window_is_left_out(one: Path) -> None:
    start, end = first_window(one)
    rows = [
        WaitRow(start + 0.4, 10, "client backend", "pgtrial/all", "idle", *READ, "", 40),
        *(
            WaitRow(end - 0.6, 10, "client backend", "pgtrial/all", state, *READ, "", 12)
            for state in ("idle", "active")
        ),
        WaitRow(end + 0.4, 10, "checkpointer", "", "", "Activity", "CheckpointerMain", "", 10),
    ]
    write_waits(rows, first_file(one, layout.WAITS))

    reduction = reduce_runs(read_evidence(one))

    assert [group.sessions for group in reduction.sessions[CELL]] == [4.0]
    assert reduction.waits == {CELL: ()}


def test_a_window_without_any_session_of_the_load_is_known_to_have_none(one: Path) -> None:
    start, _ = first_window(one)
    write_waits(
        [WaitRow(start, 10, "checkpointer", "", "", "Activity", "CheckpointerMain", "", 10)],
        first_file(one, layout.WAITS),
    )

    assert reduce_runs(read_evidence(one)).sessions == {CELL: ()}


def test_counts_of_an_event_that_comes_later_begin_at_zero(one: Path) -> None:
    start, end = first_window(one)
    samples = [
        *(Sample(start + at, COUNT, "IO/WALSync", value) for at, value in ((-1, 5), (0.5, 10), (1.5, 25), (3.5, 30))),
        *(Sample(start + at, COUNT, "LWLock/WALWrite", value) for at, value in ((1.5, 4), (3.5, 9))),
        Sample(end + 1, COUNT, "IO/WALSync", 900),
    ]
    write_samples(samples, first_file(one, layout.SAMPLES))

    assert reduce_runs(read_evidence(one)).wait_counts == {CELL: {SYNC: 20, LOCK: 9}}


def test_sessions_that_the_extension_counts_without_a_wait_are_none_of_the_waits(one: Path) -> None:
    start, _ = first_window(one)
    # With sample_cpu, which is on by default since 1.1.6, most counts of a load that computes have no event.
    samples = [
        *(Sample(start + at, COUNT, "/", value) for at, value in ((0.5, 100), (3.5, 900))),
        *(Sample(start + at, COUNT, "IO/WALSync", value) for at, value in ((0.5, 10), (3.5, 30))),
    ]
    write_samples(samples, first_file(one, layout.SAMPLES))

    assert reduce_runs(read_evidence(one)).wait_counts == {CELL: {SYNC: 20}}


@pytest.mark.parametrize("later", [[(1.5, 3), (3.5, 30)], [(1.5, 25)]])
def test_counts_that_fall_or_go_away_are_a_reset_and_count_for_nothing(
    one: Path, later: list[tuple[float, float]]
) -> None:
    start, _ = first_window(one)
    samples = [
        *(Sample(start + at, COUNT, "IO/WALSync", value) for at, value in [(0.5, 10), *later]),
        *(Sample(start + at, COUNT, "LWLock/WALWrite", at) for at in (0.5, 1.5, 3.5)),
    ]
    write_samples(samples, first_file(one, layout.SAMPLES))

    assert reduce_runs(read_evidence(one)).wait_counts == {}


def test_a_type_of_backend_that_comes_later_leaves_the_others_their_cpu_time(one: Path) -> None:
    start, end = first_window(one)
    samples = [
        *(Sample(t, "backend_cpu.run", "client backend", t - start) for t in (start - 0.5, start + 2, end + 0.5)),
        *(Sample(t, "backend_cpu.run", "autovacuum worker", t - start) for t in (start + 3, end + 0.5)),
    ]
    write_samples(samples, first_file(one, layout.SAMPLES))

    reduction = reduce_runs(read_evidence(one))

    assert reduction.increases[(*CELL, "backend_cpu.run")] == {"client backend": pytest.approx(4)}
    # The gaps between the readings of a counter are a fault of the sampler; a worker that was not there is none.
    assert reduction.gaps == {}


def test_cpu_time_of_backends_goes_by_the_time_of_their_arm(tmp_path: Path) -> None:
    text = INTERLEAVED.replace('"10s"', '"4s"').replace("blocks = 6", "blocks = 1")
    folder = write_result_folder(tmp_path / "sliced", text=text)
    (run, *_) = read_evidence(folder).valid
    path = layout.run_folder(folder, run.folder) / layout.SAMPLES
    # Two seconds of CPU time in each second in which the arm is at work, read at both ends of each slice.
    samples, own = [], 0.0
    for each in run.slices:
        samples.append(Sample(each.started, "backend_cpu.run", "client backend", 2 * own))
        own += each.ended - each.started
        samples.append(Sample(each.ended, "backend_cpu.run", "client backend", 2 * own))
    write_samples(samples, path)

    found = reduce_runs(read_evidence(folder)).increase(run.id, 0, ("backend_cpu.run",), object="client backend")

    assert found == pytest.approx(2 * own, rel=0.01)


def test_every_session_is_in_one_part(split: Callable[..., SessionSplit]) -> None:
    found = split()

    assert dict(found.at_work) == {(CPU, ""): 2.0, SYNC: 1.0}
    assert found.in_transaction == 1.0
    assert found.by_part[IDLE_IN_TRANSACTION, ""] == 1.0
    assert found.total == 8.0


def test_the_kernels_accounts_tell_cpu_from_its_queue(split: Callable[..., SessionSplit]) -> None:
    # A little more or less than was sampled may be an error of sampling.
    for factor in (0.92, 1.0, 1.1):
        found = split(**accounts(running=0.5 * factor, queued=1.5 * factor))

        assert dict(found.at_work) == pytest.approx({(CPU, ""): 0.5, (CPU_QUEUE, ""): 1.5, SYNC: 1.0})
        assert found.in_transaction == 1.0


def test_idle_sessions_that_queue_for_a_cpu_have_a_statement_before_them(split: Callable[..., SessionSplit]) -> None:
    # 5 sessions want a CPU, of which 10 % may be an error; 2 were active. The 2.5 others are among 5 idle ones and one
    # in a wait, so of each as many: 5/12.
    found = split(**accounts(running=1.0, queued=4.0))

    wanting = 2 + 5 * 2.5 / 6
    assert dict(found.at_work) == pytest.approx({(CPU, ""): wanting / 5, (CPU_QUEUE, ""): wanting * 4 / 5, SYNC: 1.0})
    assert found.in_transaction == pytest.approx(1 - 2.5 / 6)
    assert found.total == 8.0


def test_what_neither_runs_nor_queues_nor_waits_is_blocked_in_the_kernel(split: Callable[..., SessionSplit]) -> None:
    found = split(**accounts(running=0.5, queued=0.5))

    # 10 % more than accounted may be an error of sampling, the rest of the 2 sessions is not.
    assert found.at_work[BLOCKED, ""] == pytest.approx(2 - 1.1)
    assert found.at_work[CPU, ""] == pytest.approx(0.55)
    assert found.at_work[CPU_QUEUE, ""] == pytest.approx(0.55)


def test_without_the_kernels_accounts_all_of_it_is_cpu(split: Callable[..., SessionSplit]) -> None:
    only_half = accounts(running=0.5, queued=0.5)["increases"]
    only_half.pop((*CELL, "backend_cpu.queue"))

    known: tuple[dict[str, Any], ...] = (
        {"increases": {}},
        {"increases": only_half},
        accounts(running=0.0, queued=0.0),
    )
    for reduced in known:
        assert split(**reduced).at_work[CPU, ""] == 2.0


def test_pg_wait_sampling_divides_the_waits_whatever_its_pace(split: Callable[..., SessionSplit]) -> None:
    # Of 6 sampled sessions that wait a sixth syncs; the finer counts find a lock in part of that.
    counts = {READ: 5000.0, SYNC: 600.0, LOCK: 400.0}

    for pace in (1.0, 0.5):
        found = split(level=WAIT_SAMPLING, wait_counts={CELL: {kind: pace * n for kind, n in counts.items()}})
        assert dict(found.at_work) == pytest.approx({(CPU, ""): 2.0, SYNC: 0.6, LOCK: 0.4})
        assert found.in_transaction == 1.0


def test_a_session_that_reads_from_its_client_inside_a_statement_is_left_as_sampled(
    split: Callable[..., SessionSplit],
) -> None:
    groups = (*GROUPS, group("active", 1.0, READ))
    found = split(*groups, level=WAIT_SAMPLING, wait_counts={CELL: {READ: 600.0, SYNC: 100.0}})

    assert dict(found.at_work) == pytest.approx({(CPU, ""): 2.0, SYNC: 1.0, READ: 1.0})


def test_a_scenario_has_its_own_sessions(split: Callable[..., SessionSplit]) -> None:
    groups = (group("active", 3.0, scenario="read"), group("active", 1.0, scenario="write"), group("idle", 1.0))
    # Of 4 sessions without a wait 3 were on a CPU; that is told of all of them only.
    found = split(*groups, scenario="write", **accounts(running=3.0, queued=1.0))

    assert dict(found.at_work) == pytest.approx({(CPU, ""): 0.75, (CPU_QUEUE, ""): 0.25})
    assert found.total == 1.0


def test_sessions_that_were_not_sampled_are_not_known(evidence: Evidence, reduction: Reduction) -> None:
    assert split_sessions(replace(reduction, sessions={}), evidence.valid[0], 0, tier=SAMPLED) is None


def test_sessions_that_hide_what_they_do_are_not_taken_for_clients_that_pause(
    evidence: Evidence, reduction: Reduction
) -> None:
    # Behind a pooler with names of its own none is found; with track_activities = off all are "disabled".
    for groups in ((), (group("disabled", 3.0), group("disabled", 1.0, SYNC)), (group("", 4.0),)):
        hidden = replace(reduction, sessions={(run.id, 0): groups for run in evidence.valid})
        assert split_sessions(hidden, evidence.valid[0], 0, tier=SAMPLED) is None


def test_the_better_tier_is_used_where_every_run_has_it(evidence: Evidence, reduction: Reduction) -> None:
    counts = {(run.id, 0): {SYNC: 10.0} for run in evidence.valid}
    missing = {key: value for key, value in counts.items() if key[0] != evidence.valid[-1].id}

    assert tier(evidence, reduction) == SAMPLED
    assert tier(evidence, replace(reduction, wait_counts=counts)) == WAIT_SAMPLING
    assert tier(evidence, replace(reduction, wait_counts=missing)) == SAMPLED
