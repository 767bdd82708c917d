"""Speed and memory of reading pgbench's logs, next to DuckDB merely reading the same files.

    python benchmarks/ingest.py                       10 million transactions, about half a minute, 0.4 GB of disk
    python benchmarks/ingest.py --millions 100        the size of the promise on memory, about 4 GB of disk

The raw read converts every column and adds it up, with the same options. Both run in the same process in the order
raw, ingest, ingest, raw, over and over, so that whatever else the machine does meets both alike; the ratio is that of
the sums of times. Peak memory is that of a child process that only ingests. The logs are removed at the end.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pgtrial.store.parquet import connect
from pgtrial.store.pgbench_log import LevelLog, read_logs
from pgtrial.store.transactions import ingest

START = 1_700_000_000
TPS = 30_000  # of the load the logs stand for
FILES = 4  # pgbench writes one per thread
CLIENTS = 16
SCENARIOS = ("read", "insert", "update")

_CHILD = """
import resource, sys
from pathlib import Path
from benchmarks.ingest import START, described
from pgtrial.store.transactions import ingest
ingest([described(sorted(Path(sys.argv[1]).glob("log.*")), int(sys.argv[2]))], Path(sys.argv[1]) / "child.parquet")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def generate(folder: Path, transactions: int, *, tps: int = TPS, drift: float = 0.0) -> list[Path]:
    """Logs like those of the OLTP mix with --max-tries: log-normal latencies, one in a thousand failed. They are up to
    ``drift`` (s) ahead of or behind a constant rate.
    """
    paths = [folder / f"log.{i}" for i in range(FILES)]
    each = transactions // FILES
    with connect() as db:
        for number, path in enumerate(paths):
            db.execute("SELECT setseed(?)", [number / FILES])
            db.execute(f"""
                COPY (
                    SELECT {number} + {FILES} * (i % {CLIENTS // FILES}),
                           i // {CLIENTS // FILES} + 1,
                           CASE WHEN random() < 0.001 THEN 'serialization'
                                ELSE (40 + exp(6 + 0.7 * sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random())))
                                     ::BIGINT::VARCHAR END,
                           CASE i * 7919 % 10 WHEN 9 THEN 2 WHEN 8 THEN 1 WHEN 7 THEN 1 ELSE 0 END,
                           {START} + microsecond // 1000000,
                           microsecond % 1000000,
                           (random() < 0.01)::INTEGER
                    FROM (SELECT i, ({FILES}e6 * i / {tps} + {drift}e6 * (1 + sin({FILES}e-2 * i / {tps})))::BIGINT
                          FROM range({each}) AS made (i)) AS made (i, microsecond)
                ) TO '{path}' (FORMAT csv, DELIMITER ' ', HEADER false, QUOTE '')
            """)
    return paths


def described(paths: list[Path], transactions: int) -> LevelLog:
    return LevelLog(
        level=0,
        scenarios=SCENARIOS,
        files=tuple(paths),
        window=(START, START + transactions // TPS + 1),
        latency_limit=0.002,
        has_rate=False,
        max_tries=3,
    )


def read_raw(log: LevelLog) -> None:
    with connect() as db:
        db.execute(f"""
            SELECT count(*), sum(client), sum(number), sum(length(time)), sum(script), sum(epoch), sum(microsecond),
                   sum(retries)
            FROM {read_logs(log)}
        """).fetchall()


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def peak_memory(folder: Path, transactions: int) -> int:
    """Bytes, of a process that does nothing but ingest."""
    child = subprocess.run(
        [sys.executable, "-c", _CHILD, str(folder), str(transactions)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    return int(child.stdout) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=int, default=10, help="transactions, in millions (default: 10)")
    parser.add_argument("--rounds", type=int, default=3, help="times raw, ingest, ingest, raw (default: 3)")
    parser.add_argument("--directory", type=Path, help="where the logs are made (default: the temporary directory)")
    options = parser.parse_args()
    transactions = options.millions * 1_000_000
    with tempfile.TemporaryDirectory(prefix="pgtrial-bench-", dir=options.directory) as name:
        folder = Path(name)
        paths = generate(folder, transactions)
        log = described(paths, transactions)
        read_raw(log)  # the files are in the page cache before anything is timed
        raw, ingested = 0.0, 0.0
        for _ in range(options.rounds):
            raw += timed(lambda: read_raw(log))
            ingested += timed(lambda: ingest([log], folder / "transactions.parquet"))
            ingested += timed(lambda: ingest([log], folder / "transactions.parquet"))
            raw += timed(lambda: read_raw(log))
        passes = 2 * options.rounds
        size = sum(path.stat().st_size for path in paths)
        result = (folder / "transactions.parquet").stat().st_size
        memory = peak_memory(folder, transactions)
    print(f"logs           {transactions / 1e6:g} M transactions, {size / 1e6:.0f} MB -> {result / 1e6:.1f} MB Parquet")
    print(f"raw read       {transactions * passes / raw / 1e6:.2f} M transactions/s")
    print(f"ingest         {transactions * passes / ingested / 1e6:.2f} M transactions/s")
    print(f"ingest / raw   {ingested / raw:.2f} times the time")
    print(f"peak memory    {memory / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
