"""What pgtrial has started and made for a result folder, on record where nobody but this user writes.

Nothing else is ever ended or removed: a result folder may come from anybody, so it has no say in that. The record is
that of one folder, by its place and its inode: a copy, or another folder at that place, has none.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeGuard

from pgtrial.errors import StoreError
from pgtrial.safe_files import read_file
from pgtrial.safe_text import parse_json
from pgtrial.store.journal_file import VARIABLE, check_owner, make_state_directory, state_directory

DIRECTORY = "belongings"  # in the state directory
_LARGEST = 64 << 20  # bytes of a record
# Of directories for data. The record is trusted; still, a name that is not of this form is never removed.
_OWN_NAME = re.compile(r"pgtrial-[0-9a-f]{8}")
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A process that was started for the folder; ``start_ticks`` are field 22 of /proc/pid/stat."""

    pid: int
    start_ticks: int
    boot_id: str
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A directory that was made for the folder on ``host``; ``variant`` says whose data it holds, "" for none."""

    path: Path
    host: str
    variant: str = ""


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
        """The records of all folders, also of those that are gone, and what is wrong with those that cannot be read."""
        found, wrong = list[Self](), list[StoreError]()
        for path in sorted((state_directory() / DIRECTORY).glob("*.jsonl")):
            try:
                found += (cls(folder=place, path=path) for place in cls(folder=Path(), path=path)._folder())
            except StoreError as err:
                wrong.append(err)
        return tuple(found), tuple(wrong)

    def add_process(self, started: Started) -> None:
        # Of use in this boot only, so it need not survive a power cut: the load must not wait for a disk that is busy.
        self._add(
            {
                "pid": started.pid,
                "start_ticks": started.start_ticks,
                "boot_id": started.boot_id,
                "role": started.role,
            },
            durable=False,
        )

    def add_directory(self, made: Made) -> None:
        """Record a directory before it is made: an unrecorded one could never be removed."""
        self._add({"directory": str(made.path), "host": made.host, "variant": made.variant}, durable=True)

    def processes(self) -> tuple[Started, ...]:
        """Everything that was ever started, in order."""
        return tuple(
            Started(pid=pid, start_ticks=ticks, boot_id=boot, role=role)
            for line in self._lines()
            if isinstance(pid := line.get("pid"), int)
            and isinstance(ticks := line.get("start_ticks"), int)
            and isinstance(boot := line.get("boot_id"), str)
            and isinstance(role := line.get("role"), str)
        )

    def directories(self, host: str) -> tuple[Made, ...]:
        """Everything that was ever made on a host, in order, also what has been removed since."""
        return tuple(made for made in self._directories() if made.host == host)

    def paths(self, host: str) -> tuple[Path, ...]:
        """The same without whose they are."""
        return tuple(made.path for made in self.directories(host))

    def hosts(self) -> frozenset[str]:
        """Where directories were made."""
        return frozenset(made.host for made in self._directories())

    def forget(self) -> None:
        """Remove the record: nothing of it is left."""
        self.path.unlink(missing_ok=True)

    def _directories(self) -> Iterator[Made]:
        for line in self._lines():
            path, host, variant = (line.get(key) for key in ("directory", "host", "variant"))
            if _is_path(path) and isinstance(host, str) and isinstance(variant, str):
                made = Made(path=Path(path), host=host, variant=variant)
                if made.path.is_absolute() and _OWN_NAME.fullmatch(made.path.name):
                    yield made

    def _folder(self) -> Iterator[Path]:
        yield from (Path(place) for line in self._lines() if _is_path(place := line.get("folder")))

    def _add(self, facts: dict[str, object], *, durable: bool) -> None:
        lines: Iterable[dict[str, object]] = (facts,)
        if not self.path.exists():
            lines = ({"folder": str(self.folder)}, facts)
        try:
            make_state_directory(DIRECTORY)
            file = os.open(self.path, _FLAGS, 0o600)
            try:
                os.write(file, "".join(f"{json.dumps(line)}\n" for line in lines).encode())
                if durable:
                    os.fsync(file)
            finally:
                os.close(file)
        except OSError as err:
            raise StoreError(
                f'cannot write "{self.path}": {err.strerror}',
                detail="It is the record of what has to be ended and removed, whatever happens.",
                hint=f"Make its directory writable, or name another one with {VARIABLE}.",
            ) from err

    def _lines(self) -> Iterator[dict[str, object]]:
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
        for line in content.splitlines():
            try:
                found = parse_json(line)
            except ValueError:
                continue  # the last one, where the power failed
            if isinstance(found, dict):
                yield found


def _is_path(text: object) -> TypeGuard[str]:
    """Whether the system could be asked about it: no half of a character, and no zero byte."""
    try:
        return isinstance(text, str) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False
