"""Run an experiment on several hosts: hand out its blocks, take in their runs, and lose nothing when somebody is lost.

This process has the main result folder, its lock, and the journal of blocks. The engine for each host is a process on
this machine, as in an experiment with that one host; it ends, and puts everything back, when its worker ends, which
ends when this process does.
"""

import asyncio
import contextlib
import json
import logging
import shutil
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean

from pgtrial.design.plan import Plan
from pgtrial.engine.events import Event
from pgtrial.engine.experiment import Permission, refuse_unallowed
from pgtrial.engine.folder import forget_attempt, load_stored, lock_folder, refuse_older_copy
from pgtrial.engine.leftovers import sweep
from pgtrial.engine.signals import undisturbed, until_signalled
from pgtrial.errors import ConnectError, PgTrialError, PreflightError, RestoreError, StoreError, TargetError
from pgtrial.fleet.cluster import Cluster, LostError
from pgtrial.fleet.differences import Shown
from pgtrial.fleet.dispatch import MOST_LOSSES, Dispatch, Handout
from pgtrial.fleet.estimate import AtWork, seconds_left
from pgtrial.fleet.extra import require_extra
from pgtrial.fleet.fence import Fence, Fenced, to_its_end
from pgtrial.fleet.fit import refuse_unfit
from pgtrial.fleet.freezer import longest_freeze
from pgtrial.fleet.gather import done_blocks, gather_block
from pgtrial.fleet.host_folders import (
    fleet_directory,
    forget_hosts,
    has_blocks_left,
    host_folder,
    host_folders,
    keep_hosts,
)
from pgtrial.fleet.hosts_file import Fleet, FleetHost, HostsList
from pgtrial.fleet.joined import Joined, OfferedHosts
from pgtrial.fleet.machines import HostMachine, describe, find_same
from pgtrial.fleet.session import permission_text
from pgtrial.postgres.connect import forget_caller
from pgtrial.safe_text import shell_word
from pgtrial.store.belongings import Belongings
from pgtrial.store.state import State, has_runs
from pgtrial.units import format_duration

Tell = Callable[[str], None]
RETURN_AFTER = (10.0, 40.0)  # s until a host that was lost once, or twice, is asked again
_CLUSTER = ".cluster"  # beside the folders of hosts, none of which is called like this
_OFF_LIST = "it is not on the list any more"
_log = logging.getLogger(__name__)


def run_on_fleet(
    folder: Path,
    *,
    hosts: HostsList,
    permission: Permission,
    tell: Tell,
    stopping: Callable[[], None],
    is_new: bool,
) -> None:
    """Run every block of a result folder that is not done on the ``hosts`` of a list, which may change meanwhile.

    ``tell`` hears what happens, in sentences, ``stopping`` of a signal. Ends as ``run_experiment``, and by TargetError
    where no host is left that could run what is left.
    """
    require_extra()
    caller = forget_caller()
    plan = load_stored(folder)
    refuse_unfit(plan)
    refuse_unallowed(plan, folder, permission)
    with lock_folder(folder):
        sweep(folder)
        refuse_older_copy(folder)
        if is_new:
            Belongings.of(folder).add_measured()
        keep_hosts(folder, hosts.fleet, scheduler=hosts.scheduler)
        try:
            with contextlib.closing(State.open(folder, write=True)) as state:
                known = Belongings.of(folder).readable()
                leader = Leader(
                    folder=folder,
                    plan=plan,
                    hosts=hosts,
                    permission=replace(permission, files=(*permission.files, *known)),
                    fence=Fence(folder=folder, caller=caller, tell=_drop),
                    state=state,
                    tell=tell,
                    make_cluster=lambda: _cluster(folder, hosts, plan),
                )
                asyncio.run(until_signalled(leader.run(), on_signal=stopping, on_second=leader.stop_waiting))
        except BaseException as err:
            # Who resumes it ends and puts back what still goes on at a host.
            stays = isinstance(err, RestoreError)
            if is_new and not stays and not done_blocks(folder) and not has_runs(folder):
                forget_attempt(folder)
                shutil.rmtree(fleet_directory(folder), ignore_errors=True)
                shutil.rmtree(folder, ignore_errors=True)
            raise


def _cluster(folder: Path, hosts: HostsList, plan: Plan) -> "Cluster | Joined":
    places = fleet_directory(folder)
    if isinstance(hosts, OfferedHosts):
        return Joined(folder=folder, places=places, hosts=hosts, longest=longest_freeze(plan))
    return Cluster(places / _CLUSTER)


def _drop(event: Event) -> None:
    _log.info("%s", event)


@dataclass(slots=True, kw_only=True)
class Leader:
    """One run or resume of an experiment on a fleet."""

    folder: Path
    plan: Plan
    hosts: HostsList
    permission: Permission
    fence: Fence
    state: State
    tell: Tell
    make_cluster: Callable[[], "Cluster | Joined"]
    fleet: Fleet = field(init=False)  # all hosts that are known, also those that leave
    dispatch: Dispatch = field(init=False)
    cluster: "Cluster | Joined" = field(init=False)
    _stop_waiting: Callable[[], None] = field(default=lambda: None, init=False)
    _work: set["asyncio.Task[None]"] = field(default_factory=set, init=False)
    _begun: dict[str, float] = field(default_factory=dict, init=False)  # when a host's block was handed out
    _stays: dict[str, PgTrialError] = field(default_factory=dict, init=False)  # hosts that were not put back
    _reason: str = field(default="", init=False)  # why it came to an end before its time, in a sentence
    _stays_there: dict[str, PgTrialError] = field(default_factory=dict, init=False)  # as the cluster says in the end
    _shown: Shown = field(init=False)
    _machines: dict[str, HostMachine] = field(default_factory=dict, init=False)  # those that get blocks, by host
    _ran: dict[str, FleetHost] = field(default_factory=dict, init=False)  # hosts with blocks, as their folders say
    _told: set[str] = field(default_factory=set, init=False)
    _leaving: set[str] = field(default_factory=set, init=False)  # hosts that were taken off the list
    _coming: set[str] = field(default_factory=set, init=False)  # hosts that are being made ready, or will be

    def __post_init__(self) -> None:
        self.fleet = self.hosts.fleet
        self._shown = Shown(folder=self.folder)

    async def run(self) -> None:
        """Run all that is left, and leave nothing behind, also when it is cancelled. Raises PgTrialError."""
        self.state.runs()  # once as a whole: a record that is damaged is told before anything is done
        try:
            await undisturbed(self._tidy())
        except asyncio.CancelledError:
            self._refuse_unrestored()
            raise
        blocks = dict.fromkeys(slot.block for slot in self.plan.slots)
        ran_on = self.state.block_hosts()
        done = {block: ran_on.get(block, "") for block in done_blocks(self.folder)}
        self.dispatch = Dispatch(blocks=tuple(blocks), hosts=(), done=done, orders=self.plan.orders)
        around = contextlib.AsyncExitStack()
        try:
            if not self.dispatch.is_over:
                self.cluster = await around.enter_async_context(self.make_cluster())
                self._stop_waiting = self.cluster.stop_waiting
                around.push_async_callback(self._leave)
                await self._lead()
        finally:
            await undisturbed(self._end(around))

    def stop_waiting(self) -> None:
        """Wait no longer, in the end, for hosts that somebody else puts back; they are named."""
        self._stop_waiting()

    async def _lead(self) -> None:
        for host in self.fleet.host:
            self._call(host)
        while not self.dispatch.is_over:
            for handout in self.dispatch.hand_out():
                self.state.assign_block(handout.block, handout.host)
                self._begun[handout.host] = time.monotonic()
                self._do(self._ask(handout))
            if not self._work:
                raise self._nobody_left()
            done, _ = await asyncio.wait(self._work, timeout=self.hosts.every, return_when=asyncio.FIRST_COMPLETED)
            self._work -= done
            for task in done:
                task.result()  # a bug, or the main folder cannot be written
            self._follow_list()
            if self.cluster.has_ended:
                ended = "the scheduler of the fleet has ended"
                self._reason = f"The reason is that {ended}."
                raise TargetError(
                    ended,
                    hint=f'Finished blocks are kept. Continue with "pgtrial resume {shell_word(self.folder)}".',
                )

    def _do(self, work: Coroutine[object, object, None]) -> None:
        self._work.add(asyncio.create_task(work))

    def _follow_list(self) -> None:
        """Take in hosts that were added to the list, and give back those that were taken off it."""
        try:
            fleet = self.hosts.changed()
        except PgTrialError as err:
            self.tell(f"{err.message}; it stays as it was.")
            return
        if fleet is None:
            return
        fleet = self._with_known_names(fleet)
        known = {host.name: host for host in self.fleet.host}
        wanted = {host.name for host in fleet.host}
        added = tuple(host for host in fleet.host if host.name not in known)
        # Who leaves is still looked up by name until it is gone.
        self.fleet = Fleet(host=(*self.fleet.host, *added))
        again = self._leaving & wanted
        self._leaving = (self._leaving | known.keys()) - wanted
        keep_hosts(self.folder, fleet, scheduler=self.hosts.scheduler)
        for host in added:
            self.tell(f"{host.name} joins.")
            self._call(host)
        for host in fleet.host:
            if known.get(host.name, host) != host:
                self._tell_once(f"{host.name} is listed otherwise now; it stays what it was until pgtrial ends.")
        for name in sorted(again):
            self.tell(f"{name} is on the list again.")
            if name in self.dispatch.away():
                self._call(self.fleet.find(name))
        for name in self._leaving:
            if self.dispatch.is_free(name):  # at once: it gets no block before it is fenced
                self.dispatch.set_aside(name, _OFF_LIST)
                self._do(self._leave_out(self.fleet.find(name), _OFF_LIST))

    def _with_known_names(self, fleet: Fleet) -> Fleet:
        """The list, with hosts that were given another name under the one that they have: their blocks are one
        host's.
        """
        known = {host.name for host in self.fleet.host}
        new = [host for host in fleet.host if host.name not in known]
        own = self.hosts.without_doubles(new, known=self.fleet.host)
        found = []
        for host in fleet.host:
            if host in new and host not in own:
                found.append(next(other for other in self.fleet.host if other.where == host.where))
                self._tell_once(f"{host.name} has the address of {found[-1].name}, and keeps that name.")
            else:
                found.append(host)
        return Fleet(host=tuple(found))

    # -- a host ----------------------------------------------------------------------------------------------

    def _call(self, host: FleetHost, *, after: float | None = None) -> None:
        """Have a host made ready, if it is not being made so."""
        if host.name not in self._coming:
            self._coming.add(host.name)
            self._do(self._bring(host, after=after))

    async def _bring(self, host: FleetHost, *, after: float | None = None) -> None:
        """Make a host ready for its first block, or for the next one after it was lost."""
        lost = ""
        try:
            await asyncio.sleep(after or 0.0)
            if host.name in self._leaving:
                return
            try:
                await self._put_back(host)
                await to_its_end(lambda: host_folder(self.folder, host))
                self._refuse_renamed(host)
                await self._meet(host)
                await self.cluster.add_worker(host.name)
            except LostError as err:  # it is asked again, as where it is lost with a block
                lost = err.message
            except PgTrialError as err:
                self.tell(f"{host.name} gets no blocks: {err.message}. {err.hint}")
                self.dispatch.join(host.name)
                self.dispatch.set_aside(host.name, err.message)
                self.dispatch.fence(host.name, returns=False)
                return
        finally:
            self._coming.discard(host.name)
        self.dispatch.join(host.name)
        if lost:
            await self._lose(host, lost)
        elif host.name in self._leaving:  # it was taken off the list meanwhile
            await self._set_aside(host, _OFF_LIST, hint="")
        elif after is not None:
            self.tell(f"{host.name} gets blocks again.")

    async def _put_back(self, host: FleetHost) -> None:
        """Put back what could not be when a host was lost, as one that is cut off. Raises LostError where it still
        cannot.
        """
        if host.name in self._stays:
            every = frozenset(slot.block for slot in self.plan.slots)  # it holds none: whatever is new there came late
            reason = self.dispatch.away().get(host.name, "pgtrial ended")
            fenced = await self._fence(host, reason, refused=every)
            if fenced.stays is not None:
                raise LostError(f"it could not be put back: {fenced.stays.message}")

    def _refuse_renamed(self, host: FleetHost) -> None:
        """Raises PreflightError where the host has blocks under another name: they would count as two hosts."""
        if unread := set(self.dispatch.counted.values()) - self._ran.keys():
            for name, place in host_folders(self.folder).items():  # of one that was copied there are none
                if name in unread:
                    address = _find_address(place)
                    self._ran[name] = FleetHost(name=name, ssh=address) if address else FleetHost(name=name, local=True)
        known = [self._ran[name] for name in sorted(self._ran) if name != host.name]
        if not self.hosts.without_doubles((host,), known=known):
            name = next(other.name for other in known if other.where == host.where)
            raise PreflightError(
                f'"{host.where}" has run blocks as host "{name}"',
                hint="Give it that name in the list of hosts: under two names it would count as two.",
            )

    async def _meet(self, host: FleetHost) -> None:
        """Find out which machine a host is. Raises PreflightError where another one is the same."""
        try:
            machine = await self.cluster.ask_machine(host)
        except ConnectError:
            return  # its first block says so, and is tried again
        others = {name: known for name, known in self._machines.items() if name != host.name}
        if (other := find_same(machine, others)) is not None:
            raise PreflightError(
                f"it is the same machine as {other}, under another address",
                hint="Two blocks at a time on one machine would disturb each other: list each machine once.",
            )
        self._machines[host.name] = machine
        for text in describe(host.name, machine, others):
            self._tell_once(text)

    async def _ask(self, handout: Handout) -> None:
        """Have a host run a block, and take it in; fence the host where that does not come to its end."""
        host, block = self.fleet.find(handout.host), handout.block
        place = fleet_directory(self.folder) / host.name
        self.tell(f"block {block} goes to {host.name}.")
        base = self.permission.work_base if host.work_directory is None else Path(host.work_directory)
        request = {
            "folder": str(place),
            "permission": permission_text(replace(self.permission, work_base=base)),
            "block": block,
        }
        try:
            answer = await self.cluster.run_block(host.name, json.dumps(request))
        except LostError as err:
            await self._lose(host, err.message)
            return
        if "failed" in answer:
            reason = ": ".join(str(answer[key]) for key in ("failed", "detail") if answer.get(key))
            reason = " ".join(reason.split())
            if answer.get("may_return"):
                await self._lose(host, reason)
            else:
                await self._set_aside(host, reason, hint=str(answer.get("hint", "")))
            return
        files = answer.get("files")
        digests = files if isinstance(files, dict) else {}
        try:
            await to_its_end(lambda: gather_block(place, self.folder, block=block, host=host.name, digests=digests))
        except StoreError as err:
            await self._set_aside(host, err.message, hint=err.hint, refused=frozenset({block}))
            return
        self.dispatch.finish(host.name, block)
        self._tell_done(host.name, block)
        if answer.get("awake"):
            self._tell_once(
                f"the worker on {host.name} does not stand still while runs are measured: somebody asks it for "
                "something, as a monitor for its metrics, or whoever started it is gone, or it is the first process of "
                "its container, which cannot be stopped. It takes from the CPU time of what is measured."
            )
        if host.name in self._leaving:
            await self._set_aside(host, _OFF_LIST, hint="")

    def _tell_done(self, host: str, block: int) -> None:
        took = time.monotonic() - self._begun[host]
        self._shown.follow(self.dispatch.counted)
        count, of = len(self.dispatch.counted), len({slot.block for slot in self.plan.slots})
        left = self._seconds_left()
        still = "" if not left else f"; some {format_duration(round(left))} left"
        self.tell(
            f"block {block} is done on {host}, after {format_duration(round(took))} ({count} of {of} blocks{still})."
        )
        self._compare()

    def _seconds_left(self) -> float | None:
        """As long as the blocks that are done make expect, on the hosts that get blocks."""
        now, took, held = time.monotonic(), self._shown.seconds, self.dispatch.held
        return seconds_left(
            len(self.dispatch.waiting),
            [
                AtWork(
                    seconds=fmean(took[host]) if host in took else None,
                    has_been=now - self._begun[host] if host in held.values() else None,
                )
                for host in self.dispatch.present()
            ],
        )

    async def _lose(self, host: FleetHost, reason: str) -> None:
        """A host is lost: fence it, and ask it again later."""
        if not self.dispatch.lose(host.name, reason):
            return
        block = self.dispatch.block_of(host.name)
        what = "" if block is None else f", with block {block}"
        self.tell(f"{host.name} is lost{what}: {reason}.")
        fenced = await self._fence(host, reason)
        if not self._free(host, fenced, returns=True):
            self.tell(f"{host.name} gets no more blocks. {self._why(host.name, fenced)}")
            return
        # It is away while it waits, so that its block goes to whoever is there.
        self.dispatch.set_aside(host.name, reason)
        self.dispatch.fence(host.name)
        after = RETURN_AFTER[max(1, min(self.dispatch.losses(host.name), len(RETURN_AFTER))) - 1]
        self._call(host, after=after)

    async def _set_aside(
        self, host: FleetHost, reason: str, *, hint: str, refused: frozenset[int] = frozenset()
    ) -> None:
        """A host cannot run the experiment: fence it, and leave it out. Blocks that were ``refused`` do not count."""
        if self.dispatch.set_aside(host.name, reason):
            await self._leave_out(host, reason, hint=hint, refused=refused)

    async def _leave_out(
        self, host: FleetHost, reason: str, *, hint: str = "", refused: frozenset[int] = frozenset()
    ) -> None:
        """Fence a host that was set aside."""
        self.tell(f"{host.name} gets no more blocks: {reason}. {hint}".strip())
        fenced = await self._fence(host, reason, refused=refused)
        self._free(host, fenced, returns=False)
        if fenced.stays is not None:
            self.tell(f"{host.name}: {_not_put_back(fenced.stays)}")
        elif reason == _OFF_LIST and host.name not in self._leaving:
            self._call(host)  # it was put on the list again meanwhile

    async def _fence(self, host: FleetHost, reason: str, *, refused: frozenset[int] = frozenset()) -> Fenced:
        stays = await self.cluster.end_worker(host.name)
        fenced = await self.fence.fence(
            fleet_directory(self.folder) / host.name,
            host=host.name,
            reason=_given_up(host.name, reason),
            done=frozenset(self.dispatch.counted),
            refused=refused,
        )
        fenced = replace(fenced, stays=stays or fenced.stays)
        self._note(host.name, fenced)
        return fenced

    def _why(self, host: str, fenced: Fenced) -> str:
        """Why a host that was lost gets no more, as far as its last loss does not say."""
        if fenced.stays is not None:
            return _not_put_back(fenced.stays)
        return f"It was lost {self.dispatch.lost(host)} times." if self.dispatch.losses(host) >= MOST_LOSSES else ""

    def _free(self, host: FleetHost, fenced: Fenced, *, returns: bool) -> bool:
        """What a host had is free for others, or done if it was found to be whole; whether it gets more."""
        is_whole = self.dispatch.block_of(host.name) in fenced.whole
        gets_more = self.dispatch.fence(host.name, returns=returns, is_whole=is_whole)
        if not gets_more:
            self._machines.pop(host.name, None)  # nobody disturbs it there any more
        return gets_more

    def _note(self, host: str, fenced: Fenced) -> None:
        if fenced.stays is None:
            self._stays.pop(host, None)
        else:
            self._stays[host] = fenced.stays

    def _compare(self) -> None:
        """Say what differs between hosts that should know."""
        for text in self._shown.find_differences():
            self._tell_once(text)

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self.tell(text)

    # -- before and after ------------------------------------------------------------------------------------

    async def _leave(self) -> None:
        """Give nobody work any more, and have the cluster leave the hosts."""
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        self._stays_there = await self.cluster.leave()

    async def _end(self, around: contextlib.AsyncExitStack) -> None:
        """Leave the cluster, and leave nothing behind. Raises RestoreError where that is not possible."""
        try:
            await around.aclose()
        finally:
            await self._tidy()
            await self._clear()
            self._stays |= self._stays_there  # of what is left there the copies of folders here know nothing
            self._refuse_unrestored()
        if not has_blocks_left(self.folder):
            forget_hosts(self.folder)

    async def _tidy(self) -> None:
        """Fence every host that has a folder, also of an earlier list: what an earlier pgtrial left is undone, and what
        it had finished is taken in.
        """
        done = done_blocks(self.folder)  # once: nobody else takes any in now
        for name, place in host_folders(self.folder).items():
            fenced = await self.fence.fence(place, host=name, reason=_given_up(name, "pgtrial ended"), done=done)
            done |= fenced.whole
            self._note(name, fenced)
            for block in fenced.whole:
                self.state.assign_block(block, name)
                self.tell(f"block {block} was done on {name}, and is kept.")

    async def _clear(self) -> None:
        """Remove data that hosts still have, as those that were lost."""
        places = host_folders(self.folder).values()
        clearing = [self.fence.clear(place, partial(_find_address, place)) for place in places]
        for found in await asyncio.gather(*clearing, return_exceptions=True):
            if isinstance(found, BaseException) and not isinstance(found, PgTrialError):
                raise found

    def _refuse_unrestored(self) -> None:
        if not self._stays:
            return
        first = next(iter(self._stays.values()))
        raise RestoreError(
            f"not everything could be put back on {', '.join(self._stays)}: {first.message}",
            detail=" ".join(filter(None, (self._reason, first.detail))),
            hint=f'Finished blocks are kept. {self._how_to_restore()} "pgtrial resume {shell_word(self.folder)}".',
        )

    def _how_to_restore(self) -> str:
        """The journal of what is to be put back is on the machine of the engine."""
        if self.hosts.scheduler is None:
            return 'Run "pgtrial restore" when it can be reached, then'
        return 'It is put back when its worker is back, by "pgtrial restore" on the machine of that worker, or by'

    def _nobody_left(self) -> TargetError:
        away = self.dispatch.away()
        left = len(self.dispatch.waiting)
        blocks = "1 block" if left == 1 else f"{left} blocks"
        return TargetError(
            f"{blocks} cannot be run: no host is left",
            detail="\n".join(f"{host.name}: {away[host.name]}." for host in self.fleet.host if host.name in away),
            hint=f'Fix a host, then continue with "pgtrial resume {shell_word(self.folder)}".',
        )


def _find_address(place: Path) -> str | None:
    """Of the host of a folder, which may be of an earlier list."""
    return load_stored(place).experiment.target.host


def _given_up(host: str, reason: str) -> str:
    return f"its block was given up on {host}: {reason}"


def _not_put_back(stays: PgTrialError) -> str:
    return f"It could not be put back: {stays.message}."
