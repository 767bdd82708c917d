"""What a slice leaves behind, for real: an arm whose work is done when the other arm is at work.

--debt pages: both arms commit to a slow disk. Every so often a transaction of "costly" also writes a file, into the
page cache and no further. The kernel writes what is a second old, so the disk is busy a slice later.

--debt vacuum: one server is switched between the arms. Every so often a transaction of "costly" also updates a row of
a large table that nobody reads. Autovacuum, which looks every two seconds and does not pause, then reads all of the
table's indexes, so the processors are busy a slice later.

In runs one after the other the arm pays for itself: that is the truth. In turns the other arm pays, and what turns
alone show is printed beside what pgtrial makes of them.

    PYTHONPATH=src python benchmarks/left_behind.py FOLDER [--debt vacuum] [--share 10] [--blocks 6] [--seconds 30]

Debts of pages need root, for vm.dirty_*, and control groups of version 1, for the disk: an image of 6 GB in FOLDER
whose writes the kernel limits. Either takes about a quarter of an hour.
"""

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT = Path(
    "/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device"
)  # of all that is in no group, as the kernel itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Debt:
    """``share`` of transactions that leave it, in per cent; ``turns`` is the method with which it falls into the other
    arm's slices, ``slice`` their length.
    """

    target: str
    setup: str
    script: str
    share: int
    turns: str
    slice: str
    needs_slow_disk: bool = False


MARGIN = "3%"
EXPERIMENT = """
format = 1

[experiment]
name = "left-behind-{method}"

[hypothesis]
claim  = "orders are not slower where some of them leave work for later"
arm    = "costly"
expect = "not-worse"
margin = "{margin}"

[target]
{target}

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

[arms.costly.postgresql]
geqo_generations = {share}

[design]
method = "{method}"
blocks = {blocks}
{slices}
"""
_ACCOUNTS = """
CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL) WITH (autovacuum_enabled = off);
INSERT INTO account SELECT n, 0 FROM generate_series(1, 10000) AS n;
VACUUM ANALYZE account;
"""
# Both leave something in so many of a hundred transactions as a setting says that nothing else here reads.
PAGES = Debt(
    target="""\
postgresql = { shared_buffers = "64MB", autovacuum = false }
sysctl     = { "vm.dirty_expire_centisecs" = 100, "vm.dirty_writeback_centisecs" = 25 }""",
    setup=f"""{_ACCOUNTS}
-- One of 20,000 files of 64 kB.
CREATE FUNCTION leave(number integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF 100 * random() < current_setting('geqo_generations')::integer THEN
        EXECUTE format(
            'COPY (SELECT repeat(%L, 65536)) TO %L (FORMAT binary)',
            'x', current_setting('data_directory') || '/audit-' || number
        );
    END IF;
END
$$;
""",
    script="""\\set id random(1, 10000)
\\set number random(1, 20000)
BEGIN;
UPDATE account SET balance = balance + 1 WHERE id = :id;
SELECT leave(:number);
COMMIT;
""",
    share=10,
    turns="interleaved",
    slice="1s",
    needs_slow_disk=True,
)
VACUUM = Debt(
    target="""\
postgresql = { shared_buffers = "1GB", synchronous_commit = "off", max_wal_size = "8GB", autovacuum_naptime = "2s", \
autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0 }""",
    setup=f"""{_ACCOUNTS}
-- Its indexes are read whole, however few rows are dead.
CREATE TABLE history (id integer PRIMARY KEY, a integer, b integer, c integer, d integer)
    WITH (vacuum_index_cleanup = on, autovacuum_analyze_scale_factor = 1);
INSERT INTO history SELECT n, n, n, n, n FROM generate_series(1, 2000000) AS n;
CREATE INDEX ON history (a);
CREATE INDEX ON history (b);
CREATE INDEX ON history (c);
CREATE INDEX ON history (d);
VACUUM ANALYZE history;

CREATE FUNCTION leave(number integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF 1000 * random() < current_setting('geqo_generations')::integer THEN
        UPDATE history SET a = a + 1 WHERE id = number;
    END IF;
END
$$;
""",
    script="""\\set id random(1, 10000)
\\set number random(1, 2000000)
BEGIN;
UPDATE account SET balance = balance + 1 WHERE id = :id;
SELECT leave(:number);
COMMIT;
""",
    share=10,
    turns="switchback",
    slice="2s",
)
DEBTS = {"pages": PAGES, "vacuum": VACUUM}


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


def effect(root: Path, place: Path, method: str, debt: Debt, options: argparse.Namespace) -> dict[str, Any]:
    """Run the experiment with its data in ``place``; the claim's effect on throughput, and the verdict."""
    folder = root / method
    folder.mkdir(parents=True)
    place.mkdir(exist_ok=True)
    text = EXPERIMENT.format(
        method=method,
        margin=MARGIN,
        target=debt.target,
        share=debt.share if options.share is None else options.share,
        blocks=options.blocks,
        seconds=options.seconds,
        slices="" if method == "blocks" else f'slice = "{options.slice or debt.slice}"',
    )
    for name, content in (("experiment.toml", text), ("setup.sql", debt.setup), ("order.sql", debt.script)):
        (folder / name).write_text(content, encoding="utf-8")
    command = [sys.executable, "-m", "pgtrial", "run", "experiment.toml", "--quiet", "--allow-code"]
    command += ["--allow-host-changes", "--work-directory", str(place / method)]
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


def show(method: str, found: dict[str, Any]) -> None:
    ends = [math.log(found[side]) for side in ("low", "high") if found[side] is not None]
    alone = "no interval"
    if ends:
        alone = percent(ends[0] + found["hidden_below"], ends[1] - found["hidden_above"])
    print(f"{method}: {percent(math.log(found['ratio']))} ({alone})")
    if method != "blocks":
        for name, ratios in (
            ("slices as they are", found["block_ratios"][::2]),
            ("twice as long", found["block_ratios"][1::2]),
        ):
            print(f"  {name}: {', '.join(percent(math.log(ratio)) for ratio in ratios if ratio is not None)}")
        if ends:
            print(f"  with what an arm leaves behind: {percent(*ends)}")
    print(f"  {found['verdict']}: {found['why']}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--debt", choices=DEBTS, default="pages")
    parser.add_argument(
        "--share", type=int, help="of transactions that leave it: per cent (pages), per thousand (vacuum); usually 10"
    )
    parser.add_argument("--iops", type=int, default=400, help="writes of the slow disk in a second")
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--seconds", type=int, default=30, help="of each arm in a block")
    parser.add_argument("--slice", help="1s (pages), 2s (vacuum)")
    parser.add_argument("--methods", nargs="+", help="blocks, and turns")
    options = parser.parse_args(arguments)
    debt = DEBTS[options.debt]
    place = slow_disk(options.folder, options.iops) if debt.needs_slow_disk else nullcontext(options.folder / "data")
    with place as data:
        for method in options.methods or ("blocks", debt.turns):
            show(method, effect(options.folder, data, method, debt, options))


if __name__ == "__main__":
    main()
