"""Errors where nothing more can be written: the disk or a quota is full, or a file may be no larger."""

import errno
import os
from collections.abc import Iterator

# Libraries and servers pass on what the system says: all of them are known by its words.
_FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT), "database or disk is full")
_TOO_LARGE = os.strerror(errno.EFBIG)
_MAYBE_FULL = "disk I/O error"  # SQLite, of a file beside the database that could not be made larger


def hint_no_room(error: BaseException) -> str:
    """What to do where an error or what caused it says that there is no room; "" where none does."""
    said = "\n".join(str(each) for each in _causes(error))
    if any(words in said for words in _FULL):
        return "Free some space on that disk, or use another one."
    if _TOO_LARGE in said:
        return 'Files may be no larger here: raise the limit that "ulimit -f" shows, or use another disk.'
    if _MAYBE_FULL in said:
        return 'See with "df" whether its disk is full, and with "ulimit -f" whether files may be no larger.'
    return ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
