"""Open entries of the journal of host changes: refuse a new run, or undo what an ended pgtrial left behind."""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pgtrial.engine.events import HostRestored, Observer
from pgtrial.engine.signals import undisturbed
from pgtrial.errors import PgTrialError, PreflightError, RestoreError, StoreError
from pgtrial.hosts.base import LOCAL, Host
from pgtrial.hosts.processes import ProcessId, is_alive
from pgtrial.knobs.base import HostKnob, Note
from pgtrial.model.change import DUMP, OF_SERVERS, OWN_DATABASE, SERVER_COPY, JournalEntry, Outcome, Undone
from pgtrial.safe_text import shell_word
from pgtrial.store.journal import Journal, JournalRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrestored:
    """Open entries, newest first: ``left`` by a pgtrial that has ended, ``in_use`` by one that is running."""

    left: tuple[JournalRecord, ...]
    in_use: tuple[JournalRecord, ...]


def find_unrestored(journal: Journal, *, host: str | None = None) -> Unrestored:
    """Find the open entries of the journal, on one host or on all."""
    records = journal.open_entries(host=host)
    alive = {owner for owner in {record.owner for record in records} if is_alive(owner)}
    return Unrestored(
        left=tuple(record for record in records if record.owner not in alive),
        in_use=tuple(record for record in records if record.owner in alive),
    )


def keeps_others_away(entry: JournalEntry) -> bool:
    """Whether another experiment that changes the host would mix its changes with this one, while its pgtrial lives: a
    database that is pgtrial's own, or a copy or a dump that is not whole yet, is nobody else's.
    """
    return entry.change.knob not in (OWN_DATABASE, SERVER_COPY, DUMP)


def refuse_unrestored(
    journal: Journal, *, own: ProcessId | None = None, host: str | None = None, is_apart: bool = False
) -> None:
    """PreflightError if a pgtrial other than ``own`` has changed ``host`` (None: any) and not put that back.

    ``is_apart``: neither is anything to be changed, nor is an existing server used. What others do on one is no
    hindrance then while they are at work; what they have left there is.
    """
    found = find_unrestored(journal, host=host)
    in_use, left = (
        [record for record in records if own is None or record.owner != own] for records in (found.in_use, found.left)
    )
    met = [record for record in in_use if not (is_apart and record.entry.change.knob in OF_SERVERS)]
    if in_use := [record for record in met if keeps_others_away(record.entry)]:
        entry, pid = in_use[0].entry, in_use[0].owner.pid
        raise PreflightError(
            f'host settings are in use by another experiment: pgtrial, process {pid}, works in "{entry.folder}"',
            detail=f"It has changed {describe(entry)}. The changes of two experiments would mix.",
            hint=f'Wait until it ends; "pgtrial status {shell_word(entry.folder)}" shows its progress.',
        )
    if left := [record for record in left if record.entry.change.knob != DUMP]:  # which only takes room
        raise PreflightError(
            "a host setting that an earlier experiment changed has not been put back"
            if len(left) == 1
            else f"{len(left)} host settings that earlier experiments changed have not been put back",
            detail="\n".join(f'{describe(record.entry)}, for "{record.entry.folder}".' for record in left),
            hint='Run "pgtrial restore" first.',
        )


async def undo_entry(knobs: Sequence[HostKnob], host: Host, entry: JournalEntry, note: Note) -> Undone:
    """Undo one change, with its steps noted in the journal; whatever goes wrong is Outcome.FAILED, so that the other
    changes are undone all the same.
    """
    if entry.damage:
        return Undone(outcome=Outcome.FAILED, text=f"Its entry in the journal is damaged: {entry.damage}.")
    knob = next((knob for knob in knobs if knob.name == entry.change.knob), None)
    if knob is None:
        text = f'This pgtrial does not know the knob "{entry.change.knob}"; use the version that made the change.'
        return Undone(outcome=Outcome.FAILED, text=text)
    try:
        return await knob.undo_in_steps(host, entry, note)
    except PgTrialError as err:
        return Undone(outcome=Outcome.FAILED, text=err.sentences)
    except OSError as err:
        place = f'"{err.filename}": ' if err.filename else ""
        return Undone(outcome=Outcome.FAILED, text=f"{place}{err.strerror or err}.")
    except Exception as err:
        text = f"This is a bug in pgtrial's knob {knob.name}: {type(err).__name__}: {err}."
        return Undone(outcome=Outcome.FAILED, text=text)


async def undo_open(
    journal: Journal,
    *,
    knobs: Sequence[HostKnob],
    host_of: Callable[[str], AbstractAsyncContextManager[Host]],
    tell: Callable[[JournalRecord, Undone], None],
    is_due: Callable[[JournalEntry], bool] = lambda _: True,
) -> None:
    """Undo everything whose pgtrial has ended and that ``is_due``, newest first; ``tell`` hears of each.

    ``host_of`` reaches a host by its name. A cancellation takes effect when the change at work is undone: what is
    broken off may be harder to undo. A second one breaks it off. Raises RestoreError when something could not be put
    back, StoreError when the journal could not be written; both after all the others have been tried.
    """
    results: list[tuple[JournalEntry, Undone]] = []
    unwritten: StoreError | None = None

    async def undo_one(record: JournalRecord, host: Host | Undone) -> None:
        nonlocal unwritten
        note = partial(journal.confirm, record.entry)
        undone = host if isinstance(host, Undone) else await undo_entry(knobs, host, record.entry, note)
        try:
            journal.end(record.entry, undone, t=time.time())
        except StoreError as err:
            unwritten = err
        results.append((record.entry, undone))
        tell(record, undone)

    with journal.restoring():
        async with AsyncExitStack() as stack:
            hosts = _Hosts(host_of=host_of, stack=stack)
            for record in find_unrestored(journal).left:
                if not is_due(record.entry):
                    continue
                host = await hosts.find(record.entry.host)
                await undisturbed(undo_one(record, host), breakable=True)
    raise_failed(results)
    if unwritten is not None:
        raise unwritten


async def undo_own(
    folder: Path,
    *,
    knobs: Sequence[HostKnob],
    host_of: Callable[[str], AbstractAsyncContextManager[Host]],
    tell: Observer,
) -> None:
    """Undo what a pgtrial that was killed while it worked in ``folder`` has left. Raises as ``undo_open``."""
    where = str(folder.resolve())
    with Journal.open(write=False) as journal:
        if all(record.entry.folder != where for record in find_unrestored(journal).left):
            return
    with Journal.open(write=True) as journal:
        await undo_open(
            journal,
            knobs=knobs,
            host_of=host_of,
            tell=lambda record, undone: tell(HostRestored(entry=record.entry, undone=undone)),
            is_due=lambda entry: entry.folder == where,
        )


def find_pending(folder: Path) -> tuple[JournalEntry, ...]:
    """Changes that experiments in ``folder`` have made and not undone, newest first."""
    with Journal.open(write=False) as journal:
        where = str(folder.resolve())
        return tuple(record.entry for record in journal.open_entries() if record.entry.folder == where)


def forget(journal: Journal, ids: Collection[int]) -> tuple[JournalRecord, ...]:
    """Take changes off the list that cannot be undone, or that somebody has undone by hand. PreflightError if one of
    the numbers is not that of a change which a pgtrial that has ended left behind; then nothing is done.
    """
    left = {record.entry.id: record for record in find_unrestored(journal).left}
    for number in ids:
        if number not in left:
            known = ", ".join(str(each) for each in sorted(left)) or "none"
            raise PreflightError(f"change {number} is not on the list", detail=f"Changes on the list: {known}.")
    undone = Undone(outcome=Outcome.CHANGED, text="Taken off the list on request.")
    for number in ids:
        journal.end(left[number].entry, undone, t=time.time())
    return tuple(left[number] for number in ids)


def raise_failed(undone: Iterable[tuple[JournalEntry, Undone]]) -> None:
    """RestoreError that names everything that could not be put back; nothing when there is no such thing."""
    failed = [(entry, result) for entry, result in undone if result.outcome is Outcome.FAILED]
    if not failed:
        return
    first = failed[0][0]
    raise RestoreError(
        f"{first.change.name} could not be put back to {first.change.old_text}"
        if len(failed) == 1
        else f"{len(failed)} changes of host settings could not be put back",
        detail="\n".join(f"{describe(entry)}: {result.text}" for entry, result in failed),
        hint='Fix the cause and run "pgtrial restore". If you have put a change back yourself, take it off the list '
        f'with "pgtrial restore --forget {first.id}".',
    )


def describe(entry: JournalEntry) -> str:
    """ "vm.swappiness from 60 to 1 on ssh://db1"; the machine pgtrial runs on is not named."""
    where = "" if entry.host == LOCAL else f" on {entry.host}"
    return f"{entry.change.name} from {entry.change.old_text} to {entry.change.new_text}{where}"


@dataclass(slots=True, kw_only=True)
class _Hosts:
    """Hosts by name; one that cannot be reached is tried once, and is the reason why its changes stay."""

    host_of: Callable[[str], AbstractAsyncContextManager[Host]]
    stack: AsyncExitStack
    _found: dict[str, Host | Undone] = field(default_factory=dict, init=False)

    async def find(self, name: str) -> Host | Undone:
        if name not in self._found:
            try:
                host = await self.stack.enter_async_context(self.host_of(name))
            except PgTrialError as err:
                self._found[name] = Undone(outcome=Outcome.FAILED, text=err.sentences)
            else:
                # What was changed there must never be written anywhere else.
                is_it = host.name == name
                wrong = Undone(outcome=Outcome.FAILED, text=f"The host {name} cannot be reached, only {host.name}.")
                self._found[name] = host if is_it else wrong
        return self._found[name]
