"""The table of contents of an archive of pg_dump: what pg_restore would execute, without starting it.

Source: pg_backup_archiver.c of PostgreSQL 15 to 18 (ReadHead, ReadToc, ReadInt, ReadStr), versions 1.12 to 1.16 of the
format. The data of the tables are not read.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pgtrial.safe_files import open_file

MAGIC = b"PGDMP"
TOC = "toc.dat"  # of an archive that is a directory or a tar file
_CUSTOM, _TAR, _DIRECTORY = 1, 3, 5
_OLDEST, _NEWEST = (1, 12), (1, 16)
_TAR_HEADER, _TAR_NAME, _TAR_KIND, _TAR_PREFIX = 512, slice(0, 100), slice(156, 157), slice(345, 500)
# Of these pg_restore writes the name into its statements as it is.
_NAMED_AS_IT_IS = ("BLOB", "BLOB METADATA")
_BLOBS = "BLOBS"  # its data are large objects, which are no statements
_LONGEST = 64 << 20  # bytes of one statement; a damaged file may claim any number
_LONGEST_VALUE = 1000  # characters of an option of CREATE DATABASE
_MOST_ENTRIES = 10_000_000
# Of the statement that would make the database: what decides how its texts are stored and compared. Source:
# dumpDatabase of pg_dump.c. No text takes longer for being written so that it would.
_STRING = "'[^']*+(?:''[^']*+)*+'"
_DATABASE = re.compile(
    rf"""CREATE DATABASE (?:"[^"]*+(?:""[^"]*+)*+"|[^\s"]++) WITH (?P<options>(?:[^';]++|{_STRING})*+);"""
)
_LOCALE = re.compile(
    rf"""
    {_STRING}
    | \b(?P<name>ENCODING|LOCALE_PROVIDER|LOCALE|LC_COLLATE|LC_CTYPE|ICU_LOCALE|BUILTIN_LOCALE|ICU_RULES)
      \ =\ (?:(?P<text>{_STRING})|(?P<word>\w+))
    """,
    re.VERBOSE,
)


class ArchiveError(ValueError):
    """The file is not an archive that can be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An object of the archive: its kind ("TABLE"), its name, whose it is, and the statements that make it.

    ``hides_statements``: its data are statements as well, which pg_restore executes (pg_dump --inserts).
    """

    kind: str
    name: str
    owner: str
    statements: str
    hides_statements: bool


def read_entries(path: Path) -> Iterator[Entry]:
    """All objects of an archive: a file (custom or tar) or a directory. Raises ArchiveError, OSError."""
    with open_file(path / TOC if path.is_dir() else path, follow=True) as file:
        # As pg_restore finds out: what begins so is no tar file, whatever else it looks like.
        if file.read(len(MAGIC)) != MAGIC:
            file.seek(0)
            _enter_tar(file.read(_TAR_HEADER))
        else:
            file.seek(0)
        yield from _Reader(file).entries()


def read_locale(statements: str) -> tuple[tuple[str, str], ...]:
    """Encoding and collation of the database that an archive's entry makes, as options of CREATE DATABASE.

    Raises ArchiveError where one is longer than any that a server has.
    """
    made = _DATABASE.match(statements)
    found = _LOCALE.finditer(made["options"]) if made else ()
    values = ((each["name"], each["word"], each["text"]) for each in found if each["name"])
    options = tuple((name, word or text[1:-1].replace("''", "'")) for name, word, text in values)
    for name, value in options:
        if len(value) > _LONGEST_VALUE:
            most = f"{len(value):,} characters, and {_LONGEST_VALUE:,} are the most that pgtrial takes"
            raise ArchiveError(f"{name} of its database has {most}")
    return options


def _enter_tar(header: bytes) -> None:
    """ArchiveError unless the first file is the contents, as pg_dump writes it. Of several pg_restore takes the first,
    and of a header only the name: what Python's tarfile would find may be another one.
    """
    is_first = header[_TAR_NAME].rstrip(b"\0") == TOC.encode()
    if not is_first or header[_TAR_KIND] not in (b"0", b"\0") or header[_TAR_PREFIX].strip(b"\0"):
        raise ArchiveError(f'it is a tar file that does not begin with "{TOC}", so not one of pg_dump')


class _Reader:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._int_size = self._offset_size = 0

    def entries(self) -> Iterator[Entry]:
        if self._take(len(MAGIC)) != MAGIC:
            raise ArchiveError("it does not begin as an archive of pg_dump does")
        version = (self._byte(), self._byte())
        self._byte()  # of its revision
        if not _OLDEST <= version <= _NEWEST:
            raise ArchiveError(f"version {version[0]}.{version[1]} of its format is not one of PostgreSQL 15 to 18")
        self._int_size, self._offset_size = self._byte(), self._byte()
        if not (1 <= self._int_size <= 8 and 1 <= self._offset_size <= 16):
            raise ArchiveError("its sizes of numbers are none")
        form = self._byte()
        if version >= (1, 15):
            self._byte()  # which compression
        else:
            self._int()
        for _ in range(7):  # when it was made
            self._int()
        for _ in range(3):  # the database, and two versions
            self._text()
        count = self._int()
        if not 0 <= count <= _MOST_ENTRIES:
            raise ArchiveError(f"it claims to have {count} entries")
        for _ in range(count):
            yield self._entry(version, form)

    def _entry(self, version: tuple[int, int], form: int) -> Entry:
        self._int()  # its number
        has_data = self._int() != 0
        self._text(), self._text()  # where it was in the catalogue
        name, kind = self._text(), self._text()
        self._int()  # section
        made, dropped, copied = self._text(), self._text(), self._text()
        self._text(), self._text()  # schema, tablespace
        if version >= (1, 14):
            self._text()  # access method
        if version >= (1, 16):
            self._int()  # kind of relation
        owner = self._text()
        self._text()  # whether it has oids
        while self._string() is not None:  # what it depends on
            pass
        if form == _CUSTOM:
            self._take(1 + self._offset_size)  # where its data are
        elif form in (_TAR, _DIRECTORY):
            self._text()
        else:
            raise ArchiveError(f"its form is {form}")
        # What would drop an object is also a part of the statement that gives it to its owner.
        texts = (made, dropped, copied, name if kind in _NAMED_AS_IT_IS else "")
        return Entry(
            kind=kind,
            name=name,
            owner=owner,
            statements="\n".join(text for text in texts if text),
            hides_statements=has_data and not copied and kind != _BLOBS,
        )

    def _take(self, size: int) -> bytes:
        found = self._file.read(size)
        if len(found) != size:
            raise ArchiveError("it ends too early")
        return found

    def _byte(self) -> int:
        return self._take(1)[0]

    def _int(self) -> int:
        is_negative = self._byte() != 0
        value = int.from_bytes(self._take(self._int_size), "little")
        return -value if is_negative else value

    def _string(self) -> str | None:
        size = self._int()
        if size < 0:
            return None
        if size > _LONGEST:
            raise ArchiveError(f"it claims a text of {size} bytes")
        return self._take(size).decode("utf-8", "replace")

    def _text(self) -> str:
        return self._string() or ""
