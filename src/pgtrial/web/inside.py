"""Files inside the served directory, and only there: no name leads out of it, and no link is followed."""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pgtrial.errors import StoreError
from pgtrial.store import layout

_MOST_FOLDERS = 10_000
_ID_LENGTH = 16  # hexadecimal digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A result folder. ``id`` stands for it in addresses, which therefore never have a name that somebody chose."""

    id: str
    name: str
    path: Path


def find_root(path: Path) -> Path:
    """The directory to serve, with links resolved once and for all. Raises StoreError if it is none."""
    try:
        root = path.resolve(strict=True)
    except OSError as err:
        raise StoreError(
            f'cannot open "{path}": {err.strerror}',
            hint="Name a result folder, or the directory in which they are, such as results.",
        ) from err
    except RuntimeError as err:
        raise StoreError(f'cannot open "{path}": its links lead round in a circle') from err
    if not root.is_dir():
        raise StoreError(
            f'"{path}" is not a directory',
            hint="Name a result folder, or the directory in which they are, such as results.",
        )
    return root


def find_places(root: Path) -> tuple[Place, ...]:
    """The root itself where it is a result folder, else every result folder in it, by name. Raises StoreError.

    Not what is linked there from elsewhere, and no hidden folder: a new one is hidden until it is whole.
    """
    if is_result_folder(root):
        return (_place(root, root.name),)
    try:
        with os.scandir(root) as entries:
            names = sorted(
                entry.name
                for entry, _ in zip(entries, range(_MOST_FOLDERS), strict=False)
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
            )
    except OSError as err:
        raise StoreError(f'cannot read "{root}": {err.strerror}') from err
    return tuple(_place(root / name, name) for name in names if is_result_folder(root / name))


def is_result_folder(path: Path) -> bool:
    return file_status(path, layout.STATE) is not None


def file_status(folder: Path, name: str) -> os.stat_result | None:
    """Of a plain file in a folder; None where there is none, or a link."""
    try:
        found = (folder / name).lstat()
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


@contextmanager
def open_inside(place: Place, name: str) -> Iterator[tuple[BinaryIO, int] | None]:
    """A plain file of a result folder, and its size; None where there is none.

    Neither the folder nor the file may have become a link since it was found: each is opened as what it is.
    """
    fd = _open_plain(place.path, name)
    if fd is None:
        yield None
        return
    with os.fdopen(fd, "rb") as file:
        yield file, os.fstat(fd).st_size


def _open_plain(path: Path, name: str) -> int | None:
    """Descriptor of a plain file, None if it is anything else."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # Not blocking, as a pipe of that name would, to which nobody writes.
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return None
    finally:
        os.close(folder)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def _place(path: Path, name: str) -> Place:
    return Place(id=hashlib.sha256(os.fsencode(name)).hexdigest()[:_ID_LENGTH], name=name, path=path)
