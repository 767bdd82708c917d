"""A folder of a watch with an incident in it: A, in which all is as usual, and B, in which it is not."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from pgtrial.collectors import blocking, server_views
from pgtrial.model.metric import Sample
from pgtrial.store.samples import StatementRow, WaitRow
from pgtrial.watch.folder import Ages, Mark, Rows, open_folder
from pgtrial.watch.layout import MINUTE
from pgtrial.watch.sums import COUNTERS
from pgtrial.watch.windows import Window

START = 1795824000  # 2026-11-28 00:00 UTC
STEP, LENGTH = 5, 6 * MINUTE
A, B = (Window(START + place * LENGTH, START + (place + 1) * LENGTH) for place in range(2))
LOOK = "SELECT * FROM event WHERE customer = ?"
SELL, REPORT, AUDIT = (
    "UPDATE product SET stock = ? WHERE id = ?",
    "SELECT sum(?) FROM orders",
    "SELECT count(*) FROM log",
)
Change = Callable[[Rows, float, np.random.Generator], None]


def write(
    root: Path,
    change: Change | None = None,
    *,
    start: int = START,
    lasts: int = LENGTH,
    spilled: float = 0.0,
    rows_read: float = 1.0,
    blocks: float = 1.0,
    opened: float = 0.0,
    held: float = 0.0,
    always: tuple[tuple[str, int], ...] = ((REPORT, 4),),
) -> None:
    """A of ``lasts`` seconds in which all is as usual, and B with what ``change`` adds to each of its ticks.

    B has so many times the rows read and the blocks, and by the second so many bytes of temporary files, connections
    opened, and bytes of WAL that a replication slot comes to hold.
    """
    rng, noise = np.random.default_rng(5), np.random.default_rng(6)
    rows = Rows()
    totals = dict.fromkeys(("xact_commit", "tup_returned", "blks_hit", "temp_bytes", "sessions"), 0.0)
    in_slot = 0.0
    for number in range(2 * lasts // STEP + 1):
        t = float(start + number * STEP)
        is_b = t >= start + lasts
        totals["xact_commit"] += STEP * 50 * rng.uniform(0.9, 1.1)
        totals["tup_returned"] += STEP * 1000 * rng.uniform(0.9, 1.1) * (rows_read if is_b else 1.0)
        totals["temp_bytes"] += STEP * spilled * rng.uniform(0.7, 1.3) * (t > start + lasts)
        totals["blks_hit"] += STEP * 400 * noise.uniform(0.9, 1.1) * (blocks if is_b else 1.0)
        totals["sessions"] += noise.poisson(STEP * opened * is_b)
        in_slot += STEP * held * noise.uniform(0.5, 1.5) * is_b
        rows.samples.append(Sample(t, server_views.HELD, "", in_slot))
        rows.samples += [Sample(t, f"pg_stat_database.{name}", "", value) for name, value in totals.items()]
        rows.samples.append(Sample(t, "sessions.polls", "", float(STEP)))
        for query, sessions in always:  # polled in five polls, on average
            wait(rows, t, query, "", int(rng.poisson(sessions)))
        if not (is_b and change is not None):
            rows.samples.append(Sample(t, blocking.SESSIONS, "", 0.0))
        else:
            change(rows, t, rng)
    with open_folder(
        root, Mark(server="db1:5432", database="shop"), ages=Ages(), counters=COUNTERS, keep_free=0
    ) as folder:
        folder.write(rows)


def write_statements(
    root: Path,
    *,
    lasts: int = LENGTH,
    calls: float = 1.0,
    blocks: float = 1.0,
    rows: float = 1.0,
    rows_per_call: float = 1.0,
) -> None:
    """Two windows of ``lasts`` seconds with counts of two statements: LOOK, which in the second one has so many times
    the calls, blocks per call and rows per call; and REPORT, which is as it was.
    """
    rng = np.random.default_rng(7)
    found = Rows()
    counts = {LOOK: np.zeros(3), REPORT: np.zeros(3)}
    ids = {LOOK: "7", REPORT: "8"}
    for minute in range(2 * lasts // MINUTE + 1):
        t = float(START + minute * MINUTE)
        is_b = t > START + lasts
        for query in (LOOK, REPORT):
            more = (calls, blocks, rows) if is_b and query == LOOK else (1.0, 1.0, 1.0)
            called = round(600 * rng.uniform(0.9, 1.1) * more[0])
            read = round(called * 4 * rng.uniform(0.95, 1.05) * more[1])
            counts[query] += (called, read, round(called * rows_per_call * rng.uniform(0.95, 1.0) * more[2]))
            of_calls, of_blocks, of_rows = (int(each) for each in counts[query])
            count = (of_calls, of_rows, 0.001 * of_calls, of_blocks, 0, 0, 0, 0, 0, 0)
            found.statements.append(StatementRow(t, ids[query], *count, query.replace("?", "$1")))
        found.samples += [
            Sample(t, "pg_stat_statements.calls", "", float(sum(total[0] for total in counts.values()))),
            Sample(t, "sessions.polls", "", float(MINUTE)),
        ]
    with open_folder(
        root, Mark(server="db1:5432", database="shop"), ages=Ages(), counters=COUNTERS, keep_free=0
    ) as folder:
        folder.write(found)


def wait(rows: Rows, t: float, query: str, event: str, sessions: int) -> None:
    kind, _, name = event.partition("/")
    rows.waits.append(WaitRow(t, STEP, "client backend", "app", "active", kind, name, query, sessions))


def lock(rows: Rows, t: float, rng: np.random.Generator) -> None:
    blocked = int(rng.integers(2, 6))
    wait(rows, t, SELL, "Lock/transactionid", blocked * STEP)
    pair = blocking.about(SELL, "idle in transaction", "UPDATE product SET kind = ?")
    rows.samples += [Sample(t, blocking.SESSIONS, about, float(blocked)) for about in ("", pair)]


def audit(rows: Rows, t: float, rng: np.random.Generator) -> None:
    wait(rows, t, AUDIT, "", int(rng.integers(3, 8)))
