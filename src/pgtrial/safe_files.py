"""Read and write files in folders that may come from a stranger, or in which others may write at the same time.

Only plain files are read, never through a link, no more than is due. What is written takes its name at the end: whole
and on the disk, or not at all. A link that has the name is replaced, and what it leads to stays as it is.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MOST_LINKS = 40  # as the kernel
_PRIVATE = 0o600  # what is written is for its owner alone, less what the umask takes; whoever shares it says so
_SHARED = 0o644
_MOST_SHOWN = 100  # bytes of a name in the hidden one beside it, which file systems limit too
_HIDDEN = re.compile(r"\.(.*)-[0-9a-f]{16}", re.DOTALL)
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)  # there is no directory, so nothing is in it
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def open_file(path: Path, *, follow: bool = False, directory: int | None = None) -> BinaryIO:
    """A plain file, opened to read. OSError where it is anything else, also a link unless one is to ``follow``.

    A relative ``path`` is one in ``directory`` where that is given, which is opened. A pipe does not block.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    fd = os.open(path, flags, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a plain file", str(path))
    return os.fdopen(fd, "rb")


def open_single(path: Path) -> BinaryIO:
    """As ``open_file``, in a directory of an account that may be in the hands of somebody else. OSError also where the
    file has a second name: it may be one of elsewhere, for not every kernel refuses to give it one more.
    """
    file = open_file(path)
    if os.fstat(file.fileno()).st_nlink > 1:
        file.close()
        raise OSError(errno.EMLINK, "it has more than one name", str(path))
    return file


def find_hole(file: BinaryIO) -> int | None:
    """Where a file begins to have nothing on the disk, which is how a few bytes seem to be many; None if nowhere."""
    try:
        hole = os.lseek(file.fileno(), 0, os.SEEK_HOLE)
    except OSError:  # an empty file, and some file systems, have none to find
        return None
    finally:
        file.seek(0)
    return hole if hole < os.fstat(file.fileno()).st_size else None


def is_plain(path: Path) -> bool:
    """Whether there is a plain file, no link to one, as far as can be seen."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def read_file(path: Path, *, limit: int) -> bytes:
    """The contents of a plain file of at most ``limit`` bytes. OSError as ``open_file``, and where there are more."""
    with open_file(path) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit} bytes", str(path))
    return content


def write_file(path: Path, content: bytes | str, *, for_owner: bool = False) -> None:
    """Put ``content`` at ``path``, text as UTF-8. OSError where that cannot be; then the old file is still there.

    ``for_owner``: what root writes is given to the owner of the directory, who is to read and replace it too.
    """
    with _opened(path.parent) as directory, _new_file_in(directory, path.name, durable=True) as file:
        if for_owner and os.geteuid() == 0:
            owner = os.fstat(directory)
            os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
        file.write(content.encode() if isinstance(content, str) else content)


def share_file(path: Path, content: str) -> None:
    """As ``write_file``, of a text that everybody may read; it may be gone after a crash of the machine."""
    with _opened(path.parent) as directory, _new_file_in(directory, path.name, durable=False) as file:
        os.fchmod(file.fileno(), _SHARED)
        file.write(content.encode())


def append_file(path: Path, text: str) -> None:
    """Add a text to a file, a new one where there is none, or write it to a pipe; never through a link.

    OSError where that cannot be, also where a plain file has another name: it may be one of elsewhere.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with (
        _opened(path.parent) as directory,
        os.fdopen(os.open(path.name, flags, _PRIVATE, dir_fd=directory), "wb") as file,
    ):
        found = os.fstat(file.fileno())
        if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
            raise OSError(errno.EMLINK, "it has more than one name", str(path))
        file.write(text.encode())


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the name ``path`` when the block ends, and is gone where that raises."""
    with _opened(path.parent) as directory, _new_file_in(directory, path.name, durable=True) as file:
        yield file


@contextlib.contextmanager
def new_directory(path: Path) -> Iterator["NewDirectory"]:
    """A directory that takes the name ``path`` when the block ends, whole and on the disk, and is gone where it raises.

    OSError where there is something of that name. Nobody else enters it, and whoever swaps names around it changes
    nothing that is not in it.
    """
    with _opened(path.parent) as place:
        name = hidden_name(path)
        os.mkdir(name, 0o700, dir_fd=place)
        try:
            directory = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=place)
            try:
                if os.fstat(directory).st_uid != os.geteuid():
                    raise OSError(errno.EPERM, "somebody else has taken its place", str(path))
                yield NewDirectory(directory)
                ctypes.CDLL(None).syncfs(directory)  # at once, instead of file by file
                if os.path.lexists(path):  # an empty one would be replaced
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
                _publish(name, place, path.name, place)
            finally:
                os.close(directory)
        finally:
            shutil.rmtree(name, ignore_errors=True, dir_fd=place)


class NewDirectory:
    """A directory that is being filled."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @contextlib.contextmanager
    def new_file(self, *parts: str) -> Iterator[BinaryIO]:
        """A file in it, in directories that are made where they are missing."""
        with contextlib.ExitStack() as stack:
            directory = _enter(stack, self._descriptor, parts[:-1])
            with _new_file_in(directory, parts[-1], durable=False) as file:
                yield file


@contextlib.contextmanager
def _new_file_in(directory: int, final: str, *, durable: bool) -> Iterator[BinaryIO]:
    _check_replaceable(final, directory)
    name = hidden_name(Path(final))
    try:
        with os.fdopen(os.open(name, _NEW, _PRIVATE, dir_fd=directory), "w+b") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.rename(name, final, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)
        raise
    if durable:
        os.fsync(directory)


def hidden_name(path: Path) -> str:
    """A name beside ``path`` that nobody has."""
    shown = os.fsencode(path.name)[:_MOST_SHOWN].decode(errors="ignore")
    return f".{shown}-{secrets.token_hex(8)}"


def is_hidden_name(name: str, path: Path) -> bool:
    """Whether it may be one that ``hidden_name`` has given beside ``path``."""
    found = _HIDDEN.fullmatch(name)
    return found is not None and path.name.startswith(found[1])


def check_new_path(path: Path, name: str) -> None:
    """OSError where ``new_path`` has no place for its directory, as far as that can be told without making it."""
    with _opened(path.parent) as directory:
        _check_replaceable(path.name, directory)
        with contextlib.suppress(FileNotFoundError):
            os.lstat(name, dir_fd=directory)


@contextlib.contextmanager
def new_path(path: Path, name: str = "") -> Iterator[Path]:
    """As ``new_file``, for a library or a program that wants a path: in a directory that only this user enters.

    Its ``name`` is a ``hidden_name`` where that is to be known before, for ``remove_path``. Its lock is held: the
    kernel releases it when this process ends, which others may not see, as in another container.
    """
    name = name or hidden_name(path)
    with _opened(path.parent) as directory:
        _check_replaceable(path.name, directory)
        os.mkdir(name, 0o700, dir_fd=directory)
        try:
            private = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            try:
                if os.fstat(private).st_uid != os.geteuid():
                    raise OSError(errno.EPERM, "somebody else has taken its place", str(path))
                with contextlib.suppress(OSError):  # where nobody can lock
                    fcntl.flock(private, fcntl.LOCK_EX)
                yield Path(f"/proc/{os.getpid()}/fd/{private}") / path.name
                file = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=private)
                try:
                    os.fchmod(file, os.fstat(file).st_mode & _PRIVATE)
                    os.fsync(file)
                finally:
                    os.close(file)
                _publish(path.name, private, path.name, directory)
            finally:
                os.close(private)
        finally:
            shutil.rmtree(name, ignore_errors=True, dir_fd=directory)


def remove_path(path: Path, name: str, *, inode: int | None) -> bool:
    """Remove what a process that was killed in ``new_path`` has left; whether there is nothing of that name now.

    The directory is known by its ``inode``, not by a device, which may have another number after a reboot. Only the
    file that was to be ``path`` is removed with it; without an inode nothing was written yet, and it is empty. OSError,
    BlockingIOError where a process has its lock.
    """
    with contextlib.ExitStack() as stack:
        try:
            directory = stack.enter_context(_opened(path.parent))
        except OSError as err:
            if err.errno in _GONE:
                return True
            raise
        try:
            private = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
        except FileNotFoundError:
            return True
        except NotADirectoryError:  # also a link
            return False
        try:
            found = os.fstat(private)
            if found.st_uid != os.geteuid() or inode not in (None, found.st_ino):
                return False
            try:
                fcntl.flock(private, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as err:  # where nobody can lock, there is no way to tell
                if isinstance(err, BlockingIOError):
                    raise
            if inode is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path.name, dir_fd=private)
        finally:
            os.close(private)
        os.rmdir(name, dir_fd=directory)
    return True


def _check_replaceable(name: str, directory: int) -> None:
    """OSError where root would put a file in the place of a device, or of what the whole machine calls its output:
    /dev/null and /dev/stdout are gone then for everybody.
    """
    with contextlib.suppress(FileNotFoundError):
        mode = os.lstat(name, dir_fd=directory).st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise OSError(errno.EINVAL, "it is a device", name)
        if stat.S_ISLNK(mode) and os.readlink(name, dir_fd=directory).startswith("/proc/"):
            raise OSError(errno.EINVAL, "it is an open file of a process", name)


def _publish(name: str, where: int, final: str, directory: int) -> None:
    os.rename(name, final, src_dir_fd=where, dst_dir_fd=directory)
    os.fsync(directory)


def remove_tree(folder: Path, *parts: str) -> None:
    """Remove what ``parts`` name beneath ``folder``, with all that is in it; through no link, and without an error."""
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        directory = stack.enter_context(_opened(folder))
        for part in parts[:-1]:
            directory = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            stack.callback(os.close, directory)
        shutil.rmtree(parts[-1], ignore_errors=True, dir_fd=directory)


def remove_file(folder: Path, *parts: str) -> None:
    """Remove a file that ``parts`` name beneath ``folder``, through no link. OSError, but not where there is none."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(_opened(folder))
        for part in parts[:-1]:
            directory = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            stack.callback(os.close, directory)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(parts[-1], dir_fd=directory)


def remove_empty(folder: Path, *parts: str) -> None:
    """Remove a directory beneath ``folder`` if there is nothing in it, through no link, and without an error."""
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        directory = stack.enter_context(_opened(folder))
        for part in parts[:-1]:
            directory = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            stack.callback(os.close, directory)
        os.rmdir(parts[-1], dir_fd=directory)


def make_directories(path: Path) -> None:
    """Make a directory and those above it where they are missing. OSError where that cannot be, or where there is
    something else, also a link that takes the name meanwhile.
    """
    there = next(each for each in (path, *path.parents) if os.path.lexists(each))
    with _opened(there) as directory, contextlib.ExitStack() as stack:
        _enter(stack, directory, path.parts[len(there.parts) :])


def make_directory(folder: Path, *parts: str) -> Path:
    """Make a directory beneath ``folder``, those above it where they are missing; its path.

    OSError where it is there, or where one above it is a link.
    """
    with contextlib.ExitStack() as stack:
        directory = _enter(stack, stack.enter_context(_opened(folder)), parts[:-1])
        os.mkdir(parts[-1], dir_fd=directory)
    return folder.joinpath(*parts)


def _enter(stack: contextlib.ExitStack, directory: int, parts: Sequence[str]) -> int:
    """Open what ``parts`` name beneath an opened directory, and make what is missing; OSError where one is a link."""
    for part in parts:
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, dir_fd=directory)
        directory = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
        stack.callback(os.close, directory)
    return directory


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int]:
    fd = _open_as_root(directory) if os.geteuid() == 0 else os.open(directory, _DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def _open_as_root(directory: Path) -> int:
    """Open a directory step by step: through links too, but through none that another user made.

    A neighbour who owns a directory on the way could otherwise put one in the place of what he gave root to look at.
    """
    rest = [*(Path.cwd() / directory).parts[:0:-1]]
    here, links = os.open("/", _DIRECTORY), 0
    while rest:
        part, above = rest.pop(), here
        try:
            here = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
            found = os.fstat(here)
            if not stat.S_ISLNK(found.st_mode):
                continue
            links += 1
            if found.st_uid != 0 or links > _MOST_LINKS:
                os.close(here)
                raise OSError(errno.ELOOP, "there is a link of another user on the way", str(directory))
            target = os.readlink("", dir_fd=here)
            os.close(here)
            here = os.open("/" if target.startswith("/") else ".", _DIRECTORY, dir_fd=above)
            rest += [step for step in target.split("/") if step][::-1]
        finally:
            os.close(above)
    try:
        return os.open(".", _DIRECTORY, dir_fd=here)
    finally:
        os.close(here)
