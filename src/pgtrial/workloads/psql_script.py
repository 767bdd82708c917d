r"""What a file for psql does beside SQL: the files it reads, the programs it starts, the roles it takes for granted.

The file is read as lines: what follows a COPY … FROM stdin is data up to a line with "\.", where it is certain that
psql sees it so too; all else is looked at. What is loaded without --allow-code cannot make psql start programs, found
or not.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pgtrial.experiment_file.code_uses import WORDS, CodeUse, code_use, find_in_sql
from pgtrial.experiment_file.reach import is_beneath
from pgtrial.safe_files import open_file
from pgtrial.workloads.copy_data import Scanner

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
_MADE = re.compile(rf"^\s*CREATE\s+(?:ROLE|USER|GROUP)\s+{_NAMES}", re.IGNORECASE)
_NO_ROLES = frozenset(
    ("public", "current_user", "session_user", "current_role", "user", "none", "default", "postgres", "group")
)
_COMMAND = re.compile(r"\\(!|[A-Za-z_]+)([^\\]*)")
_STRING = re.compile(r"[eE]?'(?:[^']|'')*'")
_INCLUDE = re.compile(r"^\s*\\(i|ir|include|include_relative)\s+(?P<file>'(?:[^']|'')*'|\S+)")
_SET = re.compile(r"^\s*\\set\s+(\w+)\s+('(?:[^']|'')*'|[^\s'`:]+)\s*$")
_CLIENT_COPY = re.compile(
    # Of a name between quotation marks nothing is a word of the command.
    r"^\s*\\copy\b(?:\"[^\"]*\"|[^\"])*?\b(?P<way>from|to)\s+"
    r"(?P<program>program\b\s*)?(?P<file>'(?:[^']|'')*'|\S+)",
    re.IGNORECASE,
)
_IS_CLIENT_COPY = re.compile(r"^\s*\\copy\b", re.IGNORECASE)
_ELSEWHERE = re.compile(r"^\s*\\(?:c|connect)\b")
_VARIABLE = re.compile(r""":(?:'(\w+)'|"(\w+)"|(\w+))""")
# Of variables that may hold more than a number, and where one is a part of SQL. One between quotation marks is too: a
# name, or what DO and functions consist of.
_SETS_TEXT = re.compile(r"\\set\s+(?P<name>\S+)\s+(?!-?[\d.]+\s*$)|\\gset\b")
_PIECE = re.compile(
    r"""(?<!:):(?:(?P<quote>['"])(\w+)(?P=quote)|([^\W\d]\w*))|(?<![:\d]):(\d\w*)"""
)  # not a time of day, nor a slice of an array
_ANY = "*"
# Psql sets them by itself, to what the server says: an error's text may be anything.
_SAID_BY_SERVER = ("LAST_ERROR_MESSAGE", "LAST_ERROR_SQLSTATE", "SQLSTATE")
# In what stands behind another backslash psql sees SQL again.
_COMMAND_ALONE = re.compile(r"^\s*\\[A-Za-z][^\\]*$")
# Of a file's name psql puts together what is quoted in parts, decodes escapes, and knows what a variable holds by then.
_PLAIN_FILE = re.compile(r"[\w./+-]+|'[\w./ +-]+'", re.ASCII)
_FIRST = re.compile(r"^\s*\\[A-Za-z]")
_UNDERSTOOD = frozenset(("i", "ir", "include", "include_relative", "copy"))
_ELSEWHERE_BY = _UNDERSTOOD | {"c", "connect", "lo_import", "getenv", "prompt", "cd"}
_OUTPUT = frozenset(("o", "out", "g", "gx", "w", "write"))
_EDITORS = frozenset(("e", "edit", "ef", "ev"))


class ScriptError(ValueError):
    """The file cannot be loaded as it is; ``hint`` says what would be."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(slots=True, kw_only=True)
class PsqlScript:
    """A file and all that it reads, which lie in ``root``, where psql is started.

    ``files`` are their paths below it, ``roles`` those that the statements name and do not make.
    """

    root: Path
    files: list[Path] = field(default_factory=list)
    uses: list[CodeUse] = field(default_factory=list)
    roles: set[str] = field(default_factory=set)
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
        for number, line in _outside_data(self.root / name, scanner):
            self._lines += 1
            self._seen += len(line)
            matters = _matters(line) or (b":" in line and bool(self._texts))
            text = (line if matters else line.lstrip()[:_BEGINNING]).decode("utf-8", "replace").rstrip("\r\n")
            self._looked_at += len(text)
            if self._lines > _MOST_LINES or self._seen > _LARGEST or self._looked_at > _MOST_LOOKED_AT:
                self.uses.append(code_use(str(name), "more statements than are looked at"))
                break
            lines.append(text)
            numbers.append(number)
            if not matters:
                continue
            self.roles |= roles_in(text)
            self._made |= {name for match in _MADE.finditer(text) for name in _names(match["names"])}
            if self._is_put_together(text):
                self.uses.append(code_use(f"{name}, line {number}", f"SQL put together as it runs: {text.strip()}"))
            if "\\" in text:
                self._examine(text, name, number, scanner, depth)
        known = set(self.uses[before:])
        self.uses += (use for use in find_in_sql(str(name), "\n".join(lines), numbers=numbers) if use not in known)

    def _is_put_together(self, line: str) -> bool:
        """Whether a variable is a part of its SQL."""
        if _COMMAND_ALONE.match(line):
            return False
        known = self._texts.union(_SAID_BY_SERVER)
        names = (found[2] or found[3] or found[4] for found in _PIECE.finditer(line))
        return any(_ANY in known or name in known for name in names)

    def _add(self, name: Path) -> None:
        if name not in self.files:
            self.files.append(name)

    def _examine(self, line: str, name: Path, number: int, scanner: Scanner, depth: int) -> None:
        where = f"{name}, line {number}"
        if _ELSEWHERE.match(line):
            raise ScriptError(
                f"{where}: {line.strip()[:80]}: the data are loaded into one database, which pgtrial has made",
                "Make the dump with pg_dump, without --create and not with pg_dumpall, or remove the line.",
            )
        for each in _SETS_TEXT.finditer(line):
            self._texts.add(each["name"] if re.fullmatch(r"\w+", each["name"] or "") else _ANY)
        if found := _SET.match(line):
            self._variables[found[1]] = _unquote(found[2])
        if found := _INCLUDE.match(line):
            if not _PLAIN_FILE.fullmatch(found["file"]):
                self.uses.append(code_use(where, f"a file that psql may find elsewhere: {line.strip()}"))
            base = name.parent if found[1] in ("ir", "include_relative") else Path()
            read = Scanner(scanner.is_certain)
            self._read(self._inside(base, self._filled(found["file"]), where), read, depth=depth + 1)
            scanner.is_certain = read.is_certain
        found = _CLIENT_COPY.match(line)
        if found and not found["program"] and found["way"].lower() == "from" and not _is_stream(found["file"]):
            self._add(self._inside(Path(), found["file"], where))
        self.uses += (code_use(where, f"{what}: {line.strip()}") for what in _find_commands(line))
        if _reads_elsewhere(line):
            self.uses.append(code_use(where, f"a file that psql reads, or another connection: {line.strip()}"))

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


def _matters(line: bytes) -> bool:
    low = line.lower()
    return (
        (_ANY_WORD.search(low) is not None if len(low) < _SHORT else any(word in low for word in _WORDS))
        or (b")" in low and _END_OF_QUERY.search(low) is not None)
        or (b"'" in low and _PART_OF_STRING.search(low) is not None)
    )


def _outside_data(path: Path, scanner: Scanner) -> Iterator[tuple[int, bytes]]:
    """(number, text) of the lines of a file without those that are data of a COPY … FROM stdin."""
    with open_file(path, follow=True) as file:
        number, before = 0, b""
        while line := file.readline(_LONGEST_LINE):
            number += 1
            yield number, before + line
            before = b"" if line.endswith(b"\n") else line[-_LONGEST_WORD:]  # which may have begun a word
            if scanner.takes_data(line):
                number += _skip_data(file)


def _skip_data(file: BinaryIO) -> int:
    r"""Read up to the end of the data of a COPY, a line with "\."; how many lines that were."""
    lines, rest = 0, b"\n"
    while chunk := file.read(_CHUNK):
        text = rest + chunk
        if found := _END_OF_DATA.search(text):
            file.seek(found.end() - len(text), os.SEEK_CUR)
            return lines + text.count(b"\n", len(rest), found.end())
        lines += chunk.count(b"\n")
        rest = text[-_END:]
    return lines


def _reads_elsewhere(line: str) -> bool:
    """Whether a command of psql reads or connects where nobody looks: only one that begins its line is understood."""
    names = [name for name, _ in _COMMAND.findall(line)]
    is_first = _FIRST.match(line) is not None and names[0] in _UNDERSTOOD
    return any(name in _ELSEWHERE_BY for name in names[1 if is_first else 0 :])


def _find_commands(line: str) -> Iterator[str]:
    if found := _CLIENT_COPY.match(line):
        if found["program"]:
            yield "a shell command"
        elif found["way"].lower() == "to" and not _is_stream(found["file"]):
            yield "a file written"
    elif _IS_CLIENT_COPY.match(line):
        yield "a file that psql reads or writes"
    if "`" in line:  # and a command
        yield "a shell command"
    for command, _ in _COMMAND.findall(line):
        if command == "!":
            yield "a shell command"
        elif command == "setenv":
            yield "a variable of the environment"
        elif command == "gexec":
            yield "SQL put together as it runs"
    # Short names are also parts of regular expressions, which stand in strings.
    for command, rest in _COMMAND.findall(_STRING.sub("''", line)):
        if command in _EDITORS:
            yield "a program"
        elif command in _OUTPUT and rest.lstrip().startswith("|"):
            yield "a shell command"
        elif (command in _OUTPUT and rest.strip(" ;")) or command in ("lo_export", "s"):
            yield "a file written"


def _names(text: str) -> Iterator[str]:
    for match in re.finditer(_NAME, text):
        name = match[0]
        yield name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def _is_stream(file: str) -> bool:
    return file.lower().rstrip(";") in ("stdin", "pstdin", "stdout", "pstdout")


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
