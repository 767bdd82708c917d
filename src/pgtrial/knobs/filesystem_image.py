"""A file system made for the experiment: an image file, a loop device, a mount.

Its space is reserved before anything is made. The loop device reads and writes past the page cache of the file system
below (direct I/O) where that can, so that data are cached once, as on a device. Discarding is turned off on it: it
would give the reserved space back. Each step can be the last one before pgtrial is killed; undoing looks for what
each of them leaves.
"""

import errno
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pgtrial.errors import SettingError
from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.hosts.base import Host
from pgtrial.hosts.linux.loop_devices import attach, detach, find_program, has_direct_io, loops_of, run_step, size_of
from pgtrial.hosts.linux.mount_options import mount_data, mount_flags, parse_options, same_option
from pgtrial.hosts.linux.mounts import Mount, existing, mount_at, mount_of, options_of
from pgtrial.hosts.operations import Operations
from pgtrial.hosts.shared_directories import check_unshared
from pgtrial.knobs.base import KnobContext
from pgtrial.model.change import Change, JournalEntry, Outcome, Undone
from pgtrial.units import format_bytes, parse_bytes

# Items of a change.
_IMAGE, _POINT, _BELOW = "image", "mount point", "mount point below the image"
_KIND, _BYTES, _OPTIONS = "type", "bytes", "options"
_LOOP, _DIRECT = "loop device", "direct I/O"
_ON = "on"

_MARGIN = 64 << 20  # bytes that stay free beside the image
_PATIENCE = 10.0  # seconds, for a server that has just been killed to let go of its files
_STEP = 0.05
_PACKAGES = {"ext4": "e2fsprogs", "xfs": "xfsprogs", "btrfs": "btrfs-progs"}
# Without discarding, which would free what is reserved, without work that goes on in the background afterwards, and
# without blocks that are kept for root, as whom no server runs.
_MAKE = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"),
    "xfs": ("mkfs.xfs", "-q", "-f", "-K"),
    "btrfs": ("mkfs.btrfs", "-q", "-f", "-K"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a file system is made."""

    directory: str
    image: str
    point: str


def is_image(change: Change) -> bool:
    return _IMAGE in change.new


def place(context: KnobContext, wanted: Mapping[str, str]) -> Place:
    """The paths for what is wanted: the same for the same experiment and table."""
    directory = context.host.ops.resolve(context.directory)
    digest = hashlib.sha256(json.dumps(sorted(wanted.items())).encode()).hexdigest()[:8]
    point = f"{directory.rstrip('/')}/pgtrial-{context.token}-{digest}"
    return Place(directory=directory, image=f"{point}.img", point=point)


def plan(context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
    """The change that makes the file system; none if the experiment has it already."""
    ops, kind, at = context.host.ops, wanted["type"], place(context, wanted)
    options = parse_options(kind, wanted.get("options", ""), remount=False)
    size = -(-int(parse_bytes(wanted["size"])) // 4096) * 4096
    if (mount := mount_at(ops, at.point)) is not None and _is_ours(ops, mount, at.image):
        return ()
    for path in (at.image, at.point):
        if ops.exists(path):
            raise SettingError(
                f'"{path}" already exists',
                hint='If an experiment left it behind, "pgtrial restore" removes it; otherwise remove it by hand.',
            )
    if ops.user() != 0:
        raise SettingError("making a file system needs root", hint="Run pgtrial as root.")
    check_unshared(ops, existing(ops, at.directory), SettingError)
    find_program(ops, _MAKE[kind][0], _PACKAGES[kind])
    for program in ("losetup", "fallocate"):
        find_program(ops, program)
    _check_space(ops, at.directory, size)
    texts = [kind, wanted["size"], *options.values()]
    new = {_IMAGE: at.image, _POINT: at.point, _BELOW: mount_of(ops, existing(ops, at.directory)).point}
    return (
        Change(
            knob="filesystem",
            name=f'file system in "{at.image}"',
            old={},
            new={**new, _KIND: kind, _BYTES: str(size), _OPTIONS: json.dumps(options)},
            old_text="none",
            new_text=", ".join(texts),
        ),
    )


async def apply(context: KnobContext, change: Change) -> Mapping[str, str]:
    """Make and mount it. SettingError says which step failed; what was made until then is undone by ``undo``."""
    host, ops, new = context.host, context.host.ops, change.new
    image, point, kind = new[_IMAGE], new[_POINT], new[_KIND]
    options: dict[str, str] = json.loads(new[_OPTIONS])
    with _step(f'make "{image}"'):
        ops.make_directory(image.rpartition("/")[0], mode=0o755, parents=True)
        ops.put(image, "", mode=0o600)
    await run_step(
        host, f'reserve {format_bytes(int(new[_BYTES]))} in "{image}"', "fallocate", "-l", new[_BYTES], image
    )
    with _step(f'make a block device of "{image}"'):
        loop = await attach(host, image)
    make, *arguments = _MAKE[kind]
    await run_step(host, f"create a file system of type {kind}", make, *arguments, f"/dev/{loop}")
    with _step(f'mount a file system of type {kind} at "{point}"'):
        ops.make_directory(point, mode=0o755)
        ops.mount(f"/dev/{loop}", point, kind, mount_flags(kind, options), mount_data(kind, options))
    return {**new, **_read(ops, change, loop)}


@contextmanager
def _step(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as err:
        reason = "The kernel has no such file system" if err.errno == errno.ENODEV else err.strerror
        raise SettingError(
            f"cannot {what}", detail=f"{reason}.", hint="The kernel's log may say more (dmesg)."
        ) from err


def _read(ops: Operations, change: Change, loop: str) -> dict[str, str]:
    """What the kernel says of it. SettingError where that is not what was asked for."""
    kind, point = change.new[_KIND], change.new[_POINT]
    mount = mount_at(ops, point)
    if mount is None or mount.kind != kind:
        got = "nothing" if mount is None else mount.kind
        raise SettingError(f'asked for {kind} at "{point}", got {got}')
    options = options_of(ops, mount)
    for item, asked in json.loads(change.new[_OPTIONS]).items():
        if not same_option(asked, options[item]):
            raise SettingError(
                f"asked for {kind} with {asked}, got {options[item] or 'nothing'}",
                detail="The kernel ignored the option, or limited it.",
            )
    return {
        _OPTIONS: json.dumps(options),
        _BYTES: str(size_of(ops, loop)),
        _LOOP: f"/dev/{loop}",
        _DIRECT: _ON if has_direct_io(ops, loop) else "off, data are cached twice",
    }


async def undo(host: Host, entry: JournalEntry) -> Undone:
    """Take away whatever of it is there, in whatever state it was left."""
    ops, new = host.ops, entry.change.new
    image, point = new[_IMAGE], new[_POINT]
    directory = image.rpartition("/")[0]
    try:
        if mount_of(ops, existing(ops, directory)).point != new[_BELOW]:
            return Undone(
                outcome=Outcome.CHANGED,
                text=f'The file system of "{directory}" is not mounted at "{new[_BELOW]}" now; if "{image}" comes back '
                f'with it, remove it and "{point}" by hand.',
            )
        if not _is_left(ops, image, point):
            return Undone(outcome=Outcome.ALREADY)
        stranger = await _unmount(ops, image, point)
        if stranger is not None:
            return Undone(
                outcome=Outcome.CHANGED,
                text=f'"{stranger.source}", which is not of pgtrial, is mounted at "{point}"; left as it is.',
            )
        free = await detach(host, image, patience=_PATIENCE)
        for left in ops.find_unfinished(image):
            ops.remove(left)
        ops.remove(image)
        if ops.exists(point):
            ops.remove_directory(point)
    except OSError as err:
        return Undone(outcome=Outcome.FAILED, text=f'"{err.filename or image}": {err.strerror}.')
    except SettingError as err:
        return Undone(outcome=Outcome.FAILED, text=f"{err.message[:1].upper()}{err.message[1:]}. {err.detail}")
    text = "" if free else f'"{point}" was in use all the time; its space becomes free when that ends.'
    return Undone(outcome=Outcome.RESTORED, text=text)


def find_drift(ops: Operations, entry: JournalEntry) -> str:
    """A sentence on what is not as it was made."""
    got = entry.got or {}
    mount = mount_at(ops, entry.change.new[_POINT])
    if mount is None or not _is_ours(ops, mount, entry.change.new[_IMAGE]):
        return f'The file system at "{entry.change.new[_POINT]}" has been unmounted.'
    if "ro" in mount.shown:
        return f'The file system at "{mount.point}" is read-only now.'
    now, then = options_of(ops, mount), json.loads(got.get(_OPTIONS, "{}"))
    for item, option in then.items():
        if now[item] != option:
            return f'"{mount.point}" had {option or "nothing"} when it was made and has {now[item] or "nothing"} now.'
    return ""


def find_caveats(made: Iterable[JournalEntry]) -> tuple[CaveatFinding, ...]:
    """What limits the trust in what is measured on file systems that were made."""
    directories = (
        entry.change.new[_IMAGE].rpartition("/")[0]
        for entry in made
        if is_image(entry.change) and entry.got is not None and entry.got[_DIRECT] != _ON
    )
    return tuple(caveat("cached-twice", directory=directory) for directory in dict.fromkeys(directories))


def _is_left(ops: Operations, image: str, point: str) -> bool:
    return (
        any(ops.exists(path) for path in (image, point))
        or bool(ops.find_unfinished(image))
        or bool(loops_of(ops, image))
        or mount_at(ops, point) is not None
    )


def _is_ours(ops: Operations, mount: Mount, image: str) -> bool:
    return mount.source in {f"/dev/{name}" for name in loops_of(ops, image)}


async def _unmount(ops: Operations, image: str, point: str) -> Mount | None:
    """Unmount what is ours at the point, or at least take it out of sight; what is there and not ours."""
    import asyncio

    tries = round(_PATIENCE / _STEP)
    while (mount := mount_at(ops, point)) is not None:
        if not _is_ours(ops, mount, image):
            return mount
        try:
            ops.unmount(point)
        except OSError as err:
            if tries <= 0:
                ops.unmount(point, detach=True)
            elif err.errno != errno.EBUSY:
                raise
            else:
                tries -= 1
                await asyncio.sleep(_STEP)
    return None


def _check_space(ops: Operations, directory: str, size: int) -> None:
    _, free = ops.space(existing(ops, directory))
    if size + _MARGIN > free:
        raise SettingError(
            f'there is no room for an image of {format_bytes(size)} in "{directory}"',
            detail=f"{format_bytes(free)} are free there, and {format_bytes(_MARGIN)} are to stay free.",
            hint="Make it smaller, or choose another location with data in the table storage.",
        )
