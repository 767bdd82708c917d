"""Servers with huge pages that take turns: a pool for each, all there at once, and given back to the last page."""

import contextlib
import json
import os
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from support import wait_until

POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")
PAGE = 2 << 20
ARMS = """\
[target.transparent_huge_pages]
shmem = "never"

[arms.small.huge_pages]
size = "none"

[arms.large.huge_pages]
size = "2MB"

[arms.large_too.huge_pages]
size = "2MB"

[arms.large_too.postgresql]
work_mem = "8MB"
"""

pytestmark = [
    pytest.mark.changes_kernel,
    pytest.mark.skipif(os.geteuid() != 0, reason="changing kernel settings needs root"),
    pytest.mark.skipif(not POOL.is_dir(), reason="this kernel has no 2 MB pages"),
]


def pool() -> int:
    return int((POOL / "nr_hugepages").read_text())


def write(place, *, duration: str = "6s") -> None:
    place.write_light_experiment(
        ('arm    = "off"', 'arm    = "large"'),
        ('duration = "2s"', f'duration = "{duration}"'),
        ('[arms.on.postgresql]\nsynchronous_commit = "on"\n', ""),
        ('[arms.off.postgresql]\nsynchronous_commit = "off"\n', ARMS),
        ("blocks = 2", 'blocks = 1\nmethod = "interleaved"'),
    )


def pools_made(place) -> int:
    """How many are in the journal and there."""
    journal = place.directory / "state" / "journal.sqlite"
    if not journal.exists():
        return 0
    with contextlib.closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as opened:
        try:
            query = "SELECT count(*) FROM entry WHERE knob = 'huge_pages' AND got IS NOT NULL AND outcome IS NULL"
            return int(opened.execute(query).fetchone()[0])
        except sqlite3.OperationalError:  # it is being made
            return 0


def notes_under_load(folder) -> list[dict[str, Any]]:
    """What was seen of the pages of each arm's server while there was load."""
    notes = [json.loads(data) for (data,) in folder.query("SELECT data FROM event WHERE kind = 'pages'")]
    return [note for note in notes if note["moment"] == "under load"]


def test_they_take_turns(place) -> None:
    before = pool()
    write(place)

    result = place.run("run", "--allow-host-changes", "small.toml")

    assert result.returncode == 0, result.stderr
    folder = place.only_folder()
    under_load = notes_under_load(folder)
    assert sorted(note["shared"]["page"] for note in under_load) == [os.sysconf("SC_PAGESIZE"), PAGE, PAGE]
    for note in under_load:  # of all arms, also in the turn of the one that has none
        found = note["pools"]["2MB"]
        assert (found["nr"] - found["free"] + found["resv"]) * PAGE >= sum(
            each["shared"]["size"] for each in under_load if each["shared"]["page"] == PAGE
        )
    assert pool() == before
    folder.assert_nothing_left()


def test_killed_in_the_middle_both_pools_are_given_back(place) -> None:
    before = pool()
    write(place, duration="120s")
    process = place.start("run", "--allow-host-changes", "small.toml")
    try:
        wait_until(lambda: pools_made(place), lambda made: made == 2)
    finally:
        process.send_signal(signal.SIGKILL)
        place.finish(process)
    assert pool() > before

    result = place.run("restore")

    assert result.returncode == 0, result.stderr
    assert pool() == before
