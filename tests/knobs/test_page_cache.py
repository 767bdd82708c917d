import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrial.hosts.local import LocalHost
from pgtrial.knobs.cgroup import evict
from support.programs import needs_program


@pytest.fixture
def directory() -> Iterator[Path]:
    """On a disk: what lies in a tmpfs has no other place than the page cache."""
    made = Path(tempfile.mkdtemp(dir="/var/tmp"))
    yield made
    shutil.rmtree(made)


def cached(*paths: Path) -> int:
    """Bytes of the files that are in the page cache."""
    host = LocalHost()
    printed = asyncio.run(host.run(["fincore", "--bytes", "--noheadings", "--output", "RES", *paths])).stdout
    return sum(int(line) for line in printed.split())


@needs_program("fincore", "apt install util-linux-extra")
def test_files_are_forgotten_also_those_just_written_and_in_folders(directory: Path):
    (directory / "base").mkdir()
    files = [directory / "one", directory / "base/two"]
    for file in files:
        file.write_bytes(os.urandom(1 << 20))
    before = cached(*files)

    asyncio.run(evict(LocalHost(), [str(directory)]))

    assert before == 2 << 20
    assert cached(*files) == 0
    assert [file.stat().st_size for file in files] == [1 << 20, 1 << 20]


def test_what_is_no_file_is_passed_over(directory: Path):
    os.mkfifo(directory / "pipe")
    (directory / "link").symlink_to("/nowhere")

    asyncio.run(evict(LocalHost(), [str(directory), "/nowhere"]))

    assert sorted(path.name for path in directory.iterdir()) == ["link", "pipe"]
