"""Ten billion transactions of a hundred runs: the logs of every run are read where it was, and the sums analysed.

    python benchmarks/billions.py --directory /var/tmp                   # half an hour, 8 GB of disk
    python benchmarks/billions.py --runs 12 --millions 10                # as a try
    python benchmarks/billions.py --read 4 --directory /var/tmp          # two minutes: the analysis of as much

There are two logs, one of each arm, of which each run has another part as its measured time; all lines are read for
each run. The rate drifts, so that no two runs have the same. Arm "off" is 3 % faster. The logs are removed at the end.
With --read only the logs of so many runs are read, and all other runs of their arms have the same sums.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pgtrial.store.belongings import Belongings
from pgtrial.store.layout import TRANSACTIONS, run_folder
from pgtrial.store.state import State
from pgtrial.store.transactions import ingest

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

FASTER = {"off": 1.03, "on": 1.0}
DRIFT = 5.0  # s
EDGES = 60  # s before and after the measured time


def run(directory: Path, runs: int, transactions: int, reading: int) -> dict[str, float]:
    """Make a folder of so many runs, read the logs of as many as are ``reading`` into it, and analyse it."""
    from growth import ARMS, MEASURE
    from ingest import START, TPS, described, generate

    from support import EXPERIMENT, Simulation, write_result_folder

    seconds = round(transactions / (TPS * max(FASTER.values()))) - 2 * EDGES
    text = EXPERIMENT.replace("blocks = 6", f'blocks = {runs // ARMS}\nmethod = "blocks"')
    text = text.replace("placebo = true", "placebo = false").replace('"simple-update"', '"oltp"')
    folder = directory / "x"
    write_result_folder(folder, simulation=Simulation(), text=text.replace('"10s"', f'"{seconds}s"'))
    Belongings.of(folder).add_measured()  # else it is a stranger's, with too many readings
    logs = {}
    for arm, factor in FASTER.items():
        (directory / arm).mkdir()
        paths = generate(directory / arm, transactions, tps=round(TPS * factor), drift=DRIFT)
        logs[arm] = described(paths, transactions)
    with closing(State.open(folder)) as state:
        every = state.runs()
    began, read, counted = time.perf_counter(), 0, 0
    sums: dict[str, list[Path]] = {}
    for number, each in enumerate(every[:reading]):
        begin = START + number * EDGES // runs
        log = replace(logs[each.slot.arm], window=(begin, begin + seconds), latency_limit=None)
        path = run_folder(folder, each.folder) / TRANSACTIONS
        report = ingest([log], path)
        sums.setdefault(each.slot.arm, []).append(path)
        read += report.transactions
        counted += report.counted
    took = time.perf_counter() - began
    for number, each in enumerate(every[reading:]):
        own = sums[each.slot.arm]
        shutil.copyfile(own[number % len(own)], run_folder(folder, each.folder) / TRANSACTIONS)
    done = subprocess.run([sys.executable, "-c", MEASURE, str(folder)], stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {**found, "read": read, "counted": counted, "took": took, "reading": peak}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--millions", type=int, default=106, help="transactions of a run, in millions (default: 106)")
    parser.add_argument("--read", type=int, metavar="RUNS", help="read the logs of so many runs only (default: of all)")
    parser.add_argument("--directory", type=Path, help="where the logs are made (default: the temporary directory)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pgtrial-bench-", dir=options.directory) as name:
        found = run(Path(name), options.runs, options.millions * 1_000_000, options.read or options.runs)
    print(f"read           {found['read'] / 1e9:.2f} billion transactions, {found['counted'] / 1e9:.2f} counted")
    print(f"               {found['took']:.0f} s, {found['read'] / found['took'] / 1e6:.1f} M/s")
    print(f"peak memory    {found['reading'] / 1e6:.0f} MB")
    print(f"analysis       {found['analysis']:.1f} s, and {found['page']:.2f} s for the page")
    print(f"peak memory    {found['peak'] / 1e6:.0f} MB")
    print(f"verdict        {found['verdict']}")


if __name__ == "__main__":
    main()
