"""A machine made of plain files, with knobs that work on them, for tests of changes and of undoing them."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pgtrial.engine.changes import HostChanges
from pgtrial.engine.events import ignore
from pgtrial.engine.restore import undo_open
from pgtrial.errors import SettingError
from pgtrial.hosts.base import Host
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import Operations
from pgtrial.hosts.processes import ProcessId, identify
from pgtrial.knobs.base import HostKnob, KnobContext
from pgtrial.knobs.declaration import About
from pgtrial.knobs.kernel_values import undo_values
from pgtrial.model.change import Change, JournalEntry, Outcome, Undone
from pgtrial.store.journal import Journal
from pgtrial.store.journal_file import VARIABLE
from pgtrial.store.state import State

NAMES = ("a", "b", "c")


@dataclass
class FileOperations(Operations):
    """Of a machine whose values are files in ``directory``; the file "boot" there is the identifier of its boot."""

    directory: Path

    def boot_id(self) -> str:
        return (self.directory / "boot").read_text()


@dataclass
class FileKnob(HostKnob):
    """Each name that is wanted is one change of two files, NAME.1 and NAME.2, to the wanted value."""

    name: str  # type: ignore[misc]
    about = About(sets="", takes_effect="", rights="", verified="", undone="")

    async def plan(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
        changes = []
        for name, value in wanted.items():
            paths = [f"{context.directory}/{name}.{number}" for number in (1, 2)]
            if not all(context.host.ops.exists(path) for path in paths):
                raise SettingError(f'there is no value "{name}"')
            old = {path: context.host.ops.read(path).strip() for path in paths}
            new = dict.fromkeys(paths, value)
            changes.append(Change(knob=self.name, name=name, old=old, new=new, old_text=old[paths[0]], new_text=value))
        return changes

    async def apply(self, context: KnobContext, change: Change) -> Mapping[str, str]:
        for path, value in change.new.items():
            context.host.ops.write(path, f"{value}\n")
        return {path: context.host.ops.read(path).strip() for path in change.new}

    async def undo(self, host: Host, entry: JournalEntry) -> Undone:
        return undo_values(host, entry)


@dataclass
class Place:
    """A machine whose values are a, b and c, all "0"; ``wanted`` makes them "1", a and b by the first knob."""

    directory: Path
    knobs = (FileKnob("first"), FileKnob("second"))
    wanted = {"second": {"c": "1"}, "first": {"a": "1", "b": "1"}, "postgresql": {"work_mem": "1MB"}}  # noqa: RUF012

    @classmethod
    def make(cls, directory: Path) -> "Place":
        directory.mkdir()
        (directory / "boot").write_text("boot-1")
        for name in NAMES:
            for number in (1, 2):
                (directory / f"{name}.{number}").write_text("0\n")
        return cls(directory)

    @property
    def host(self) -> LocalHost:
        return LocalHost(ops=FileOperations(self.directory))

    @property
    def context(self) -> KnobContext:
        return KnobContext(host=self.host, token="t", directory=str(self.directory))

    def set(self, name: str, value: str) -> None:
        for number in (1, 2):
            (self.directory / f"{name}.{number}").write_text(f"{value}\n")

    def values(self) -> str:
        """Of the files in order of their names; "000000" as they were made."""
        paths = [self.directory / f"{name}.{number}" for name in NAMES for number in (1, 2)]
        return "".join(path.read_text().strip() for path in paths)

    def changes(self, journal: Journal, **fields: Any) -> HostChanges:
        own = identify(os.getpid())
        assert own is not None
        given = {"host": self.host, "folder": self.directory, "knobs": self.knobs, "owner": own, "tell": ignore}
        return HostChanges(journal=journal, **(given | fields))

    async def undo_open(self, journal: Journal) -> list[tuple[str, Outcome]]:
        """Names and outcomes, as a new process would undo what is left."""
        found: list[tuple[str, Outcome]] = []
        await undo_open(
            journal,
            knobs=self.knobs,
            host_of=lambda _: contextlib.nullcontext(self.host),
            tell=lambda record, undone: found.append((record.entry.change.name, undone.outcome)),
        )
        return found


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    return Place.make(tmp_path / "place")


@pytest.fixture
def journal(place: Place) -> Iterator[Journal]:
    with Journal.open(write=True) as journal:
        yield journal


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    """Of a new result folder."""
    with contextlib.closing(State.create(tmp_path)) as state:
        yield state


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``refuse(error, "c.2")`` lets writing to a file fail; ``times`` after which it works again."""

    def refuse(error: BaseException, name: str, *, times: int = 1000) -> None:
        write, left = FileOperations.write, [times]

        def fail(self: FileOperations, path: str, text: str) -> None:
            if Path(path).name == name and left[0]:
                left[0] -= 1
                raise error
            write(self, path, text)

        monkeypatch.setattr(FileOperations, "write", fail)

    return refuse


@pytest.fixture
def start_process() -> Iterator[Callable[[], ProcessId]]:
    """Another process, in place of another pgtrial."""
    started = []

    def start() -> ProcessId:
        process = subprocess.Popen(["sleep", "60"])
        started.append(process)
        found = identify(process.pid)
        assert found is not None
        return found

    yield start
    for process in started:
        process.kill()
        process.wait()
