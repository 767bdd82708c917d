"""Changes of a host: journaled before they are made, undone in reverse whatever happens."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pgtrial.engine.events import HostChanged, HostRestored, Observer
from pgtrial.engine.restore import keeps_others_away, raise_failed, refuse_unrestored, undo_entry
from pgtrial.engine.signals import undisturbed
from pgtrial.errors import StoreError
from pgtrial.hosts.base import Host
from pgtrial.hosts.processes import ProcessId
from pgtrial.knobs.base import HostKnob, KnobContext
from pgtrial.model.change import Change, JournalEntry, Outcome, Undone
from pgtrial.store.journal import Journal


@dataclass(slots=True, kw_only=True)
class HostChanges:
    """What one experiment changes on one host. ``knobs`` are in the order in which they are applied.

    ``owner`` is this process. Only one experiment at a time changes a host.
    """

    journal: Journal
    host: Host
    folder: Path
    knobs: Sequence[HostKnob]
    owner: ProcessId
    tell: Observer
    _open: dict[int, JournalEntry] = field(default_factory=dict, init=False)
    _given_up: dict[int, Undone] = field(default_factory=dict, init=False)  # why these stay in the journal

    async def make(
        self, context: KnobContext, wanted: Mapping[str, Mapping[str, str]], *, run: int | None
    ) -> tuple[JournalEntry, ...]:
        """Make a host what ``wanted`` says (knob to name to value; other names than those of ``knobs`` are ignored).

        All or nothing: after an error or a cancellation everything that this call has done is undone. Raises
        SettingError of the knobs, StoreError of the journal, PreflightError when another experiment has changed this
        host, RestoreError when undoing failed.
        """
        made: list[JournalEntry] = []
        try:
            for knob in self.knobs:
                if values := wanted.get(knob.name):
                    self._refuse_others()  # else what somebody else has set would be taken for the value before
                    for change in await knob.plan(context, values):
                        made.append(self._begin(change, run))
                        made[-1] = await self._apply(knob, context, made[-1])
            for entry in made:
                self.tell(HostChanged(entry=entry))
        except BaseException:
            with suppress(StoreError):  # the first error is the one to be told; the journal knows what is open
                await self.undo(made)
            raise
        return tuple(made)

    def confirmed(self, wanted: Mapping[str, Mapping[str, str]]) -> frozenset[tuple[str, str]]:
        """Knob and key of what ``make`` has made, or found to be so already: not what none of the knobs is for."""
        known = {knob.name for knob in self.knobs}
        return frozenset((name, key) for name, table in wanted.items() if name in known for key in table)

    def leave_open(self, entries: Iterable[JournalEntry]) -> None:
        """From now on the values of these changes are set back and forth: undoing them puts back what was before,
        whatever is there. Raises StoreError.
        """
        for entry in entries:
            self._open[entry.id] = self.journal.leave_open(entry)

    async def undo(self, entries: Iterable[JournalEntry] | None = None) -> tuple[tuple[JournalEntry, Undone], ...]:
        """Undo the last change first: ``entries``, or all; what is undone already is left out.

        A cancellation takes effect when all of them have been tried. Raises RestoreError when one failed, StoreError
        when the journal could not be written; both stay open. One that was given up is not tried again, and an error
        each time. What somebody else has changed is left as it is (Outcome.CHANGED) and no error.
        """
        chosen = self._open.keys() if entries is None else {entry.id for entry in entries} & self._open.keys()
        return await undisturbed(self._undo(sorted(chosen, reverse=True)))

    async def find_lost(self, entries: Iterable[JournalEntry]) -> str:
        """What was set and does not hold any more, in a sentence; "" if all of it does.

        Where a later change went on from what one made, as pools of huge pages do, only the later one is asked of.
        """
        for entry in entries:
            if self._goes_on(entry):
                continue
            for knob in self.knobs:
                if knob.name == entry.change.knob and (lost := await knob.still_applied(self.host, entry)):
                    return lost
        return ""

    def _goes_on(self, entry: JournalEntry) -> bool:
        """Whether a change that is still there began with what this one had made."""
        made = (entry.got or {}).items()
        return bool(made) and any(
            later.id > entry.id and later.change.knob == entry.change.knob and made <= later.change.old.items()
            for later in self._open.values()
        )

    def _begin(self, change: Change, run: int | None) -> JournalEntry:
        entry = self.journal.begin(
            change,
            host=self.host.name,
            boot_id=self.host.ops.boot_id(),
            folder=str(self.folder.resolve()),
            run=run,
            owner=self.owner,
            t=time.time(),
        )
        try:
            # Of two experiments that begin at the same moment at least one sees the other's entry, and gives way: each
            # looks after it has written its own.
            self._refuse_others()
        except BaseException:
            self.journal.end(entry, Undone(outcome=Outcome.ALREADY), t=time.time())  # nothing was done yet
            raise
        self._open[entry.id] = entry
        return entry

    def _refuse_others(self) -> None:
        if not any(map(keeps_others_away, self._open.values())):  # else what is open does
            refuse_unrestored(self.journal, own=self.owner, host=self.host.name)

    async def _apply(self, knob: HostKnob, context: KnobContext, entry: JournalEntry) -> JournalEntry:
        got = await knob.apply(replace(context, note=partial(self._note, entry.id)), entry.change)
        self._open[entry.id] = replace(entry, got=got)  # known here even if it cannot be written
        return self.journal.confirm(entry, got)

    def _note(self, number: int, got: Mapping[str, str]) -> None:
        self._open[number] = self.journal.confirm(self._open[number], got)

    async def _undo(self, ids: Sequence[int]) -> tuple[tuple[JournalEntry, Undone], ...]:
        undone: list[tuple[JournalEntry, Undone]] = []
        unwritten: StoreError | None = None
        given_up = [(self._open[number], self._given_up[number]) for number in ids if number in self._given_up]
        for number in ids:
            if number in self._given_up:
                continue
            entry = self._open[number]
            result = await undo_entry(self.knobs, self.host, entry, partial(self._note, number))
            undone.append((entry, result))
            if result.is_given_up:
                self._given_up[number] = result
            try:
                self.journal.end(entry, result, t=time.time())
            except StoreError as err:
                unwritten = err
            else:
                if result.outcome is not Outcome.FAILED:
                    del self._open[number]
        try:
            for entry, result in undone:
                self.tell(HostRestored(entry=entry, undone=result))
        finally:
            raise_failed([*undone, *given_up])
        if unwritten is not None:
            raise unwritten
        return tuple(undone)
