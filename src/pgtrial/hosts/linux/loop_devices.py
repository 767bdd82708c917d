"""Loop devices: block devices that are files of another file system."""

from collections.abc import Callable

from pgtrial.errors import HostCommandError, SettingError
from pgtrial.hosts.base import Host
from pgtrial.hosts.linux.devices import devices_under
from pgtrial.hosts.operations import Operations

_STEP = 0.02  # seconds
_DELETED = " (deleted)"
_USUAL_SECTOR = 512  # bytes


def loops_of(ops: Operations, file: str) -> list[str]:
    """Names ("loop3") of the loop devices that hold a file, also one that has been removed since."""
    found = ops.read_all(["/sys/block/loop*/loop/backing_file"])
    return [path.split("/")[3] for path, text in found.items() if text.rstrip("\n") in (file, file + _DELETED)]


def file_of(ops: Operations, name: str) -> str:
    """The file that a loop device ("loop3") holds, in the kernel's words; "" for a device of another kind."""
    path = f"/sys/block/{name}/loop/backing_file"
    return ops.read(path).rstrip("\n") if ops.exists(path) else ""


async def attach(host: Host, file: str) -> str:
    """A loop device ("loop3") for the file, with direct I/O where the file system below can, and without discarding.

    Raises SettingError where there are none.
    """
    if not host.ops.exists("/dev/loop-control"):
        raise SettingError(
            "there are no loop devices on this machine",
            detail='"/dev/loop-control" does not exist.',
            hint="Load the kernel's module (modprobe loop); in a container, loop devices must be passed into it.",
        )
    found = await run_step(
        host, "get a loop device", "losetup", "--find", "--show", "--nooverlap", *_sector_size(host.ops, file), file
    )
    name = found.strip().removeprefix("/dev/")
    await host.run([find_program(host.ops, "losetup"), "--direct-io=on", f"/dev/{name}"], check=False)
    discard = f"/sys/block/{name}/queue/discard_max_bytes"
    if host.ops.exists(discard):
        host.ops.write(discard, "0")
    return name


def _sector_size(ops: Operations, file: str) -> tuple[str, ...]:
    """Option for sectors as large as those of the disk below, where they are not of 512 bytes.

    A device of smaller sectors could not pass its requests on as they are, so the kernel refuses direct I/O for it
    (drivers/block/loop.c).
    """
    paths = [f"/sys/block/{each.name}/queue/logical_block_size" for each in devices_under(ops, file).devices]
    largest = max((int(text) for text in ops.read_all(paths).values()), default=_USUAL_SECTOR)
    return ("--sector-size", str(largest)) if largest > _USUAL_SECTOR else ()


def has_direct_io(ops: Operations, name: str) -> bool:
    """Whether a loop device passes the page cache of the file system below by."""
    return ops.read(f"/sys/block/{name}/loop/dio").strip() == "1"


def size_of(ops: Operations, name: str) -> int:
    """Bytes of a block device."""
    return int(ops.read(f"/sys/block/{name}/size")) * 512


async def detach(host: Host, file: str, *, patience: float) -> bool:
    """Give all loop devices of a file back; whether they are gone after ``patience`` seconds.

    The kernel keeps one that is in use until its last user is gone. Raises SettingError where it refuses.
    """
    # Programs of a pgtrial that was just killed end with it, but not at the same instant.
    await _until(lambda: not host.ops.find_argument(file), patience)
    for name in loops_of(host.ops, file):
        try:
            await run_step(host, f"give /dev/{name} back", "losetup", "--detach", f"/dev/{name}")
        except SettingError:
            if name in loops_of(host.ops, file):
                raise
    return await _until(lambda: not loops_of(host.ops, file), patience)


async def _until(condition: Callable[[], bool], patience: float) -> bool:
    import asyncio

    for _ in range(round(patience / _STEP)):
        if condition():
            return True
        await asyncio.sleep(_STEP)
    return condition()


def find_program(ops: Operations, name: str, package: str = "util-linux") -> str:
    """Path of a program of system administration, to which not every PATH leads. SettingError if it is missing."""
    found = ops.which(name) or next((path for path in (f"/usr/sbin/{name}", f"/sbin/{name}") if ops.exists(path)), None)
    if found is None:
        raise SettingError(f'the program "{name}" is missing', hint=f'Install the package "{package}".')
    return found


async def run_step(host: Host, what: str, program: str, *arguments: str) -> str:
    """What the program printed. SettingError that says what could not be done, with the program's last words."""
    try:
        completed = await host.run([find_program(host.ops, program), *arguments])
    except HostCommandError as err:
        raise SettingError(f"cannot {what}", detail=err.detail) from err
    return completed.stdout
