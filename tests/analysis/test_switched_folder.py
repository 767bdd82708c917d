"""A result folder of one server that was switched: each file has the whole block, and each arm gets what is its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.findings.findings import Findings
from pgtrial.model.metric import Sample
from pgtrial.model.run import Slice
from pgtrial.store import layout
from pgtrial.store.samples import StatementRow, WaitRow, write_samples, write_statements, write_waits
from support import EXPERIMENT, write_result_folder

CLAIM = 'metric = "vmstat.cs"\nexpect = "higher"'
TEXT = (
    EXPERIMENT.replace("[design]\n", '[design]\nmethod = "switchback"\nslice = "4s"\n')
    .replace("placebo = true", "placebo = false")
    .replace('expect = "better"', CLAIM)
)
RATES = {"on": 100.0, "off": 300.0}  # of context switches, bytes of WAL and calls, per second of an arm's counted time
FOREIGN = 1e5  # the same in washouts and between slices
DIRTY = {"on": 2.0**20, "off": 3 * 2.0**20}  # bytes
COUNTED = ("proc_stat.ctxt", "pg_stat_wal.wal_bytes")


def record(evidence: Evidence, block: int) -> tuple[list[Sample], list[WaitRow], list[StatementRow]]:
    """What a sampler would have read of a block: at both ends of what counts of each slice, and in the middle of it."""
    runs = [run for run in evidence.valid if run.slot.block == block]
    slices = sorted(((piece, run.slot.arm) for run in runs for piece in run.slices), key=lambda pair: pair[0].started)
    samples, waits, statements = [], [], []
    value, last = 5.0, slices[0][0].started
    for piece, arm in slices:
        for t, rate, is_own in _moments(piece, RATES[arm]):
            value += rate * (t - last)
            last = t
            samples += [Sample(t, metric, "", value) for metric in COUNTED]
            samples.append(Sample(t, "proc_meminfo.Dirty", "", DIRTY[arm] if is_own else 1e12))
            statements.append(
                StatementRow(t, "1", round(value), 2 * round(value), value / 1000, 0, 0, 0, 0, 0, 0, 0, "work")
            )
        waits += [
            _waiting(piece.started, "LWLock", "WALWrite"),
            _waiting(piece.counted, *(("Lock", "advisory") if arm == "off" else ("Timeout", "PgSleep"))),
            _waiting(piece.ended + 0.001, "LWLock", "WALWrite"),
        ]
    return samples, waits, statements


def _moments(piece: Slice, rate: float) -> Iterator[tuple[float, float, bool]]:
    """(time, rate of what was counted until then, whether it is of what counts)."""
    yield piece.started + 0.01, FOREIGN, False
    yield piece.counted, FOREIGN, True
    yield (piece.counted + piece.ended) / 2, rate, True
    yield piece.ended, rate, True


def _waiting(t: float, wait_type: str, wait_event: str) -> WaitRow:
    return WaitRow(t, 10, "client backend", "pgtrial/simple-update", "active", wait_type, wait_event, "SELECT 1", 40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_result_folder(tmp_path_factory.mktemp("switched") / "folder", text=TEXT)
    evidence = read_evidence(path)
    for block in evidence.complete_blocks():
        samples, waits, statements = record(evidence, block)
        for run in evidence.valid:
            if run.slot.block == block:
                place = layout.run_folder(path, run.folder)
                write_samples(iter(samples), place / layout.SAMPLES)
                write_waits(iter(waits), place / layout.WAITS)
                write_statements(statements, place / layout.STATEMENTS)
    return path


@pytest.fixture(scope="module")
def findings(folder: Path) -> Findings:
    return analyze(folder)


def test_costs_of_server_and_machine_are_those_of_the_arms_own_time(findings: Findings) -> None:
    found = {(o.run, o.arm, o.metric): o.value for o in findings.observations if o.load_level == 0}

    for (run, arm, metric), tps in found.items():
        if metric == "pgbench.tps":
            for cost in ("cost.context_switches", "cost.wal_bytes"):
                assert found[run, arm, cost] == pytest.approx(RATES[arm] / tps, rel=1e-3)


def test_what_the_machine_did_is_told_of_each_arm(findings: Findings) -> None:
    (effect,) = [one for one in findings.effects if (one.metric, one.load_level) == ("vmstat.cs", "all")]

    assert effect.ratio == pytest.approx(RATES["off"] / RATES["on"], rel=1e-3)


def test_gauges_are_read_in_the_arms_own_slices(findings: Findings) -> None:
    dirty = {value.arm: value.mean for row in findings.metrics if row.metric == "dirty.bytes" for value in row.arms}

    assert dirty == pytest.approx(DIRTY)


def test_waits_are_those_of_what_counts(findings: Findings) -> None:
    assert {(wait.arm, wait.wait_event): wait.sessions for wait in findings.waits} == {
        ("on", "PgSleep"): 4,
        ("off", "advisory"): 4,
    }


def test_statements_have_the_calls_of_what_counts(findings: Findings, folder: Path) -> None:
    assert findings.causes is not None
    seconds = {
        arm: sum(piece.seconds for run in read_evidence(folder).runs_of(arm) for piece in run.slices) for arm in RATES
    }

    calls = {use.arm: use.calls for use in findings.causes.statements}
    assert calls == pytest.approx({arm: RATES[arm] * seconds[arm] for arm in RATES}, rel=1e-2)


def test_nothing_is_said_to_be_left_out(findings: Findings) -> None:
    assert not {"no-host-costs", "no-server-counts"} & {caveat.code for caveat in findings.caveats}


def test_swap_that_all_arms_have_together_is_not_said_to_be_of_one(findings: Findings) -> None:
    assert "memory.swap_growth" not in {row.metric for row in findings.metrics}
