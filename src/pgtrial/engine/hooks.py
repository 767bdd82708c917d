"""Run the file's hooks: programs at certain moments, recorded like every other program, and bounded in time."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from pgtrial.engine.events import Observer, Preparing
from pgtrial.errors import TargetError
from pgtrial.experiment_file.experiment import HooksTable
from pgtrial.hosts.base import Completed, Host
from pgtrial.model.run import Slot
from pgtrial.store.state import State
from pgtrial.units import format_duration

HOOK = "hook"  # kind of event
_MOST_SAID = 6  # lines of what a program said


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """``host`` is this machine: the programs run where pgtrial does, wherever the server is."""

    table: HooksTable
    host: Host
    state: State
    folder: Path
    tell: Observer

    async def run(self, moment: str, slot: Slot | None = None) -> None:
        """Run the program of a moment to its end, if there is one. Raises TargetError if it fails or takes too long."""
        argv = self.table.programs().get(moment)
        if argv is None:
            return
        about = {} if slot is None else {"PGTRIAL_BLOCK": str(slot.block)}
        if slot is not None and moment.endswith("_run"):
            about |= {"PGTRIAL_RUN": str(slot.number), "PGTRIAL_ARM": slot.arm}
        self.tell(Preparing(step=f"running the hook {moment}"))
        started = time.time()
        environment = {"PGTRIAL_HOOK": moment, "PGTRIAL_FOLDER": str(self.folder.absolute()), **about}
        completed = await self._finish(argv, environment)
        status = None if completed is None else completed.status
        self.state.add_event(started, HOOK, moment=moment, seconds=time.time() - started, status=status)
        if completed is None:
            limit = format_duration(self.table.timeout)
            raise TargetError(
                f"the hook {moment} took longer than {limit}", hint="Raise timeout in [hooks], or mend it."
            )
        if completed.status != 0:
            said = (completed.stderr.strip() or completed.stdout.strip()).splitlines()[-_MOST_SAID:]
            raise TargetError(f"the hook {moment} ended with status {completed.status}", detail="\n".join(said))

    async def _finish(self, argv: tuple[str, ...], environment: dict[str, str]) -> Completed | None:
        """None if it was ended because its time was over."""
        running = asyncio.ensure_future(self.host.run(argv, environment=environment, check=False))
        try:
            done, _ = await asyncio.wait({running}, timeout=self.table.timeout)
            return running.result() if done else None
        finally:
            if not running.done():
                running.cancel()  # which ends the program
                await asyncio.wait({running})
