"""Which queues a knob for the device under the data has to do with."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from pgtrial.errors import SettingError
from pgtrial.experiment_file.nearest import hint_name
from pgtrial.hosts.devices import BlockDevice, DevicesUnder, device_names, devices_under, find_device
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.kernel_values import read_choices


@dataclass(frozen=True, slots=True, kw_only=True)
class Queues:
    """Directories of /sys: ``requests`` of the queues that requests wait in, ``read_ahead`` with the read-ahead."""

    requests: tuple[str, ...]
    read_ahead: tuple[str, ...]


def find_queues(ops: Operations, device: str | None, directory: str) -> Queues:
    """The queues of a device, or of those under a directory, which need not exist yet. SettingError if there are none.

    Requests wait in the queues of the disks at the bottom: device mapper and md pass on what they are given ("bio") and
    have no scheduler, except for multipath on requests, whose disks are given requests past their own scheduler
    (blk_insert_cloned_request in the kernel's block/blk-mq.c). How far to read ahead is instead decided above them, for
    an open file, by the device that its file system is on (file_ra_state_init in mm/readahead.c).

    A loop device has a queue of its own, which is meant when it is named; under a directory it is the disks below it.
    """
    if device is not None:
        named = find_device(ops, device)
        if named is None:
            raise SettingError(
                f'there is no block device "{device}"', hint=hint_name(device, device_names(ops), what="Block devices")
            )
        under = DevicesUnder(devices=(named,))
    else:
        under = devices_under(ops, _existing(ops, directory))
        if not under.devices:
            raise SettingError(
                "there is no block device under the data",
                detail=under.reason,
                hint="Name one with device in the table block_device, or another place with data in [target.storage].",
            )
    requests = (name for each in under.devices for name in _with_requests(ops, each, named=device is not None))
    top = (_queue(each.name) for each in under.devices) if under.read_ahead is None else [_parent(under.read_ahead)]
    return Queues(requests=tuple(dict.fromkeys(map(_queue, requests))), read_ahead=tuple(dict.fromkeys(top)))


def _with_requests(ops: Operations, device: BlockDevice, *, named: bool) -> Iterator[str]:
    has_own = named if device.is_loop else _has_schedulers(ops, device.name)
    if has_own or not device.below:
        yield device.name
        return
    for below in device.below:
        yield from _with_requests(ops, below, named=named)


def _has_schedulers(ops: Operations, name: str) -> bool:
    path = f"{_queue(name)}/scheduler"
    return ops.exists(path) and len(read_choices(ops, path)) > 1


def _queue(name: str) -> str:
    return f"/sys/block/{name}/queue"


def _existing(ops: Operations, directory: str) -> str:
    """The directory, or the nearest one above it that is there."""
    path = PurePosixPath(directory)
    while not ops.exists(str(path)) and path != path.parent:
        path = path.parent
    return str(path)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
