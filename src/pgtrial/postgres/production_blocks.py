"""Blocks that calls of a statement go through, each with its own parameters; nothing is written."""

import json
import time
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import pq

from pgtrial.errors import TargetError

_EXPLAIN = b"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, COSTS OFF, FORMAT JSON) "


async def read_blocks(
    connection: "psycopg.AsyncConnection[tuple[Any, ...]]", statement: str, calls: Sequence[Sequence[str]]
) -> tuple[list[int], float]:
    """Shared blocks, hit or read, of each call, as pg_stat_statements counts them, and how long all took (s).

    ``calls`` are the values of $1, $2, … as texts. Raises TargetError for a statement that is refused, as is one that
    writes or locks rows.
    """
    await connection.execute("BEGIN READ ONLY")
    began = time.monotonic()
    try:
        return [_explain(connection.pgconn, statement, values) for values in calls], time.monotonic() - began
    finally:
        await connection.execute("ROLLBACK")


def _explain(server: "pq.abc.PGconn", statement: str, values: Sequence[str]) -> int:
    done = server.exec_params(_EXPLAIN + statement.encode(), [value.encode() for value in values])
    if done.status != pq.ExecStatus.TUPLES_OK:
        raise TargetError("a statement cannot be measured", detail=done.get_error_message().strip().split("\n")[0])
    (explained,) = json.loads(done.get_value(0, 0) or b"[{}]")
    plan = explained["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])
