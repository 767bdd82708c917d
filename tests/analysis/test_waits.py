from dataclasses import replace

import pytest

from pgtrial.analysis.causes.waits import describe_waits
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.analysis.reduction import Reduction, Wait


def test_sessions_add_up_to_those_that_are_active(evidence: Evidence, reduction: Reduction, values: Values) -> None:
    shares = describe_waits(evidence, reduction, values)

    for arm in ("on", "off", "placebo"):
        mine = [share for share in shares if share.arm == arm and share.load_level == "all"]
        assert [(share.wait_type, share.wait_event) for share in mine] == [
            ("LWLock", "WALWrite"),
            ("CPU", ""),
            ("IO", "WALSync"),
        ]
        # 0.3 + 0.1 + 0.4 of 4 clients.
        assert sum(share.sessions for share in mine) == pytest.approx(3.2)


def test_seconds_per_transaction_follow_from_littles_law(
    evidence: Evidence, reduction: Reduction, values: Values
) -> None:
    shares = [share for share in describe_waits(evidence, reduction, values) if share.load_level == "all"]
    seconds = {share.arm: share.seconds_per_transaction for share in shares if share.wait_type == "CPU"}

    tps = [values[run.id, "pgbench.tps", None, 0] for run in evidence.runs_of("on")]
    assert seconds["on"] == pytest.approx(sum(1.2 / each for each in tps) / len(tps))
    assert seconds["off"] == pytest.approx(0.5 * (seconds["on"] or 0), rel=0.05)


def test_failed_transactions_wait_as_well(evidence: Evidence, reduction: Reduction, values: Values) -> None:
    one_in_five = {key: replace(each, failed=each.count // 4) for key, each in reduction.totals.items()}

    def seconds(found: Reduction) -> list[float]:
        return [share.seconds_per_transaction or 0.0 for share in describe_waits(evidence, found, values)]

    expected = [0.8 * each for each in seconds(reduction)]
    assert seconds(replace(reduction, totals=one_in_five)) == pytest.approx(expected, rel=0.01)


def test_a_wait_that_one_run_did_not_have_counts_as_zero_there(
    evidence: Evidence, reduction: Reduction, values: Values
) -> None:
    first, *others = (run.id for run in evidence.runs_of("on"))
    lock = Wait(wait_type="Lock", wait_event="transactionid", sessions=6.0)
    waits = {(first, 0): (lock,), **{(run, 0): () for run in others}}
    shares = describe_waits(evidence, replace(reduction, waits=waits), values)

    assert {share.load_level for share in shares} == {0, "all"}
    assert all(share.sessions == pytest.approx(1.0) for share in shares)
    assert {share.arm for share in shares} == {"on"}


def test_without_throughput_there_are_no_seconds_per_transaction(evidence: Evidence, reduction: Reduction) -> None:
    shares = describe_waits(evidence, reduction, {})

    assert shares
    assert {share.seconds_per_transaction for share in shares} == {None}
