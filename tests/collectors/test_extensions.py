"""What extensions offer, from captured rows."""

from pgtrial.collectors import pg_buffercache, pg_stat_statements, pg_wait_sampling
from pgtrial.model.metric import Sample

WAITS = ["pid", "object", "count", "is_there", "period"]
COUNTS = list(pg_stat_statements.StatementCounts._fields)
SLEEP = ["-311", "3", "3", "1.5", "30", "1", "2", "0", "5", "6", "4096"]
UPDATE = ["42", "10", "10", "0.25", "70", "0", "9", "4", "0", "1", "1000"]


def waits(*readings: list[list[str | None]]) -> list[Sample]:
    follower = pg_wait_sampling.COLLECTOR.follow()
    return [
        sample
        for t, rows in enumerate(readings)
        for sample in follower(float(t), {"columns": WAITS, "rows": rows})
        if sample.metric == "pg_wait_sampling.count"
    ]


def totals(samples: list[Sample], event: str) -> list[tuple[float, float]]:
    return [(sample.t, sample.value) for sample in samples if sample.object == event]


def test_samples_of_a_session_that_has_ended_stay_in_the_sum() -> None:
    found = waits(
        [],
        [["7", "IO/WALSync", "5", "t", "0.01"], ["8", "IO/WALSync", "3", "t", "0.01"], ["8", "/", "1", "t", "0.01"]],
        [["7", "IO/WALSync", "9", "f", "0.01"]],  # read once more, after its end
        [],
        [["9", "IO/WALSync", "2", "t", "0.01"]],
    )

    assert totals(found, "IO/WALSync") == [(0, 0), (1, 8), (2, 12), (3, 12), (4, 14)]
    assert totals(found, "/") == [(0, 0), (1, 1), (2, 1), (3, 1), (4, 1)]


def test_profile_that_was_reset_goes_on() -> None:
    found = waits([["7", "IO/WALSync", "50", "t", "0.01"]], [["7", "IO/WALSync", "2", "t", "0.01"]])

    assert totals(found, "IO/WALSync") == [(0, 50), (1, 52)]


def test_period_is_seconds_and_not_known_without_sessions() -> None:
    follower = pg_wait_sampling.COLLECTOR.follow()

    assert list(follower(0.0, {"columns": WAITS, "rows": []})) == []
    assert Sample(1.0, "pg_wait_sampling.period", "", 0.01) in list(
        follower(1.0, {"columns": WAITS, "rows": [["7", "/", "1", "t", "0.01"]]})
    )


def test_statements_are_added_up() -> None:
    samples = list(pg_stat_statements.COLLECTORS[0].follow()(5.0, {"columns": COUNTS, "rows": [SLEEP, UPDATE]}))

    assert samples == [
        Sample(5.0, "pg_stat_statements.calls", "", 13),
        Sample(5.0, "pg_stat_statements.rows", "", 13),
        Sample(5.0, "pg_stat_statements.shared_blks_hit", "", 100),
        Sample(5.0, "pg_stat_statements.shared_blks_read", "", 1),
        Sample(5.0, "pg_stat_statements.shared_blks_dirtied", "", 11),
        Sample(5.0, "pg_stat_statements.shared_blks_written", "", 4),
        Sample(5.0, "pg_stat_statements.temp_blks_written", "", 7),
    ]
    assert {sample.metric for sample in samples} == {m.name for m in pg_stat_statements.COLLECTORS[0].metrics}


def test_columns_of_statements_are_known_by_name() -> None:
    (found,) = pg_stat_statements.parse_counts({"columns": COUNTS[::-1], "rows": [SLEEP[::-1]]})

    assert (found.queryid, found.calls, found.exec_time, found.wal_bytes) == ("-311", 3, 1.5, 4096)


def test_statement_that_may_not_be_seen_has_no_name() -> None:
    (found,) = pg_stat_statements.parse_counts({"columns": COUNTS, "rows": [[None, *SLEEP[1:]]]})

    assert found.queryid == ""


def test_texts_are_one_line_and_cut() -> None:
    rows = [["1", "SELECT $1\n  FROM  t"], ["2", "x" * 300], [None, None]]

    assert pg_stat_statements.parse_texts({"columns": ["queryid", "query"], "rows": rows}) == {
        "1": "SELECT $1 FROM t",
        "2": "x" * 240,
        "": "",
    }


def test_buffers_are_counted_by_relation() -> None:
    payload = {"columns": ["object", "buffers", "dirty"], "rows": [["accounts", "7", "2"]]}

    assert list(pg_buffercache.COLLECTOR.follow()(5.0, payload)) == [
        Sample(5.0, "pg_buffercache.buffers", "accounts", 7),
        Sample(5.0, "pg_buffercache.dirty", "accounts", 2),
    ]
