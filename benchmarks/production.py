"""How true the load is that `pgtrial workload` makes of a server's counts.

A shop of five tables is loaded by the scripts of shop/load for a while: 22 statements, two transactions among them,
with skewed keys. Then its statements are counted, while it is loaded for as long again: what pg_stat_statements
remembers of that becomes a load, which is sent to copies of the shop. The floor is the load itself, sent to one, too.

Some statements go through what the load itself has written, so their blocks depend on the rows that were there when it
began and on how much it has written since. The copies (pg_dump, pg_restore) are therefore of the shop as it was when
counting began, and are loaded for as long. "--late" makes them of the shop as it is when counting has ended.

    PYTHONPATH=tests python benchmarks/production.py [--seconds 60] [--check 60] [--late] [--output DIR]
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pgtrial.postgres.connect import fetch
from pgtrial.postgres.throwaway import ThrowawayCluster
from support.cluster import running_cluster

SHOP = Path(__file__).parent / "shop"
WEIGHTS = {
    **{
        "customer": 20,
        "by_email": 6,
        "orders_of": 8,
        "last_orders": 10,
        "order_lines": 12,
        "turnover": 1,
        "by_state": 1,
    },
    **{"events_of": 5, "sold": 2, "region": 1, "kind": 4, "several": 8, "price": 2, "view": 12, "buy": 4, "send": 3},
}
SETTINGS = {"fsync": "off", "shared_buffers": "256MB", "shared_preload_libraries": "pg_stat_statements", "jit": "off"}

COUNTED = """
SELECT query, 1 - sum(total_exec_time) OVER (ORDER BY total_exec_time ROWS UNBOUNDED PRECEDING)
           / sum(total_exec_time) OVER (), (shared_blks_hit + shared_blks_read)::float / calls
  FROM public.pg_stat_statements JOIN pg_database d ON d.oid = dbid
 WHERE datname = current_database() AND query ~* '^\\s*(SELECT|INSERT|UPDATE|DELETE|WITH)' AND query !~ 'pg_stat'
 ORDER BY total_exec_time DESC
"""


def measure(cluster: ThrowawayCluster, options: argparse.Namespace) -> None:
    def run(program: str, *words: str, database: str = "shop") -> None:
        environment = {**os.environ, **cluster.environment(database)}
        subprocess.run([cluster.programs.path(program), *words], check=True, env=environment, stdout=subprocess.DEVNULL)

    def counted(database: str) -> dict[str, tuple[float, float]]:
        """Of each statement: the share of the time that others take which take more, and the blocks of a call."""
        rows = asyncio.run(fetch(cluster.conninfo(database), COUNTED))
        return {text: (float(before), float(blocks)) for text, before, blocks in rows}

    def load(database: str, seconds: int) -> None:
        """After VACUUM and ANALYZE, and with the counts reset."""
        run("psql", "-qXc", "VACUUM ANALYZE", "-c", "SELECT pg_stat_statements_reset()", database=database)
        words = ("-n", "--protocol=extended", f"--client={options.clients}", f"--time={seconds}")
        run(
            "pgbench",
            *words,
            *(f"--file={SHOP / 'load' / name}.sql@{WEIGHTS[name]}" for name in WEIGHTS),
            database=database,
        )

    def pgtrial(*words: str) -> None:
        subprocess.run([sys.executable, "-m", "pgtrial", "workload", *words], check=True)

    for database in ("shop", "copy", "again"):
        run("createdb", database, database="postgres")
    run("psql", "-qX", "--set=ON_ERROR_STOP=1", "--single-transaction", f"--file={SHOP / 'data.sql'}")
    output = Path(options.output or tempfile.mkdtemp(prefix="pgtrial-production-")) / "load"
    output.parent.mkdir(parents=True, exist_ok=True)
    dump = output.parent / "copy.dump"

    def save() -> None:
        run("psql", "-qXc", "VACUUM ANALYZE")
        run("pg_dump", "--format=custom", f"--file={dump}")

    load("shop", options.seconds)  # its past
    if not options.late:
        save()
    load("shop", options.seconds)
    original = counted("shop")
    pgtrial(cluster.conninfo("shop"), "--output", str(output))
    if options.late:
        save()
    dump.rename(output / dump.name)
    for database in ("copy", "again"):
        run("pg_restore", f"--dbname={database}", str(output / dump.name))
    run("psql", "-qXc", "VACUUM ANALYZE", database="copy")
    load("again", options.check)
    again = counted("again")
    off = {text: again[text][1] / blocks - 1 for text, (before, blocks) in original.items() if before < 0.9}
    print(
        "the original again:",
        ", ".join(f"{100 * one:+.1f} % ({' '.join(text.split())[:40]})" for text, one in off.items()),
    )
    words = (f"--clients={options.clients}", f"--seconds={options.check}")
    pgtrial(cluster.conninfo("copy"), "--check", str(output), "--allow-writes", *words)


async def with_cluster(options: argparse.Namespace) -> None:
    async with running_cluster("production", SETTINGS, postgres=options.postgres) as cluster:
        await asyncio.to_thread(measure, cluster, options)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how true a load made from a server's counts is.")
    parser.add_argument("--seconds", type=int, default=60, help="of the load of our own (60)")
    parser.add_argument("--check", type=int, default=60, help="seconds of each load that is tried on the copy (60)")
    parser.add_argument("--late", action="store_true", help="copies as the shop is when counting has ended")
    parser.add_argument("--clients", type=int, default=4, help="sessions of either (4)")
    parser.add_argument("--postgres", default=None, help="major version or directory of programs (the first found)")
    parser.add_argument(
        "--output", default=None, help="the folder to write into (one in the directory for temporary files)"
    )
    options = parser.parse_args()
    asyncio.run(with_cluster(options))


if __name__ == "__main__":
    main()
