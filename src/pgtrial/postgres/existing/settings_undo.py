"""Undo changes to an existing server's settings from the journal entry alone.

It restores the file first, even if the server is down; then the server reloads it, or is restarted if needed and the
entry says how. Changes that somebody else has made to the file in the meantime are left as they are.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

from psycopg import Error

from pgtrial.errors import ConnectError, PgTrialError, TargetError
from pgtrial.model.change import JournalEntry, Outcome, Undone
from pgtrial.postgres.auto_conf import NAME as AUTO_CONF
from pgtrial.postgres.auto_conf import Entry, parse, render, setting_key, steps_between
from pgtrial.postgres.connect import connect
from pgtrial.postgres.existing.database import alter_system, await_left
from pgtrial.postgres.existing.server import ServerControl, read_auto_conf, read_bytes, read_timeline
from pgtrial.postgres.existing.settings import SETTLED, TIMELINE, Before, is_sealed
from pgtrial.postgres.existing.settings_switch import SWITCHED
from pgtrial.postgres.settings import read_settings

_STEP = 0.05
_OTHERS = "Somebody else has changed postgresql.auto.conf meanwhile; that stays."
_BRIEFLY = 3.0  # s for a server to answer that may just be coming up

Step = tuple[str, str | None]


async def undo_settings(control: ServerControl, entry: JournalEntry) -> Undone:
    """Undo a change of ``plan_settings`` or ``plan_switch``; ``control`` reaches its server."""
    new = entry.change.new
    every = [json.loads(new["settings"]), *json.loads(new.get(SWITCHED, "{}")).values()]
    names = {setting_key(name): None for settings in every for name in settings}
    undo = _Undo(
        control=control,
        before=Before.from_items(entry.change.old),
        settings={
            key: frozenset(value for settings in every for name, value in settings.items() if setting_key(name) == key)
            for key in names
        },
        may_restart=bool(new["restart"]),
        timeline=new.get(TIMELINE, ""),
    )
    try:
        if undo.may_restart:
            control.host.ops.remove(control.scratch)  # what is left of a restart in whose middle pgtrial was killed
        return await undo.run()
    except PgTrialError as err:
        return Undone(outcome=Outcome.FAILED, text=f"{err.sentences} {undo.by_hand()}")
    except OSError as err:
        return Undone(outcome=Outcome.FAILED, text=f'"{err.filename}": {err.strerror}. {undo.by_hand()}')


@dataclass(frozen=True, slots=True, kw_only=True)
class _Undo:
    """``settings`` are those that pgtrial has set, by their keys, with all the values that it has given them."""

    control: ServerControl
    before: Before
    settings: Mapping[str, frozenset[str]]
    may_restart: bool
    timeline: str  # of the server that was changed, "" where it is not known

    @property
    def path(self) -> str | None:
        return str(PurePosixPath(self.before.kept).with_name(AUTO_CONF)) if self.before.kept else None

    def by_hand(self) -> str:
        """What a person can do instead; no value of a setting that the arm does not set is in it."""
        if self.before.kept:
            return f'By hand: mv "{self.before.kept}" "{self.path}", then SELECT pg_reload_conf() or a restart.'
        steps = [(name, self.before.values.get(name)) for name in self.settings]
        return f"By hand: {' '.join(f'{alter_system(*step).as_string()};' for step in steps)} SELECT pg_reload_conf();"

    async def run(self) -> Undone:
        with suppress(ConnectError):  # where the server is down, nothing of ours is at work in it
            async with connect(self.control.conninfo()) as connection:
                await await_left(connection, "ALTER SYSTEM")
                # A file that pgtrial reaches is the right one, whoever answers at the server's address.
                now = "" if self.before.kept or not self.timeline else await read_timeline(connection)
                if now not in ("", self.timeline):
                    return self._leave_to_another(now)
        content = await self._read()
        if is_sealed(content, self.before.seal):
            self._remove_kept()
            return await self._settle(Outcome.ALREADY)
        if self.before.kept and not self.control.host.ops.exists(self.before.kept) and not self._ours(content):
            # Killed before anything was done, or after ours was taken out of what somebody else has changed.
            settled = await self._settle(Outcome.CHANGED)
            return Undone(outcome=settled.outcome, text=f"{_OTHERS} Nothing of the experiment is in it.")
        old = self._old_entries(content)
        if old is None:
            return await self._leave_to_others(content)
        if self.before.kept:
            self.control.host.ops.rename(self.before.kept, self.path or "")
        else:
            await self._alter(steps_between(parse(content), old))
        if not is_sealed(await self._read(), self.before.seal):
            return Undone(outcome=Outcome.FAILED, text=f"postgresql.auto.conf is not as it was. {self.by_hand()}")
        return await self._settle(Outcome.RESTORED)

    def _leave_to_another(self, timeline: str) -> Undone:
        """Nothing of ours is in the settings of the server that has taken the place of the one that was changed."""
        text = (
            "Another server than the one that was changed answers: "
            f"its timeline is {timeline}, and was {self.timeline}. Nothing was changed on it. {self.by_hand()} "
            "Do that on the old server before it is used again, then take this off the list."
        )
        return Undone(outcome=Outcome.FAILED, text=text)

    async def _read(self) -> bytes:
        try:
            content = await read_auto_conf(self.control, self.path)
        except FileNotFoundError:
            return b""
        if content is None:
            raise TargetError("postgresql.auto.conf can no longer be read")
        return content

    def _remove_kept(self) -> None:
        if self.before.kept:
            self.control.host.ops.remove(self.before.kept)

    def _read_kept(self) -> bytes:
        """The file as it was. Raises TargetError when it is gone."""
        try:
            content = read_bytes(self.control.host, self.before.kept)
        except FileNotFoundError:
            content = b""
        if not is_sealed(content, self.before.seal):
            raise TargetError(f'"{self.before.kept}", which kept postgresql.auto.conf as it was, is gone or changed')
        return content

    def _old_entries(self, content: bytes) -> tuple[Entry, ...] | None:
        """What the file held before, if nothing but our settings has changed in it since; else None."""
        try:
            now = parse(content)
        except ValueError:
            return None
        if render(now) != content and content:
            return None  # edited by hand: ALTER SYSTEM, ours included, writes otherwise
        if self.before.kept:
            old = parse(self._read_kept())
            return old if self._changed_by_others(now, old) == [] else None
        values = {entry.key: entry.value for entry in now}
        wanted = []
        for name in self.before.names:
            key = setting_key(name)
            value = self.before.values.get(key) if key in self.settings else values.get(key)
            if value is None:
                return None  # somebody has taken it out
            wanted.append(Entry(name=name, value=value))
        unchanged = is_sealed(render(wanted), self.before.seal) and self._changed_by_others(now, wanted) == []
        return tuple(wanted) if unchanged else None

    def _changed_by_others(self, now: Sequence[Entry], old: Sequence[Entry]) -> list[str]:
        changed = []
        for key in dict.fromkeys(entry.key for entry in (*old, *now)):
            found, was = ([entry.value for entry in entries if entry.key == key] for entries in (now, old))
            if found != was and not (len(found) == 1 and found[0] in self.settings.get(key, ())):
                changed.append(key)
        return changed

    def _ours(self, content: bytes) -> list[Entry]:
        """What stands in the file with a value that pgtrial has set."""
        with suppress(ValueError):
            return [entry for entry in parse(content) if entry.value in self.settings.get(entry.key, ())]
        return []

    async def _leave_to_others(self, content: bytes) -> Undone:
        """Take our settings out, and only them, unless even that would lose what somebody has written by hand."""
        try:
            now = parse(content)
            by_hand = render(now) != content
        except ValueError:
            now, by_hand = (), True
        if by_hand:
            where = f'As it was before, it is "{self.before.kept}".' if self.before.kept else self.by_hand()
            text = f"Somebody has edited postgresql.auto.conf by hand meanwhile; it is left as it is. {where}"
            return Undone(outcome=Outcome.CHANGED, text=text)
        old = dict(self.before.values)
        if self.before.kept:
            old = {entry.key: entry.value for entry in parse(self._read_kept())}
        ours = self._ours(content)
        await self._alter([(entry.name, old.get(entry.key)) for entry in ours])
        self._remove_kept()
        settled = await self._settle(Outcome.CHANGED)
        names = ", ".join(entry.name for entry in ours) or "none of them"
        text = f"{_OTHERS} Of the experiment's settings {names} were put back."
        return Undone(outcome=settled.outcome, text=text)

    async def _alter(self, steps: Sequence[Step]) -> None:
        async with connect(self.control.conninfo()) as connection:
            for step in steps:
                try:
                    await connection.execute(alter_system(*step))
                except Error as err:
                    raise TargetError(
                        f'the server refuses to put "{step[0]}" back: {err.diag.message_primary or err}'
                    ) from err

    async def _settle(self, outcome: Outcome) -> Undone:
        """Let the server have in force what the file says again, which is as it should be by now."""
        try:
            return await self._load(outcome)
        except PgTrialError as err:
            text = f"postgresql.auto.conf has been put back, but the server has not loaded it. {err.sentences}"
            return Undone(outcome=Outcome.FAILED, text=text)

    async def _load(self, outcome: Outcome) -> Undone:
        if not await self.control.answers(_BRIEFLY):
            if not self.may_restart:
                text = "The server does not answer; its configuration file is as it was."
                return Undone(outcome=outcome, text=text)
            await self.control.restart()
        wrong, needs_restart = await self._find_wrong()
        if needs_restart and self.may_restart:
            await self.control.restart()
        else:
            await self.control.reload()
        deadline = time.monotonic() + SETTLED
        while (left := await self._find_wrong())[0]:
            if outcome is Outcome.CHANGED:
                return Undone(outcome=outcome)  # it may be somebody else's value
            if time.monotonic() > deadline:
                return Undone(outcome=Outcome.FAILED, text=f"The server still has {', '.join(left[0])}.")
            await asyncio.sleep(_STEP)
        return Undone(outcome=Outcome.RESTORED if wrong and outcome is Outcome.ALREADY else outcome)

    async def _find_wrong(self) -> tuple[list[str], bool]:
        """(settings that are not as they were running, whether one of them needs a restart)."""
        actual = await read_settings(self.control.conninfo())
        wrong = []
        for name, value in self.before.running.items():
            setting = actual.get(setting_key(name))
            if setting is not None and value is not None and setting.value != value:
                wrong.append(setting)
        return [f"{s.name} = {s.shown}" for s in wrong], any(s.context == "postmaster" for s in wrong)
