"""Whether anybody but root and this user may put something else in the place of what pgtrial writes for long.

One file takes its name at once, through an opened directory (``safe_files``). A result folder is written by many
programs for hours, by its path: so that path may lead nowhere else meanwhile.
"""

from pathlib import Path

from pgtrial.errors import StoreError
from pgtrial.hosts.operations import Operations


def find_changeable(path: Path) -> str:
    """The part of a path, or of the way to what is not there yet, that others may change; "" if there is none.

    Raises OSError.
    """
    place = path.absolute()
    there = next(each for each in (place, *place.parents) if each.exists())
    return Operations().find_changeable(str(there))


def is_own(path: Path) -> bool:
    """Whether it is known that nobody else may change the path."""
    try:
        return not find_changeable(path)
    except OSError:
        return False


def refuse_changeable(path: Path, *, hint: str) -> None:
    """Raise StoreError, with the hint, where others may change the path."""
    try:
        changeable = find_changeable(path)
    except OSError as err:
        raise StoreError(f'cannot look at "{path}": {err.strerror}') from err
    if changeable:
        raise StoreError(
            f'pgtrial does not write into "{path}": others may change "{changeable}"',
            detail="They could have it write anywhere else.",
            hint=hint,
        )
