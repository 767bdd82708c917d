"""One server for all arms of a block, switched back and forth between their settings while it runs: pgtrial's own, or
an existing one, for all who use it.
"""

import asyncio
import json
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pgtrial.design.variants import host_knobs
from pgtrial.engine.target.base import DATABASE, RunningServer, SingleServer, wanted_settings
from pgtrial.engine.target.existing import ServerTarget
from pgtrial.engine.target.switches import Switches, has_own, set_values, split_knobs
from pgtrial.engine.target.throwaway import ThrowawayTarget
from pgtrial.errors import SettingError
from pgtrial.knobs.kernel_values import read_chosen, same_value
from pgtrial.model.change import Change, JournalEntry, Undone
from pgtrial.postgres.existing.knobs import ServerSwitch
from pgtrial.postgres.existing.settings_switch import SettingsSwitch, begin_switching, refuse_changed
from pgtrial.postgres.settings import Setting

_PATIENCE = 10.0  # s for a server to take up its settings
_POLL = 0.02  # s
_TAKING_UP = 30.0  # s for a switch, of which a server needs one or two


@dataclass(slots=True, kw_only=True)
class Switchboard(SingleServer):
    """``arms``: the control first, whose server it is. All have the same data, programs and place."""

    target: ThrowawayTarget
    switches: Switches = field(init=False)
    _texts: dict[str, dict[str, str]] = field(default_factory=dict, init=False)  # settings of PostgreSQL by arm
    _now: str = field(default="", init=False)  # the arm whose settings the server has

    def __post_init__(self) -> None:
        self.switches = Switches(changes=self.target.changes)
        self._texts = {name: {**self.target.counting, **wanted_settings(arm)} for name, arm in self.arms.items()}

    async def start(self, order: Sequence[str], runs: Mapping[str, int]) -> dict[str, RunningServer]:
        """Start the server with the control's settings, and try all others once, in ``order``."""
        common, own = split_knobs(self.arms)
        control = self.arms[self.first]
        kept = {knob: table for knob, table in host_knobs(control).items() if has_own(knob)}
        server = await self.target.start_with(control, {**common, **kept}, run=runs[self.first])
        self._now = self.first
        context = self.target.context(self.target.cluster(control), self._texts[self.first])
        servers: dict[str, RunningServer] = {}
        for name in order:
            knobs = {knob: table for knob, table in own[name].items() if not has_own(knob)}
            entries = await self.switches.add(name, context, knobs, run=runs[name])
            settings = await self._reload(name) or server.settings
            confirmed = server.confirmed | self.target.changes.confirmed(knobs)
            servers[name] = replace(server, settings=settings, changes=(*server.changes, *entries), confirmed=confirmed)
        self.switches.begin()
        await self.switch_back()
        return servers

    async def switch(self, name: str) -> None:
        """Give the server an arm's settings, each read back. Raises SettingError, OSError."""
        set_values(self.host.ops, self.switches.values.get(name, ()))
        await self._reload(name)
        if lost := self.find_drift(name):
            raise SettingError(lost)

    async def switch_back(self) -> None:
        """Give the server the control's settings, with which blocks begin and end. Raises SettingError, OSError."""
        await self.switch(self.first)

    def find_drift(self, name: str) -> str:
        """Which of an arm's values of the kernel is not in force, in a clause; "" if all are."""
        for path, value in self.switches.values.get(name, ()):
            now = read_chosen(self.host.ops, path)
            if not same_value(now, value):
                return f'"{path}" is {now}, and the arm "{name}" needs {value}'
        return ""

    async def _reload(self, name: str) -> dict[str, Setting]:
        """Have the server read an arm's settings; what they are then, {} where they are those that it has."""
        if self._texts[name] == self._texts[self._now]:
            self._now = name
            return {}
        cluster = self.target.cluster(self.arms[self.first])
        cluster.write_settings(self._texts[name])
        assert cluster.process is not None  # it was started
        cluster.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                settings = await cluster.verify_settings(self._texts[name], database=DATABASE)
            except SettingError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_POLL)
            else:
                self._now = name
                return settings

    async def stop(self, *, immediate: bool) -> Sequence[tuple[JournalEntry, Undone]]:
        undone = list(await self.target.stop(immediate=immediate))
        undone += await self.switches.undo()
        return undone


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
                async with asyncio.timeout(_TAKING_UP):
                    await self._switch.turn_to(name)
            except TimeoutError:
                raise SettingError(
                    f'the server has not taken the settings of arm "{name}" within {_TAKING_UP:g} s'
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
