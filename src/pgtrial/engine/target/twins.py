"""One cluster per arm, all up at the same time, each with its own copy of its variant's data."""

import random
import secrets
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgtrial.design.slices import shuffled
from pgtrial.engine.changes import HostChanges
from pgtrial.engine.target.base import RunningServer, run_concurrently, wanted_settings
from pgtrial.engine.target.switches import Switches, has_own, split_knobs
from pgtrial.engine.target.throwaway import ThrowawayTarget
from pgtrial.hosts.base import Host
from pgtrial.knobs.base import KnobContext
from pgtrial.model.arm import Arm
from pgtrial.model.change import JournalEntry, Undone
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.postgres.work_directory import prepare_directories, prepare_directory
from pgtrial.store.belongings import Belongings, Made


@dataclass(slots=True, kw_only=True)
class Twins:
    """``base`` has the snapshots, and is not running. ``members`` have one cluster each, by the arm's name, in the
    order in which they were last started.

    What all arms set alike on the host is set once. What they set differently is switched before each slice.
    """

    base: ThrowawayTarget
    arms: Mapping[str, Arm]
    members: dict[str, ThrowawayTarget] = field(default_factory=dict)
    switches: Switches = field(init=False)

    def __post_init__(self) -> None:
        self.switches = Switches(changes=self.base.changes)

    @property
    def values(self) -> Mapping[str, Sequence[tuple[str, str]]]:
        return self.switches.values

    @property
    def host(self) -> Host:
        return self.base.host

    @property
    def _changes(self) -> HostChanges:
        return self.base.changes

    async def restore(self) -> None:
        """Restore all arms concurrently, so that no copy of the data is older than the others."""
        await run_concurrently(*(member.restore(self.arms[name]) for name, member in self.members.items()))

    def exchange(self, block: int, *, seed: int) -> None:
        """Give the arms each other's data, where they are of one kind: whatever a copy is like by where it lies on disk
        and in memory, no arm has it in every block. In as many blocks as there are arms each has each copy once.

        For servers that are down, and data that are not put back.
        """
        by_variant: dict[str, list[str]] = {}
        for name, arm in self.arms.items():
            by_variant.setdefault(arm.variant.key, []).append(name)
        for key, names in by_variant.items():
            copies = sorted((self.members[name].clusters[key] for name in names), key=lambda copy: copy.directory)
            group, place = divmod(block - 1, len(names))
            turn = shuffled(range(len(names)), random.Random(f"{seed}/copies/{group}"))[place]
            for name, copy in zip(names, (*copies[turn:], *copies[:turn]), strict=True):
                self.members[name].clusters = {key: copy}

    async def start(self, order: Sequence[str], runs: Mapping[str, int]) -> dict[str, RunningServer]:
        common, own = split_knobs(self.arms)
        await self.switches.share(self._context(order[0]), common)
        servers: dict[str, RunningServer] = {}
        for name in order:
            knobs = {knob: table for knob, table in own[name].items() if not has_own(knob)}
            entries = await self.switches.add(name, self._context(name), knobs, run=runs[name])
            kept = {knob: table for knob, table in own[name].items() if has_own(knob)}
            # A group of version 1 begins with the vm.swappiness that is in force, its arm's, and keeps it.
            # The last one is the first to be stopped: what they share on the host, each puts back as it found it.
            self.members[name] = self.members.pop(name)
            server = await self.members[name].start_with(self.arms[name], kept, run=runs[name])
            confirmed = server.confirmed | self._changes.confirmed(common) | self._changes.confirmed(knobs)
            servers[name] = replace(
                server, changes=(*self.switches.common, *entries, *server.changes), confirmed=confirmed
            )
        self.switches.begin()
        return servers

    def _context(self, name: str) -> KnobContext:
        member, arm = self.members[name], self.arms[name]
        return member.context(member.cluster(arm), wanted_settings(arm))

    def server_pid(self, name: str) -> int | None:
        process = self.members[name].cluster(self.arms[name]).process
        assert process is not None  # it was started
        return process.pid

    async def backends(self, beginning: str) -> tuple[int, ...]:
        return ()

    def settle(self) -> None:
        self.switches.settle()

    async def find_lost(self, name: str) -> str:
        return await self.members[name].find_lost()

    def has_died(self, name: str) -> bool:
        return self.members[name].has_died()

    async def keep_log(self, name: str, destination: Path) -> None:
        await self.members[name].keep_log(destination)

    async def stop(self, *, immediate: bool) -> Sequence[tuple[JournalEntry, Undone]]:
        undone: list[tuple[JournalEntry, Undone]] = []

        async def stop(member: ThrowawayTarget) -> None:
            undone.extend(await member.stop(immediate=immediate))

        async with AsyncExitStack() as stack:  # a failure to stop one must not leave the others running
            for member in self.members.values():
                stack.push_async_callback(stop, member)
        undone += await self.switches.undo()
        return undone

    async def remove(self) -> None:
        """Leave nothing of the members on the host."""
        async with AsyncExitStack() as stack:
            for member in self.members.values():
                stack.push_async_callback(member.remove)


def make_twins(base: ThrowawayTarget, belongings: Belongings, arms: Mapping[str, Arm]) -> Twins:
    """Make a place for each arm's cluster beside that of its variant; the first ``restore`` fills them.

    Raises PreflightError; what was made is on record, and removed with the experiment.
    """
    twins = Twins(base=base, arms=arms)
    for number, (name, arm) in enumerate(arms.items()):
        key = arm.variant.key
        original = base.clusters[key]
        place, work = original.directory.parent, f"pgtrial-{secrets.token_hex(4)}"
        wal = None if original.wal_directory is None else original.wal_directory.parent / work
        for directory in filter(None, (place / work, Path("/tmp") / work, wal)):
            belongings.add_directory(Made(path=directory, host=base.host.name))
        directory, socket_directory = prepare_directories(base.host, place, work, base.account)
        if wal is not None:
            prepare_directory(base.host, wal, base.account)
        cluster = ThrowawayCluster(
            host=base.host,
            programs=original.programs,
            directory=directory,
            socket_directory=socket_directory,
            account=base.account,
            wal_directory=wal,
        )
        twins.members[name] = ThrowawayTarget(
            experiment=base.experiment,
            host=base.host,
            account=base.account,
            changes=base.changes,
            token=f"{base.token}{number}",
            client=base.client,
            counting=base.counting,
            clusters={key: cluster},
            taken_of={key: original},
        )
    return twins
