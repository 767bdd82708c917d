"""Journaled changes to an existing server: its settings, the SQL of an arm, and pgtrial's own database; and dumps."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from pgtrial.hosts.base import Host
from pgtrial.knobs import HOST_KNOBS
from pgtrial.knobs.base import HostKnob, KnobContext, Note, forget
from pgtrial.knobs.declaration import About
from pgtrial.model.change import (
    DUMP,
    OWN_DATABASE,
    SERVER_COPY,
    SERVER_ROLE,
    SERVER_SETTINGS,
    SERVER_SQL,
    SERVER_SWITCH,
    Change,
    JournalEntry,
    Undone,
)
from pgtrial.postgres.existing.address import find_again
from pgtrial.postgres.existing.arm_sql import apply_sql, plan_sql, undo_sql
from pgtrial.postgres.existing.copies import apply_copy, plan_copy, undo_copy
from pgtrial.postgres.existing.database import apply_database, plan_database, undo_database
from pgtrial.postgres.existing.dumps import apply_dump, plan_dump, undo_dump
from pgtrial.postgres.existing.lock_wait import Say, say_nothing
from pgtrial.postgres.existing.role_settings import apply_role, find_lost_role, plan_role, undo_role
from pgtrial.postgres.existing.server import ExistingServer, ServerControl, control_again
from pgtrial.postgres.existing.settings import apply_settings, find_lost, plan_settings
from pgtrial.postgres.existing.settings_switch import plan_switch
from pgtrial.postgres.existing.settings_undo import undo_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerKnob(HostKnob):
    """Something of an existing server.

    ``server`` is the target; without one, only what the journal has can be undone. ``caller`` is what forget_caller()
    took: where another process's password comes from.
    """

    server: ExistingServer | None = None
    caller: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def target(self) -> ExistingServer:
        assert self.server is not None  # it is to be changed
        return self.server

    def control_of(self, host: Host, entry: JournalEntry) -> ServerControl:
        """How the server of an entry is reached: as the target is, if it is the one, else as the entry says."""
        new = entry.change.new
        if self.server is not None and self.server.control.address.to_text() == new["server"]:
            return self.server.control
        return control_again(host, find_again(new["server"], self.caller), new.get("restart", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings(ServerKnob):
    """By ALTER SYSTEM, and a reload or the declared restart. ``database`` is the load's."""

    name: ClassVar[str] = SERVER_SETTINGS
    about: ClassVar[About] = About(
        sets="PostgreSQL settings of an existing server",
        takes_effect="after a reload, or the restart command of [target] if the setting needs one",
        rights="ALTER SYSTEM on each setting, and reading postgresql.auto.conf; for a restart also its directory",
        verified="read back from pg_settings in the load's database",
        undone="postgresql.auto.conf is byte for byte as before, and the server has loaded it",
    )

    database: str | None = None

    async def plan(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
        change = await plan_settings(self.target, wanted, database=self.database)
        return () if change is None else (change,)

    async def apply(self, context: KnobContext, change: Change) -> Mapping[str, str]:
        return await apply_settings(self.target, change)

    async def undo(self, host: Host, entry: JournalEntry) -> Undone:
        return await undo_settings(self.control_of(host, entry), entry)

    async def still_applied(self, host: Host, entry: JournalEntry) -> str:
        return await find_lost(self.target, entry.change)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSwitch(ServerSettings):
    """The same for arms that take turns on the server: ``wanted`` has the settings of each arm, as JSON, first those of
    the control, which the server gets. ``begin_switching`` goes on from there.
    """

    name: ClassVar[str] = SERVER_SWITCH
    about: ClassVar[About] = replace(
        ServerSettings.about, takes_effect="after a reload at each turn", verified="read back at each turn"
    )

    async def plan(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
        by_arm = {arm: json.loads(settings) for arm, settings in wanted.items()}
        change = await plan_switch(self.target, by_arm, database=self.database)
        return () if change is None else (change,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRole(ServerKnob):
    """Settings of the load's role in its ``database``."""

    name: ClassVar[str] = SERVER_ROLE
    about: ClassVar[About] = About(
        sets="settings of the load's role in its database",
        takes_effect="in sessions that begin after it: idle ones of the role are ended",
        rights="none beyond those of SET, on the role itself",
        verified="read back in a new session of the role",
        undone="ALTER ROLE … IN DATABASE sets or resets what was there",
    )

    database: str = ""

    async def plan(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
        return (await plan_role(self.target, self.database, wanted),)

    async def apply(self, context: KnobContext, change: Change) -> Mapping[str, str]:
        return await apply_role(self.target, change)

    async def undo(self, host: Host, entry: JournalEntry) -> Undone:
        return await undo_role(self.control_of(host, entry), entry)

    async def still_applied(self, host: Host, entry: JournalEntry) -> str:
        return await find_lost_role(self.target, entry.change)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerDatabase(ServerKnob):
    """A database of pgtrial's own.

    ``wanted`` has the ``name`` and the ``template``, of which it is a copy; "": empty, with encoding and collation of
    ``locale``, as JSON.
    """

    name: ClassVar[str] = OWN_DATABASE
    about: ClassVar[About] = About(
        sets="pgtrial's own database on an existing server",
        takes_effect="at once",
        rights="CREATEDB",
        verified="by the server",
        undone="dropped, ending its connections",
    )

    async def plan(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
        locale = json.loads(wanted.get("locale", "{}"))
        template = wanted.get("template") or None
        return (await plan_database(self.target, wanted["name"], template=template, locale=locale),)

    async def apply(self, context: KnobContext, change: Change) -> Mapping[str, str]:
        return await apply_database(self.target, change)

    async def undo(self, host: Host, entry: JournalEntry) -> Undone:
        return await undo_database(self.control_of(host, entry), entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCopy(ServerKnob):
    """A copy of a database, as long as it is not whole.

    ``wanted`` has the ``name`` and the ``template``, of which it is to be a copy.
    """

    name: ClassVar[str] = SERVER_COPY
    about: ClassVar[About] = About(
        sets="a copy of a database on an existing server",
        takes_effect="at once",
        rights="CREATEDB, and to be the owner of the original",
        verified="by the server",
        undone="dropped as long as it is not whole; then it is its maker's",
    )

    async def plan(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
        return (await plan_copy(self.target, wanted["template"], wanted["name"]),)

    async def apply(self, context: KnobContext, change: Change) -> Mapping[str, str]:
        return await apply_copy(self.target, change)

    async def undo(self, host: Host, entry: JournalEntry) -> Undone:
        return await undo_copy(self.control_of(host, entry), entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump(ServerKnob):
    """A dump of a database, as long as it is not whole: ``wanted`` has the ``path`` of the file, and the ``database``.

    The programs of the context write it, on the machine on which pgtrial runs.
    """

    name: ClassVar[str] = DUMP
    about: ClassVar[About] = About(
        sets="a dump of a database",
        takes_effect="when it is whole",
        rights="SELECT on all tables and sequences",
        verified="by pg_dump",
        undone="removed as long as it is not whole; then it is its maker's",
    )

    async def plan(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
        return (plan_dump(Path(wanted["path"]), wanted["database"]),)

    async def apply(self, context: KnobContext, change: Change) -> Mapping[str, str]:
        return await apply_dump(self.target, context, change)

    async def undo(self, host: Host, entry: JournalEntry) -> Undone:
        return undo_dump(entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSql(ServerKnob):
    """The SQL of an arm in the existing ``database``; ``say`` hears for whom it waits."""

    name: ClassVar[str] = SERVER_SQL
    about: ClassVar[About] = About(
        sets="whatever an arm's SQL changes in an existing database",
        takes_effect="before the load",
        rights="those of the statements",
        verified="each statement fails loudly",
        undone="the arm's undo statements run, and what defines each object is compared with before; of tables that "
        "they may drop also how many rows there are",
    )

    database: str = ""
    say: Say = say_nothing

    async def plan(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
        return (await plan_sql(self.target, self.database, wanted),)

    async def apply(self, context: KnobContext, change: Change) -> Mapping[str, str]:
        return await apply_sql(self.target, change, context.note, self.say)

    async def undo(self, host: Host, entry: JournalEntry) -> Undone:
        return await self.undo_in_steps(host, entry, forget)

    async def undo_in_steps(self, host: Host, entry: JournalEntry, note: Note) -> Undone:
        return await undo_sql(self.control_of(host, entry), entry, note, self.say)


def restoring_knobs(caller: Mapping[str, str], say: Say = say_nothing) -> tuple[HostKnob, ...]:
    """All that can undo what a journal has. ``caller`` are libpq's variables, by which a server is reached again;
    ``say`` hears for whom an undo waits.
    """
    known = (Dump, ServerSettings, ServerSwitch, ServerRole, ServerDatabase, ServerCopy)
    return (*HOST_KNOBS, ServerSql(caller=caller, say=say), *(knob(caller=caller) for knob in known))
