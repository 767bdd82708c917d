"""Pages of the server's shared memory as the kernel has mapped them, and the kernel's pools of huge pages.

Sources: proc_pid_smaps(5), and the kernel's Documentation/admin-guide/mm/hugetlbpage.rst.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pgtrial.hosts.operations import Operations
from pgtrial.postgres.settings import Setting
from pgtrial.units import format_bytes, parse_bytes

_KILOBYTE = 1024
_POOLS = "/sys/kernel/mm/hugepages"
_POOL_COUNTS = ("nr_hugepages", "free_hugepages", "resv_hugepages", "surplus_hugepages")
_MEMORY = "/proc/meminfo"
# Address range, permissions ("s" for shared), offset, device, inode, and the path if there is one.
_MAPPING = re.compile(r"[0-9a-f]+-[0-9a-f]+ ([-r][-w][-x][ps]) \S+ \S+ \S+ *(.*)")
_AMOUNT = re.compile(r"(\w+): +(\d+) kB")
_OF_POOL = re.compile(r"(HugePages_\w+|Hugepagesize|Hugetlb): +(\d+)(?: (kB))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemory:
    """The largest shared mapping of a process, all in bytes.

    ``page`` is KernelPageSize: of the pool that the pages come from, or of ordinary memory. ``transparent`` is how much
    of ordinary memory the kernel has mapped by huge pages of its own (ShmemPmdMapped).
    """

    size: int
    page: int
    transparent: int


def find_shared_memory(smaps: str) -> SharedMemory | None:
    """The server's shared buffers among the mappings of its first process (/proc/PID/smaps); None without any."""
    found = [
        SharedMemory(size=amounts["Size"], page=amounts["KernelPageSize"], transparent=amounts.get("ShmemPmdMapped", 0))
        for permissions, amounts in _mappings(smaps)
        if permissions.endswith("s") and {"Size", "KernelPageSize"} <= amounts.keys()
    ]
    return max(found, key=lambda each: each.size, default=None)


def _mappings(smaps: str) -> Iterator[tuple[str, dict[str, int]]]:
    """(permissions, name to bytes) of each mapping."""
    permissions, amounts = "", dict[str, int]()
    for line in smaps.splitlines():
        if head := _MAPPING.fullmatch(line):
            if permissions:
                yield permissions, amounts
            permissions, amounts = head[1], {}
        elif amount := _AMOUNT.fullmatch(line):
            amounts[amount[1]] = int(amount[2]) * _KILOBYTE
    if permissions:
        yield permissions, amounts


def read_shared_memory(ops: Operations, pid: int) -> SharedMemory | None:
    """That of a server; None where the kernel does not show it."""
    try:
        return find_shared_memory(ops.read(f"/proc/{pid}/smaps"))
    except OSError:
        return None


def read_pools(ops: Operations) -> dict[str, dict[str, int]]:
    """Pools of huge pages by the size of a page ("2MB"): pages there are, free, reserved, surplus."""
    texts = ops.read_all([f"{_POOLS}/hugepages-*/{name}" for name in _POOL_COUNTS])
    pools: dict[str, dict[str, int]] = {}
    for path, text in texts.items():
        directory, name = path.split("/")[-2:]
        size = format_bytes(parse_bytes(directory.removeprefix("hugepages-"))).replace(" ", "")
        pools.setdefault(size, {})[name.removesuffix("_hugepages")] = int(text)
    return pools


def parse_memory(meminfo: str) -> dict[str, int]:
    """What /proc/meminfo says of huge pages: counts of the default size, and bytes of all sizes (Hugetlb)."""
    return {
        match[1]: int(match[2]) * (_KILOBYTE if match[3] else 1)
        for line in meminfo.splitlines()
        if (match := _OF_POOL.fullmatch(line.strip()))
    }


def read_memory(ops: Operations) -> dict[str, int]:
    return parse_memory(ops.read(_MEMORY))


def find_mismatch(memory: SharedMemory, settings: Mapping[str, Setting], *, base_page: int, default_page: int) -> str:
    """What is not as the server's settings say, as a sentence; "" where all is, or where they leave it open.

    ``base_page`` is the size of an ordinary page, ``default_page`` of a huge one where the server names none.
    """
    wanted = settings["huge_pages"].shown
    if wanted == "on":
        named = settings["huge_page_size"].shown if "huge_page_size" in settings else "0"
        expected = default_page if named in ("0", "0kB") else int(parse_bytes(named))
    elif wanted == "off":
        expected = base_page
    else:
        return ""  # "try": the server takes what it gets
    if memory.page == expected:
        return ""
    return (
        f"the server's shared memory is in pages of {format_bytes(memory.page)}, "
        f"expected {format_bytes(expected)} (huge_pages = {wanted})"
    )
