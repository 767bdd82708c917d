"""The private directories of an experiment's cluster on its host: create, check and remove them."""

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgtrial.errors import PreflightError, TargetError
from pgtrial.hosts.base import Account, Host
from pgtrial.hosts.shared_directories import check_unshared

PORT = 5432  # names the socket file only: no TCP port is opened


def prepare_directories(host: Host, base: Path, name: str, account: Account | None) -> tuple[Path, Path]:
    """Make a private work directory under ``base``, and the socket's directory: (work, socket).

    The socket's directory lies in the work directory if its path is one for a socket, else in /tmp. As root, the
    ``account`` of the server only goes through the work directory: what lies in it is root's to name, so that root
    may write there; the directories in it that the server writes are made by ``make_own``.
    Raises PreflightError when ``base`` cannot be used.
    """
    work = base / name
    try:
        host.ops.make_directory(str(base), mode=0o777, parents=True)
        _check_base(host, base, account)
        _make_passage(host, work, account)
    except OSError as err:
        raise _unusable(base, err.strerror or str(err)) from err
    socket_directory = work / "s"
    # sun_path holds 107 bytes and a final zero (unix(7)); PostgreSQL takes a comma for the end of a directory's name.
    if len(os.fsencode(socket_directory / f".s.PGSQL.{PORT}.lock")) > 107 or "," in str(socket_directory):
        socket_directory = Path("/tmp") / name
    try:
        make_own(host, socket_directory, account)
    except OSError as err:
        remove_directories(host, work, socket_directory)
        raise _unusable(base, err.strerror or str(err)) from err
    return work, socket_directory


def prepare_directory(host: Host, path: Path, account: Account | None) -> None:
    """Make one more directory through which the server goes, as for its WAL; what it lies in has to be there.

    Raises PreflightError when it cannot be made.
    """
    try:
        _check_base(host, path.parent, account)
        _make_passage(host, path, account)
    except OSError as err:
        raise PreflightError(
            f'cannot create a directory in "{path.parent}": {err.strerror or err}',
            hint="Choose another location in the experiment file.",
        ) from err


def make_own(host: Host, path: Path, account: Account | None) -> None:
    """Make a directory in which only the server writes. Raises OSError."""
    host.ops.make_directory(str(path), owner=None if account is None else (account.uid, account.gid))


def _make_passage(host: Host, path: Path, account: Account | None) -> None:
    if account is None:
        host.ops.make_directory(str(path))
    else:
        host.ops.make_directory(str(path), owner=(host.ops.user(), account.gid), mode=0o710)


def _check_base(host: Host, base: Path, account: Account | None) -> None:
    if account is not None:
        check_unshared(host.ops, str(base), PreflightError)


async def check_access(host: Host, work: Path, account: Account | None) -> None:
    """Raise PreflightError if the user whom the server runs as cannot reach the work directory."""
    if account is None:
        return
    access = await host.run(["test", "-x", work], account=account, directory=Path("/"), check=False)
    if access.status != 0:
        raise PreflightError(
            f'user "{account.name}", under which the server runs, cannot reach "{work.parent}"',
            hint="Let other users traverse the directories above it (chmod o+x), or choose another location with "
            "directory in [target] or --work-directory.",
        )


def remove_directories(host: Host, *directories: Path) -> None:
    """Remove directories with all that is in them; what is not there is as wished, what cannot be removed stays."""
    for directory in directories:
        host.ops.remove(str(directory), partly=True)


async def remove_until_gone(host: Host, *directories: Path, patience: float = 10.0) -> bool:
    """Remove directories into which processes of a server that died may still write; whether they are gone."""
    deadline = time.monotonic() + patience
    while True:
        remove_directories(host, *directories)
        if not any(host.ops.exists(str(directory)) for directory in directories):
            return True
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.05)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the file system refuses, as on a full disk, into a TargetError."""
    try:
        yield
    except OSError as err:
        raise TargetError(f'cannot write "{path}": {err.strerror}') from err


def _unusable(base: Path, reason: str) -> PreflightError:
    return PreflightError(
        f'cannot create a work directory in "{base}": {reason}',
        hint="Choose another location with directory in [target] or --work-directory.",
    )
