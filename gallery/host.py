"""What the experiments of the gallery change on a host, to see that all of it is back afterwards."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ground_truth.left_overs import compare, find_left, read_host

# Loop devices, which come and go, are left out: those of pgtrial that stay are in the common part.
_FILES = (
    "block/[!l]*/queue/max_sectors_kb",
    "block/[!l]*/queue/nr_requests",
    "block/[!l]*/queue/read_ahead_kb",
    "block/[!l]*/queue/scheduler",
    "block/[!l]*/queue/wbt_lat_usec",
    "kernel/mm/hugepages/*/nr_hugepages",
    "kernel/mm/transparent_hugepage/defrag",
    "kernel/mm/transparent_hugepage/enabled",
    "kernel/mm/transparent_hugepage/shmem_enabled",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """``common`` is what ``ground_truth`` watches, ``files`` those of /sys with their content."""

    common: Mapping[str, str]
    files: Mapping[str, str]


def read_state(results: Path, *, sys: Path = Path("/sys")) -> HostState:
    """The state now; ``results`` is the directory of the result folders, by which processes are known."""
    return HostState(common=read_host(results), files=dict(_read_files(sys)))


def find_changes(before: HostState, results: Path, *, sys: Path = Path("/sys")) -> tuple[str, ...]:
    """Sentences on what is not as it was; after a bounded wait for processes that end."""
    left = find_left(before.common, results)
    return (*left, *compare(before.files, dict(_read_files(sys))))


def _read_files(sys: Path) -> Iterator[tuple[str, str]]:
    for pattern in _FILES:
        for path in sorted(sys.glob(pattern)):
            try:
                yield str(path.relative_to(sys)), path.read_text(encoding="utf-8").strip()
            except OSError:
                continue  # a queue without this setting
