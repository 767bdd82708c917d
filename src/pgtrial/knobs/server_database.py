"""A database of pgtrial's own on an existing server."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pgtrial.hosts.base import Host
from pgtrial.knobs.base import About, HostKnob, KnobContext
from pgtrial.knobs.server_settings import control_of
from pgtrial.model.change import Change, JournalEntry, Undone
from pgtrial.postgres.existing.database import KNOB, apply_database, plan_database, undo_database
from pgtrial.postgres.existing.server import ExistingServer


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerDatabase(HostKnob):
    """``wanted`` has the ``name`` and the ``template``, of which it is a copy; "": empty. Else as ServerSettings."""

    name: ClassVar[str] = KNOB
    about: ClassVar[About] = About(
        sets="a database of pgtrial's own on an existing server",
        takes_effect="at once",
        rights="CREATEDB",
        verified="by the server",
        undone="dropped, with whoever is connected to it",
    )

    server: ExistingServer | None = None
    caller: Mapping[str, str] = field(default_factory=dict, repr=False)

    async def plan(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
        assert self.server is not None
        return (await plan_database(self.server, wanted["name"], template=wanted.get("template") or None),)

    async def apply(self, context: KnobContext, change: Change) -> Mapping[str, str]:
        assert self.server is not None
        return await apply_database(self.server, change)

    async def undo(self, host: Host, entry: JournalEntry) -> Undone:
        return await undo_database(control_of(self.server, self.caller, host, entry), entry)
