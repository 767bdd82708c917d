"""One server for all arms of a block, switched back and forth between their settings while it runs."""

import asyncio
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pgtrial.design.variants import host_knobs
from pgtrial.engine.target.base import DATABASE, RunningServer, SingleServer, wanted_settings
from pgtrial.engine.target.switches import Switches, has_own, set_values, split_knobs
from pgtrial.engine.target.throwaway import ThrowawayTarget
from pgtrial.errors import SettingError
from pgtrial.knobs.kernel_values import read_chosen, same_value
from pgtrial.model.change import JournalEntry, Undone
from pgtrial.postgres.settings import Setting

_PATIENCE = 10.0  # s for a server to take up its settings
_POLL = 0.02  # s


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
