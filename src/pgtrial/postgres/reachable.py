"""Programs that the server's user can execute, wherever on the host they were found."""

from pathlib import Path

from pgtrial.errors import PreflightError
from pgtrial.hosts.base import Account, Host
from pgtrial.postgres.programs import Programs


async def reachable_programs(host: Host, programs: Programs, *, work: Path, account: Account | None) -> Programs:
    """Programs that ``account`` can execute: the found ones, or a copy of their installation in the work directory.

    An installation below a home directory (as in a virtual environment of root) is closed to other users.
    """
    if account is None:
        return programs
    # Executing it would not tell: setpriv opens the program while it still has root's rights.
    access = await host.run(
        ["test", "-x", programs.path("postgres")], account=account, directory=Path("/"), check=False
    )
    if access.status == 0:
        return programs
    installation = programs.directory.parent
    if len(installation.parts) < 4:  # /usr/local: far more than a server
        raise PreflightError(
            f'user "{account.name}" may not execute "{programs.path("postgres")}"',
            hint="Open the directory to other users, or run pgtrial as an ordinary user.",
        )
    # A wheel keeps its libraries beside its package, where its programs look for them by a relative path.
    package = installation.parent
    copy = work / "programs" / package.name
    host.ops.make_directory(str(copy), mode=0o755, parents=True)
    for source in (installation, package.with_name(f"{package.name}.libs")):
        place = copy.parent / source.relative_to(package.parent)
        if host.ops.is_directory(str(source)) and not host.ops.exists(
            str(place)
        ):  # a resumed experiment finds its copy
            await host.run(["cp", "-a", "--reflink=auto", source, place])
    await host.run(["chown", "-R", f"{account.uid}:{account.gid}", copy.parent])
    return Programs(
        directory=copy / installation.name / programs.directory.name,
        version=programs.version,
        major=programs.major,
        origin=programs.origin,
    )
