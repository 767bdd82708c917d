"""What an arm needs of the host."""

from collections.abc import Mapping

from pgtrial.experiment_file.arms import FILESYSTEM
from pgtrial.knobs import scope_of
from pgtrial.knobs.declaration import Scope
from pgtrial.model.arm import Arm

_MADE_WITH = {
    "server": ("postgres", "checksums"),
    "storage": ("data", "wal"),
    FILESYSTEM: ("type", "size", "options"),  # where it is one of its own
    "dataset": ("scale",),
}


def made_with(arm: Arm) -> frozenset[tuple[str, str]]:
    """Knob and key of what an arm declares and its cluster is made with, as ``arm.variant`` has it."""
    kinds = {knob: keys for knob, keys in _MADE_WITH.items() if knob != FILESYSTEM or "type" in arm.knobs.get(knob, {})}
    return frozenset((knob, key) for knob, keys in kinds.items() for key in keys)


def host_knobs(arm: Arm) -> dict[str, Mapping[str, str]]:
    """What has to be set on the host while the arm runs; a file system of its own is there for the whole experiment."""
    return {
        knob: table
        for knob, table in arm.knobs.items()
        if scope_of(knob) is Scope.HOST and not (knob == FILESYSTEM and "type" in table)
    }
