"""Time and memory of `pgtrial report` for an experiment of two hours: 12 runs of 6 load levels, causes included.

    PYTHONPATH=tests python benchmarks/causes.py                  # 100 s for each load level
    PYTHONPATH=tests python benchmarks/causes.py --seconds 20     # a fifth of that

The result folder is a simulated one with every metric that is looked at, each with noise of its own, so that nothing
is cheap because it stands still.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pgtrial.store import layout, parquet
from support import EXPERIMENT, WAITS, Simulation, detailed_simulation, write_result_folder
from support.details import DETAILED_GAUGES

LONGEST, MOST = 20.0, 1 << 30  # s and B that were promised
_EVENTS = (
    *(("Lock", name) for name in ("transactionid", "tuple", "relation", "extend")),
    *(("LWLock", name) for name in ("BufferContent", "BufferMapping", "LockManager", "ProcArray", "WALInsert")),
    *(("IO", name) for name in ("DataFileRead", "DataFileWrite", "DataFileExtend", "WALWrite", "BuffileRead")),
    *(("IPC", name) for name in ("BufferIO", "ProcArrayGroupUpdate", "XactGroupUpdate")),
)


def simulation() -> Simulation:
    """Every metric, and as many wait events as a real server shows."""
    detailed = detailed_simulation()
    waits = {**WAITS, **{("active", kind, event): 0.1 for kind, event in _EVENTS}}
    return Simulation(counters=detailed.counters, gauges=detailed.gauges, waits=waits)


def add_noise(folder: Path) -> None:
    """Counters grow by between nothing and twice their rate, gauges and waits vary by as much, throughput by 20 %."""
    gauges = sorted({metric for metric, _ in DETAILED_GAUGES})
    samples = """
        SELECT t, metric, object,
               CASE WHEN metric IN (SELECT unnest(?::VARCHAR[])) THEN value * 2 * random()
                    ELSE sum(2 * random() * (value - before)) OVER (PARTITION BY metric, object ORDER BY t) END AS value
        FROM (SELECT *, lag(value, 1, 0) OVER (PARTITION BY metric, object ORDER BY t) AS before FROM source)
    """
    transactions = """
        SELECT * EXCLUDE (factor)
               REPLACE ((count * factor)::BIGINT AS count, latency_sum * factor AS latency_sum)
        FROM (SELECT *, 0.8 + 0.4 * random() AS factor FROM source)
    """
    queries = {
        layout.SAMPLES: (samples, [gauges]),
        layout.WAITS: ("SELECT * REPLACE ((sessions * 2 * random())::INTEGER AS sessions) FROM source", []),
        layout.TRANSACTIONS: (transactions, []),
    }
    with parquet.connect() as db:
        db.execute("SELECT setseed(0.5)")
        for run in (folder / "runs").iterdir():
            for name, (query, parameters) in queries.items():
                db.execute("CREATE OR REPLACE TEMP TABLE source AS SELECT * FROM read_parquet(?)", [str(run / name)])
                parquet.write_query(db, query, run / name, parameters)


def write_long(folder: Path, *, seconds: int) -> Path:
    """A result folder of 12 runs of 6 load levels, ``seconds`` long each."""
    text = (
        EXPERIMENT.replace('"10s"', f'"{seconds}s"')
        .replace("clients = 4", "clients = [2, 4, 8, 12, 16, 24]")
        .replace("placebo = true", "")
    )
    written = write_result_folder(folder, text=text, simulation=simulation())
    add_noise(written)
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=100, help="of a load level (default: 100)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pgtrial-bench-") as name:
        folder = write_long(Path(name) / "long", seconds=options.seconds)
        started = time.perf_counter()
        found = subprocess.run(
            [sys.executable, "-m", "pgtrial", "-v", "report", str(folder)], capture_output=True, text=True, check=True
        )
        seconds = time.perf_counter() - started
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        size = (folder / layout.REPORT).stat().st_size
    print("\n".join(line for line in found.stderr.splitlines() if " in " in line))
    print(f"report of {options.seconds * 72 / 3600:.1f} h of load: {seconds:.1f} s (promised: {LONGEST:g} s)")
    print(f"memory: {memory / 2**20:.0f} MB (promised: {MOST / 2**20:.0f} MB); report.html: {size / 2**20:.1f} MB")


if __name__ == "__main__":
    main()
