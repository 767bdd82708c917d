"""Facts of what lies under the data and the WAL: mount, device, queue, space."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from pgtrial.engine.fingerprint.text import chosen, tally
from pgtrial.errors import SettingError
from pgtrial.hosts.linux.devices import disks_under
from pgtrial.hosts.linux.mounts import existing, mount_of
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.block_device import find_queues
from pgtrial.model.fingerprint import FREE, SIZE, WAL_FREE, WAL_SIZE

_QUEUE = (
    "scheduler",
    "nr_requests",
    "wbt_lat_usec",
    "rotational",
    "write_cache",
    "max_sectors_kb",
    "nomerges",
    "rq_affinity",
)
_ROLES = ("data", "WAL")
_SPACE = {"data": (SIZE, FREE), "WAL": (WAL_SIZE, WAL_FREE)}


def read_storage(ops: Operations, directories: Sequence[str]) -> dict[str, str]:
    """Group "storage", and the space. ``directories`` are those of the data and of the WAL, or only the first; of a
    directory that is only going to be made it is the place that counts.

    Of the WAL there is nothing where it lies on the data's file system.
    """
    facts: dict[str, str] = {}
    mounts: list[int] = []
    for role, directory in zip(_ROLES, directories, strict=False):
        place = existing(ops, directory)
        try:
            mount = mount_of(ops, place)
        except OSError:  # it is not ours to see
            continue
        if mount.number in mounts:
            facts[f"storage/{role} file system"] = "that of the data"
            continue
        mounts.append(mount.number)
        facts |= {
            f"storage/{role} directory": directory,
            f"storage/{role} mount point": mount.point,
            f"storage/{role} source": mount.source,
            f"storage/{role} file system": mount.kind,
            f"storage/{role} mount options": ",".join(dict.fromkeys(filter(None, mount.shown))),
        }
        facts |= {f"storage/{role} {name}": value for name, value in _device_facts(ops, place).items()}
        with suppress(OSError):
            size, free = ops.space(place)
            facts |= dict(zip(_SPACE[role], (str(size), str(free)), strict=True))
    return facts


def _device_facts(ops: Operations, place: str) -> dict[str, str]:
    """Of the disks under a directory, and of the queues that the knob for block devices sets."""
    disks = disks_under(ops, place)
    try:
        queues = find_queues(ops, None, place)
    except SettingError:  # a network file system, or one in memory
        return {}
    paths = {
        "device model": [f"/sys/block/{disk}/device/model" for disk in disks],
        "read_ahead_kb": [f"{queue}/read_ahead_kb" for queue in queues.read_ahead],
        **{f"queue {file}": [f"{queue}/{file}" for queue in queues.requests] for file in _QUEUE},
    }
    texts = ops.read_all([path for found in paths.values() for path in found])
    return {"device": ", ".join(disks), **queue_facts(paths, texts)}


def queue_facts(paths: Mapping[str, Sequence[str]], texts: Mapping[str, str]) -> dict[str, str]:
    """``paths`` is fact to files, ``texts`` file to text. Where several devices differ, all values are told."""
    found = {name: [chosen(texts[path]) for path in files if path in texts] for name, files in paths.items()}
    return {name: tally(values) for name, values in found.items() if values}
