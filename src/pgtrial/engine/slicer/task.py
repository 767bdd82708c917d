"""What the slicer has to do, and having it done: whose processes work when, and when each did."""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field

from pgtrial.design.slices import Step
from pgtrial.engine.slicer.freeze import thaw
from pgtrial.errors import WorkloadError
from pgtrial.hosts.base import Host
from pgtrial.hosts.local import own_program
from pgtrial.hosts.operations import family
from pgtrial.hosts.processes import end_process, forget_input
from pgtrial.model.run import Slice


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """Process ids of an arm: its server, and its load, sampler and pooler; ``programs`` are loads that start others.

    Where the server is another's as well, ``backends`` are the processes in it that serve the arm alone. They get the
    arm's CPUs, and are never frozen.
    """

    server: int | None
    others: tuple[int, ...]
    backends: tuple[int, ...] = ()
    programs: tuple[int, ...] = ()


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
    """Run the steps and return the slices of each arm. Raises WorkloadError if the slicer fails.

    Afterwards all twins run again, also after an error or a cancellation.
    """
    everybody = [
        pid
        for twin in task.twins.values()
        for pid in (*twin.others, *twin.programs, *(family(twin.server) if twin.server else ()))
    ]
    process = await host.start(
        own_program("pgtrial.engine.slicer"),
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
        await end_process(process)  # it thaws all before it ends
        await forget_input(process)
        # Unless it was killed; then a program may also have others.
        thaw([*everybody, *(pid for twin in task.twins.values() for one in twin.programs for pid in family(one))])
    if status != 0 or len(lines) != len(task.steps):
        raise WorkloadError(f"the arms no longer take turns: {said or 'the slicer was killed'}")
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
