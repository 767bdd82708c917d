"""What the engine calls: let twins take turns by a sequence of steps, and learn when each was at work."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field

from pgtrial.design.slices import Step
from pgtrial.engine.slicer.standstill import family, go_on
from pgtrial.errors import WorkloadError
from pgtrial.hosts.base import Host
from pgtrial.hosts.processes import end_process
from pgtrial.model.run import Slice


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """Process ids of an arm: its server, and what asks it, which stands still with it."""

    server: int
    others: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """``cpu_sets`` are those of the arms of a step, in its order; () leaves all arms on all CPUs. ``values`` are files
    of the kernel that have to hold a value while an arm is at work.
    """

    twins: Mapping[str, Twin]
    steps: Sequence[Step]
    cpu_sets: Sequence[tuple[int, ...]] = ()
    values: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)


async def take_turns(host: Host, task: Task, *, level: int) -> dict[str, tuple[Slice, ...]]:
    """Have the steps done; the slices of each arm. Raises WorkloadError with the reason if they cannot be.

    Afterwards, also after an error or a cancellation, all twins are at work.
    """
    everybody = [pid for twin in task.twins.values() for pid in (*twin.others, *family(twin.server))]
    process = await host.start(
        [sys.executable, "-m", "pgtrial.engine.slicer"],
        role="slicer",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdin is not None  # all three were asked for as pipes
        assert process.stdout is not None
        assert process.stderr is not None
        complaint = asyncio.create_task(process.stderr.read())
        with suppress(ConnectionError):
            process.stdin.write(json.dumps({**_as_json(task), "parent": os.getpid()}).encode() + b"\n")
            await process.stdin.drain()
        lines = (await process.stdout.read()).splitlines()
        status = await process.wait()
        said = (await complaint).decode(errors="replace").strip()
    finally:
        await end_process(process)  # it lets all go on before it ends
        go_on(everybody)  # unless it was killed
    if status != 0 or len(lines) != len(task.steps):
        raise WorkloadError(f"the arms do not take turns any more: {said or 'the slicer was killed'}")
    return _slices(task.steps, [json.loads(line) for line in lines], level)


def _as_json(task: Task) -> dict[str, object]:
    return {
        "twins": {arm: asdict(twin) for arm, twin in task.twins.items()},
        "steps": [(step.arms, step.length, step.guard) for step in task.steps],
        "cpu_sets": task.cpu_sets,
        "values": task.values,
    }


def _slices(steps: Sequence[Step], done: Sequence[Mapping[str, float]], level: int) -> dict[str, tuple[Slice, ...]]:
    found: dict[str, list[Slice]] = {}
    for number, (step, times) in enumerate(zip(steps, done, strict=True)):
        for arm in step.arms:
            found.setdefault(arm, []).append(
                Slice(
                    level=level,
                    number=number,
                    started=times["started"],
                    counted=times["counted"],
                    ended=times["ended"],
                )
            )
    return {arm: tuple(slices) for arm, slices in found.items()}
