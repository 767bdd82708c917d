"""How true the load is that `pgtrial workload` makes of a server's counts.

A shop of five tables is loaded by the scripts of shop/load for a while: 22 statements, two transactions among them,
with skewed keys. What pg_stat_statements remembers of it becomes a load, which is sent to copies of the shop as it is
when its load has ended (pg_dump, pg_restore).

    PYTHONPATH=tests python benchmarks/production.py [--seconds 60] [--check 20] [--output DIR]
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

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


def measure(cluster: ThrowawayCluster, options: argparse.Namespace) -> None:
    def run(program: str, *words: str, database: str = "shop") -> None:
        environment = {**os.environ, **cluster.environment(database)}
        subprocess.run([cluster.programs.path(program), *words], check=True, env=environment, stdout=subprocess.DEVNULL)

    def pgtrial(*words: str) -> None:
        subprocess.run([sys.executable, "-m", "pgtrial", "workload", *words], check=True)

    for database in ("shop", "copy"):
        run("createdb", database, database="postgres")
    run("psql", "-qX", "--set=ON_ERROR_STOP=1", "--single-transaction", f"--file={SHOP / 'data.sql'}")
    run("psql", "-qXc", "VACUUM ANALYZE", "-c", "SELECT pg_stat_statements_reset()")
    files = [f"--file={SHOP / 'load' / name}.sql@{weight}" for name, weight in WEIGHTS.items()]
    run("pgbench", "-n", "--protocol=extended", f"--client={options.clients}", f"--time={options.seconds}", *files)
    output = Path(options.output or tempfile.mkdtemp(prefix="pgtrial-production-")) / "load"
    pgtrial(cluster.conninfo("shop"), "--output", str(output))
    run("psql", "-qXc", "VACUUM ANALYZE")
    run("pg_dump", "--format=custom", f"--file={output / 'copy.dump'}")
    run("pg_restore", "--dbname=copy", str(output / "copy.dump"))
    run("psql", "-qXc", "VACUUM ANALYZE", database="copy")
    words = (f"--clients={options.clients}", f"--seconds={options.check}")
    pgtrial(cluster.conninfo("copy"), "--check", str(output), "--allow-writes", *words)


async def with_cluster(options: argparse.Namespace) -> None:
    async with running_cluster("production", SETTINGS, postgres=options.postgres) as cluster:
        await asyncio.to_thread(measure, cluster, options)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how true a load made from a server's counts is.")
    parser.add_argument("--seconds", type=int, default=60, help="of the load of our own (60)")
    parser.add_argument("--check", type=int, default=20, help="seconds of each load that is tried on the copy (20)")
    parser.add_argument("--clients", type=int, default=4, help="sessions of either (4)")
    parser.add_argument("--postgres", default=None, help="major version or directory of programs (the first found)")
    parser.add_argument(
        "--output", default=None, help="the folder to write into (one in the directory for temporary files)"
    )
    options = parser.parse_args()
    asyncio.run(with_cluster(options))


if __name__ == "__main__":
    main()
