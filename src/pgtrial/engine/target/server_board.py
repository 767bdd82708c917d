"""An existing server that is switched back and forth between the arms, for all who use it."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pgtrial.engine.target.base import RunningServer, SingleServer
from pgtrial.engine.target.existing import ServerTarget
from pgtrial.errors import SettingError
from pgtrial.model.change import Change, JournalEntry, Undone
from pgtrial.postgres.existing.knobs import ServerSwitch
from pgtrial.postgres.existing.settings_switch import SettingsSwitch, begin_switching, refuse_changed

_PATIENCE = 30.0  # s for a switch, of which a server needs one or two


@dataclass(slots=True, kw_only=True)
class ServerBoard(SingleServer):
    """``arms``: the control first. They differ in settings of PostgreSQL alone, which a reload changes."""

    target: ServerTarget
    has_switched: bool = field(default=False, init=False)  # the server was given what is not its own, ever
    _first_change: Change | None = field(default=None, init=False)
    _switch: SettingsSwitch | None = field(default=None, init=False)  # None: the arms are all as the server is
    _put_back: list[tuple[JournalEntry, Undone]] = field(default_factory=list, init=False)  # before the end

    async def start(self, order: Sequence[str], runs: Mapping[str, int]) -> dict[str, RunningServer]:
        """Give the server the control's settings, and try all others once, in ``order``."""
        wanted = {name: json.dumps(self.target.shared[name]) for name in self.arms}
        first = self.first
        self._switch, self._put_back = None, []
        if self._first_change is not None:
            await refuse_changed(self.target.server, self._first_change)
        await self.target.start_with(self.arms[first], {ServerSwitch.name: wanted}, run=runs[first])
        for entry in self.target.changed:
            if entry.change.knob == ServerSwitch.name:
                self.has_switched, self._first_change = True, self._first_change or entry.change
                self._switch = await begin_switching(self.target.server, entry.change)
        servers: dict[str, RunningServer] = {}
        for name in order:
            await self.switch(name)
            servers[name] = await self.target.serve(self.arms[name])
        await self.switch_back()
        return servers

    async def switch(self, name: str) -> None:
        if self._switch is not None:
            try:
                async with asyncio.timeout(_PATIENCE):
                    await self._switch.turn_to(name)
            except TimeoutError:
                raise SettingError(
                    f'the server has not taken the settings of arm "{name}" within {_PATIENCE:g} s'
                ) from None

    async def switch_back(self) -> None:
        await self.switch(self.first)

    def find_drift(self, name: str) -> str:
        """No value of the kernel is switched; of the file of settings the next switch sees what others have done."""
        return ""

    async def put_back(self) -> None:
        """Put everything back at once, whatever else is to be done yet. Raises RestoreError."""
        self._put_back += await self.target.changes.undo(self.target.changed)

    async def find_lost(self, name: str) -> str:
        """Raises SettingError where somebody has set what is switched, which is not done again to him."""
        if self._switch is None:
            return await self.target.find_lost()
        others = [entry for entry in self.target.changed if entry.change.knob != ServerSwitch.name]
        if lost := await self._switch.find_lost():
            raise SettingError(lost.rstrip("."), hint="What others have set stays.")
        return await self.target.changes.find_lost(others)

    async def stop(self, *, immediate: bool) -> Sequence[tuple[JournalEntry, Undone]]:
        before, self._put_back = self._put_back, []
        return [*before, *await self.target.stop(immediate=immediate)]
