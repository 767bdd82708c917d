from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pgtrial.analysis.causes.load import (
    BLOCKS,
    BYTES_PER_READ,
    READ_PER_DIRTIED,
    ROWS,
    TRANSACTION_SECONDS,
    describe_load_kinds,
    judge_kind,
)
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.findings.causes import LoadKind
from pgtrial.findings.message import say

Make = Callable[..., Timeline]


@pytest.fixture
def describe(evidence: Evidence) -> Callable[..., LoadKind]:
    def one(timeline: Timeline, latency: float | None = None) -> LoadKind:
        values = (
            {}
            if latency is None
            else {
                (timeline.run, "pgbench.latency_mean", None, 0): latency,
                (timeline.run, "pgbench.tps", None, 0): float(np.mean(timeline.tps)),
            }
        )
        (found,) = describe_load_kinds(evidence, [timeline], values)
        return found

    return one


def test_point_queries_are_oltp_however_few_blocks_they_dirty(make_timeline: Make, describe: Any) -> None:
    found = describe(
        make_timeline(
            {"db.hit": 4000.0, "db.read": 0.0, "statements.dirtied": 0.0, "db.tuples_returned": 1000.0}, tps=1000.0
        ),
        latency=0.001,
    )

    assert found.kind == "OLTP"
    assert (found.hit_ratio, found.read_per_dirtied, found.bytes_per_read) == (1.0, None, None)
    assert (found.rows_per_transaction, found.blocks_per_transaction, found.transaction_seconds) == (1, 4, 0.001)
    assert say(found.text) == (
        "OLTP, by time of a transaction 1 ms (OLTP), rows read per transaction 1 (OLTP), blocks per transaction 4 "
        "(OLTP). 100 % of the blocks were in shared buffers."
    )


def test_scans_are_olap(make_timeline: Make, describe: Any) -> None:
    found = describe(
        make_timeline(
            {
                "db.hit": 50_000.0,
                "db.read": 50_000.0,
                "statements.dirtied": 10.0,
                "db.tuples_returned": 5e6,
                ("iostat.r", "vda"): 2000.0,
                ("iostat.r_bytes", "vda"): 2000 * 128 * 1024.0,
            },
            tps=0.5,
        ),
        latency=16.0,
    )

    assert found.kind == "OLAP"
    assert found.read_per_dirtied == 10_000
    assert found.bytes_per_read == 128 * 1024
    assert found.hit_ratio == 0.5
    assert "bytes per read 128 kB (OLAP)" in say(found.text)


def test_features_that_do_not_agree_make_a_mixed_load() -> None:
    assert judge_kind([(TRANSACTION_SECONDS, 0.01), (ROWS, 1e6), (BLOCKS, 5000)]) == "mixed"
    assert judge_kind([(TRANSACTION_SECONDS, 0.01), (ROWS, 10), (BLOCKS, 5000), (BYTES_PER_READ, 1e6)]) == "mixed"


def test_one_feature_is_not_enough(make_timeline: Make, describe: Any) -> None:
    found = describe(make_timeline(), latency=0.01)

    assert found.kind == "undetermined"
    assert say(found.text) == "Too little is known to say: 1 of 5 features."
    assert judge_kind([]) == "undetermined"


@pytest.mark.parametrize("feature", [TRANSACTION_SECONDS, ROWS, BLOCKS, BYTES_PER_READ, READ_PER_DIRTIED])
def test_a_feature_votes_at_its_limits_too(feature: Any) -> None:
    between = (feature.oltp + feature.olap) / 2

    assert [feature.vote(value) for value in (0, feature.oltp, between, feature.olap, 1e12)] == [-1, -1, 0, 1, 1]


def test_a_long_report_among_many_short_inserts_is_where_the_sessions_are(
    make_timeline: Make, evidence: Evidence
) -> None:
    """4 sessions in reports of 40 s and one in inserts of 1 ms: 1000.1 transactions per second of 5 ms on average."""
    workload = evidence.experiment.workload.model_copy(update={"mix": "olap"})
    mixed = replace(evidence, experiment=evidence.experiment.model_copy(update={"workload": workload}))
    values = {
        (1, "pgbench.tps", "read", 0): 0.1,
        (1, "pgbench.latency_mean", "read", 0): 40.0,
        (1, "pgbench.tps", "insert", 0): 1000.0,
        (1, "pgbench.latency_mean", "insert", 0): 0.001,
    }
    (found,) = describe_load_kinds(mixed, [make_timeline()], values)

    assert found.transaction_seconds == pytest.approx((4 * 40 + 1 * 0.001) / 5)


def test_a_handful_of_reads_says_nothing_about_their_size(make_timeline: Make, describe: Any) -> None:
    found = describe(make_timeline({("iostat.r", "vda"): 2.0, ("iostat.r_bytes", "vda"): 1e6}))

    assert found.bytes_per_read is None
