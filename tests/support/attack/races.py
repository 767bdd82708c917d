"""A neighbour who swaps names for links as fast as he can, by renameat2(2), in a process of his own."""

import contextlib
import ctypes
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

_AT_FDCWD, _EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h
_LIBC = ctypes.CDLL(None, use_errno=True)


def exchange(one: Path, other: Path) -> bool:
    """Give two names each other's files, at once; whether that worked."""
    found: int = _LIBC.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE)
    return found == 0


@contextlib.contextmanager
def neighbour(
    names: Callable[[], Iterable[Path]], link: Path, *, user: tuple[int, int] | None = None
) -> Iterator[Path]:
    """Swap whatever ``names`` finds for links to ``link`` and back, as ``user`` (uid, gid), until the block ends.
    What is a directory is swapped for a link to the one that ``link`` is in.

    Gives a file to which he writes how often it worked; ``user`` has to be able to write it.
    """
    told = link.with_name(f"{link.name}-swaps")
    told.write_text("0")
    if user is not None:
        os.chown(told, *user)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            file = os.open(told, os.O_WRONLY)
            if user is not None:
                os.setgroups([])
                os.setgid(user[1])
                os.setuid(user[0])
            signal.alarm(600)
            _swap(names, link, file)
        os._exit(0)
    try:
        yield told
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def below(place: Path) -> list[Path]:
    """All names in a directory that somebody else may be changing, but for the neighbour's own."""
    found = [Path(here) / name for here, *names in os.walk(place) for name in (*names[0], *names[1])]
    return [path for path in found if not path.name.startswith("trap-") and not path.is_symlink()]


def _swap(names: Callable[[], Iterable[Path]], link: Path, told: int) -> None:
    swaps = 0
    while True:
        for name in names():
            trap = name.with_name(f"trap-{os.getpid()}")
            with contextlib.suppress(OSError):
                trap.symlink_to(link.parent if name.is_dir() else link)
            # There and back, so that the program goes on: it is to be caught in between.
            for _ in range(20):
                swaps += exchange(name, trap)
            with contextlib.suppress(OSError):
                if trap.is_symlink():
                    trap.unlink()
        os.pwrite(told, str(swaps).encode(), 0)
