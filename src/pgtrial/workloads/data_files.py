"""The files of ``dataset.load``: of which kind each is, what it executes, which roles and extensions it names, and its
digest.
"""

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pgtrial.errors import SpecError, SpecProblem
from pgtrial.experiment_file.code_uses import CodeUse, code_use, find_in_sql
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.places import expand_home, is_directory
from pgtrial.experiment_file.reach import is_beneath
from pgtrial.safe_files import open_file
from pgtrial.workloads.archive import MAGIC, TOC, ArchiveError, read_entries, read_locale
from pgtrial.workloads.psql_script import PsqlScript, ScriptError, extensions_in, roles_in

_TAR_MAGIC, _TAR_AT = b"ustar", 257
_COMPRESSED = {b"\x1f\x8b": "gunzip", b"\x28\xb5\x2f\xfd": "unzstd", b"BZh": "bunzip2", b"\xfd7zXZ": "unxz"}
_CHUNK = 1 << 20
_OF_PSQL = re.compile(rb"\\[a-z!]|copy\b.*\bfrom\s+stdin\b", re.IGNORECASE)


class DumpFormat(StrEnum):
    ARCHIVE = "an archive of pg_dump"
    SCRIPT = "a file for psql"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One entry of ``dataset.load``; ``files`` are all that it consists of or reads, by their path below ``root``.

    ``locale`` is encoding and collation of the database that was dumped, as options of CREATE DATABASE; what psql reads
    says nothing of them.
    """

    name: str
    root: Path
    path: Path  # below root
    kind: DumpFormat
    files: tuple[Path, ...]
    roles: frozenset[str]
    extensions: frozenset[str]
    uses: tuple[CodeUse, ...]
    locale: tuple[tuple[str, str], ...] = ()

    def digest(self) -> str:
        """SHA-256 of the contents and their names."""
        return digest_of(self.root, self.files)


def resolve(name: str, folder: Path) -> Path:
    """Where a file is that an experiment file in ``folder`` names."""
    return (folder / expand_home(Path(name))).absolute()


def data_files(experiment: Experiment, folder: Path) -> tuple[DataFile, ...]:
    """The files to load, in their order, read as far as their statements go; nothing of them is executed.

    ``folder`` is where relative names begin. Raises SpecError with all files that cannot be loaded.
    """
    found, problems = [], []
    for name in experiment.dataset.load:
        try:
            found.append(_read(name, resolve(name, folder)))
        except (ArchiveError, ScriptError) as err:
            hint = err.hint if isinstance(err, ScriptError) else ""
            problems.append(SpecProblem(path="dataset.load", message=f'cannot load "{name}": {err}', hint=hint))
        except OSError as err:
            reason = err.strerror or str(err)
            problems.append(SpecProblem(path="dataset.load", message=f'cannot read "{err.filename or name}": {reason}'))
    if problems:
        raise SpecError(problems[0].message, problems=tuple(problems), hint=problems[0].hint)
    return tuple(found)


def digest_of(root: Path, files: tuple[Path, ...]) -> str:
    """SHA-256 of files and their names below ``root``. Raises OSError."""
    whole = hashlib.sha256()
    for file in files:
        with open_file(root / file, follow=True) as opened:
            content = hashlib.sha256()
            while chunk := opened.read(_CHUNK):
                content.update(chunk)
            whole.update(f"{file}\0{content.hexdigest()}\n".encode())
    return whole.hexdigest()


def explain_no_sql(path: Path) -> str:
    """What a file is that was meant to be plain SQL, "" if it seems to be that."""
    if is_directory(path) and (path / TOC).is_file():
        return "an archive of pg_dump, in a directory"
    try:
        with open_file(path, follow=True) as file:
            beginning = file.read(_CHUNK)
    except OSError:
        return ""
    if beginning.startswith(MAGIC) or beginning[_TAR_AT:].startswith(_TAR_MAGIC):
        return "an archive of pg_dump"
    lines = beginning.splitlines()
    if any(line.startswith((b"\\restrict ", b"-- PostgreSQL database dump")) for line in lines[:20]):
        return "the output of pg_dump"
    return "a file for psql" if any(map(_OF_PSQL.match, lines)) else ""


def _read(name: str, path: Path) -> DataFile:
    if is_directory(path):
        if not (path / TOC).is_file():
            raise ArchiveError(f'it is a directory without "{TOC}", so not one of pg_dump')
        files = tuple(sorted(Path(path.name) / each.name for each in path.iterdir() if each.is_file()))
        for one in files:
            if not is_beneath(path.parent / one, path):
                raise ArchiveError(f'"{one}" is a link that leads out of it')
        return _archive(name, path, files)
    with open_file(path, follow=True) as file:
        beginning = file.read(_TAR_AT + len(_TAR_MAGIC))
    if beginning.startswith(MAGIC) or beginning[_TAR_AT:] == _TAR_MAGIC:
        return _archive(name, path, (Path(path.name),))
    for magic, program in _COMPRESSED.items():
        if beginning.startswith(magic):
            raise ScriptError("it is compressed as a whole", f"Unpack it first, with {program}.")
    if b"\0" in beginning:
        raise ScriptError("it is neither an archive of pg_dump nor text", 'Archives are made by "pg_dump -Fc".')
    script = PsqlScript.read(path)
    return DataFile(
        name=name,
        root=script.root,
        path=Path(path.name),
        kind=DumpFormat.SCRIPT,
        files=tuple(script.files),
        roles=frozenset(script.roles),
        extensions=frozenset(script.extensions),
        uses=tuple(script.uses),
    )


def _archive(name: str, path: Path, files: tuple[Path, ...]) -> DataFile:
    roles: set[str] = set()
    extensions: set[str] = set()
    uses: list[CodeUse] = []
    locale: tuple[tuple[str, str], ...] = ()
    for entry in read_entries(path):
        if entry.kind == "DATABASE":
            locale = read_locale(entry.statements)
            continue  # the data go into a database that is there
        roles |= roles_in(entry.statements) | ({entry.owner} - {"", "postgres"})
        extensions |= extensions_in(entry.statements)
        where = f"{path.name}, {entry.kind.lower()} {entry.name}"
        uses += find_in_sql(where, entry.statements)
        if entry.hides_statements:
            uses.append(code_use(where, "statements among the data, which are not looked at"))
    return DataFile(
        name=name,
        root=path.parent,
        path=Path(path.name),
        kind=DumpFormat.ARCHIVE,
        files=files,
        roles=frozenset(roles),
        extensions=frozenset(extensions),
        uses=tuple(uses),
        locale=locale,
    )
