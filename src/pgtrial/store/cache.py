"""Cache for texts that take long to make and never change, in the user's cache directory.

Nothing depends on it: if a text cannot be cached, or the cached one is damaged or somebody else's, it is made again.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from pgtrial.safe_files import write_file
from pgtrial.store.own_place import is_own

_DIRECTORY = "pgtrial"


def cached_text(name: str, make: Callable[[], str]) -> str:
    """The result of ``make``, or its cached result under this name.

    ``name`` must identify everything on which the text depends; it becomes a file name.
    """
    kept = load(name)
    if kept is not None:
        return kept.decode()
    text = make()
    keep(name, text.encode())
    return text


def load(name: str) -> bytes | None:
    """What was kept under this name, whole and by this user; None where there is nothing."""
    directory = _find_directory()
    return None if directory is None else _read(directory / name)


def keep(name: str, content: bytes) -> None:
    """Keep it for the next process, if there is a place for it."""
    directory = _find_directory()
    if directory is not None:
        with contextlib.suppress(OSError):  # a full disk, a home that may only be read
            _write(directory / name, content)


def _find_directory() -> Path | None:
    """The directory, which need not exist; None where this user has none of his own.

    A home that belongs to somebody else, as after sudo, is left alone: files of root's in it would be in his way.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        # A relative path in the variable is to be ignored (XDG Base Directory Specification).
        directory = (base if base.is_absolute() else Path.home() / ".cache") / _DIRECTORY
    except RuntimeError:
        return None
    return directory if is_own(directory) else None


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return None
            digest, _, content = file.read().partition(b"\n")
    except OSError:
        return None
    return content if hashlib.sha256(content).hexdigest().encode() == digest else None


def _write(path: Path, content: bytes) -> None:
    """Replace the file at once or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_file(path, hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
