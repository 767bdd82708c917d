"""A cluster of dask.distributed that the user runs: its workers offer hosts, each with the engine where the worker is.

It does what ``Cluster`` does, with two differences. What a host has measured is fetched from its worker, into the copy
of the host's folder that the leader has. And nobody here can end a worker: what goes on at one that is gone ends when
the worker does, so a block waits until the worker, or the next one for its host, says that nothing goes on.
"""

import asyncio
import base64
import contextlib
import hashlib
import json
import math
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pgtrial import __version__
from pgtrial.errors import ConnectError, PgTrialError, PreflightError, TargetError
from pgtrial.fleet.cluster import LostError
from pgtrial.fleet.copies import TOLD, Copy
from pgtrial.fleet.fence import to_its_end
from pgtrial.fleet.hosts_file import OFFER_EXAMPLE, Fleet, FleetHost, HostsList, Offer, find_offers, fleet_of
from pgtrial.fleet.machines import HostMachine
from pgtrial.fleet.node import configure
from pgtrial.fleet.scheduler import answer_of, connected, lacks_module, without_pgtrial, workers_of
from pgtrial.fleet.tasks import run_block, say_patience, serve
from pgtrial.hosts.clock import ClockOffset
from pgtrial.safe_text import parse_json
from pgtrial.store import layout
from pgtrial.store.state import State
from pgtrial.units import format_duration

if TYPE_CHECKING:
    from distributed import Client

_LOOK = 5.0  # s between two looks at who is there
_ANSWERING = 60.0  # s for an answer that takes no work
PATIENCE = 120.0  # s for a worker that is gone: 30 until it notices, and 90 for its engine to put everything back
LAST = 10.0  # s, once somebody has asked again to end: a worker that stands still answers within five
_ROUNDS = 3  # trips to a worker, to compare the clocks
_PIECE = 4 << 20  # bytes
_LARGEST_FILE = 4 << 30  # bytes of one of a run
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=+,-]{0,127}")
_MOST_SENT = 64 << 20  # bytes of an experiment's files


class _Who(NamedTuple):
    """Which worker it is, its version of pgtrial, and what its clock shows."""

    worker: str
    version: str
    now: float


@dataclass(slots=True, kw_only=True)
class There:
    """A host whose worker has the experiment."""

    folder: str  # of the host, on its worker's machine
    worker: str  # who has it
    block: int | None = None  # that the host runs
    is_given_up: bool = False  # the block may be another host's by now
    taken: list[str] = field(default_factory=list)  # folders of runs that are here, of which it has not been told


class UnfitError(LostError):
    """A worker is there, and what it sends is nothing that could be taken."""


@dataclass(slots=True, kw_only=True)
class OfferedHosts(HostsList):
    """The hosts that workers offer, which come and go."""

    now: Callable[[], Fleet | None] = field(default=lambda: None)

    def __post_init__(self) -> None:
        self.every = _LOOK

    def changed(self) -> Fleet | None:
        """Known hosts, and those that workers offer meanwhile: who is gone for a moment is not off the list."""
        known = {host.name for host in self.fleet.host}
        found = self.now()
        new = () if found is None else tuple(host for host in found.host if host.name not in known)
        if not new:
            return None
        self.fleet = Fleet(host=(*self.fleet.host, *new))
        return self.fleet

    def without_doubles(self, new: Sequence[FleetHost], *, known: Sequence[FleetHost]) -> tuple[FleetHost, ...]:
        """All: the machine of one worker is not that of another, whatever it is called."""
        return tuple(new)


def ask_for_hosts(address: str, *, tell: Callable[[str], None]) -> OfferedHosts:
    """The hosts that the workers of the cluster at an ``address`` offer. Raises PreflightError and ConnectError."""

    async def ask() -> Fleet:
        async with connected(address) as client:
            offers, told = find_offers(await workers_of(client))
            for text in told:
                tell(text)
            if not offers:
                raise _no_host(address)
            return fleet_of(tuple(offers.values()))

    configure(heeds_user=True)
    return OfferedHosts(fleet=asyncio.run(ask()), scheduler=address)


@dataclass(slots=True, kw_only=True)
class Joined:
    """A connection to a cluster, whose workers run blocks of the main ``folder``; ``hosts`` learn who comes."""

    folder: Path
    places: Path  # of the copies of hosts' folders
    hosts: OfferedHosts
    longest: float  # s that a worker on the host itself stands still
    client: "Client | None" = field(default=None, init=False)
    has_ended: bool = field(default=False, init=False)  # the connection to the scheduler
    _waits: bool = field(default=True, init=False)  # for what workers put back in the end
    _offers: dict[str, Offer] = field(default_factory=dict, init=False)  # by host, as of the last look
    _present: dict[str, dict[str, Any]] = field(default_factory=dict, init=False)  # workers, by address
    _there: dict[str, There] = field(default_factory=dict, init=False)  # by host
    _news: asyncio.Condition = field(default_factory=asyncio.Condition, init=False)
    _stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack, init=False)
    _looking: "asyncio.Task[None] | None" = field(default=None, init=False)
    _waking: "asyncio.Task[None] | None" = field(default=None, init=False)
    _asked: int = field(default=0, init=False)

    async def __aenter__(self) -> "Joined":
        configure(heeds_user=True)
        try:
            self.client = await self._stack.enter_async_context(connected(self.hosts.scheduler or ""))
            self._see(await workers_of(self.client))
        except BaseException:
            await self._stack.aclose()
            raise
        self.hosts.now = lambda: fleet_of(tuple(self._offers.values())) if self._offers else None
        self._looking = asyncio.create_task(self._look())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self._stack.aclose()

    # -- as a Cluster ----------------------------------------------------------------------------------------

    async def ask_machine(self, host: FleetHost) -> HostMachine:
        """Which machine a host is, as its worker sees it, with times by our clock."""
        found = await self._do(host.name, "meet", host=host.model_dump(exclude_none=True))
        with _refuse_unfit():
            machine = _machine_of(found.get("machine"))
        worker = await self._measure_offset(host.name)
        return replace(machine, begun=machine.begun - worker.offset, worker=worker)

    async def _measure_offset(self, host: str) -> ClockOffset:
        """Of the clock of a host's worker, by the round trip that took least time, as ``measure_offset``."""
        measured = []
        for _ in range(_ROUNDS):
            before, begun = time.time(), time.monotonic()
            who = await self._ask_who(self._offer(host).address)
            taken = time.monotonic() - begun
            measured.append(ClockOffset(offset=who.now - (before + taken / 2), error=taken / 2))
        return min(measured, key=lambda each: each.error)

    async def add_worker(self, host: str) -> None:
        """Have the worker of a host ready for its blocks. Raises TargetError, PreflightError and StoreError."""
        offer = self._offer(host)
        who = await self._ask_who(offer.address)
        if who.version != __version__:
            raise PreflightError(
                f"worker {offer.address} has pgtrial {who.version}, and this is {__version__}",
                hint="Install the same version on both.",
            )
        if offer.host.local:
            await self._refuse_impatient(host)
        request = self._request(host, reason=f"it was given up on {host}")
        folder = (await self._do(host, "take", **request)).get("folder")
        if folder is None:
            files = await asyncio.to_thread(_read_files, self.places / host)
            folder = (await self._do(host, "take", **request, files=files)).get("folder")
        if not isinstance(folder, str):
            raise UnfitError("its worker does not say where the folder of the host is")
        there = self._there.setdefault(host, There(folder=folder, worker=who.worker))
        there.folder, there.worker = folder, who.worker

    async def end_worker(self, host: str) -> PgTrialError | None:
        """End and undo what goes on for a host; the reason why that is not known, or was not possible. What it held is
        given up then: also if it is whole there, it does not count when the host is back.
        """
        if (there := self._there.get(host)) is None:
            return None
        stays = await self._end_block(host)
        if stays is None:
            there.block, there.is_given_up = None, False
        elif there.block is not None:
            there.is_given_up = True
        return stays

    async def _end_block(self, host: str) -> PgTrialError | None:
        there, request = self._there[host], self._request(host, reason=f"it was given up on {host}")
        until = asyncio.get_running_loop().time() + PATIENCE
        with contextlib.suppress(TimeoutError):
            while self._waits and not self.has_ended:
                try:
                    await self._hear(host, until=until)
                    block = there.block
                    blocks: dict[str, object] = {"block": block, "refused": []}
                    if there.is_given_up:
                        blocks = {"block": None, "refused": [block]}
                    ended = await self._do(host, "end", **request, **blocks, leaves=False, address=None)
                    # Else another machine, which knows nothing of what the first one does.
                    if ended.get("is_known") is True:
                        if block is not None:
                            with contextlib.suppress(UnfitError):  # it is not taken, and its block is run again
                                await self._fetch(host, ended.get("files"))
                        return None
                except LostError:
                    pass
                except PgTrialError as err:
                    return err
                async with asyncio.timeout_at(until):
                    await self._next_look()
        return _unknown(host)

    async def _hear(self, host: str, *, until: float) -> None:
        """Have a worker answer at all, before it is asked for what may take long. Raises TimeoutError, LostError."""
        async with asyncio.timeout_at(until):
            await self._serve(self._offer(host).address, "who", "")

    async def run_block(self, host: str, request: str) -> Mapping[str, object]:
        """Have a host's worker run a block, once, and fetch what it has measured. Raises LostError."""
        assert self.client is not None
        offer, there = self._offer(host), self._there[host]
        self._asked += 1
        wanted = parse_json(request)
        wanted |= {"folder": there.folder, "worker": there.worker, "taken": there.taken}
        there.block, there.taken = wanted["block"], []
        key = f"pgtrial-{os.getpid()}-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:8]}-{self._asked}"
        future = self.client.submit(
            run_block,
            json.dumps(wanted),
            key=key,
            workers=[offer.address],
            allow_other_workers=False,
            resources={offer.resource: 1},
            retries=0,
            pure=False,
        )
        answer: Mapping[str, object] = await self._while_present(offer.address, answer_of(future))
        if "failed" not in answer:
            await self._fetch(host, answer.get("files"))
            there.block = None
        return answer

    async def leave(self) -> dict[str, PgTrialError]:
        """End what runs for this experiment, and leave nothing there; hosts of which that is not known."""
        leaving = {host: self._leave(host) for host in self._there}
        found = dict(zip(leaving, await asyncio.gather(*leaving.values(), return_exceptions=True), strict=True))
        for err in found.values():
            if isinstance(err, BaseException) and not isinstance(err, PgTrialError):
                raise err
        return {host: err for host, err in found.items() if isinstance(err, PgTrialError)}

    def stop_waiting(self) -> None:
        """Wait for seconds at most for what workers put back; the hosts of those that have not are named as for any
        that is gone.
        """
        asyncio.get_running_loop().call_later(LAST, self._give_up)

    def _give_up(self) -> None:
        self._waits = False
        self._waking = asyncio.ensure_future(self._wake())

    # -- who is there ----------------------------------------------------------------------------------------

    async def _look(self) -> None:
        assert self.client is not None
        while not self.has_ended:
            await asyncio.sleep(_LOOK)
            try:
                async with asyncio.timeout(_ANSWERING):
                    self._see(await workers_of(self.client))
            except (OSError, TimeoutError):
                self.has_ended = True
            await self._wake()

    async def _wake(self) -> None:
        async with self._news:
            self._news.notify_all()

    def _see(self, workers: dict[str, dict[str, Any]]) -> None:
        self._present = workers
        self._offers, _ = find_offers(workers)

    async def _next_look(self) -> None:
        async with self._news:
            if self._waits and not self.has_ended:
                await self._news.wait()

    def _offer(self, host: str) -> Offer:
        if (offer := self._offers.get(host)) is None:
            raise LostError("no worker offers it any more")
        return offer

    async def _while_present(self, address: str, asked: "asyncio.Future[Any]") -> Any:
        """What is asked of a worker; LostError as soon as it is gone."""
        try:
            while not asked.done():
                looking = asyncio.ensure_future(self._next_look())
                await asyncio.wait([asked, looking], return_when=asyncio.FIRST_COMPLETED)
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)
                if asked.done():
                    break
                if not self._waits:
                    raise LostError("its answer is not waited for")
                if self.has_ended or address not in self._present:
                    raise LostError("the scheduler does not answer" if self.has_ended else "its worker is gone")
            return asked.result()
        finally:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)

    async def _refuse_impatient(self, host: str) -> None:
        """A worker on the host itself is silent while a run is measured."""
        assert self.client is not None
        try:
            patience = await self.client.run_on_scheduler(say_patience)
        except Exception as err:
            if not lacks_module(err):
                raise
            raise without_pgtrial("the scheduler", err) from None
        if patience is not None and patience < self.longest:
            raise PreflightError(
                f"the scheduler gives up workers that are silent for {format_duration(patience)}, and the one on "
                f"{host} stands still while a run is measured, for up to {format_duration(math.ceil(self.longest))}",
                hint="Start the scheduler with DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL=null.",
            )

    # -- what is asked of a worker ---------------------------------------------------------------------------

    async def _serve(self, address: str, what: str, request: str) -> str:
        """Raises LostError, and PreflightError where the worker has no pgtrial."""
        assert self.client is not None
        asked = asyncio.ensure_future(self.client.run(serve, what, request, workers=[address]))
        try:
            answers: dict[str, str] = await self._while_present(address, asked)
        except PgTrialError:
            raise
        except OSError as err:
            raise LostError(f"its worker does not answer: {err}") from err
        except Exception as err:  # as which comes what a worker cannot even read
            if self.client.scheduler is None:  # its connection was closed meanwhile, and dask does not look
                raise LostError("the scheduler does not answer") from err
            if lacks_module(err):
                raise without_pgtrial(f"worker {address}", err) from None
            raise LostError(f"its worker fails: {type(err).__name__}: {err}") from err
        return str(answers[address])

    async def _ask_who(self, address: str) -> _Who:
        """Raises LostError."""
        answer = await self._serve(address, "who", "")
        with _refuse_unfit():
            match parse_json(answer):
                case {"worker": str(worker), "version": str(version), "now": float(now)}:
                    return _Who(worker, version, now)
            raise ValueError("it does not say who it is")

    async def _do(self, host: str, what: str, /, **request: object) -> dict[str, Any]:
        """Raises what pgtrial raised there."""
        text = json.dumps({"do": what, **request})
        written = await self._serve(self._offer(host).address, "do", text)
        with _refuse_unfit():
            answer = parse_json(written)
            if not isinstance(answer, dict):
                raise ValueError("it is no JSON object")  # noqa: TRY004  # as where it is no JSON
        if "failed" in answer:
            kind = ConnectError if answer.get("is_away") else TargetError
            raise kind(str(answer["failed"]), detail=str(answer.get("detail", "")), hint=str(answer.get("hint", "")))
        return answer

    def _request(self, host: str, *, reason: str) -> dict[str, object]:
        with contextlib.closing(State.open(self.folder)) as state:
            born = state.meta().get("created", "")
        # As the folder's own record is: by its machine, its place and its birth, so that no copy has the same.
        name = hashlib.sha256(f"{socket.gethostname()} {self.places.name} {born}".encode()).hexdigest()[:24]
        return {"place": [name, host], "reason": reason, "done": sorted(self._done_on(host))}

    async def _leave(self, host: str) -> PgTrialError | None:
        if self._there[host].block is not None and (stays := await self.end_worker(host)) is not None:
            return stays
        request = self._request(host, reason="pgtrial ended")
        address = self.hosts.fleet.find(host).address
        try:
            await self._hear(host, until=asyncio.get_running_loop().time() + PATIENCE)
            await self._do(host, "end", **request, leaves=True, address=address, block=None, refused=[])
        except (LostError, TimeoutError):
            return _unknown(host)
        except PgTrialError as err:
            return err
        return None

    async def _fetch(self, host: str, files: object) -> None:
        """Bring home the files of runs, each with its checksum, then the rows that tell of them. Raises LostError,
        UnfitError, and StoreError where they cannot be written here.
        """
        there, address = self._there[host], self._offer(host).address
        block = None if there.is_given_up else there.block
        copy = Copy(place=self.places / host, block=block, done=lambda: self._done_on(host))
        await asyncio.to_thread(copy.find_mark)
        while copy.asks:
            asked = json.dumps({"folder": there.folder, "mark": asdict(copy.mark), "told": TOLD})
            answer = await self._serve(address, "news", asked)
            with _refuse_unfit():
                await asyncio.to_thread(copy.hear, answer)
        with _refuse_unfit():
            names = await asyncio.to_thread(copy.check)
        digests = _digests_of(files)
        for name, digest in digests.items():
            run, _, file = name.partition("/")
            if run not in names or not _FILE_NAME.fullmatch(file):
                raise UnfitError(f'its worker names a file that it was not asked for: "{name}"')
            if not await asyncio.to_thread(copy.has_file, run, file, digest):
                with _refuse_unfit():
                    content = await self._read_file(address, there.folder, name)
                if hashlib.sha256(content).hexdigest() != digest:
                    raise UnfitError(f'"{name}" is not what the host has written: its checksum differs')
                await to_its_end(partial(copy.keep_file, run, file, content))
        await to_its_end(lambda: copy.remove_others(names, digests))
        with _refuse_unfit():
            await to_its_end(copy.add)
        there.taken += sorted({name.partition("/")[0] for name in digests}.difference(there.taken))

    async def _read_file(self, address: str, folder: str, name: str) -> bytes:
        """Raises ValueError where what comes is no file, and LostError."""
        content = bytearray()
        while True:
            wanted = {"folder": folder, "file": f"{layout.RUNS}/{name}", "from": len(content), "length": _PIECE}
            piece = base64.b64decode(await self._serve(address, "piece", json.dumps(wanted)), validate=True)
            content += piece
            if len(piece) > _PIECE or len(content) > _LARGEST_FILE:
                raise ValueError(f'"{name}" has more than {_LARGEST_FILE} bytes, or a piece more than {_PIECE}')
            if len(piece) < _PIECE:
                return bytes(content)

    def _done_on(self, host: str) -> frozenset[int]:
        """Blocks that the main folder has from a host."""
        with contextlib.closing(State.open(self.folder)) as state:
            return state.done_blocks(host=host)


@contextlib.contextmanager
def _refuse_unfit() -> Iterator[None]:
    """UnfitError for what does not fit together, or is not what a worker was asked for."""
    try:
        yield
    except ValueError as err:
        raise UnfitError(f"what its worker sends does not fit: {err}") from err


def _machine_of(found: object) -> HostMachine:
    """The machine of a worker's answer, with times by its clock. Raises ValueError."""
    match found:
        case {
            "boot": str(boot),
            "begun": float(begun),
            "network": str(network),
            "clock": {"offset": float(offset), "error": float(error)},
        }:
            return HostMachine(boot=boot, begun=begun, network=network, clock=ClockOffset(offset=offset, error=error))
    raise ValueError("it does not say which machine the host is")


def _digests_of(files: object) -> dict[str, str]:
    """The files of a worker's answer. Raises UnfitError."""
    if not isinstance(files, dict) or not all(isinstance(each, str) for item in files.items() for each in item):
        raise UnfitError("its worker does not say which files there are")
    return files


def _read_files(place: Path) -> dict[str, str]:
    """The files of a host's new folder, in Base64. Raises PreflightError."""
    paths = [place / layout.EXPERIMENT, place / layout.STATE]
    paths += [path for path in sorted((place / layout.FILES).rglob("*")) if path.is_file()]
    if (size := sum(path.stat().st_size for path in paths)) > _MOST_SENT:
        raise PreflightError(
            f"the experiment's files have {size >> 20} MB, and a worker is sent {_MOST_SENT >> 20} MB at most",
            hint="List the hosts in a file instead: --fleet hosts.toml.",
        )
    with contextlib.closing(State.open(place, write=True)):
        pass  # so that all of it is in the one file
    return {str(path.relative_to(place)): base64.b64encode(path.read_bytes()).decode("ascii") for path in paths}


def _unknown(host: str) -> TargetError:
    return TargetError(
        f"no worker that offers {host} says that nothing goes on there",
        detail="What goes on there ends, and is put back, with its worker; else the next resume does both.",
    )


def _no_host(address: str) -> PreflightError:
    return PreflightError(
        f"no worker of {address} offers a host that pgtrial could use",
        hint=f"Start a worker on a host with its name as a resource: {OFFER_EXAMPLE} (docs/fleet.md).",
    )
