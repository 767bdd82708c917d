"""Two volumes of one machine, one of which has a limit that no experiment file knows of, as a provider's has.

Each is a file system in a file on a loop device. The limit is one of a control group in which all of pgtrial runs, its
servers included, so nothing of it is in what pgtrial is told or sets.
"""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from pgtrial.errors import SettingError
from pgtrial.hosts.linux.control_groups import Hierarchy, hierarchies
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.cgroup_limits import Device, limit_files, place_limits, to_enable

PLACE = Path("/var/tmp/pgtrial-ground-truth")  # experiment files name the volumes below it
LIMITED, FREE = "limited", "free"
_SIZE = 4 << 30
_GROUP = "pgtrial-ground-truth"
_PATIENCE = 10.0  # s, for the last processes of the group to be gone
_SUBTREE = "cgroup.subtree_control"


class VolumeError(Exception):
    """The volumes, or the limit of one of them, cannot be made here."""


@contextlib.contextmanager
def limited_volume(directory: Path, limits: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Make both volumes, with image files in ``directory``, and take them away again.

    limits : as in an experiment's table cgroup, of the volume PLACE/limited. Gives the words that a command has to
    begin with to be held to them. Raises VolumeError.
    """
    with contextlib.ExitStack() as stack:
        devices = {name: stack.enter_context(_volume(directory.resolve(), name)) for name in (LIMITED, FREE)}
        group = stack.enter_context(_group(devices[LIMITED], limits))
        yield "/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")


@contextlib.contextmanager
def _volume(directory: Path, name: str) -> Iterator[Device]:
    image, place = directory / f"pgtrial-{name}.img", PLACE / name
    try:
        place.mkdir(parents=True, exist_ok=True)
        with image.open("xb") as file:
            file.truncate(_SIZE)
        device = Path(_call("losetup", "--find", "--show", str(image)))
        try:
            with contextlib.suppress(VolumeError):  # else the data are cached twice, and the limit is the same
                _call("losetup", "--direct-io=on", str(device))
            _call("mkfs.ext4", "-q", "-m", "0", str(device))
            _call("mount", "-o", "noatime", str(device), str(place))
            try:
                place.chmod(0o1777)  # servers run as another user
                number = Path(f"/sys/class/block/{device.name}/dev").read_text(encoding="ascii").strip()
                yield Device(name=device.name, number=number)
            finally:
                _call("umount", str(place))
        finally:
            _call("losetup", "--detach", str(device))
    except OSError as err:
        raise VolumeError(f"{err.filename}: {err.strerror}") from err
    finally:
        image.unlink(missing_ok=True)
        for empty in (place, PLACE):
            with contextlib.suppress(OSError):  # the other volume is still there
                empty.rmdir()


@contextlib.contextmanager
def _group(device: Device, limits: Mapping[str, str]) -> Iterator[Path]:
    """A control group with the limits, the directory of which it gives."""
    ops = LocalHost().ops
    try:
        ((hierarchy, items),) = place_limits(hierarchies(ops), limits)
        group = Path(hierarchy.mount) / _GROUP
        with _controllers(ops, hierarchy, items):
            group.mkdir()
            try:
                files = limit_files(hierarchy.version, items, device=device, page_size=ops.page_size())
                for name, text in files.items():
                    (group / name).write_text(text, encoding="ascii")
                yield group
            finally:
                _remove(group)
    except SettingError as err:
        raise VolumeError(str(err)) from err
    except OSError as err:
        raise VolumeError(f"{err.filename}: {err.strerror}") from err


@contextlib.contextmanager
def _controllers(ops: Operations, hierarchy: Hierarchy, items: Mapping[str, str]) -> Iterator[None]:
    """Controllers of version 2 that are not on are switched on, and off again."""
    path = f"{hierarchy.mount}/{_SUBTREE}"
    missing = sorted(to_enable(hierarchy, items).difference(ops.read(path).split())) if hierarchy.version == 2 else []
    if missing:
        ops.write(path, " ".join(f"+{name}" for name in missing))
    try:
        yield
    finally:
        if missing:
            ops.write(path, " ".join(f"-{name}" for name in missing))


def _remove(group: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.1)
        else:
            return


def _call(program: str, *arguments: str) -> str:
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        raise VolumeError(f'the program "{program}" is missing')
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise VolumeError(f"{program}: {done.stderr.strip()}")
    return done.stdout.strip()
