"""What a knob on a host does: something that an arm can vary, and that is put back afterwards."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pgtrial.hosts.base import Account, Host
from pgtrial.knobs.declaration import Knob
from pgtrial.model.change import Change, JournalEntry, Undone

# Puts into the journal how far a change of several steps has come: what its entry has ``got`` from then on. Raises
# StoreError; then no further step is to be taken.
Note = Callable[[Mapping[str, str]], object]


def forget(_: Mapping[str, str]) -> None:
    """Of what is not in the journal nothing is noted."""


class ServerPrograms(Protocol):
    """One installation of PostgreSQL, as far as a knob asks it."""

    @property
    def version(self) -> str: ...
    def path(self, program: str) -> Path: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobContext:
    """Where a knob is turned. ``directory`` holds the cluster's data, or will; ``data``, ``wal`` and ``conf``, its file
    of settings, are those of the server that is about to start, None while an experiment is only planned. ``token`` is
    unique to the experiment and fit for names of files and control groups. ``on_image``: the data will be on a loop
    device that is not there yet. ``groups`` are directories of the server's own control groups, as far as they are
    known, also of some that are yet to be made. ``note`` is for a change of several steps.
    """

    host: Host
    token: str
    directory: str
    account: Account | None = None
    programs: ServerPrograms | None = None
    data: str | None = None
    wal: str | None = None
    conf: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    on_image: bool = False
    groups: tuple[str, ...] = ()
    note: Note = forget


class HostKnob(Knob, ABC):
    """Something on a host beside the server's own settings. One instance serves all hosts; it keeps no state.

    The engine asks ``plan`` what would change, writes each change to the journal, calls ``apply`` and confirms what it
    returns. ``undo`` is called with the journal's entry alone, perhaps by another process, perhaps after a reboot.
    """

    @abstractmethod
    async def plan(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
        """What has to be done, in order, to have what is ``wanted`` (the table of an arm, values as texts).

        Touches nothing. Raises SettingError for what does not exist or cannot be had here, naming what and why.
        """

    @abstractmethod
    async def apply(self, context: KnobContext, change: Change) -> Mapping[str, str]:
        """Make the change and read it back: what the items of ``new`` are now.

        Raises SettingError when the host refuses, or makes something else of it (asked and got in the message).
        """

    @abstractmethod
    async def undo(self, host: Host, entry: JournalEntry) -> Undone:
        """Put back what was before, verified; never what somebody else has changed since. Raises nothing on purpose."""

    async def undo_in_steps(self, host: Host, entry: JournalEntry, note: Note) -> Undone:
        """``undo`` of what must not be undone twice, not even in part: ``note`` is called before each step."""
        return await self.undo(host, entry)

    async def still_applied(self, host: Host, entry: JournalEntry) -> str:
        """What is no longer as ``apply`` left it, as a full sentence; empty when all is. Asked at the end of a run."""
        return ""

    def settings(self, wanted: Mapping[str, str]) -> Mapping[str, str]:
        """PostgreSQL settings that go with it."""
        return {}

    def groups(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[str]:
        """Control groups (directories of the kernel) in which the server is started."""
        return ()
