"""What an arm needs of the host."""

from collections.abc import Mapping

from pgtrial.experiment_file.arms import FILESYSTEM
from pgtrial.model.arm import Arm

# Knobs that change the host beside a server of our own.
ON_HOST = (
    FILESYSTEM,
    "cgroup",
    "sysctl",
    "block_device",
    "transparent_huge_pages",
    "huge_pages",
    "memory_pressure",
    "tracing",
)


def host_knobs(arm: Arm) -> dict[str, Mapping[str, str]]:
    """What has to be set on the host while the arm runs; a file system of its own is there for the whole experiment."""
    return {
        knob: table
        for knob, table in arm.knobs.items()
        if knob in ON_HOST and not (knob == FILESYSTEM and "type" in table)
    }
