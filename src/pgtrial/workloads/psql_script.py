r"""What a file for psql does beside SQL: the files it reads, the programs it starts, the roles it takes for granted.

The file is read as lines: what follows a COPY … FROM stdin is data up to a line with "\.", and a backslash in a string
begins no command, where it is certain that psql sees it so too; all else is looked at. What is loaded without
--allow-code cannot make psql start programs, found or not.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pgtrial.experiment_file.code_patterns import WORDS
from pgtrial.experiment_file.code_uses import CodeUse, code_use, find_in_sql
from pgtrial.experiment_file.migrations import HINT, begins_undoing, say_undoing
from pgtrial.experiment_file.reach import is_beneath
from pgtrial.safe_files import open_file
from pgtrial.workloads.psql_commands import Read, connects_elsewhere, examine, is_one_command
from pgtrial.workloads.psql_scanner import Scanner

# What is read of a file and those it reads, the data of COPY not counted. After that it is said that there is more,
# which is asked for like code.
_LARGEST = 64 << 20  # bytes
_MOST_LINES = 500_000
_MOST_LOOKED_AT = 8 << 20  # characters
_LONGEST_LINE = 1 << 20  # bytes; a longer one is looked at in parts
_LONGEST_WORD = 64  # bytes
_CHUNK = 1 << 20  # bytes of data of COPY
# Rows to insert are most of a large file: a line without any of these words is looked at as far as its beginning goes,
# which may be the end of what began on the line before.
_ALL_WORDS = (
    *(word.encode() for word in WORDS),
    *(b"do ", b"do$", b"do\t", b"do\r", b"do\n"),
    *(b"last_error", b"sqlstate"),
    *(b"create", b"owner", b"authorization", b"role", b"grant", b"revoke", b"privileges"),
)
# A word that has another one in it tells nothing more.
_WORDS = tuple(
    word for word in dict.fromkeys(_ALL_WORDS) if not any(other in word for other in _ALL_WORDS if other != word)
)
_ANY_WORD = re.compile(b"|".join(map(re.escape, _WORDS)))  # quicker than each by itself in short lines
_SHORT = 4096  # bytes
_PART_OF_STRING = re.compile(rb"\A\s*+'|'[^\S\n]*+(?:--[^\n]*+)?\s*\Z")  # that goes on, or has begun before
_END_OF_QUERY = re.compile(rb"\)\s*(?:to|from)\b")  # of a COPY that began on a line before
_BEGINNING = 64  # bytes
_DEEPEST = 16  # files that read each other
_MOST_READ = 1000  # files, each as often as it is read

_NAME = r'(?:"(?:[^"]|"")+"|[A-Za-z_][\w$]*)'
_NAMES = rf"(?P<names>{_NAME}(?:\s*,\s*{_NAME})*)"
_END_OF_DATA = re.compile(rb"(?<=\n)\\\.\r?\n")
_END = 8  # bytes, within which that lies
_ROLES = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        rf"\b(?:OWNER\s+TO|AUTHORIZATION|FOR\s+ROLE|SET\s+ROLE)\s+{_NAMES}",
        # Of many GRANTs the first, and no step back from it: else the time grows by the square of their number.
        rf"^[^\S\n]*(?>(?:ALTER\s+DEFAULT\s+PRIVILEGES\b.*?\b)?(?:GRANT|REVOKE)\b).*\b(?:TO|FROM)\s+{_NAMES}",
        rf"^[^\S\n]*CREATE\s+POLICY\b.*?\bTO\s+{_NAMES}",
    )
)
# At the beginning of a line, where pg_dump writes it, and no comment does.
_EXTENSION = re.compile(
    rf"^[^\S\n]*+CREATE\s++EXTENSION\s++(?:IF\s++NOT\s++EXISTS\s++)?+(?P<names>{_NAME})",
    re.IGNORECASE | re.MULTILINE,
)
_MADE = re.compile(rf"^\s*CREATE\s+(?:ROLE|USER|GROUP)\s+{_NAMES}", re.IGNORECASE)
_NO_ROLES = frozenset(
    ("public", "current_user", "session_user", "current_role", "user", "none", "default", "postgres", "group")
)
_SET = re.compile(r"^\s*\\set\s+(\w+)\s+('(?:[^']|'')*'|[^\s'`:]+)\s*$")
_VARIABLE = re.compile(r""":(?:'(\w+)'|"(\w+)"|(\w+))""")
# Of variables that may hold more than a number, and where one is a part of SQL. One between quotation marks is too: a
# name, or what DO and functions consist of.
_SETS_TEXT = re.compile(r"\\set\s+(?P<name>\S+)\s+(?!-?[\d.]+\s*$)|\\gset\b")
_PIECE = re.compile(
    r"""(?<!:):(?:(?P<quote>['"])(\w+)(?P=quote)|([^\W\d]\w*))|(?<![:\d]):(\d\w*)"""
)  # not a time of day, nor a slice of an array
# They decide or show what a variable holds, and psql looks no further into it, in whatever state it reads the line.
_DECIDES_OR_SHOWS = re.compile(
    r"\s*\\(?:if|elif|echo|qecho|warn)(?:\s+(?::\w+|:\{\?\w+\}|[\w.,=/()-]+:?))*\s*", re.ASCII
)
_ANY = "*"
# Psql sets them by itself, to what the server says: an error's text may be anything.
_SAID_BY_SERVER = ("LAST_ERROR_MESSAGE", "LAST_ERROR_SQLSTATE", "SQLSTATE")


# How pg_dump begins and ends a file; who removes one of its comments mostly removes both.
_DUMP_BEGINS = (b"-- PostgreSQL database dump", b"\\restrict ")
_DUMP_ENDS = (b"-- PostgreSQL database dump complete", b"\\unrestrict ")
_HEAD = 20  # lines
_CUT_OFF = (
    "The file seems to be cut off: make it again, and see that whatever makes and copies it ends without an error."
)


class ScriptError(ValueError):
    """The file cannot be loaded as it is; ``hint`` says what would be."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class _Place:
    """A line that is read."""

    name: Path
    number: int
    scanner: Scanner
    depth: int


@dataclass(slots=True, kw_only=True)
class PsqlScript:
    """A file and all that it reads, which lie in ``root``, where psql is started.

    ``files`` are their paths below it, ``roles`` those that the statements name and do not make, ``extensions`` those
    that they create.
    """

    root: Path
    files: list[Path] = field(default_factory=list)
    uses: list[CodeUse] = field(default_factory=list)
    roles: set[str] = field(default_factory=set)
    extensions: set[str] = field(default_factory=set)
    _made: set[str] = field(default_factory=set)
    _variables: dict[str, str] = field(default_factory=dict)
    _texts: set[str] = field(default_factory=set)  # names of variables that may be SQL, or _ANY
    _seen: int = 0
    _lines: int = 0
    _looked_at: int = 0
    _read_so_far: int = 0

    @classmethod
    def read(cls, path: Path) -> "PsqlScript":
        """Read the file and those it names. Raises ScriptError, OSError."""
        script = cls(root=path.parent)
        script._read(Path(path.name), Scanner(), depth=0)
        script.roles -= script._made
        return script

    def _read(self, name: Path, scanner: Scanner, *, depth: int) -> None:
        if depth > _DEEPEST:
            raise ScriptError(f'"{name}" is read by itself, or by more than {_DEEPEST} files in each other')
        self._read_so_far += 1
        if self._read_so_far > _MOST_READ:
            raise ScriptError(f"more than {_MOST_READ} files are read, or some of them again and again")
        self._add(name)
        before = len(self.uses)
        lines: list[str] = []
        numbers: list[int] = []
        is_dump = is_whole = False
        for number, line, is_certain in outside_data(self.root / name, scanner):
            is_whole |= line.startswith(_DUMP_ENDS)
            is_dump |= number <= _HEAD and line.startswith(_DUMP_BEGINS)
            if line.startswith(b"--") and begins_undoing(line.decode("utf-8", "replace")):
                raise ScriptError(say_undoing(number) if depth == 0 else f"{name}: {say_undoing(number)}", HINT)
            self._lines += 1
            self._seen += len(line)
            matters = _matters(line) or (b":" in line and bool(self._texts))
            text = (line if matters else line.lstrip()[:_BEGINNING]).decode("utf-8", "replace").rstrip("\r\n")
            self._looked_at += len(text)
            if self._lines > _MOST_LINES or self._seen > _LARGEST or self._looked_at > _MOST_LOOKED_AT:
                self.uses.append(code_use(str(name), "more statements than are looked at"))
                is_whole = True  # as far as is known
                break
            lines.append(text)
            numbers.append(number)
            if not matters:
                continue
            self.roles |= roles_in(text)
            self.extensions |= extensions_in(text)
            self._made |= {name for match in _MADE.finditer(text) for name in _names(match["names"])}
            commands = [each.decode("utf-8", "replace") for each in scanner.commands] if is_certain else [text]
            if self._is_put_together(text, is_command=is_certain and commands[:1] == [text.strip()]):
                self.uses.append(code_use(f"{name}, line {number}", f"SQL put together as it runs: {text.strip()}"))
            for command in commands:
                if "\\" in command:
                    self._examine(command.strip(), text, _Place(name, number, scanner, depth))
        if is_dump and not is_whole:
            hint = f"{_CUT_OFF} If it was meant so, remove the comments at its beginning."
            raise ScriptError(f'"{name}" has the beginning of a dump, and not the end that pg_dump writes', hint)
        known = set(self.uses[before:])
        self.uses += (use for use in find_in_sql(str(name), "\n".join(lines), numbers=numbers) if use not in known)

    def _is_put_together(self, line: str, *, is_command: bool) -> bool:
        """Whether a variable is a part of its SQL, of which a command of psql has none."""
        if _DECIDES_OR_SHOWS.fullmatch(line) or (is_command and is_one_command(line.strip())):
            return False
        known = self._texts.union(_SAID_BY_SERVER)
        names = (found[2] or found[3] or found[4] for found in _PIECE.finditer(line))
        return any(_ANY in known or name in known for name in names)

    def _add(self, name: Path) -> None:
        if name not in self.files:
            self.files.append(name)

    def _examine(self, command: str, line: str, place: _Place) -> None:
        where = f"{place.name}, line {place.number}"
        if connects_elsewhere(command):
            raise ScriptError(
                f"{where}: {line.strip()[:80]}: the data are loaded into one database, which pgtrial has made",
                "Make the dump with pg_dump, without --create and not with pg_dumpall, or remove the line.",
            )
        for each in _SETS_TEXT.finditer(command):
            self._texts.add(each["name"] if re.fullmatch(r"\w+", each["name"] or "") else _ANY)
        if found := _SET.match(command):
            self._variables[found[1]] = _unquote(found[2])
        done = examine(command)
        self.uses += (code_use(where, f"{what}: {line.strip()}") for what in done.uses)
        if done.read is not None:
            self._follow(done.read, where, place)

    def _follow(self, read: Read, where: str, place: _Place) -> None:
        if not read.is_script:
            self._add(self._inside(Path(), read.name, where))
            return
        base = place.name.parent if read.is_relative else Path()
        scanner = Scanner(place.scanner.is_certain)
        self._read(self._inside(base, self._filled(read.name), where), scanner, depth=place.depth + 1)
        place.scanner.is_certain = scanner.is_certain

    def _filled(self, text: str) -> str:
        """With the values of variables, as psql has it everywhere but in its own COPY."""
        return _VARIABLE.sub(lambda match: self._variables.get(match[1] or match[2] or match[3], match[0]), text)

    def _inside(self, base: Path, written: str, where: str) -> Path:
        """The file that a line names, by its path below the root."""
        path = Path(*(part for part in _steps(base / _unquote(written))))
        # Where a directory is a link, ".." leads from its target.
        written_out = self.root / base / _unquote(written)
        is_inside = is_beneath(self.root / path, self.root) and is_beneath(written_out, self.root)
        if path.is_absolute() or ".." in path.parts or not is_inside:
            raise ScriptError(
                f'{where}: "{path}" is not in the directory of the file that is loaded',
                f'Let everything that it reads lie in "{self.root}" or below it, and name it by its relative path.',
            )
        if not (self.root / path).is_file():
            raise ScriptError(f'{where}: file "{self.root / path}" does not exist')
        return path


def roles_in(statement: str) -> set[str]:
    """The roles that a statement of a line takes for granted, but for those that every server has."""
    found = {name for pattern in _ROLES for match in pattern.finditer(statement) for name in _names(match["names"])}
    return {name for name in found if name not in _NO_ROLES and not name.startswith("pg_")}


def extensions_in(statements: str) -> set[str]:
    """The extensions that statements create, each at the beginning of a line."""
    return {name for match in _EXTENSION.finditer(statements) for name in _names(match["names"])}


def _matters(line: bytes) -> bool:
    low = line.lower()
    return (
        (_ANY_WORD.search(low) is not None if len(low) < _SHORT else any(word in low for word in _WORDS))
        or (b")" in low and _END_OF_QUERY.search(low) is not None)
        or (b"'" in low and _PART_OF_STRING.search(low) is not None)
    )


def outside_data(path: Path, scanner: Scanner) -> Iterator[tuple[int, bytes, bool]]:
    """(number, text, whether the scanner was certain in it) of the lines that are not data of a COPY … FROM stdin."""
    with open_file(path, follow=True) as file:
        number, before = 0, b""
        while line := file.readline(_LONGEST_LINE):
            number += 1
            takes_data = scanner.takes_data(line)
            yield number, before + line, scanner.is_certain
            before = b"" if line.endswith(b"\n") else line[-_LONGEST_WORD:]  # which may have begun a word
            if takes_data:
                began, (count, has_end) = number, _skip_data(file)
                number += count
                if not has_end:
                    # Psql takes the end of the file for it, and half a dump for a whole one.
                    raise ScriptError(
                        f"{path.name}, line {began}: the rows of this COPY have no end, a line with \\.", _CUT_OFF
                    )


def _skip_data(file: BinaryIO) -> tuple[int, bool]:
    r"""Read up to the end of the data of a COPY, a line with "\."; how many lines that were, and whether it is
    there.
    """
    lines, rest = 0, b"\n"
    while chunk := file.read(_CHUNK):
        text = rest + chunk
        if found := _END_OF_DATA.search(text):
            file.seek(found.end() - len(text), os.SEEK_CUR)
            return lines + text.count(b"\n", len(rest), found.end()), True
        lines += chunk.count(b"\n")
        rest = text[-_END:]
    return lines, False


def _names(text: str) -> Iterator[str]:
    for match in re.finditer(_NAME, text):
        name = match[0]
        yield name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def _unquote(text: str) -> str:
    return text[1:-1].replace("''", "'") if text.startswith("'") and text.endswith("'") and len(text) > 1 else text


def _steps(path: Path) -> Iterator[str]:
    """Parts of a path without those that lead nowhere; one that leads out keeps its ".."."""
    steps: list[str] = []
    for part in path.parts:
        if part == ".." and steps and steps[-1] not in ("..", "/"):
            steps.pop()
        else:
            steps.append(part)
    yield from steps
