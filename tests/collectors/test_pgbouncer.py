"""What the console of PgBouncer says, as captured from two versions with other columns."""

import pytest

from pgtrial.collectors import pgbouncer
from pgtrial.collectors.base import ConsoleCollector

POOLS, STATS = pgbouncer.COLLECTORS

# psql -p 6432 pgbouncer -AtF' ' -c 'SHOW POOLS', with 1.18 of Debian 12; NULL does not occur.
POOLS_1_18 = """
database user cl_active cl_waiting cl_active_cancel_req cl_waiting_cancel_req sv_active sv_active_cancel \
sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait maxwait_us pool_mode
pgbouncer postgres 1 0 0 0 0 0 0 0 0 0 0 0 0 statement
pgtrial postgres 5 195 0 0 5 0 0 1 2 0 1 3 21418 transaction
postgres postgres 1 0 0 0 1 0 0 0 0 0 0 0 0 transaction
"""
# The documentation of 1.24 (SHOW POOLS), whose rows end with what balances the load between hosts.
POOLS_1_24 = """
database user cl_active cl_waiting cl_active_cancel_req cl_waiting_cancel_req sv_active sv_active_cancel \
sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait maxwait_us pool_mode load_balance_hosts
pgtrial postgres 10 2 0 0 8 0 0 4 0 0 0 0 180 transaction -
"""
STATS_1_18 = """
database total_xact_count total_query_count total_received total_sent total_xact_time total_query_time \
total_wait_time avg_xact_count avg_query_count avg_recv avg_sent avg_xact_time avg_query_time avg_wait_time
pgbouncer 1 1 0 0 0 0 0 0 0 0 0 0 0 0
pgtrial 2000 14000 64 128 4500000 3500000 1250000 200 1400 6 12 450 350 125
"""


def read(collector: ConsoleCollector, text: str) -> dict[str, float]:
    header, *rows = (line.split() for line in text.strip().splitlines())
    found = list(collector.parse(header, rows))
    assert {reading.metric for reading in found} == {metric.name for metric in collector.metrics}
    return {reading.metric.removeprefix("pgbouncer."): reading.value for reading in found}


def test_clients_and_sessions_of_all_pools_are_added_up_without_the_console() -> None:
    assert read(POOLS, POOLS_1_18) == {"clients_active": 6, "clients_waiting": 195, "servers": 10, "servers_active": 6}


def test_columns_of_a_later_version_do_no_harm() -> None:
    assert read(POOLS, POOLS_1_24) == {"clients_active": 10, "clients_waiting": 2, "servers": 12, "servers_active": 8}


def test_times_are_in_seconds() -> None:
    assert read(STATS, STATS_1_18) == {
        "transactions": 2000,
        "queries": 14000,
        "wait_time": pytest.approx(1.25),
        "transaction_time": pytest.approx(4.5),
    }


def test_a_pooler_that_nobody_has_used_has_counted_nothing() -> None:
    header = STATS_1_18.strip().splitlines()[0]

    assert set(read(STATS, header).values()) == {0}
