"""What a slice leaves behind, for real: an arm whose dirty pages the kernel writes when the other arm is at work.

Both arms commit to the disk. "audited" also writes a file with each transaction, into the page cache and no further.
The kernel writes what is a second old, so the disk is busy a slice later. Alone, in runs one after the other, the arm
pays for itself: that is the truth. In turns the other arm pays for much of it, and what turns alone show is printed
beside what pgtrial makes of them.

    PYTHONPATH=src python benchmarks/left_behind.py FOLDER [--kilobytes 200] [--blocks 6] [--seconds 30]

As root, for vm.dirty_*, with the folder on a disk. It takes about a quarter of an hour; files of 4 GB at most.
"""

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

MARGIN = "3%"
EXPERIMENT = """
format = 1

[experiment]
name = "left-behind-{method}"

[hypothesis]
claim  = "orders are not slower with an audit file"
arm    = "audited"
expect = "not worse"
margin = "{margin}"

[target]
postgresql = {{ shared_buffers = "64MB", autovacuum = false }}
sysctl     = {{ "vm.dirty_expire_centisecs" = 100, "vm.dirty_writeback_centisecs" = 25 }}

[dataset]
kind  = "sql"
setup = "setup.sql"

[workload]
clients  = 4
duration = "{seconds}s"
warmup   = "5s"
scenario = [{{ name = "order", file = "order.sql" }}]

[arms.plain.postgresql]
geqo_generations = 1

[arms.audited.postgresql]
geqo_generations = {kilobytes}

[design]
method = "{method}"
blocks = {blocks}
{slices}
"""
SETUP = """
CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL);
INSERT INTO account SELECT n, 0 FROM generate_series(1, 10000) AS n;
VACUUM ANALYZE account;

-- As many kilobytes as a setting says that nothing else here reads, into one of 20,000 files.
CREATE FUNCTION audit(number integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    kilobytes integer := current_setting('geqo_generations')::integer;
BEGIN
    IF kilobytes > 1 THEN
        EXECUTE format(
            'COPY (SELECT repeat(%L, %s)) TO %L (FORMAT binary)',
            'x', 1024 * kilobytes, current_setting('data_directory') || '/audit-' || number
        );
    END IF;
END
$$;
"""
ORDER = """\\set id random(1, 10000)
\\set file random(1, 20000)
BEGIN;
UPDATE account SET balance = balance + 1 WHERE id = :id;
SELECT audit(:file);
COMMIT;
"""


def effect(root: Path, method: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run the experiment; the claim's effect on throughput, and the verdict."""
    folder = root / method
    folder.mkdir(parents=True)
    text = EXPERIMENT.format(
        method=method,
        margin=MARGIN,
        kilobytes=options.kilobytes,
        blocks=options.blocks,
        seconds=options.seconds,
        slices=f'slice = "{options.slice}"' if method == "interleaved" else "",
    )
    for name, content in (("experiment.toml", text), ("setup.sql", SETUP), ("order.sql", ORDER)):
        (folder / name).write_text(content, encoding="utf-8")
    command = [sys.executable, "-m", "pgtrial", "run", "experiment.toml", "--quiet", "--allow-code"]
    command += ["--allow-host-changes", "--work-directory", str(folder / "data")]
    subprocess.run(command, cwd=folder, check=False, stdout=subprocess.DEVNULL)  # a verdict has an exit code of its own
    (path,) = (folder / "results").glob("*/findings.json")
    found = json.loads(path.read_text(encoding="utf-8"))
    (claimed,) = [each for each in found["effects"] if each["metric"] == "tps" and each["load_level"] == "all"]
    return claimed | {"verdict": found["hypothesis"]["verdict"], "why": found["hypothesis"]["reason"]["text"]}


def percent(*logs: float) -> str:
    return " to ".join(f"{math.expm1(each):+.1%}" for each in logs)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kilobytes", type=int, default=200, help="that a transaction writes")
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--seconds", type=int, default=30, help="of each arm in a block")
    parser.add_argument("--slice", default="1s")
    options = parser.parse_args()
    for method in ("blocks", "interleaved"):
        found = effect(options.folder, method, options)
        low, high = math.log(found["low"]), math.log(found["high"])
        print(f"{method}: {percent(math.log(found['ratio']))} ({percent(low, high)})")
        if method == "interleaved":
            whole = percent(low - found["hidden_below"], high + found["hidden_above"])
            print(f"  with what an arm leaves behind: {whole}")
        print(f"  {found['verdict']}: {found['why']}", flush=True)


if __name__ == "__main__":
    main()
