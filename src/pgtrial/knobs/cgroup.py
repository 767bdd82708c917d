"""Limits of a control group in which the server runs: memory with its page cache, CPU time, requests to the disk."""

import errno
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from pgtrial.errors import SettingError
from pgtrial.hosts.base import Host
from pgtrial.hosts.linux.control_groups import Hierarchy, hierarchies
from pgtrial.hosts.linux.devices import devices_under
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.base import HostKnob, KnobContext
from pgtrial.knobs.cgroup_limits import (
    OWN,
    Device,
    controllers,
    describe,
    find_lost_limit,
    is_own_group,
    is_write_back,
    lift,
    limit,
    limit_files,
    needs_device,
    place_limits,
    plan_write_back,
    to_enable,
)
from pgtrial.knobs.declaration import About, Acts, Among, EffectTiming, Lasting, Refusal, Rule, Shared
from pgtrial.knobs.values import PerSecond, Size, Table
from pgtrial.model.change import Change, JournalEntry, Outcome, Undone
from pgtrial.units import parse_bytes

_PATIENCE = 5.0  # seconds, for killed processes to be gone and their group to be removable
_STEP = 0.02
_SUBTREE = "cgroup.subtree_control"
_TO_COME = Device(name="the loop device of the image", number="0:0")  # while an experiment is only planned
# posix_fadvise(2) leaves out what has not been written to disk, so that is done first. Arguments: directories.
_EVICT = """
import os, sys
for top in sys.argv[1:]:
    for directory, _, names in os.walk(top):
        for name in names:
            try:
                file = os.open(os.path.join(directory, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError:
                continue  # a link, a socket, or gone
            try:
                os.fdatasync(file)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            except OSError:
                pass  # not a file with data
            finally:
                os.close(file)
"""

# What a limit of reads or writes holds back waits above the disk, where nothing that is sampled shows it; so it is what
# the group got that tells. The kernel holds back within a tenth of a second, so half of a limit in a second may be all.
_ACTS = (
    Acts(patterns=("read_iops",), code="disk-limit", metrics=("cgroup.reads",), of_value=0.5),
    Acts(patterns=("write_iops",), code="disk-limit", metrics=("cgroup.writes",), of_value=0.5),
    Acts(patterns=("read_bytes",), code="disk-limit", metrics=("cgroup.read_bytes",), of_value=0.5),
    Acts(patterns=("write_bytes",), code="disk-limit", metrics=("cgroup.write_bytes",), of_value=0.5),
    Acts(patterns=("cpus",), code="quota", metrics=("cgroup.throttled",), least=0.01),
    Acts(patterns=("memory*",), code="memory-limit", metrics=("cgroup.memory_share",), least=0.95),
)
_RULES = (
    Rule(patterns=("cpus",), timing=EffectTiming.AT_ONCE, reason="holds in every period of 100 ms, for its own group"),
    Rule(patterns=("read_*",), timing=EffectTiming.AT_ONCE, reason="holds for the next read of its own group"),
    Rule(
        patterns=("write_*",),
        timing=EffectTiming.SECONDS,
        reason="delays the write-back of its own group's dirty pages, also beyond a slice",
        seconds=5.0,
        shares=(Shared.DIRTY_PAGES,),
    ),
    Rule(
        patterns=("memory",),
        timing=EffectTiming.SECONDS,
        reason="is filled during the warm-up, page cache included, and stays filled while the server is frozen",
        seconds=10.0,
        shares=(Shared.PAGE_CACHE, Shared.DIRTY_PAGES),
    ),
    Rule(
        patterns=("*",),
        timing=EffectTiming.BUILDS_UP,
        reason="acts once its own group has filled it, page cache included",
    ),
)


# Of systemd's units. A path stands for the device under its file system (systemd.resource-control(5)).
_DATA = "/var/lib/postgresql"
_UNIT_LIMITS: Mapping[str, Callable[[str], str]] = {
    "memory": lambda value: f"MemoryMax={round(parse_bytes(value))}",
    "cpus": lambda value: f"CPUQuota={max(1, round(float(value) * 100))}%",
    "read_iops": lambda value: f"IOReadIOPSMax={_DATA} {value}",
    "write_iops": lambda value: f"IOWriteIOPSMax={_DATA} {value}",
    "read_bytes": lambda value: f"IOReadBandwidthMax={_DATA} {round(parse_bytes(value))}",
    "write_bytes": lambda value: f"IOWriteBandwidthMax={_DATA} {round(parse_bytes(value))}",
}


class CgroupTable(Table):
    """Limits of a control group for the server and its share of the page cache."""

    memory: Size | None = Field(default=None, description='Memory and page cache together: "2GB".')
    cpus: Annotated[float, Field(strict=True, gt=0, le=10_000)] | None = Field(default=None, description="CPUs: 1.5.")
    read_iops: PerSecond | None = Field(default=None, description="Reads per second from the device under the data.")
    write_iops: PerSecond | None = Field(default=None, description="Writes per second to it.")
    read_bytes: Size | None = Field(default=None, description='Bytes read per second: "100MB".')
    write_bytes: Size | None = Field(default=None, description="Bytes written per second.")
    own_swappiness: bool | None = Field(
        default=None,
        description="Where control groups have a swappiness of their own (version 1), a group for it without a limit. "
        "All arms have it by themselves where one sets vm.swappiness.",
    )


class Cgroup(HostKnob):
    """The items of a change are "group", a directory, and names of files in it; or subtree_control, by its path; or
    those of the write-back (``plan_write_back``).
    """

    name = "cgroup"
    about = About(
        sets="a control group for the server (version 1 or 2), which limits memory and page cache, CPU time, and "
        "reads from and writes to the device under the data's file system. In version 1 the write-back of "
        "buffered writes is not in that: on a loop device that pgtrial has made, and only there, it has the same limit "
        "once more, in the topmost group; in version 2 it is, on ext4, btrfs and xfs. Swap is not limited, and huge "
        "pages do not count as memory unless version 2 is mounted with memory_hugetlb_accounting",
        takes_effect="at server start, with none of its data in the page cache if memory is limited",
        rights="root",
        verified="every limit is read back, a size after rounding down to whole pages, and again at the end of the "
        "run, with the kernel's count of processes killed for lack of memory",
        undone="processes left in the group are ended and the group is removed; controllers that were enabled for it "
        "(version 2) are disabled again",
    )
    among_twins = Among.OWN
    acts = _ACTS
    rules = _RULES
    facts = ("limits/*",)
    not_on_server = "only a server that pgtrial starts begins in a control group"
    intends: ClassVar = {"cpu-quota": ("cpus",), "out-of-memory": ("memory",)}
    refusals = (
        Refusal(
            methods=("duet",),
            key="cpus",
            reason="a limit of CPUs by control group says nothing beside CPUs of one's own",
        ),
    )

    def make_last(self, values: Mapping[str, str]) -> Sequence[Lasting]:
        limits = {name: _UNIT_LIMITS[name](value) for name, value in values.items() if name in _UNIT_LIMITS}
        if not limits:
            return ()
        return (
            Lasting(
                place="/etc/systemd/system/postgresql@.service.d/90-pgtrial.conf",
                lines=("[Service]", *limits.values()),
                then=("systemctl daemon-reload", "systemctl restart postgresql"),
            ),
        )

    async def plan(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
        ops = context.host.ops
        device = (_TO_COME if context.on_image else _device(context)) if needs_device(wanted) else None
        changes = []
        for hierarchy, items in place_limits(hierarchies(ops), wanted):
            _require_writable(ops, hierarchy)
            names = controllers(hierarchy, items)
            if hierarchy.version == 2:
                changes += self._enable(ops, hierarchy, to_enable(hierarchy, items))
            files = limit_files(hierarchy.version, items, device=device, page_size=ops.page_size())
            changes.append(
                Change(
                    knob=self.name,
                    name=f"control group of the server ({', '.join(sorted(names))})",
                    old={},
                    new={"group": _group(context, hierarchy), **files},
                    old_text="none",
                    new_text=describe(items, device),
                )
            )
            if device is not None:
                to_come = context.on_image
                limited = plan_write_back(ops, hierarchy, items, device, knob=self.name, to_come=to_come)
                changes += [] if limited is None else [limited]
        return changes

    def _enable(self, ops: Operations, hierarchy: Hierarchy, names: frozenset[str]) -> list[Change]:
        path = f"{hierarchy.mount}/{_SUBTREE}"
        old = ops.read(path).split()
        missing = sorted(names.difference(old))
        if not missing:
            return []
        return [
            Change(
                knob=self.name,
                name=f"controllers of the control groups in {hierarchy.mount}",
                old={path: " ".join(old)},
                new={path: " ".join([*old, *missing])},
                old_text=" ".join(old) or "none",
                new_text=" ".join([*old, *missing]),
            )
        ]

    async def apply(self, context: KnobContext, change: Change) -> Mapping[str, str]:
        ops = context.host.ops
        if is_write_back(change):
            return limit(ops, change)
        if "group" not in change.new:
            return _enable_controllers(ops, change)
        group = change.new["group"]
        try:
            path = group
            ops.make_directory(group, mode=0o755)
            for name, text in change.new.items():
                if name != "group":
                    path = f"{group}/{name}"
                    ops.write(path, text)
            got = {name: ops.read(f"{group}/{name}").strip() for name in change.new if name != "group"}
        except FileExistsError as err:
            raise SettingError(
                f'control group "{group}" already exists', hint='Remove it with "pgtrial restore" or rmdir.'
            ) from err
        except OSError as err:
            raise _refused(path, change.new.get(path.rpartition("/")[2], ""), err) from err
        for name, text in got.items():
            if text != change.new[name]:
                raise SettingError(f'"{group}/{name}" is "{text}", asked for "{change.new[name]}"')
        if any(name.startswith("memory.") for name in got) or ops.exists(f"{group}/memory.swappiness"):
            # A page of the cache is charged to the group that was first to read or write it. What pgtrial has just
            # copied would not count for the server, which could use all of it beyond its limit.
            await evict(context.host, [path for path in (context.data, context.wal) if path is not None])
        return {"group": group, **got}

    async def undo(self, host: Host, entry: JournalEntry) -> Undone:
        group = entry.change.new.get("group")
        try:
            if is_write_back(entry.change):
                return lift(host, entry)
            if group is None:
                return _disable_controllers(host.ops, entry)
            if not is_own_group(group) or (entry.got and entry.got.get("group") != group):
                text = f'Its entry in the journal is damaged: "{group}" is not the control group that was made.'
                return Undone(outcome=Outcome.FAILED, text=text)
            if host.ops.boot_id() != entry.boot_id:
                return Undone(outcome=Outcome.REBOOTED)
            if not host.ops.exists(group):
                return Undone(outcome=Outcome.ALREADY)
            problem = await _remove(host.ops, group)
        except OSError as err:
            return Undone(outcome=Outcome.FAILED, text=f'"{group or next(iter(entry.change.new))}": {err.strerror}.')
        if problem:
            return Undone(outcome=Outcome.FAILED, text=f'The control group "{group}" cannot be removed: {problem}.')
        return Undone(outcome=Outcome.RESTORED)

    async def still_applied(self, host: Host, entry: JournalEntry) -> str:
        assert entry.got is not None  # asked of what was applied
        if is_write_back(entry.change):
            return find_lost_limit(host, entry)
        group = entry.got.get("group")
        if group is None:
            return ""  # what counts are the limits that the controllers make possible
        try:
            for name, text in entry.got.items():
                if name != "group" and (now := host.ops.read(f"{group}/{name}").strip()) != text:
                    return f'"{group}/{name}" was made "{text}" and is "{now}" now.'
        except FileNotFoundError:
            if host.ops.exists(group):
                return f'"{group}/{name}" is gone: something else has taken the controller away from control groups.'
            return f'The control group "{group}" is gone.'
        ended = _ended_for_memory(host.ops, group)
        return f"The kernel ended {ended} of the server's processes for want of memory in its group." if ended else ""

    def groups(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[str]:
        placed = place_limits(hierarchies(context.host.ops), wanted)
        return tuple(_group(context, hierarchy) for hierarchy, _ in placed)


def _group(context: KnobContext, hierarchy: Hierarchy) -> str:
    """The group's directory, at the top of the hierarchy.

    Below pgtrial's own group the limits of a session would count as well, and session managers remove what they made.
    In version 2 that group could not even have groups with controllers below it, as it has processes itself.
    """
    return f"{hierarchy.mount}/{OWN}{context.token}"


def _device(context: KnobContext) -> Device:
    """The device that the file system is on: of a volume or an array as a whole, not each disk that it is made of.

    The kernel limits the requests to higher-level devices as well, and only there the sum is what was asked for.
    """
    directory = context.data or context.directory
    found = devices_under(context.host.ops, directory)
    names = [device.name for device in found.devices]
    if len(names) != 1:
        raise SettingError(
            f'cannot limit reads from and writes to the device under "{directory}"',
            detail=found.reason or f"It lies on {' and '.join(names)}; a limit is for one device.",
            hint="Choose another location with data in the table storage.",
        )
    return Device(name=names[0], number=context.host.ops.read(f"/sys/class/block/{names[0]}/dev").strip())


def _require_writable(ops: Operations, hierarchy: Hierarchy) -> None:
    if not ops.is_writable(hierarchy.mount):
        needs_root = ops.user() != 0
        raise SettingError(
            "a control group for the server needs root" if needs_root else "control groups cannot be changed here",
            detail=f'"{hierarchy.mount}" is not writable.',
            hint="Run pgtrial as root." if needs_root else "Run pgtrial on the machine itself, not in a container.",
        )


def _refused(path: str, text: str, err: OSError) -> SettingError:
    what = f'the kernel refuses "{text}" for "{path}"' if text else f'cannot make the control group "{path}"'
    hint = "Run pgtrial as root." if isinstance(err, PermissionError) else ""
    return SettingError(what, detail=f"{err.strerror}.", hint=hint)


def _enable_controllers(ops: Operations, change: Change) -> Mapping[str, str]:
    ((path, new),) = change.new.items()
    wanted = set(new.split()) - set(change.old[path].split())
    text = " ".join(f"+{name}" for name in sorted(wanted))
    try:
        ops.write(path, text)
        got = ops.read(path).strip()
    except OSError as err:
        error = _refused(path, text, err)
        if err.errno == errno.EBUSY:
            error.hint = (
                "A group with processes cannot give controllers to others, unless it is the topmost of the machine. "
                "Run pgtrial outside of the container."
            )
        raise error from err
    if not wanted.issubset(got.split()):
        raise SettingError(f'"{path}" is "{got}", asked for "{new}"')
    return {path: got}


def _disable_controllers(ops: Operations, entry: JournalEntry) -> Undone:
    """Only ours: what others have enabled or disabled since stays."""
    ((path, new),) = entry.change.new.items()
    ours = sorted(set(new.split()).difference(entry.change.old[path].split()).intersection(ops.read(path).split()))
    if not ours:
        return Undone(outcome=Outcome.ALREADY)
    if ops.boot_id() != entry.boot_id:
        return Undone(outcome=Outcome.REBOOTED, text=f"{', '.join(ours)} in {path} was enabled since the reboot.")
    try:
        ops.write(path, " ".join(f"-{name}" for name in ours))
    except OSError as err:
        if err.errno != errno.EBUSY:
            raise
        return Undone(
            outcome=Outcome.CHANGED,
            text=f"Other control groups use {', '.join(ours)} by now; left enabled in {path}.",
        )
    left = set(ours).intersection(ops.read(path).split())
    if left:
        return Undone(outcome=Outcome.FAILED, text=f"{', '.join(sorted(left))} is still enabled in {path}.")
    return Undone(outcome=Outcome.RESTORED)


async def _remove(ops: Operations, group: str) -> str:
    """End what runs in the group and remove it; what stands in the way after a bounded wait, or empty."""
    import asyncio

    problem = ""
    for _ in range(round(_PATIENCE / _STEP)):
        try:
            pids = _end_members(ops, group)
            if not pids:
                _forget_pages(ops, group)
                ops.remove_directory(group)
                return ""
            problem = f"process {', '.join(pids)} does not end"
        except FileNotFoundError:
            return ""
        except OSError as err:
            if err.errno != errno.EBUSY:
                raise
            problem = str(err.strerror)
        await asyncio.sleep(_STEP)
    return problem


def _end_members(ops: Operations, group: str) -> list[str]:
    """Kill every process in the group, which is ours alone; their pids."""
    procs = f"{group}/cgroup.procs"
    found = [(pid, ops.start_ticks(int(pid))) for pid in ops.read(procs).split()]
    # Read again: what is still a member now is the process whose start was read in between.
    members = set(ops.read(procs).split())
    for pid, ticks in found:
        if ticks is not None and pid in members:
            ops.signal(int(pid), ticks, signal.SIGKILL)
    return sorted(members)


def _forget_pages(ops: Operations, group: str) -> None:
    """Give back the page cache charged to the group, else the kernel keeps the removed group until it is reclaimed."""
    try:
        if ops.exists(f"{group}/memory.force_empty"):
            ops.write(f"{group}/memory.force_empty", "0")
        elif ops.exists(f"{group}/memory.reclaim"):
            ops.write(f"{group}/memory.reclaim", ops.read(f"{group}/memory.current").strip())
    except OSError:
        pass  # some pages cannot be reclaimed at once; it is only a courtesy


def _ended_for_memory(ops: Operations, group: str) -> int:
    for name in ("memory.oom_control", "memory.events"):
        if ops.exists(f"{group}/{name}"):
            counts = dict(line.split() for line in ops.read(f"{group}/{name}").splitlines())
            return int(counts.get("oom_kill", 0))
    return 0


async def evict(host: Host, directories: Sequence[str]) -> None:
    """Write out and forget the cached pages of all files under the directories. Raises HostCommandError."""
    await host.run([host.ops.python(), "-I", "-S", "-c", _EVICT, *directories])
