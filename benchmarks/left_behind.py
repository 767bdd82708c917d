"""What a slice leaves behind, for real: an arm whose dirty pages the kernel writes when the other arm is at work.

Both arms commit to a slow disk. Every so often a transaction of "audited" also writes a file, into the page cache and
no further. The kernel writes what is a second old, so the disk is busy a slice later. In runs one after the other the
arm pays for itself: that is the truth. In turns the other arm pays, and what turns alone show is printed beside what
pgtrial makes of them.

    PYTHONPATH=src python benchmarks/left_behind.py FOLDER [--share 10] [--blocks 6] [--seconds 30]

As root, for vm.dirty_*, and with control groups of version 1, for the disk: an image of 4 GB in FOLDER whose writes the
kernel limits. It takes about a quarter of an hour.
"""

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LIMIT = Path(
    "/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device"
)  # of all that is in no group, as the kernel itself

MARGIN = "3%"
EXPERIMENT = """
format = 1

[experiment]
name = "left-behind-{method}"

[hypothesis]
claim  = "orders are not slower with an audit file"
arm    = "audited"
expect = "not-worse"
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
geqo_generations = 0

[arms.audited.postgresql]
geqo_generations = {share}

[design]
method = "{method}"
blocks = {blocks}
{slices}
"""
SETUP = """
CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL);
INSERT INTO account SELECT n, 0 FROM generate_series(1, 10000) AS n;
VACUUM ANALYZE account;

-- In so many of a hundred transactions as a setting says that nothing else here reads, one of 20,000 files of 64 kB.
CREATE FUNCTION audit(number integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF 100 * random() < current_setting('geqo_generations')::integer THEN
        EXECUTE format(
            'COPY (SELECT repeat(%L, 65536)) TO %L (FORMAT binary)',
            'x', current_setting('data_directory') || '/audit-' || number
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


@contextmanager
def slow_disk(root: Path, iops: int) -> Iterator[Path]:
    """A file system whose writes are limited, also those that the kernel itself makes later."""
    image, disk = root / "image", root / "disk"
    disk.mkdir(parents=True)
    with image.open("wb") as file:
        file.truncate(6 << 30)
    device = _answer("losetup", "--find", "--show", str(image))
    try:
        _answer("mkfs.ext4", "-q", device)
        _answer("mount", device, str(disk))
        number = _answer("lsblk", "--noheadings", "--nodeps", "--output", "MAJ:MIN", device)
        try:
            LIMIT.write_text(f"{number} {iops}", encoding="utf-8")
            yield disk
        finally:
            LIMIT.write_text(f"{number} 0", encoding="utf-8")
            _answer("umount", str(disk))
    finally:
        _answer("losetup", "--detach", device)
        image.unlink()


def _answer(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def effect(root: Path, disk: Path, method: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run the experiment with its data on ``disk``; the claim's effect on throughput, and the verdict."""
    folder = root / method
    folder.mkdir(parents=True)
    text = EXPERIMENT.format(
        method=method,
        margin=MARGIN,
        share=options.share,
        blocks=options.blocks,
        seconds=options.seconds,
        slices=f'slice = "{options.slice}"' if method == "interleaved" else "",
    )
    for name, content in (("experiment.toml", text), ("setup.sql", SETUP), ("order.sql", ORDER)):
        (folder / name).write_text(content, encoding="utf-8")
    command = [sys.executable, "-m", "pgtrial", "run", "experiment.toml", "--quiet", "--allow-code"]
    command += ["--allow-host-changes", "--work-directory", str(disk / method)]
    state = {"PGTRIAL_STATE_DIRECTORY": str(folder / "state")}  # for the second method not to be a second attempt
    # A verdict has an exit code of its own.
    subprocess.run(command, cwd=folder, env={**os.environ, **state}, check=False, stdout=subprocess.DEVNULL)
    (path,) = (folder / "results").glob("*/findings.json")
    found = json.loads(path.read_text(encoding="utf-8"))
    asked = found["hypothesis"]
    claimed: dict[str, Any]
    (claimed,) = [e for e in found["effects"] if e["metric"] == asked["metric"] and e["load_level"] == "all"]
    return claimed | {"verdict": asked["verdict"], "why": asked["reason"]["text"]}


def percent(*logs: float) -> str:
    return " to ".join(f"{math.expm1(each):+.1%}" for each in logs)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--share", type=int, default=10, help="of transactions that write a file, in per cent")
    parser.add_argument("--iops", type=int, default=400, help="writes of the disk in a second")
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--seconds", type=int, default=30, help="of each arm in a block")
    parser.add_argument("--slice", default="1s")
    parser.add_argument("--methods", nargs="+", default=["blocks", "interleaved"])
    options = parser.parse_args()
    with slow_disk(options.folder, options.iops) as disk:
        for method in options.methods:
            found = effect(options.folder, disk, method, options)
            low, high = math.log(found["low"]), math.log(found["high"])
            print(f"{method}: {percent(math.log(found['ratio']))} ({percent(low, high)})")
            if method == "interleaved":
                whole = percent(low - found["hidden_below"], high + found["hidden_above"])
                print(f"  with what an arm leaves behind: {whole}")
            print(f"  {found['verdict']}: {found['why']}", flush=True)


if __name__ == "__main__":
    main()
