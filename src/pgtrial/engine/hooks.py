"""Run the file's hooks: programs at certain moments, recorded like every other program, and bounded in time."""

import asyncio
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pgtrial.engine.events import Observer, Preparing
from pgtrial.errors import TargetError
from pgtrial.experiment_file.experiment import HooksTable
from pgtrial.hosts.base import Completed, Host
from pgtrial.hosts.processes import end_process, ends_within
from pgtrial.model.run import Slot
from pgtrial.safe_text import shell_word
from pgtrial.store.state import State
from pgtrial.units import format_duration

HOOK = "hook"  # kind of event
_MOST_SAID = 6  # lines of what a program said
_PIPE = 1 << 16  # bytes that a pipe holds, and that are kept of an output


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
        # A folder without runs is not kept.
        on = f'continue with "pgtrial resume {shell_word(self.folder)}"' if self.state.runs() else "run it again"
        if completed is None:
            raise TargetError(
                f"the hook {moment} took longer than {format_duration(self.table.timeout)}",
                hint=f"Mend the program and {on}, or raise timeout in [hooks] and begin anew.",
            )
        if completed.status != 0:
            said = (completed.stderr.strip() or completed.stdout.strip()).splitlines()[-_MOST_SAID:]
            raise TargetError(
                f"the hook {moment} ended with status {completed.status}",
                detail="\n".join(said),
                hint=f"Mend the program and {on}.",
            )

    async def _finish(self, argv: tuple[str, ...], environment: dict[str, str]) -> Completed | None:
        """None if it was ended because its time was over. What it leaves running, which may hold on to its output, is
        not waited for.
        """
        with _LastWords() as out, _LastWords() as err:
            process = await self.host.start(
                argv, role=Path(argv[0]).name, environment=environment, stdout=out.place, stderr=err.place
            )
            out.close_place()
            err.close_place()
            has_ended = False
            try:
                has_ended = await ends_within(process, self.table.timeout)
            finally:
                status = await end_process(process)
                if not has_ended:  # what it has started and waited for would go on beside the next runs
                    with suppress(ProcessLookupError):
                        process.kill_session()
            return Completed(status=status, stdout=out.take(), stderr=err.take()) if has_ended else None


class _LastWords:
    """The end of what a program writes to a pipe at ``place``, however much that is."""

    def __init__(self) -> None:
        self._pipe, self.place = os.pipe()
        os.set_blocking(self._pipe, False)
        self._kept = b""

    def __enter__(self) -> Self:
        asyncio.get_running_loop().add_reader(self._pipe, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._pipe)
        os.close(self._pipe)
        self.close_place()

    def close_place(self) -> None:
        """Once the program has it."""
        if self.place >= 0:
            os.close(self.place)
            self.place = -1

    def take(self) -> str:
        """When the program has ended."""
        self._read()
        return self._kept.decode("utf-8", "replace")

    def _read(self) -> None:
        try:
            chunk = os.read(self._pipe, _PIPE)
        except BlockingIOError:
            return
        self._kept = (self._kept + chunk)[-_PIPE:]
        if not chunk:
            asyncio.get_running_loop().remove_reader(self._pipe)
