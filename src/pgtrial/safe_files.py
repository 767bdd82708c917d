"""Read files of folders that may come from a stranger: plain ones only, never through a link, no more than is due."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_file(path: Path) -> BinaryIO:
    """A plain file, opened to read. OSError where it is a link or anything else; a pipe does not block."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a plain file", str(path))
    return os.fdopen(fd, "rb")


def read_file(path: Path, *, limit: int) -> bytes:
    """The contents of a plain file of at most ``limit`` bytes. OSError as ``open_file``, and where there are more."""
    with open_file(path) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit} bytes", str(path))
    return content
