"""How the time and the memory of the analysis grow with the runs of an experiment, on simulated result folders.

    python benchmarks/growth.py [--runs 30 100 300 1000] [--hosts 10]

A line for each number of runs has the seconds of the analysis and of the page, the most memory of the process that did
both, and the sizes of the folder and of the page. Each is measured in a process of its own.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

ARMS = 2
MEASURE = """
import json, sys, time
from pathlib import Path
from pgtrial.analysis.analyze import analyze
from pgtrial.findings.message import say
from pgtrial.report.html import render_html
began = time.perf_counter()
found = analyze(Path(sys.argv[1]))
analysed = time.perf_counter()
page = render_html(found)
# Not ru_maxrss, which begins with what the parent had.
(peak,) = (line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({
    "analysis": analysed - began,
    "page": time.perf_counter() - analysed,
    "peak": int(peak) * 1024,
    "characters": len(page),
    "verdict": f"{found.hypothesis.verdict}: {say(found.hypothesis.reason)}",
}))
"""


def measure(runs: int, hosts: int) -> dict[str, float]:
    """Make a folder of so many runs, and analyse it."""
    from support import EXPERIMENT, Simulation, write_result_folder

    text = EXPERIMENT.replace("blocks = 6", f"blocks = {runs // ARMS}").replace("placebo = true", "placebo = false")
    names = tuple(f"db-{number}" for number in range(hosts))
    with tempfile.TemporaryDirectory(prefix="pgtrial-growth-") as directory:
        folder = Path(directory) / "x"
        write_result_folder(folder, simulation=Simulation(hosts=names), text=text)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        command = [sys.executable, "-c", MEASURE, str(folder)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        found: dict[str, float] = json.loads(done.stdout)
    return {**found, "folder": size}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, nargs="+", default=[30, 100, 300, 1000])
    parser.add_argument("--hosts", type=int, default=10)
    options = parser.parse_args()
    print(" runs  analysis s  page s  memory MB  folder MB  page MB")
    for runs in options.runs:
        found = measure(runs, options.hosts)
        print(
            f"{runs:>5}  {found['analysis']:>10.2f}  {found['page']:>6.2f}  {found['peak'] / 2**20:>9.0f}  "
            f"{found['folder'] / 2**20:>9.1f}  {found['characters'] / 2**20:>7.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
