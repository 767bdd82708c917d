"""A folder of a watch with an incident in it: A, in which all is as usual, and B, in which it is not."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from pgtrial.collectors import blocking
from pgtrial.model.metric import Sample
from pgtrial.store.samples import WaitRow
from pgtrial.watch.counters import COUNTERS
from pgtrial.watch.folder import Ages, Mark, Rows, open_folder
from pgtrial.watch.layout import MINUTE
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
    spilled: float = 0.0,
    rows_read: float = 1.0,
    always: tuple[tuple[str, int], ...] = ((REPORT, 4),),
) -> None:
    """A in which all is as usual, and B with what ``change`` adds to each of its ticks."""
    rng = np.random.default_rng(5)
    rows = Rows()
    totals = dict.fromkeys(("xact_commit", "tup_returned", "temp_bytes"), 0.0)
    for number in range(2 * LENGTH // STEP + 1):
        t = float(start + number * STEP)
        is_b = t >= start + LENGTH
        totals["xact_commit"] += STEP * 50 * rng.uniform(0.9, 1.1)
        totals["tup_returned"] += STEP * 1000 * rng.uniform(0.9, 1.1) * (rows_read if is_b else 1.0)
        totals["temp_bytes"] += STEP * spilled * rng.uniform(0.7, 1.3) * (t > start + LENGTH)
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
