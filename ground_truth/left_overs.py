"""What experiments change on a host, as the kernel says it: to see that nothing of it is left afterwards."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from pgtrial.hosts.operations import MARK

_PATIENCE = 5.0  # s, for ended processes to be gone
_UNREADABLE = {"stat_refresh"}  # reading it makes the kernel add up counters


def read_host(results: Path) -> dict[str, str]:
    """Name to value of kernel settings of memory, and of everything that has pgtrial's name or mark.

    ``results`` is the directory below which result folders are made: their processes carry it.
    """
    return {
        **dict(_kernel_settings()),
        **{f"mount {line.split()[1]}": line for line in _lines("/proc/mounts") if "pgtrial-" in line},
        **{f"swap area {line.split()[0]}": "" for line in _lines("/proc/swaps")[1:]},
        **dict(_loop_devices()),
        **{f"control group {path}": "" for path in _existing("/sys/fs/cgroup", "pgtrial-*", "*/pgtrial-*")},
        **{f"directory {path}": "" for place in ("/tmp", "/var/tmp") for path in _existing(place, "pgtrial-*")},
        **dict(_processes(results)),
    }


def find_left(before: Mapping[str, str], results: Path) -> tuple[str, ...]:
    """Sentences on what is not as it was; after a bounded wait."""
    deadline = time.monotonic() + _PATIENCE
    while (left := compare(before, read_host(results))) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left


def compare(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Sentences on what came, went or changed."""
    came = [f"{name} is there now" for name in after if name not in before]
    gone = [f"{name} is gone" for name in before if name not in after]
    changed = [
        f"{name} was {before[name]} and is {after[name]}"
        for name in after
        if name in before and after[name] != before[name]
    ]
    return (*came, *gone, *changed)


def _kernel_settings() -> Iterator[tuple[str, str]]:
    for path in sorted(Path("/proc/sys/vm").iterdir()):
        if path.name not in _UNREADABLE:
            try:
                yield f"vm.{path.name}", path.read_text(encoding="utf-8").strip()
            except OSError:
                continue  # for writing only


def _loop_devices() -> Iterator[tuple[str, str]]:
    for path in _existing("/sys/block", "loop*/loop/backing_file"):
        file = path.read_text(encoding="utf-8").strip()
        if "pgtrial-" in file:
            yield f"loop device {path.parts[3]}", file


def _processes(results: Path) -> Iterator[tuple[str, str]]:
    mark = f"{MARK}={results.resolve()}/".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if any(entry.startswith(mark) for entry in path.read_bytes().split(b"\0")):
                yield f"process {path.parts[2]}", (path.parent / "comm").read_text(encoding="utf-8").strip()
        except OSError:
            continue  # it has just ended, or is somebody else's


def _existing(place: str, *patterns: str) -> list[Path]:
    return [path for pattern in patterns for path in sorted(Path(place).glob(pattern))]


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()
