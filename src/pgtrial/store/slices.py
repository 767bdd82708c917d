"""Transactions of a run of slices: which count, when in the arm's own time they ended, and how long they took.

A server that is frozen while another arm runs has its own time, which advances only in its slices. Transactions in
flight when it was stopped end in a later slice; their latency is measured in the arm's own time.
"""

from collections.abc import Sequence

import duckdb

from pgtrial.model.run import Slice

PARTS = 4  # of a slice's counted time
WASHOUT_PART = -1  # the time before it


def create_table(db: duckdb.DuckDBPyConnection, slices: Sequence[Slice]) -> None:
    """Table ``slice`` of a run's slices at one level, in order of time; times in whole microseconds."""
    db.execute("""
        CREATE OR REPLACE TEMP TABLE slice (
            slice          INTEGER,
            slice_started  BIGINT,
            slice_counted  BIGINT,
            slice_ended    BIGINT,
            active_before  BIGINT,  -- µs at work in earlier slices
            counted_before BIGINT   -- µs of those that count
        )
    """)
    rows: list[tuple[int, ...]] = []
    active = counted = 0
    for one in slices:
        start, count, end = (round(t * 1e6) for t in (one.started, one.counted, one.ended))
        rows.append((one.number, start, count, end, active, counted))
        active += end - start
        counted += end - count
    # Whole columns at once: row by row takes a millisecond for each.
    columns = [list(column) for column in zip(*rows, strict=True)]
    if columns:
        db.execute(f"INSERT INTO slice SELECT {', '.join('unnest(?::BIGINT[])' for _ in columns)}", columns)


def placed(lines: str, *, frozen: bool = True) -> str:
    """A table expression: ``lines``, which have ``ended`` and ``latency`` in µs, with latency as it was in the arm's
    own time, and with slice, part and second. In the guard time of a slice the part is -1 and the second NULL; outside
    of slices all are NULL. ``inside`` is the part of a transaction's time that counts, in whichever slices, and
    ``place`` the second of measured time up to which it does.

    Before the first slice the arm's time is everybody's, and after the last one. Where clients are not ``frozen``
    between their slices, a latency is what it is by the clock.
    """
    inside = "ended >= e.slice_started AND ended < e.slice_ended"
    counts = "ended >= e.slice_counted AND ended < e.slice_ended"
    own = f"greatest(0, ({_own_time('ended', 'e')}) - ({_own_time('began', 'b')}))"
    lasted = f"{own} + greatest(0, ended - (SELECT max(slice_ended) FROM slice))" if frozen else "lines.latency"
    until = _counted("ended", "e")
    part = f"({until} - {_counted('began', 'b')}) / ({lasted})"
    return f"""
        (SELECT lines.* EXCLUDE (began)
                REPLACE (CASE WHEN lines.latency IS NOT NULL THEN {own if frozen else "lines.latency"} END AS latency),
                CASE WHEN {inside} THEN e.slice END AS slice,
                CASE WHEN {counts}
                     THEN {PARTS} * (ended - e.slice_counted) // (e.slice_ended - e.slice_counted)
                     WHEN {inside} THEN {WASHOUT_PART} END AS part,
                CASE WHEN {counts} THEN (e.counted_before + ended - e.slice_counted) // 1000000 END AS second,
                greatest(0, {until} - 1) // 1000000 AS place,
                CASE WHEN lines.latency IS NULL THEN NULL
                     WHEN {lasted} > 0 THEN least(1, {part})
                     ELSE ({counts})::INTEGER END::DOUBLE AS inside
         FROM (SELECT *, ended - coalesce(latency, 0)::BIGINT AS began FROM {lines}) AS lines
         ASOF LEFT JOIN slice AS e ON lines.ended >= e.slice_started
         ASOF LEFT JOIN slice AS b ON lines.began >= b.slice_started)
    """


def _counted(t: str, joined: str) -> str:
    """µs of the arm's slices up to ``t`` that count."""
    until = f"greatest(0, least({t}, {joined}.slice_ended) - {joined}.slice_counted)"
    return f"coalesce({joined}.counted_before + {until}, 0)"


def _own_time(t: str, joined: str) -> str:
    """The arm's own time at ``t``, from the start of its first slice on."""
    return (
        f"coalesce({joined}.active_before + least({t}, {joined}.slice_ended) - {joined}.slice_started,"
        f" {t} - (SELECT min(slice_started) FROM slice))"
    )
