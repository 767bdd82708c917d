"""Where a process puts what has no room in its memory: a directory of its own. What is left of one that was killed, the
next process removes.

The owner of a directory holds a lock on it, which the kernel releases when he ends, however that is. A process id would
not tell: it means nothing in another container that has the same place for temporary files. Of another machine that has
it, a kernel may not see the locks: a directory is of one boot of one machine by its name, and others leave it alone.
"""

import atexit
import contextlib
import fcntl
import hashlib
import os
import socket
import tempfile
from functools import cache
from pathlib import Path

from pgtrial.hosts.operations import Operations

PREFIX = "pgtrial-duckdb-"
_FILES = "duckdb_temp_"  # how the names of DuckDB's files begin


def spill_directory() -> str:
    """A directory of this process alone. DuckDB's own choice is one in the current directory, of a fixed name, which
    anybody may have made there, as a link too.
    """
    return _own(os.getpid())[0]


@cache
def own_prefix() -> str:
    """How the names begin of the directories of this boot of this machine."""
    try:
        boot = Operations().boot_id()
    except OSError:  # a sandbox hides it
        boot = socket.gethostname()
    return f"{PREFIX}{hashlib.sha256(boot.encode()).hexdigest()[:8]}-"


def remove_spill() -> None:
    """Remove the directory of this process, if it has one, before its end: for one that ends without Python's order."""
    if _own.cache_info().currsize:
        _remove_own(os.getpid(), *_own(os.getpid()))


@cache
def _own(pid: int) -> tuple[str, int]:
    """The directory of this process, and its descriptor with the lock, which stays open."""
    _remove_left()
    while True:
        place = tempfile.mkdtemp(prefix=own_prefix())
        with contextlib.suppress(FileNotFoundError):
            descriptor = _open(place)
            with contextlib.suppress(OSError):  # where nobody can lock, nobody removes what is left
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if Path(place).is_dir():
                break
            os.close(descriptor)  # before it had its lock, another process took it for one that was left
    atexit.register(_remove_own, pid, place, descriptor)
    return place, descriptor


def _remove_own(pid: int, place: str, descriptor: int) -> None:
    if os.getpid() == pid:  # not by a fork
        with contextlib.suppress(OSError):
            _remove(place, descriptor)


def _remove_left() -> None:
    for place in Path(tempfile.gettempdir()).glob(f"{own_prefix()}*"):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:  # it is in use, or no such directory
            descriptor = _open(str(place))
            stack.callback(os.close, descriptor)
            if os.fstat(descriptor).st_uid == os.geteuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(str(place), descriptor)


def _open(place: str) -> int:
    return os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _remove(place: str, descriptor: int) -> None:
    """Remove DuckDB's files, and the directory if nothing else is in it: whoever swaps names meanwhile, nothing else
    goes. OSError.
    """
    for name in os.listdir(descriptor):
        if name.startswith(_FILES):
            os.unlink(name, dir_fd=descriptor)
    Path(place).rmdir()
