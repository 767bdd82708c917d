"""Files and directories as somebody has named them: whatever stands there is an answer, and never an exception.

pathlib's own questions raise OSError for what they may not look at or is too long for a name, RuntimeError for the home
of a user who does not exist.
"""

import contextlib
from pathlib import Path


def is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def expand_home(path: Path) -> Path:
    """The path with the home directory in place of "~" or "~user"; as it is where there is no such user."""
    with contextlib.suppress(RuntimeError):
        return path.expanduser()
    return path
