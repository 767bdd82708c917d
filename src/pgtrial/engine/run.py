"""The lifecycle of a group of runs: one that has the machine to itself, or all runs of a block that share its time.

Restore, start (which applies and verifies the knobs), fingerprint, measure, look for lost changes, stop, collect and
check.
"""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pgtrial.design.slices import shuffled
from pgtrial.engine.collect import InvalidRunError, check_clock, check_run, clock_offset, collect
from pgtrial.engine.fingerprint.read import Machine, taken_by_others
from pgtrial.engine.folder import discard_raw, make_raw_folders
from pgtrial.engine.leftovers import end_all_strays
from pgtrial.engine.measure import MACHINE, Measurement, RunGroup
from pgtrial.engine.sampler.control import SamplerReport
from pgtrial.errors import TargetError
from pgtrial.experiment_file.workload_table import TPCC
from pgtrial.knobs.cgroup_limits import unlimited_reads
from pgtrial.model.run import AFTER, BEFORE, UNDER_LOAD, PhaseName
from pgtrial.postgres.connect import find_row
from pgtrial.store import layout
from pgtrial.store.transactions import IngestReport
from pgtrial.units import format_share
from pgtrial.workloads.tpcc import CHECKS


@dataclass(slots=True, kw_only=True)
class Execution:
    """One attempt at the runs of a group; ``execute`` may be called once.

    With ``restore`` the data are put back first; with ``keeps_data`` a later run goes on with the data of this one.
    Runs in which others took more than ``most_disturbed``, a share of the CPU time, are invalid. A server that
    ``stays`` is left up for the next run, unless this one fails.
    """

    group: RunGroup
    measurement: Measurement
    restore: bool
    keeps_data: bool
    most_disturbed: float | None = None
    stays: bool = False

    async def execute(self) -> dict[str, float]:
        """Run all steps; return the mean tps of each arm over the levels.

        Raises InvalidRunError when one of the runs cannot count, which makes all of them invalid; TargetError and the
        like from below.
        """
        group = self.group
        servers, record, members = group.servers, group.record, group.members
        for member in members.values():
            member.spool, member.log_folder = make_raw_folders(member.folder, account=group.context.load.account)
        offsets, is_left_up = self._clock_offsets(), False
        try:
            if self.restore:
                with record.phase(PhaseName.RESTORE):
                    await servers.restore()
            await self._prepare_caches("cold")
            self._note_pages(BEFORE)
            with record.phase(PhaseName.START):
                order = shuffled(list(members), random.Random(f"{group.context.seed}/{group.block}"))
                started = await servers.start(order, {name: member.run.id for name, member in members.items()})
            for name, member in members.items():
                done_by_load = group.context.load.does(member.arm)
                member.server = replace(started[name], confirmed=started[name].confirmed | done_by_load)
            if not group.goes_on:
                await self._prepare_caches("warm")
            for member in members.values():
                await member.record.add_server(member.arm, member.server)
            places = [member.server.directories for member in members.values()]
            before = record.add_machine(group.host, places, server=group.foreign_process)
            reports = await self._measure(offsets)
            wrong_pages = self._note_pages(UNDER_LOAD)
            after = record.add_machine(group.host, places, server=group.foreign_process, since=before)
            servers.settle()
            lost = [await servers.find_lost(name) for name in members]
            clock_step = self._clock_step(offsets)
            inconsistent = await self._find_inconsistency()
            with record.phase(PhaseName.STOP):
                dead = group.describe_dead()
                if self.stays:
                    await self._keep_logs()
                else:
                    # Data that a later run goes on with must not need recovery: it would be part of that run alone.
                    await self._stop(immediate=not self.keeps_data)
            self._note_pages(AFTER)
            with record.phase(PhaseName.COLLECT):
                ingested = await asyncio.to_thread(self._collect)
            disturbed = self._describe_disturbance(before, after)
            for reason in filter(None, (dead, *lost, wrong_pages, disturbed, inconsistent)):
                raise InvalidRunError(reason)
            self._check(reports, ingested, clock_step)
            is_left_up = self.stays
        finally:
            try:
                if not is_left_up:
                    await self._stop(immediate=True)
            finally:
                for member in members.values():
                    discard_raw(member.folder)
        return {name: ingested[name].counted / member.counted_seconds for name, member in members.items()}

    async def _find_inconsistency(self) -> str:
        """Which condition that pgtrial knows of a load's data one of the servers' does not keep after it, outside of
        measured time, in a sentence; "" if all keep them all. Arms may share a database, which is looked at once.
        """
        group = self.group
        if group.context.workload.mix != TPCC or group.describe_dead():
            return ""
        servers = [member.server for member in group.members.values()]
        with group.record.phase(PhaseName.CHECK):
            for conninfo in dict.fromkeys(server.conninfo(server.database) for server in servers):
                for clause, query in CHECKS.items():
                    try:
                        row = await find_row(conninfo, query)
                    except TargetError as err:
                        why = f"whether the data are consistent after the load cannot be told (clause {clause})"
                        return f"{why}: {err}"
                    if row is not None:
                        return f"the data are inconsistent after the load (clause {clause} of TPC-C): {row[0]}"
        return ""

    def _describe_disturbance(self, before: Machine, after: Machine) -> str:
        """What others took of the CPU time, if it was too much; "" if not, or where it is not known."""
        share = taken_by_others(before, after)
        if self.most_disturbed is None or share is None or share <= self.most_disturbed:
            return ""
        return f"other programs and the hypervisor took {format_share(share)} of the CPU time"

    def _clock_offsets(self) -> tuple[float, ...]:
        """Of the load generators' machines and of the servers', which may be one."""
        context = self.group.context
        hosts = (context.client_host, self.group.host, *(machine.host for machine in context.machines))
        return tuple(clock_offset(host.ops) for host in hosts)

    async def _measure(self, offsets: tuple[float, ...]) -> Mapping[str, SamplerReport]:
        try:
            return await self.measurement.measure()
        except InvalidRunError:
            # By a clock that was set, a load that worked on stood still or ended early.
            check_clock(self._clock_step(offsets))
            raise

    def _clock_step(self, offsets: tuple[float, ...]) -> float:
        """By how many seconds a clock was set since it had these offsets, of all of them the most."""
        return max((now - then for now, then in zip(self._clock_offsets(), offsets, strict=True)), key=abs)

    async def _prepare_caches(self, state: str) -> None:
        """Empty the caches of arms that begin cold, or fill those of arms that begin warm."""
        load = self.group.context.load
        members = [member for member in self.group.members.values() if member.arm.cache == state]
        if members:
            with self.group.record.phase(PhaseName.CACHE):
                for member in members:
                    if state == "cold":
                        await load.make_cold(member.arm)
                    else:
                        with unlimited_reads(self.group.host.ops, member.server.groups):
                            await load.make_warm(member.arm, member.server)

    def _note_pages(self, moment: str) -> str:
        """Record the memory pages of each run; return the first mismatch with a server's settings, or ""."""
        problems = [
            member.pages.note(moment, server=member.server if moment == UNDER_LOAD else None)
            for member in self.group.members.values()
        ]
        return next(filter(None, problems), "")

    async def _stop(self, *, immediate: bool) -> None:
        """Keep the servers' logs, stop the servers and what they have started, and restore the host.

        A second call does nothing.
        """
        try:
            await self._keep_logs()
        finally:
            try:
                self.group.record.add_restored(await self.group.servers.stop(immediate=immediate))
            finally:
                context = self.group.context
                loading = (machine.host for machine in context.machines)
                end_all_strays(context.mark, self.group.host, context.client_host, *loading)

    async def _keep_logs(self) -> None:
        for name, member in self.group.members.items():
            await self.group.servers.keep_log(name, member.folder / layout.SERVER_LOG)

    def _collect(self) -> dict[str, IngestReport]:
        clock, shared = self.measurement.clock, self.measurement.shared_spool
        return {
            name: collect(member.folder, member.logs, clock=clock, shared=shared, own=name in self.measurement.samplers)
            for name, member in self.group.members.items()
        }

    def _check(
        self, reports: Mapping[str, SamplerReport], ingested: Mapping[str, IngestReport], clock_step: float
    ) -> None:
        """Raise InvalidRunError for whatever makes the numbers of a run untrue.

        In a block, only the machine's sampler can have gaps: those of servers, if there are any, are frozen with them.
        """
        for name, member in self.group.members.items():
            sampler = reports[name if name in reports else MACHINE]
            if MACHINE in reports:
                sampler = replace(reports[MACHINE], errors=(*reports[MACHINE].errors, *sampler.errors))
            check_run(
                member.outcomes,
                member.logs,
                sampler=sampler,
                ingested=ingested[name],
                clock_step=clock_step,
                program=self.group.context.load.output.program,
            )
