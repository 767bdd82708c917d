"""The file system under the data: one made for the experiment, or the one that is there with other mount options."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pydantic import Field

from pgtrial.errors import SettingError
from pgtrial.hosts.base import Host
from pgtrial.hosts.linux.mount_options import ITEMS, REMOUNT, mount_data, mount_flags, parse_options, same_option
from pgtrial.hosts.linux.mounts import Mount, existing, mount_at, mount_of, options_of
from pgtrial.hosts.operations import Operations
from pgtrial.knobs import filesystem_image
from pgtrial.knobs.base import HostKnob, KnobContext
from pgtrial.knobs.declaration import ON_DEVICE, About, Acts, EffectTiming, Needs, Rule
from pgtrial.knobs.values import MountOptions, Size, Table
from pgtrial.model.change import Change, JournalEntry, Outcome, Undone

# What tells the mount of a remount; the other items of such a change are those of ITEMS.
_POINT, _DEVICE = "mount point", "device"


class FilesystemTable(Table):
    """The file system under the data: one created for the experiment, or the existing one with other mount options."""

    type: Literal["ext4", "xfs", "btrfs"] | None = Field(
        default=None,
        description="Create a file system of this kind in an image file in the storage directory. Left out: "
        "remount the existing one with the options.",
    )
    size: Size | None = Field(default=None, description='Size of the image: "20GB".')
    options: MountOptions | None = Field(
        default=None,
        description="Mount options that affect performance, such as noatime, nobarrier, commit=30, compress=zstd.",
    )


class Filesystem(HostKnob):
    """A wanted ``type`` makes a file system, ``options`` alone remount the one under the directory."""

    name = "filesystem"
    about = About(
        sets="a new file system in an image file on a loop device, with its space reserved and discard disabled; "
        "or, with options alone, the mount options of the file system under the data, which then affect "
        "everything on it. Only options that affect performance are accepted; when remounting, only those that "
        "can be switched both ways",
        takes_effect="at once",
        rights="root",
        verified="kind, size and every option are read from /proc/self/mountinfo (ext4: /proc/fs/ext4) after "
        "mounting, and again at the end of the run; an option that the kernel ignores is an error",
        undone="the image is unmounted, its loop device released and the file removed; a remounted file system "
        "gets its old options, which are read back",
    )
    acts = (Acts(code="requests", metrics=("iostat.iops",), least=1.0),)
    rules = (
        Rule(
            timing=EffectTiming.BUILDS_UP,
            reason="has a journal and write-back, which continue while a server is frozen",
            shares=ON_DEVICE,
        ),
    )
    facts = ("storage/*",)
    not_on_server = "the file system under an existing server is not touched"
    cluster_keys = ("type", "size", "options")
    needs = (
        Needs(
            key="type",
            other="size",
            message="the file system of type {value} has no size",
            hint='Add size = "20GB": room for the data twice, and for the WAL.',
            in_each_arm=True,
        ),
        Needs(
            key="size",
            other="type",
            message="the file system has a size but no type",
            hint='Add type = "ext4", "xfs" or "btrfs".',
        ),
    )

    def made_with(self, table: Mapping[str, str]) -> tuple[str, ...]:
        """A file system of its own is there for the whole experiment; a remounted one only while the arm runs."""
        return self.cluster_keys if "type" in table else ()

    async def plan(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
        if "type" in wanted:
            return filesystem_image.plan(context, wanted)
        return _plan_remount(context, wanted.get("options", ""))

    async def apply(self, context: KnobContext, change: Change) -> Mapping[str, str]:
        if filesystem_image.is_image(change):
            return await filesystem_image.apply(context, change)
        return _apply_remount(context.host.ops, change)

    async def undo(self, host: Host, entry: JournalEntry) -> Undone:
        if filesystem_image.is_image(entry.change):
            return await filesystem_image.undo(host, entry)
        return _undo_remount(host.ops, entry)

    async def still_applied(self, host: Host, entry: JournalEntry) -> str:
        if filesystem_image.is_image(entry.change):
            return filesystem_image.find_drift(host.ops, entry)
        return _find_remount_drift(host.ops, entry)

    def mount_point(self, context: KnobContext, wanted: Mapping[str, str]) -> str:
        """Where the file system of a wanted ``type`` is mounted: a directory beside its image."""
        return filesystem_image.place(context, wanted).point


def _plan_remount(context: KnobContext, options: str) -> Sequence[Change]:
    """The change that puts the options in force, none if they are. It keeps all items, for some change others."""
    ops = context.host.ops
    mount = _mount_under(ops, context.data or context.directory)
    wanted = parse_options(mount.kind, options, remount=True)
    old = options_of(ops, mount)
    if all(same_option(option, old[item]) for item, option in wanted.items()):
        return ()
    if "ro" in mount.shown:
        raise SettingError(f'the file system at "{mount.point}" is mounted read-only')
    if ops.user() != 0:
        raise _needs_root(mount.point)
    place = {_POINT: mount.point, _DEVICE: mount.device}
    return (
        Change(
            knob="filesystem",
            name=f'mount options of "{mount.point}"',
            old={**place, **old},
            new={**place, **wanted},
            old_text=_shown(old[item] for item in wanted),
            new_text=_shown(wanted.values()) + _note(wanted.values()),
        ),
    )


def _apply_remount(ops: Operations, change: Change) -> Mapping[str, str]:
    """Remount, and read all options. SettingError where the kernel refuses, or makes something else of it."""
    point, wanted = change.new[_POINT], _items(change.new)
    mount = _mount_of_change(ops, change)
    if mount is None:
        raise SettingError(f'the file system at "{point}" is not the one that it was a moment ago')
    try:
        _remount(ops, mount, wanted)
    except PermissionError as err:
        raise _needs_root(point) from err
    except OSError as err:
        raise SettingError(
            f"{change.name} cannot be {change.new_text}",
            detail=f"The kernel refuses to remount it: {err.strerror}. Its log may say why (dmesg).",
        ) from err
    got = options_of(ops, _mount_of_change(ops, change) or mount)
    for item, asked in wanted.items():
        if not same_option(asked, got[item]):
            raise SettingError(
                f"{change.name}: asked for {asked}, got {got[item] or 'nothing'}",
                detail=f"The kernel took the option for {mount.kind}, and ignored or limited it.",
            )
    return {**change.new, **got}


def _undo_remount(ops: Operations, entry: JournalEntry) -> Undone:
    """Remount with the options of before, unless somebody else has changed one of them."""
    change, old = entry.change, _items(entry.change.old)
    if ops.boot_id() != entry.boot_id:
        mount = mount_at(ops, change.old[_POINT])
        return Undone(
            outcome=Outcome.ALREADY if mount is not None and options_of(ops, mount) == old else Outcome.REBOOTED
        )
    mount = _mount_of_change(ops, change)
    if mount is None:
        return Undone(outcome=Outcome.CHANGED, text=f'The file system at "{change.old[_POINT]}" has been unmounted.')
    now = options_of(ops, mount)
    if now == old:
        return Undone(outcome=Outcome.ALREADY)
    for item, option in now.items():
        if entry.got is not None and option not in (old[item], entry.got[item]):
            return Undone(
                outcome=Outcome.CHANGED,
                text=f"{change.name[:1].upper()}{change.name[1:]} had {old[item] or 'nothing'}, pgtrial made it "
                f"{entry.got[item] or 'nothing'}, and it is {option or 'nothing'} now; left as it is.",
            )
    try:
        for _ in range(2):  # an option may have been kept from coming back by another one
            _remount(ops, mount, old)
            mount = _mount_of_change(ops, change) or mount
    except OSError as err:
        return Undone(outcome=Outcome.FAILED, text=f'"{mount.point}" cannot be remounted: {err.strerror}.')
    now = options_of(ops, mount)
    if now == old:
        return Undone(outcome=Outcome.RESTORED)
    differing = [item for item in old if now[item] != old[item]]
    return Undone(
        outcome=Outcome.FAILED,
        text=f'"{mount.point}" has {_shown(now[item] for item in differing)}, '
        f"not {_shown(old[item] for item in differing)} as before.",
    )


def _find_remount_drift(ops: Operations, entry: JournalEntry) -> str:
    """A sentence on what is not in force any more."""
    mount = _mount_of_change(ops, entry.change)
    if mount is None:
        return f'The file system at "{entry.change.new[_POINT]}" has been unmounted.'
    now = options_of(ops, mount)
    for item in _items(entry.change.new):
        if entry.got is not None and now[item] != entry.got[item]:
            return f'"{mount.point}" had {entry.got[item]} after it was remounted and has {now[item]} now.'
    return ""


def _mount_under(ops: Operations, path: str) -> Mount:
    try:
        mount = mount_of(ops, existing(ops, path))
    except OSError as err:
        raise SettingError(f'cannot tell on which file system "{path}" lies', detail=f"{err.strerror}.") from err
    if mount.kind not in ITEMS:
        raise SettingError(
            f'the mount options of "{mount.point}" cannot be varied, it is {mount.kind}',
            hint=f'They can for {", ".join(ITEMS)}. Name another location for the data, or give a "type": then a file '
            "system is made.",
        )
    top = mount_at(ops, mount.point)
    if top is None or top.number != mount.number:
        raise SettingError(f'the file system of "{path}" is hidden beneath another one at "{mount.point}"')
    return mount


def _mount_of_change(ops: Operations, change: Change) -> Mount | None:
    mount = mount_at(ops, change.new[_POINT])
    return mount if mount is not None and mount.device == change.new[_DEVICE] else None


def _remount(ops: Operations, mount: Mount, wanted: Mapping[str, str]) -> None:
    now = options_of(ops, mount)
    differing = {item: option for item, option in wanted.items() if not same_option(option, now[item])}
    flags = REMOUNT | mount.kept_flags | mount_flags(mount.kind, {**now, **wanted})
    ops.mount(mount.source, mount.point, mount.kind, flags, mount_data(mount.kind, differing))


def _note(options: Iterable[str]) -> str:
    return " (losing power meanwhile can damage everything on it)" if "nobarrier" in options else ""


def _items(values: Mapping[str, str]) -> dict[str, str]:
    return {item: option for item, option in values.items() if item not in (_POINT, _DEVICE)}


def _shown(options: Iterable[str]) -> str:
    return ", ".join(option or "nothing" for option in options)


def _needs_root(point: str) -> SettingError:
    return SettingError(f'remounting "{point}" needs root', hint="Run pgtrial as root.")
