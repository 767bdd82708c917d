"""What arms that take turns set differently on a host: made once in the journal, then set back and forth."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pgtrial.design.variants import host_knobs
from pgtrial.engine.changes import HostChanges
from pgtrial.hosts.operations import Operations
from pgtrial.knobs import KNOBS
from pgtrial.knobs.base import KnobContext
from pgtrial.knobs.declaration import Among
from pgtrial.knobs.kernel_values import read_chosen, same_value
from pgtrial.knobs.sysctl import write_setting
from pgtrial.model.arm import Arm
from pgtrial.model.change import JournalEntry, Undone

Tables = Mapping[str, Mapping[str, str]]


@dataclass(slots=True, kw_only=True)
class Switches:
    """``common`` are changes of the host for all arms; ``values`` maps an arm to (file of the kernel, value), complete
    once all arms are added.
    """

    changes: HostChanges
    common: list[JournalEntry] = field(default_factory=list, init=False)
    switched: list[JournalEntry] = field(default_factory=list, init=False)  # those of the arms that take turns
    _before: dict[str, str] = field(default_factory=dict, init=False)  # of every file of the kernel that some arm sets
    _wanted: dict[str, dict[str, str]] = field(default_factory=dict, init=False)

    @property
    def values(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """Those in which arms differ; empty where there are none."""
        every = {name: {**self._before, **wanted} for name, wanted in self._wanted.items()}
        differing = [path for path in self._before if len({values[path] for values in every.values()}) > 1]
        return {name: tuple((path, values[path]) for path in differing) for name, values in every.items() if differing}

    async def share(self, context: KnobContext, knobs: Tables) -> None:
        """Make what all arms have alike. Raises SettingError and the like."""
        self.common += await self.changes.make(context, knobs, run=None)

    async def add(self, name: str, context: KnobContext, knobs: Tables, *, run: int) -> tuple[JournalEntry, ...]:
        """Make the host an arm's, from what it was before any of them. Raises SettingError and the like."""
        self._set(self._before)
        entries = await self.changes.make(context, knobs, run=run)
        self.switched += entries
        self._wanted[name] = {path: value for entry in entries for path, value in entry.change.new.items()}
        for entry in entries:
            for path in entry.change.new:
                self._before.setdefault(path, entry.change.old[path])
        return entries

    def begin(self) -> None:
        """From now on any arm's values may be in force: whoever has to undo them puts back what was before."""
        self.changes.leave_open(self.switched)

    def settle(self) -> None:
        """Put the host back into the state after the last arm was added."""
        for entry in self.switched:
            self._set(entry.change.new)

    async def undo(self) -> Sequence[tuple[JournalEntry, Undone]]:
        """Undo the changes of the host and return the outcomes. Raises RestoreError."""
        undone = await self.changes.undo((*self.common, *self.switched))
        self.common, self.switched, self._before, self._wanted = [], [], {}, {}
        return undone

    def _set(self, values: Mapping[str, str]) -> None:
        set_values(self.changes.host.ops, values.items())


def set_values(ops: Operations, values: Iterable[tuple[str, str]]) -> None:
    """Set files of the kernel in order, those that do not hold their value. Raises OSError."""
    for path, value in values:
        if not same_value(read_chosen(ops, path), value):
            write_setting(ops, path, value)


def split_knobs(
    arms: Mapping[str, Arm],
) -> tuple[dict[str, Mapping[str, str]], dict[str, dict[str, Mapping[str, str]]]]:
    """Split the host knobs: those that all arms share, and the rest by arm."""
    tables = {name: host_knobs(arm) for name, arm in arms.items()}
    first, *others = tables.values()
    common = {
        knob: table
        for knob, table in first.items()
        if not has_own(knob) and all(other.get(knob) == table for other in others)
    }
    own = {
        name: {knob: values for knob, values in table.items() if knob not in common} for name, table in tables.items()
    }
    return common, own


def has_own(knob: str) -> bool:
    """Whether each server has its own; all else on a host is for all of them."""
    return KNOBS[knob].among_twins is Among.OWN
