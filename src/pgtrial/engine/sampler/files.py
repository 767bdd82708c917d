"""The files that the sampler's collectors need, and a source of their texts: this machine."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pgtrial.collectors import COLLECTORS
from pgtrial.collectors.base import FileCollector, ProcessCollector
from pgtrial.engine.sampler.reader import Children, OpenFile, Troubles, find_children, open_files, read_files

Add = Callable[[float, str, str], object]  # time of the reading, by the clock of the machine read; source; text
Wanted = Sequence[tuple[str, Sequence[str]]]  # sources, and the paths at which each is looked for
# Sources, the process whose children each is about, the name of their program, and what is in their environment.
WantedChildren = Sequence[tuple[str, int, str, str]]

# Beginnings of the lines that are kept of a source, where not all are.
LINES = {c.name: c.lines for c in COLLECTORS if isinstance(c, FileCollector) and c.lines}

_GROUP = "control group"


class ReaderError(Exception):
    """Files of another machine cannot be read; the message says why."""


class FileSource(Protocol):
    """Where files of the server's machine are read; what it reads goes to an ``Add``, what it cannot to a Troubles.

    ``sources`` are those that are there, ``absent`` says why others are not, ``late`` is how many ticks of its own it
    has skipped. ``fd`` can be read from when there is something to receive; None where nothing comes by itself.
    """

    @property
    def sources(self) -> Sequence[str]: ...
    @property
    def absent(self) -> Mapping[str, str]: ...
    @property
    def late(self) -> int: ...
    @property
    def fd(self) -> int | None: ...

    def start(self) -> None:
        """Read for the first time. Raises ReaderError."""

    def tick(self) -> None:
        """A tick of the sampler's own clock."""

    def receive(self) -> None:
        """Take what has come."""

    def finish(self) -> None:
        """Read once more, out of turn, and end."""


class LocalFiles:
    """Files of this machine, read at the ticks of the sampler."""

    late = 0
    fd = None

    def __init__(self, wanted: Wanted, *, add: Add, troubles: Troubles, children: WantedChildren = ()) -> None:
        files, absent = open_files(wanted, LINES)
        found, without = find_children(children)
        self._files: list[OpenFile | Children] = [*files, *found]
        self.absent = {**absent, **without}
        self.sources = [file.source for file in self._files]
        self._add = add
        self._troubles = troubles

    def start(self) -> None:
        self.tick()

    def tick(self) -> None:
        read_files(self._files, self._add, self._troubles)

    def receive(self) -> None:
        pass

    def finish(self) -> None:
        self.tick()


def wanted_files(groups: Sequence[str]) -> Wanted:
    """What all collectors need; ``groups`` are the directories of the server's control groups."""
    return [
        (
            collector.name,
            [f"{group}/{collector.path}" for group in groups]
            if collector.in_group
            else list(filter(None, (collector.path, collector.otherwise))),
        )
        for collector in COLLECTORS
        if isinstance(collector, FileCollector) and (groups or not collector.in_group)
    ]


def wanted_children(started_by: str, parent: int | None, *, mark: str = "") -> WantedChildren:
    """Processes that the server ("server") or pgtrial ("load") has started, whose number is ``parent``; None: nobody
    knows it. ``mark`` (NAME=value) is in the environment of those that are meant.
    """
    return [
        (collector.name, parent, collector.program, mark)
        for collector in COLLECTORS
        if isinstance(collector, ProcessCollector) and collector.started_by == started_by and parent is not None
    ]


def worth_saying(absent: Mapping[str, str], sources: Sequence[str], groups: Sequence[str]) -> dict[str, str]:
    """Of what is absent, what nobody expects to be.

    A control group has the files of one version and of its controllers; that others are not there says nothing, but
    that all are missing does.
    """
    in_group = {c.name for c in COLLECTORS if isinstance(c, FileCollector) and c.in_group}
    unexpected = {c.name for c in COLLECTORS if isinstance(c, FileCollector) and c.optional}
    said = {source: reason for source, reason in absent.items() if source not in in_group | unexpected}
    if groups and in_group.isdisjoint(sources):
        said[_GROUP] = f"statistics of the control group {', '.join(groups)}"
    return said
