"""What pgtrial has started and made for a result folder, and may read for it, on record where nobody but this user
writes.

Nothing else is ever ended or removed: a result folder may come from anybody, so it has no say in that. The record is
that of one folder, by its place and its inode: a copy, or another folder at that place, has none.
"""

import errno
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from pgtrial.errors import StoreError
from pgtrial.hosts.processes import ProcessId
from pgtrial.safe_files import read_file, write_file
from pgtrial.safe_text import parse_json
from pgtrial.store.journal_file import VARIABLE, check_owner, make_state_directory, state_directory

DIRECTORY = "belongings"  # in the state directory
_LARGEST = 64 << 20  # bytes of a record
# Of directories for data. The record is trusted; still, a name that is not of this form is never removed.
_OWN_NAME = re.compile(r"pgtrial-[0-9a-f]{8}")
_MOST_SHOWN = 200  # bytes of a line that is damaged
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A process that was started for the folder."""

    process: ProcessId
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A directory that was made for the folder on ``host``; ``variant`` says whose data it holds, "" for none."""

    path: Path
    host: str
    variant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One line; ``value`` is what it says, None if nobody can tell."""

    number: int
    content: bytes
    value: "Started | Made | _Folder | _Readable | _Measured | _Ended | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Readable:
    """A file or directory that the user has let the experiment name, outside of its folder."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """The folder was made, and its experiment begun, on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    """The pgtrial that was at work in the folder ended in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Belongings:
    """The record of one result folder. All methods raise StoreError."""

    folder: Path
    path: Path

    @classmethod
    def of(cls, folder: Path) -> Self:
        """The record of a result folder, which need not be there yet."""
        place, found = folder.resolve(), folder.stat()
        key = hashlib.sha256(f"{found.st_dev} {found.st_ino} {place}".encode(errors="surrogateescape")).hexdigest()
        return cls(folder=place, path=state_directory() / DIRECTORY / f"{key[:32]}.jsonl")

    @classmethod
    def all(cls) -> tuple[tuple[Self, ...], tuple[StoreError, ...]]:
        """The records of all folders, also of those that are gone, and what is wrong with those that cannot be read.

        Where the line with the folder's name is damaged, the record itself stands for it: nobody carries its mark.
        """
        found, wrong = list[Self](), list[StoreError]()
        for path in sorted((state_directory() / DIRECTORY).glob("*.jsonl")):
            record = cls(folder=path, path=path)
            try:
                folders = [line.value.path for line in record._lines() if isinstance(line.value, _Folder)]
            except StoreError as err:
                wrong.append(err)
                continue
            found.append(cls(folder=folders[0], path=path) if folders else record)
        return tuple(found), tuple(wrong)

    def add_process(self, process: ProcessId, role: str) -> None:
        # Of use in this boot only, so it need not survive a power cut: the load must not wait for a disk that is busy.
        self._add({**asdict(process), "role": role}, durable=False)

    def add_directory(self, made: Made) -> None:
        """Record a directory before it is made: an unrecorded one could never be removed."""
        self._add({"directory": str(made.path), "host": made.host, "variant": made.variant}, durable=True)

    def add_readable(self, paths: Iterable[Path]) -> None:
        """Record which files outside of the folder the user has let the experiment read: so a resume may, too."""
        known = self.readable()
        for path in paths:
            if path not in known:
                self._add({"readable": str(path)}, durable=True)

    def add_measured(self) -> None:
        """Record that the folder was made here: what is in it is not a stranger's."""
        self._add({"measured": "here"}, durable=False)

    def add_ended(self) -> None:
        """Record that the pgtrial at work in the folder ends in order: what its hooks leave running is meant to stay.

        Where it has started nothing there is nothing to tell.
        """
        if self.processes() and not self.has_ended():
            self._add({"ended": "in order"}, durable=False)

    def has_ended(self) -> bool:
        """Whether the last one did, and nothing has been started since."""
        told = [line.value for line in self._lines() if isinstance(line.value, Started | _Ended)]
        return bool(told) and isinstance(told[-1], _Ended)

    def is_measured_here(self) -> bool:
        """Whether that is on record."""
        return any(isinstance(line.value, _Measured) for line in self._lines())

    def processes(self) -> tuple[Started, ...]:
        """Everything that was ever started, in order."""
        return tuple(line.value for line in self._lines() if isinstance(line.value, Started))

    def directories(self, host: str) -> tuple[Made, ...]:
        """Everything that was ever made on a host, in order, also what has been removed since."""
        return tuple(made for made in self._directories() if made.host == host)

    def paths(self, host: str) -> tuple[Path, ...]:
        """The same without whose they are."""
        return tuple(made.path for made in self.directories(host))

    def hosts(self) -> frozenset[str]:
        """Where directories were made."""
        return frozenset(made.host for made in self._directories())

    def readable(self) -> tuple[Path, ...]:
        """The files outside of the folder that the experiment may read."""
        return tuple(line.value.path for line in self._lines() if isinstance(line.value, _Readable))

    def damage(self) -> StoreError | None:
        """Names the lines that cannot be read, None if there is none. What they had to say may be left."""
        wrong = [line for line in self._lines() if line.value is None]
        if not wrong:
            return None
        lines = "line" if len(wrong) == 1 else "lines"
        return StoreError(
            f'{lines} {", ".join(str(line.number) for line in wrong)} of "{self.path}" cannot be read',
            detail="\n".join(f"Line {line.number} is {line.content[:_MOST_SHOWN]!r}." for line in wrong),
            hint="It is the record of what has to be ended and removed. The other lines are obeyed, these are kept. "
            "See whether a process or directory that they name is left, then delete them from the file.",
        )

    def forget(self) -> None:
        """Nothing is left of what was started and made: of the record stays what says something else, or nothing that
        can be read.
        """
        kept = [line for line in self._lines() if not isinstance(line.value, Started | Made)]
        try:
            if all(isinstance(line.value, _Folder) for line in kept):
                self.path.unlink(missing_ok=True)
            else:
                write_file(self.path, b"".join(line.content + b"\n" for line in kept))
        except OSError as err:
            raise self._cannot_write(err) from err

    def _directories(self) -> Iterator[Made]:
        return (line.value for line in self._lines() if isinstance(line.value, Made))

    def _add(self, facts: dict[str, object], *, durable: bool) -> None:
        lines: Iterable[dict[str, object]] = (facts,)
        if not self.path.exists():
            lines = ({"folder": str(self.folder)}, facts)
        text = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        try:
            make_state_directory(DIRECTORY)
            file = os.open(self.path, _FLAGS, 0o600)
            try:
                end = os.fstat(file).st_size
                if end and os.pread(file, 1, end - 1) != b"\n":
                    text = b"\n" + text  # the power failed, or the disk was full, in the middle of a line
                if os.write(file, text) < len(text):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if durable:
                    os.fsync(file)
            finally:
                os.close(file)
        except OSError as err:
            raise self._cannot_write(err) from err

    def _cannot_write(self, err: OSError) -> StoreError:
        return StoreError(
            f'cannot write "{self.path}": {err.strerror}',
            detail="It is the record of what has to be ended and removed, whatever happens.",
            hint=f"Make its directory writable, or name another one with {VARIABLE}.",
        )

    def _lines(self) -> Iterator[_Line]:
        try:
            content = read_file(self.path, limit=_LARGEST)
            check_owner(self.path.parent)
            check_owner(self.path)
        except FileNotFoundError:
            return
        except OSError as err:
            raise StoreError(
                f'cannot read "{self.path}": {err.strerror}',
                hint=f"Name a directory of your own with {VARIABLE}.",
            ) from err
        *lines, last = content.split(b"\n")
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield _Line(number=number, content=line, value=_read(line))
        # A line without an end was cut off as it was written, before what it announces was done.
        if last and (value := _read(last)) is not None:
            yield _Line(number=len(lines) + 1, content=last, value=value)


def _read(line: bytes) -> Started | Made | _Folder | _Readable | _Measured | _Ended | None:
    """What a line says, None unless pgtrial could have written it so."""
    try:
        found = parse_json(line)
    except ValueError:
        return None
    match found:
        case {"pid": int(pid), "start_ticks": int(ticks), "boot_id": str(boot), "role": str(role)}:
            return Started(process=ProcessId(pid=pid, start_ticks=ticks, boot_id=boot), role=role)
        case {"directory": str(path), "host": str(host), "variant": str(variant)} if _is_path(path):
            made = Made(path=Path(path), host=host, variant=variant)
            return made if made.path.is_absolute() and _OWN_NAME.fullmatch(made.path.name) else None
        case {"folder": str(path)} if _is_path(path):
            return _Folder(path=Path(path))
        case {"readable": str(path)} if _is_path(path):
            return _Readable(path=Path(path))
        case {"measured": "here"}:
            return _Measured()
        case {"ended": "in order"}:
            return _Ended()
    return None


def _is_path(text: str) -> bool:
    """Whether the system could be asked about it: no half of a character, and no zero byte."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False
