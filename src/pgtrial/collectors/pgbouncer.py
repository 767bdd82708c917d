"""What PgBouncer says of itself: who waits in SHOW POOLS, how long in SHOW STATS.

Its console knows neither parameters nor a choice of columns, and later versions have more of these; times are in
microseconds. Both commands have a row for each database, of which the console is one, and SHOW POOLS for each user.
Source: pgbouncer(1) and pgbouncer(5), "Admin console".
"""

from collections.abc import Iterator

from pgtrial.collectors.base import Columns, ConsoleCollector, Reading, Rows, counters, gauges

NAME = "pgbouncer"
_CONSOLE = "pgbouncer"  # as a database
_CLIENTS = {"cl_active": "clients_active", "cl_waiting": "clients_waiting"}
_SERVERS = ("sv_active", "sv_idle", "sv_used", "sv_tested", "sv_login")  # every session of the server is one of these
_COUNTS = {"total_xact_count": "transactions", "total_query_count": "queries"}
_TIMES = {"total_wait_time": "wait_time", "total_xact_time": "transaction_time"}
_MICROSECOND = 1e-6


def parse_pools(columns: Columns, rows: Rows) -> Iterator[Reading]:
    """Clients and sessions of all pools together."""
    sums = dict.fromkeys((*_CLIENTS.values(), "servers", "servers_active"), 0.0)
    for row in _of_load(columns, rows):
        for column, name in _CLIENTS.items():
            sums[name] += row[column]
        sums["servers"] += sum(row[column] for column in _SERVERS)
        sums["servers_active"] += row["sv_active"]
    for name, value in sums.items():
        yield Reading(f"{NAME}.{name}", "", value)


def parse_stats(columns: Columns, rows: Rows) -> Iterator[Reading]:
    """Counters over all databases since the start."""
    sums = dict.fromkeys((*_COUNTS.values(), *_TIMES.values()), 0.0)
    for row in _of_load(columns, rows):
        for column, name in _COUNTS.items():
            sums[name] += row[column]
        for column, name in _TIMES.items():
            sums[name] += row[column] * _MICROSECOND
    for name, value in sums.items():
        yield Reading(f"{NAME}.{name}", "", value)


def _of_load(columns: Columns, rows: Rows) -> Iterator[dict[str, float]]:
    """The numbers of each row that is not of the console."""
    database = columns.index("database")
    for row in rows:
        if row[database] != _CONSOLE:
            numbers = ((name, value) for name, value in zip(columns, row, strict=True) if value and value.isdecimal())
            yield {name: float(value) for name, value in numbers if value}


COLLECTORS = (
    ConsoleCollector(
        name="pgbouncer_pools",
        command="SHOW POOLS",
        metrics=gauges(NAME, "", *_CLIENTS.values(), "servers", "servers_active"),
        parse=parse_pools,
    ),
    ConsoleCollector(
        name="pgbouncer_stats",
        command="SHOW STATS",
        metrics=(*counters(NAME, "", *_COUNTS.values()), *counters(NAME, "s", *_TIMES.values())),
        parse=parse_stats,
    ),
)
