"""What is said of file systems in image files, and how their loop devices are asked for, without making any."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from pgtrial.hosts.base import Completed
from pgtrial.hosts.linux import loop_devices
from pgtrial.hosts.linux.loop_devices import attach
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.filesystem_image import find_caveats
from pgtrial.model.caveat import Severity
from pgtrial.model.change import Change, JournalEntry


def entry(image: str, direct: str | None) -> JournalEntry:
    new = {"image": image, "mount point": image.removesuffix(".img"), "type": "ext4"}
    change = Change(knob="filesystem", name="file system", old={}, new=new, old_text="none", new_text="ext4")
    got = None if direct is None else {**new, "direct I/O": direct}
    return JournalEntry(id=1, t=0.0, host="local", boot_id="b", folder="/r", run=None, change=change, got=got)


def test_data_that_are_cached_twice_are_a_warning_for_each_place() -> None:
    off = "off, data are cached twice"
    made = [entry("/a/one.img", off), entry("/a/two.img", off), entry("/b/one.img", "on"), entry("/c/one.img", None)]

    (caveat,) = find_caveats(made)

    assert (caveat.code, caveat.severity) == ("cached-twice", Severity.WARNING)
    assert '"/a"' in caveat.text


def test_other_mount_options_are_no_image() -> None:
    change = Change(knob="filesystem", name="x", old={}, new={"mount point": "/"}, old_text="", new_text="")
    remounted = JournalEntry(
        id=1, t=0.0, host="local", boot_id="b", folder="/r", run=1, change=change, got={"mount point": "/"}
    )

    assert find_caveats([remounted]) == ()


class Disk(Operations):
    """A file on vda, whose sectors have so many bytes ("" where the kernel does not tell)."""

    def __init__(self, sector: str) -> None:
        self.sector = sector

    def exists(self, path: str) -> bool:
        return path in ("/dev/loop-control", "/sys/dev/block/254:0")

    def resolve(self, path: str) -> str:
        return "/sys/devices/virtio0/block/vda" if path == "/sys/dev/block/254:0" else path

    def device_of(self, path: str) -> tuple[int, int]:
        return 254, 0

    def glob(self, pattern: str) -> list[str]:
        return []

    def read_all(self, patterns: list[str], limit: int = 65536) -> dict[str, str]:
        assert patterns == ["/sys/block/vda/queue/logical_block_size"]
        return {patterns[0]: f"{self.sector}\n"} if self.sector else {}


@pytest.mark.parametrize(("sector", "options"), [("512", []), ("", []), ("4096", ["--sector-size", "4096"])])
def test_a_loop_device_has_sectors_as_large_as_those_of_the_disk_below(
    monkeypatch: pytest.MonkeyPatch, sector: str, options: list[str]
) -> None:
    asked: list[list[str]] = []

    async def run(_host: LocalHost, argv: Sequence[str | Path], *, check: bool = True) -> Completed:
        asked.append([str(part) for part in argv[1:]])
        return Completed(status=0, stdout="/dev/loop7\n", stderr="")

    monkeypatch.setattr(LocalHost, "run", run)
    monkeypatch.setattr(loop_devices, "find_program", lambda _ops, name, _package="": name)

    assert asyncio.run(attach(LocalHost(ops=Disk(sector)), "/a/one.img")) == "loop7"
    assert asked[0] == ["--find", "--show", "--nooverlap", *options, "/a/one.img"]
