"""What tests of experiments on several hosts look at."""

import contextlib
import importlib.util
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.namespaces import Namespaces, namespaces
from support.programs import skip_for_want
from support.waiting import wait_until

BLOCKS = 3
BLOCKS_TEXT = f"blocks = {BLOCKS}"
SETTING = "net.core.somaxconn"  # which each host has for itself
CHANGED = "3210"
# What has every run of an experiment change its host.
TUNED = ("[design]", "".join(f'[arms.{arm}.sysctl]\n"{SETTING}" = {CHANGED}\n\n' for arm in ("on", "off")) + "[design]")


@contextlib.contextmanager
def fleet_hosts(*names: str, ahead: dict[str, int] | None = None) -> Iterator[Namespaces]:
    if importlib.util.find_spec("distributed") is None:
        skip_for_want("dask.distributed", "pip install distributed cryptography", required_by="PGTRIAL_REQUIRE_FLEET")
    with namespaces(*names, ahead=ahead) as hosts:
        yield hosts


def processes(place: Any, *words: str, state: str = "state") -> list[int]:
    """Of a place and a state directory that begins with ``state``, those whose command line has all the words."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes().decode(errors="replace").split("\0")
            environment = (path / "environ").read_bytes()
        except OSError:
            continue
        if str(place.directory / state).encode() in environment and all(word in " ".join(command) for word in words):
            found.append(int(path.name))
    return found


def counted(folder: Any) -> dict[int, int]:
    """How many runs count, by slot."""
    return Counter(slot for slot, _, state, _ in folder.runs() if state == "done")


def assert_restored(hosts: Namespaces) -> None:
    """Nothing runs on a host but what was there before."""
    for host in hosts.hosts:
        assert wait_until(host.programs, lambda found: found <= {"sshd"}) == {"sshd"}


def settings(hosts: Namespaces) -> list[str]:
    """What it is on each host."""
    return [host.read(SETTING) for host in hosts.hosts]


def assert_whole(place: Any, *, blocks: int = BLOCKS) -> None:
    """Every slot counts once, every block ran whole on one host, and nothing is left."""
    folder = place.only_folder()
    assert counted(folder) == dict.fromkeys(range(1, 2 * blocks + 1), 1)
    hosts = dict(folder.query("SELECT block, host FROM block_host"))
    assert hosts.keys() == set(range(1, blocks + 1))
    marks = folder.query(
        "SELECT DISTINCT slot.block, json_extract(event.data, '$.host') FROM run JOIN slot ON slot.number = run.slot"
        " JOIN event ON event.run = run.id AND event.kind = 'from-host' WHERE run.state = 'done'"
    )
    assert sorted(marks) == sorted(hosts.items())
    assert {path.parent.name for path in folder.path.glob("runs/*/transactions.parquet")} >= {
        f"{number:04d}-{arm}-b{block}{'' if attempt == 1 else f'-repeat{attempt - 1}'}"
        for number, arm, block, attempt in folder.query(
            "SELECT slot.number, slot.arm, slot.block, run.attempt FROM run JOIN slot ON slot.number = run.slot"
            " WHERE run.state = 'done'"
        )
    }
    assert wait_until(lambda: processes(place), lambda left: not left) == []
    folder.assert_nothing_left()
    assert not list((place.directory / "state" / "fleet").iterdir())


def wait_for_runs(place: Any, number: int) -> None:
    """Until so many runs of the hosts are measured."""

    def begun() -> int:
        return len(list((place.directory / "state" / "fleet").glob("*/*/runs/*")))

    wait_until(begun, lambda found: found >= number)


def verdict(place: Any) -> str:
    return str(json.loads((place.only_folder().path / "findings.json").read_text())["hypothesis"]["verdict"])
