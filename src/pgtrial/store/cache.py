"""Texts that take long to make and are the same every time, kept in the user's cache directory.

Nothing depends on it: where nothing can be kept, or what was kept is damaged or somebody else's, it is made anew.
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

_DIRECTORY = "pgtrial"


def cached_text(name: str, make: Callable[[], str]) -> str:
    """The text that ``make`` returns, or the one that it returned under this name before.

    ``name`` has to tell everything on which the text depends; it becomes the name of a file.
    """
    path = _find_directory()
    kept = None if path is None else _read(path / name)
    if kept is not None:
        return kept
    text = make()
    if path is not None:
        with contextlib.suppress(OSError):  # a full disk, a home that may only be read
            _write(path / name, text)
    return text


def _find_directory() -> Path | None:
    """The directory, which need not exist; None where this user has none of his own.

    A home that belongs to somebody else, as after sudo, is left alone: files of root's in it would be in his way.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        # A relative path in the variable is to be ignored (XDG Base Directory Specification).
        directory = (base if base.is_absolute() else Path.home() / ".cache") / _DIRECTORY
        existing = next(place for place in (directory, *directory.parents) if place.exists())
        return directory if existing.stat().st_uid == os.geteuid() else None
    except (RuntimeError, OSError):
        return None


def _read(path: Path) -> str | None:
    """A kept text: this user's own, and whole."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return None
            digest, _, content = file.read().partition(b"\n")
    except OSError:
        return None
    return content.decode() if hashlib.sha256(content).hexdigest().encode() == digest else None


def _write(path: Path, text: str) -> None:
    """Replace the file at once or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    content = text.encode()
    fd, part = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
        Path(part).replace(path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
