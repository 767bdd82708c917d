"""Refuse, as root, to make files where other users decide what a path leads to."""

from pgtrial.errors import PreflightError, SettingError
from pgtrial.hosts.operations import Operations


def check_unshared(ops: Operations, base: str, error: type[PreflightError | SettingError]) -> None:
    """Raise ``error`` where others than root and the caller can put something else in the place of part of ``base``."""
    changeable = ops.find_changeable(base)
    if changeable:
        raise error(
            f'root does not write into "{base}": others may change "{changeable}"',
            detail="They could have it write anywhere else.",
            hint="Choose a location that root owns with all directories above it, with directory in [target] or "
            "--work-directory; or run pgtrial as an ordinary user.",
        )
