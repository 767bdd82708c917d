"""How the server would execute statements: the shapes of their generic plans, without costs and values; and the blocks
that calls of a statement go through, each with its own parameters. Nothing is written.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import pq

from pgtrial.errors import TargetError
from pgtrial.postgres.connect import connect, read_only

_NAME = b"pgtrial_plan"
_GENERIC = {"plan_cache_mode": "force_generic_plan", "statement_timeout": "5s"}
_EXPLAIN = b"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, COSTS OFF, FORMAT JSON) "


async def read_shapes(conninfo: str, statements: Sequence[tuple[str, int]]) -> list[str | None]:
    """Shape of the plan of each statement, which has so many parameters; None where the server cannot plan it.

    Nothing is executed. The plan is the generic one, which holds for all values: a plan that the server makes for
    certain values, as it does without prepared statements, may be another one. Raises ConnectError, TargetError.
    """
    async with connect(conninfo, as_user=True) as connection:
        return [await _read_shape(connection, *each) for each in statements]


async def _read_shape(connection: "psycopg.AsyncConnection[Any]", statement: str, parameters: int) -> str | None:
    values = b"(" + b", ".join([b"NULL"] * parameters) + b")" if parameters else b""
    try:
        async with read_only(connection, _GENERIC):
            # The text is of the user's own script, which the load has just executed.
            await connection.execute(b"PREPARE " + _NAME + b" AS " + statement.encode())
            try:
                async with connection.transaction():  # an error in it leaves the rest of the outer one valid
                    found = await connection.execute(b"EXPLAIN (FORMAT JSON, COSTS OFF) EXECUTE " + _NAME + values)
                    row = await found.fetchone()
            finally:
                await connection.execute(b"DEALLOCATE " + _NAME)
    except psycopg.Error:
        return None
    return None if row is None else describe_shape(row[0][0]["Plan"])


def describe_shape(plan: Mapping[str, Any]) -> str:
    """The plan's tree as lines that are indented by their depth: "Index Scan using items_pkey on items"."""
    return "\n".join(_lines(plan, depth=0))


def _lines(node: Mapping[str, Any], *, depth: int) -> Iterator[str]:
    kind = str(node["Node Type"])
    if kind == "ModifyTable":
        kind = str(node["Operation"])
    words = ["Parallel"] * bool(node.get("Parallel Aware"))
    words += [str(node[key]) for key in ("Strategy", "Partial Mode") if _is_worth_saying(node.get(key))]
    words.append(kind)
    words += [f"{word} {node[key]}" for key, word in (("Index Name", "using"), ("Relation Name", "on")) if key in node]
    yield "  " * depth + " ".join(words)
    for child in node.get("Plans", ()):
        yield from _lines(child, depth=depth + 1)


def _is_worth_saying(value: object) -> bool:
    return value not in (None, "Plain", "Simple")


async def read_blocks(
    connection: "psycopg.AsyncConnection[tuple[Any, ...]]", statement: str, calls: Sequence[Sequence[str]]
) -> tuple[list[int], float]:
    """Shared blocks, hit or read, of each call, as pg_stat_statements counts them, and how long all took (s).

    ``calls`` are the values of $1, $2, … as texts. Raises TargetError for a statement that is refused, as is one that
    writes or locks rows.
    """
    async with read_only(connection, {}):
        began = time.monotonic()
        return [_explain(connection.pgconn, statement, values) for values in calls], time.monotonic() - began


def _explain(server: "pq.abc.PGconn", statement: str, values: Sequence[str]) -> int:
    done = server.exec_params(_EXPLAIN + statement.encode(), [value.encode() for value in values])
    if done.status != pq.ExecStatus.TUPLES_OK:
        raise TargetError("a statement cannot be measured", detail=done.get_error_message().strip().split("\n")[0])
    (explained,) = json.loads(done.get_value(0, 0) or b"[{}]")
    plan = explained["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])
