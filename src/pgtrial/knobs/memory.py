"""How much memory a host has to give."""

from pgtrial.hosts.operations import Operations


def available_memory(ops: Operations) -> int:
    """Bytes that programs could use without swapping, as the kernel estimates it (MemAvailable of /proc/meminfo)."""
    for line in ops.read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise OSError(0, "has no line MemAvailable", "/proc/meminfo")  # every kernel from 3.14 on has it
