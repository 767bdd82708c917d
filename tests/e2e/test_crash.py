"""kill -9 of pgtrial at every journal event of an experiment that turns every knob, and "pgtrial restore" after it."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support import wait_until

pytestmark = pytest.mark.changes_kernel

EXPERIMENT = """
format = 1
experiment = { name = "crash" }
[target.postgresql]
shared_buffers = "16MB"
max_connections = 20
[dataset]
kind  = "sql"
setup = "empty.sql"
[workload]
scenario = [{ name = "nothing", file = "nothing.sql" }]
clients  = 1
rate     = 20
duration = "1s"
warmup   = 0
[arms.turned.postgresql]
work_mem = "8MB"
[arms.turned.sysctl]
"vm.dirty_bytes" = 268435456
"vm.swappiness"  = 37
[arms.turned.block_device]
device = "DEVICE"
read_ahead_kb = 384
[arms.turned.transparent_huge_pages]
enabled = "ENABLED"
[arms.turned.huge_pages]
size = "2MB"
[arms.turned.memory_pressure]
size = "16MB"
[arms.turned.cgroup]
memory = "1GB"
cpus   = 1.5
[arms.plain]
[design]
blocks = 1
"""
SCRIPTS = {"empty.sql": "CREATE TABLE empty ();\n", "nothing.sql": "SELECT;\n"}
DRIVER = Path(__file__).with_name("crash_driver.py")
SYS = Path("/sys/kernel/mm")
VALUES = (
    *(Path("/proc/sys/vm") / name for name in ("dirty_bytes", "dirty_ratio", "swappiness", "nr_hugepages")),
    *(SYS / "transparent_hugepage" / name for name in ("enabled", "defrag", "shmem_enabled")),
)


def devices() -> list[Path]:
    """Block devices, less the loop devices: other tests make and remove them."""
    return [path for path in Path("/sys/block").iterdir() if not path.name.startswith("loop")]


def world() -> dict[str, str]:
    """What the experiment changes: values, and what must not be left over."""
    values = {str(path): path.read_text() for path in VALUES}
    values |= {str(device): (device / "queue/read_ahead_kb").read_text() for device in devices()}
    values["mounts"] = "\n".join(
        line for line in Path("/proc/mounts").read_text().splitlines() if "pgtrial" in line and "test" not in line
    )
    values["groups"] = " ".join(
        str(path) for path in Path("/sys/fs/cgroup").glob("**/pgtrial-*") if "test" not in path.name
    )
    return values


@pytest.fixture
def driver(place):
    """Run the driver with some arguments: (exit status, what it printed)."""
    process = place.start_program(sys.executable, str(DRIVER), "--serve", stdin=subprocess.PIPE)

    def drive(*arguments: str) -> tuple[int, str]:
        process.stdin.write(json.dumps(arguments) + "\n")
        process.stdin.flush()
        status, printed = json.loads(process.stdout.readline())
        return status, printed

    with process:
        yield drive
        process.stdin.close()


@pytest.fixture
def crash(place, driver):
    """Run ``pgtrial resume`` until a step, then ``pgtrial restore``: the names of the steps that were made."""
    if os.geteuid() != 0:
        pytest.skip("changing kernel settings needs root")
    if not (SYS / "hugepages/hugepages-2048kB").is_dir():
        pytest.skip("this kernel has no 2 MB pages")
    return _crash(place, driver)


def _crash(place, driver):
    chosen = "always" if "[never]" in (SYS / "transparent_hugepage/enabled").read_text() else "never"
    for name, text in SCRIPTS.items():
        (place.directory / name).write_text(text)
    text = EXPERIMENT.replace("ENABLED", chosen).replace("DEVICE", devices()[0].name)
    (place.directory / "crash.toml").write_text(text)
    events, before = place.directory / "events", world()

    def drive(step: int, *command: str) -> list[str]:
        status, printed = driver(str(step), str(events), "--", *command, "--allow-host-changes", "-q")
        assert status in (0, -9), printed
        steps = events.read_text().splitlines()
        if status == -9:
            assert len(steps) == step
        return steps

    def check() -> None:
        status, printed = driver("0", os.devnull, "--", "restore")
        assert status == 0, printed
        wait_until(lambda: not place.only_folder().commands())  # the kernel is about to end them
        assert world() == before, printed

    drive(1, "run", "crash.toml", "--work-directory", str(place.storage))
    check()
    return lambda step: (drive(step, "resume", str(place.only_folder().path)), check())[0]


def test_killed_at_any_journal_event_everything_is_put_back(crash, place):
    """All events while the arms are tried, and each seventh one of the runs; the slow test below takes all."""
    step, killed = 1, []
    while True:
        steps = crash(step)
        if len(steps) < step:
            break
        killed.append(steps[-1])
        is_in_run = bool(place.only_folder().query("SELECT 1 FROM run"))
        step += 7 if is_in_run else 1
    assert len(killed) >= 50
    assert {text.split()[1] for text in killed} == {"begin", "confirm", "end"}
    assert_finished_runs_are_kept(place)


@pytest.mark.slow
def test_killed_at_any_journal_event_of_a_run_everything_is_put_back(crash, place):
    crash(1)
    killed: dict[str, set[str]] = {}  # at which moments of each change
    step = 1
    while len(steps := crash(step)) >= step:
        when, what, change = steps[-1].split(" ", 2)
        killed.setdefault(change, set()).add(f"{when} {what}")
        step += 1
    moments = {f"{when} {what}" for when in ("before", "after") for what in ("begin", "confirm", "end")}
    assert {change: moments - seen for change, seen in killed.items() if seen != moments} == {}
    assert len(killed) >= len(tomllib.loads(EXPERIMENT)["arms"]["turned"]) - 1  # all tables but that of the server
    assert_finished_runs_are_kept(place)


def assert_finished_runs_are_kept(place):
    folder = place.only_folder()
    done = [row for row in folder.query("SELECT slot, attempt, state FROM run") if row[2] == "done"]
    assert sorted(slot for slot, _, _ in done) == [1, 2]  # each once: none was lost, none was done again
    assert len(list(folder.path.glob("runs/*/transactions.parquet"))) == 2
    folder.assert_nothing_left()
