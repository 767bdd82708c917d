"""The queue of the block device under the data: scheduler, read-ahead, requests, write-back throttling."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from pgtrial.errors import SettingError
from pgtrial.hosts.base import Host
from pgtrial.hosts.linux.devices import DevicesUnder, DeviceTree, device_names, devices_under, find_device
from pgtrial.hosts.linux.mounts import existing
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.base import HostKnob, KnobContext
from pgtrial.knobs.declaration import About, Acts, Among, EffectTiming, Lasting, Needs, Rule, Shared
from pgtrial.knobs.kernel_values import (
    apply_values,
    find_drift,
    read_choices,
    read_chosen,
    read_setting,
    require_writable,
    same_value,
    undo_values,
)
from pgtrial.knobs.values import Name, Natural, Table
from pgtrial.model.change import Change, JournalEntry, Undone
from pgtrial.nearest import hint_name

# Setting the first of a group changes the others: a scheduler brings its own nr_requests, and bfq switches write-back
# throttling off; a new max_sectors_kb makes read_ahead_kb at least 128, or twice the largest request (the kernel's
# blk_apply_bdi_limits, since Linux 6.9). So they are set and put back together, in this order.
_REQUESTS = ("scheduler", "nr_requests", "wbt_lat_usec")
_SIZES = ("max_sectors_kb", "read_ahead_kb")

_MISSING = {
    "scheduler": "What is given to it is passed on or done at once, without a queue of requests.",
    "nr_requests": "What is given to it is passed on or done at once, without a queue of requests.",
    "wbt_lat_usec": "The kernel does not throttle the write-back to it.",
}
_LIMITS = {
    "nr_requests": "The least is 4; the most depends on the scheduler, with none on the driver.",
    "read_ahead_kb": "The kernel counts in whole pages.",
    "max_sectors_kb": "The least is a page, the most what max_hw_sectors_kb beside it says.",
}

_RULES = (
    Rule(
        patterns=("wbt_lat_usec",),
        timing=EffectTiming.SECONDS,
        reason="throttles the write-back of dirty pages, whosever they are",
        seconds=1.0,
        shares=(Shared.DIRTY_PAGES,),
        at_run_time=True,
    ),
    Rule(
        patterns=("read_ahead_kb",),
        timing=EffectTiming.AT_ONCE,
        reason="holds for files that are opened next; sessions keep theirs open",
        seconds=0.2,
    ),
    Rule(
        patterns=("*",),
        timing=EffectTiming.AT_ONCE,
        reason="holds for the next request, once the queue has been emptied",
        seconds=0.4,
        at_run_time=True,
    ),
)


class BlockDeviceTable(Table):
    """The queue of a block device."""

    device: Name | None = Field(
        default=None, description='Name of the device ("sda"). Left out: the one under the data.'
    )
    scheduler: Name | None = Field(default=None, description='I/O scheduler: "none", "mq-deadline", "bfq", "kyber".')
    read_ahead_kb: Natural | None = Field(default=None, description="Read-ahead in kB.")
    nr_requests: Natural | None = Field(default=None, description="Requests in its queue.")
    wbt_lat_usec: Annotated[int, Field(strict=True, ge=-1)] | None = Field(
        default=None, description="Target latency of write-back throttling in µs; 0 is off, -1 the kernel's default."
    )
    max_sectors_kb: Natural | None = Field(default=None, description="Largest request in kB.")


class BlockDevice(HostKnob):
    """The items of a change are files in a queue directory of /sys."""

    name = "block_device"
    about = About(
        sets="scheduler, nr_requests, wbt_lat_usec and max_sectors_kb of the physical disks under the data, "
        "below partitions, volumes, arrays and loop devices; read_ahead_kb of the device under the file system "
        "(btrfs: of the file system). Or those of a named device",
        takes_effect="at once; read_ahead_kb for files opened afterwards",
        rights="root",
        verified="read back; a value that the kernel rounds or limits is an error that names both values. Read "
        "again at the end of the run",
        undone="the old values are written back and read: the scheduler first, then the values that setting it "
        "has changed",
    )
    among_twins = Among.SWITCHED
    acts = (Acts(code="requests", metrics=("iostat.iops",), least=1.0),)
    rules = _RULES
    # One value of a queue may bring others along: a scheduler has its own nr_requests, and bfq switches wbt off.
    facts = ("storage/* queue *", "storage/* read_ahead_kb")
    needs = (
        Needs(
            key="device",
            message='nothing is set for block device "{value}"',
            hint="Add what is to be set, such as read_ahead_kb, or remove it.",
        ),
    )

    def make_last(self, values: Mapping[str, str]) -> Sequence[Lasting]:
        named = values.get("device")
        device = named.removeprefix("/dev/") if named else "NAME"
        attributes = [f'ATTR{{queue/{name}}}="{values[name]}"' for name in (*_REQUESTS, *_SIZES) if name in values]
        rule = ", ".join(('ACTION=="add|change"', 'SUBSYSTEM=="block"', f'KERNEL=="{device}"', *attributes))
        which = () if named else ("# NAME: the device under the data, as lsblk shows it",)
        return (
            Lasting(
                place="/etc/udev/rules.d/90-pgtrial.rules",
                lines=(*which, rule),
                then=("udevadm control --reload", "udevadm trigger --subsystem-match=block"),
            ),
        )

    async def plan(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
        ops = context.host.ops
        queues = find_queues(ops, wanted.get("device"), context.data or context.directory)
        asked: dict[str, dict[str, str]] = {}
        for attribute in (*_REQUESTS, *_SIZES):
            if attribute in wanted:
                for queue in queues.read_ahead if attribute == "read_ahead_kb" else queues.requests:
                    asked.setdefault(queue, {})[attribute] = wanted[attribute]
        return [
            change
            for queue, values in asked.items()
            for group in (_REQUESTS, _SIZES)
            for change in self._plan_group(ops, queue, group, values)
        ]

    def _plan_group(
        self, ops: Operations, queue: str, group: Sequence[str], values: Mapping[str, str]
    ) -> Iterator[Change]:
        named = {attribute: values[attribute] for attribute in group if attribute in values}
        for attribute, value in named.items():
            _check(ops, queue, attribute, value)
        if group[0] in named:
            yield from self._plan_values(ops, queue, named, _readable(ops, queue, group))
        else:
            for attribute, value in named.items():
                yield from self._plan_values(ops, queue, {attribute: value}, _readable(ops, queue, [attribute]))

    def _plan_values(
        self, ops: Operations, queue: str, named: Mapping[str, str], now: Mapping[str, str]
    ) -> Iterator[Change]:
        """A change that sets ``named`` and puts ``now`` back; nothing if all is as asked."""
        if all(same_value(value, now[attribute]) for attribute, value in named.items()):
            return
        for attribute in named:
            require_writable(ops, f"{queue}/{attribute}", f"{_title(queue)} {attribute}")
        new = dict(named)
        if "max_sectors_kb" in named and "read_ahead_kb" in now:
            # Else this would vary the read-ahead as well. What a scheduler brings along is a part of it, and stays.
            new.setdefault("read_ahead_kb", now["read_ahead_kb"])
        yield Change(
            knob=self.name,
            name=f"{_title(queue)} {', '.join(named)}",
            old={f"{queue}/{attribute}": value for attribute, value in now.items()},
            new={f"{queue}/{attribute}": value for attribute, value in new.items()},
            old_text=", ".join(now[attribute] for attribute in named),
            new_text=", ".join(named.values()),
        )

    async def apply(self, context: KnobContext, change: Change) -> Mapping[str, str]:
        return apply_values(context.host.ops, change, read=read_chosen, same=_is_as_asked, hint=_limit)

    async def undo(self, host: Host, entry: JournalEntry) -> Undone:
        return undo_values(host, entry, read=read_chosen)

    async def still_applied(self, host: Host, entry: JournalEntry) -> str:
        return find_drift(host, entry, read=read_chosen)


def _title(queue: str) -> str:
    """ "vda", or "btrfs" for the read-ahead of such a file system."""
    return queue.split("/")[3]


def _readable(ops: Operations, queue: str, attributes: Sequence[str]) -> dict[str, str]:
    """Attribute to value of those that the queue has: write-back throttling may be compiled in and yet unreadable."""
    values = {}
    for attribute in attributes:
        try:
            values[attribute] = read_chosen(ops, f"{queue}/{attribute}")
        except OSError:
            continue
    return values


def _check(ops: Operations, queue: str, attribute: str, value: str) -> None:
    """Raise SettingError for what can be known in advance not to work."""
    path, what = f"{queue}/{attribute}", f"{_title(queue)} {attribute}"
    if not ops.exists(path) or (attribute == "wbt_lat_usec" and not _readable(ops, queue, [attribute])):
        raise SettingError(
            f"the block device {_title(queue)} has no {attribute}",
            detail=_MISSING.get(attribute, f'There is no file "{path}".'),
        )
    read_setting(ops, path, what, read=read_chosen)
    if attribute == "scheduler":
        _check_scheduler(ops, path, value, _title(queue))
    elif attribute == "max_sectors_kb":
        most = ops.read(f"{queue}/max_hw_sectors_kb").strip()
        if int(value) > int(most):
            raise SettingError(
                f"{what} cannot be set to {value}", detail=f"The device takes at most {most} (max_hw_sectors_kb)."
            )


def _check_scheduler(ops: Operations, path: str, wanted: str, device: str) -> None:
    """Schedulers that are modules are listed only once they are loaded; the kernel loads them when they are set."""
    choices = read_choices(ops, path)
    modules = ops.glob(f"/lib/modules/{ops.uname()['release']}/kernel/block/*.ko*")
    loadable = {module.rpartition("/")[2].partition(".")[0].removesuffix("-iosched") for module in modules}
    if wanted not in choices and (len(choices) == 1 or wanted not in loadable):
        known = (*choices, *sorted(loadable.intersection({"bfq", "kyber", "mq-deadline"}).difference(choices)))
        raise SettingError(
            f'the kernel has no I/O scheduler "{wanted}" for {device}',
            hint=hint_name(wanted, known, what="It has"),
        )


def _is_as_asked(asked: str, got: str) -> bool:
    """-1 asks for the kernel's default of wbt_lat_usec, which then is a time."""
    return same_value(asked, got) or (asked == "-1" and got.isdigit())


def _limit(path: str) -> str:
    return _LIMITS.get(path.rpartition("/")[2], "")


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
        under = devices_under(ops, existing(ops, directory))
        if not under.devices:
            raise SettingError(
                "there is no block device under the data",
                detail=under.reason,
                hint="Name one with device in the table block_device, or another place with data in [target.storage].",
            )
    requests = (name for each in under.devices for name in _with_requests(ops, each, named=device is not None))
    top = (_queue(each.name) for each in under.devices) if under.read_ahead is None else [_parent(under.read_ahead)]
    return Queues(requests=tuple(dict.fromkeys(map(_queue, requests))), read_ahead=tuple(dict.fromkeys(top)))


def _with_requests(ops: Operations, device: DeviceTree, *, named: bool) -> Iterator[str]:
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


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
