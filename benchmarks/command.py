"""Time of whole commands: `pgtrial --help`, and `pgtrial report` of a simulated 20-run experiment.

    PYTHONPATH=tests python benchmarks/command.py                 both, next to what bare Python and the imports cost

Each command is timed several times in turn with its peer, so that whatever else the machine does meets both alike.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support import EXPERIMENT, write_result_folder

_IMPORTS = "import duckdb, numpy, scipy.special, pydantic, jinja2, vl_convert"


def timed(*argv: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *argv], capture_output=True, check=True)
    return time.perf_counter() - start


def compare(name: str, ours: list[str], peer_name: str, peer: list[str], *, rounds: int) -> None:
    """Print minimum and median of both, run in turn."""
    pairs = [(timed(*ours), timed(*peer)) for _ in range(rounds)]
    for label, times in ((name, [pair[0] for pair in pairs]), (peer_name, [pair[1] for pair in pairs])):
        print(f"{label:<34} min {min(times):6.3f} s   median {statistics.median(times):6.3f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="times of each command (default: 7)")
    options = parser.parse_args()
    compare("pgtrial --help", ["-m", "pgtrial", "--help"], "bare Python", ["-c", "pass"], rounds=options.rounds)
    with tempfile.TemporaryDirectory(prefix="pgtrial-bench-") as name:
        text = EXPERIMENT.replace('"10s"', '"30s"').replace("blocks = 6", "blocks = 10").replace("placebo = true", "")
        folder = write_result_folder(Path(name) / "twenty", text=text)
        runs = len(list((folder / "runs").iterdir()))
        compare(
            f"pgtrial report, {runs} runs of 30 s",
            ["-m", "pgtrial", "report", str(folder)],
            "its imports alone",
            ["-c", _IMPORTS],
            rounds=options.rounds,
        )


if __name__ == "__main__":
    main()
