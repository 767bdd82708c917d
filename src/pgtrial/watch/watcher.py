"""Watch servers: read them until told to stop, through their restarts, upgrades and the network's moods.

Each server has a thread and a sampler's loop, the same as an experiment's. An hour of it at most is a session; then and
when the connection was lost, everything is found anew: the server's version, its processes, its extensions. While the
server cannot be reached only its machine is read, if that is this one, and the server is tried again after growing
pauses.
"""

import os
import queue
import select
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pgtrial.collectors import WATCHED, pg_buffercache, pg_stat_statements
from pgtrial.engine.sampler.extensions import Pace
from pgtrial.engine.sampler.files import ReaderError
from pgtrial.engine.sampler.link import LinkError
from pgtrial.engine.sampler.loop import Lasting, Loop
from pgtrial.errors import SpecError, TargetError
from pgtrial.model.load_sessions import LOAD
from pgtrial.watch.counters import COUNTERS
from pgtrial.watch.folder import Ages, Mark, open_folder
from pgtrial.watch.openmetrics import Textfile
from pgtrial.watch.reach import Reached, reach
from pgtrial.watch.recorder import APPLICATION, Recorder

Tell = Callable[[str], object]
LONGEST_INTERVAL = 8.0  # s; a tick is up to 1.2 intervals after the one before, and a crash is to lose 10 s at most
# s; texts of statements are read when a session begins, so the first ones are short: what a server is asked shows soon.
_FIRST_SESSION, _LONGEST_SESSION = 120.0, 3600.0
_LONGEST_REMOTE = 600.0  # s of a session; what reads another machine may end, and is begun again with the next one
_WRITE_EVERY = 5.0  # s
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0  # s between attempts to reach a server
_TIMEOUT = 5.0  # s; the server cancels what takes longer
_PACE = Pace(
    least=60.0,
    at_start=frozenset({pg_stat_statements.TEXTS}),
    without=frozenset({pg_buffercache.NAME}),
    rest=60.0,
)
_WAKE = bytes([signal.SIGTERM])


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``interval`` is that of views and files, ``poll`` that of sessions, in seconds; ``duration`` None: until told.

    ``keep_free`` are bytes of the disk that are left to others. ``textfiles``: the directory for figures of each server
    as OpenMetrics text. ``machine`` is the ssh:// address of the server's machine, where that is another one.
    """

    interval: float = 5.0
    poll: float = 1.0
    duration: float | None = None
    ages: Ages = field(default_factory=Ages)
    keep_free: int = 1 << 30
    textfiles: Path | None = None
    machine: str | None = None


class Watcher:
    """One server and its folder. ``run`` returns when ``stop`` is called, or when the time is over."""

    def __init__(
        self, dsn: str, caller: Mapping[str, str], first: Reached, recorder: Recorder, *, options: Options, tell: Tell
    ) -> None:
        self._dsn = dsn
        self._caller = caller
        self._reached: Reached | None = first
        self._is_here = _is_here(first)
        self._devices = first.devices
        self._mark = first.mark
        self._recorder = recorder
        self._options = options
        self._tell = tell
        self._ends = float("inf") if options.duration is None else time.monotonic() + options.duration
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC)
        self._is_stopped = threading.Event()
        self._session = _FIRST_SESSION
        self._was_away = False  # since the server was connected to at last
        self.error: Exception | None = None

    def stop(self) -> None:
        """Have ``run`` return soon; from any thread."""
        self._is_stopped.set()
        os.write(self._waker, _WAKE)

    def run(self) -> None:
        """Read until told to stop. Raises StoreError where nothing more can be written."""
        try:
            pause = _FIRST_PAUSE
            while self._goes_on():
                reached = self._reached or self._try_again()
                if reached is not None and self._read(reached):
                    pause = _FIRST_PAUSE
                    continue
                self._wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        finally:
            if self._reached is not None:
                _leave(self._reached)
            self._recorder.finish()

    def _goes_on(self) -> bool:
        return not self._is_stopped.is_set() and time.monotonic() < self._ends

    def _try_again(self) -> Reached | None:
        try:
            reached = reach(self._dsn, self._caller, machine=self._options.machine, insists=False)
        except TargetError as err:
            self._recorder.say(err.detail or err.message)
            self._recorder.lose_server()
            self._was_away = True
            return None
        if self._was_away:
            self._recorder.say_again(f"connected to PostgreSQL {reached.version} at {reached.mark.server}")
            self._was_away = False
        for remark in reached.remarks:
            self._recorder.say(remark)
        self._is_here, self._devices = _is_here(reached), reached.devices
        return reached

    def _read(self, reached: Reached) -> bool:
        """Read the server for a session, or until it is lost; whether it was there."""
        self._reached = None
        try:
            loop = self._begin(reached)
            longest = _LONGEST_SESSION if reached.remote is None else _LONGEST_REMOTE
            until = min(self._ends, time.monotonic() + min(self._session, longest))
            self._session = min(2 * self._session, _LONGEST_SESSION)
            self._run(loop, until)
            if loop.is_lost:
                loop.close()
                self._was_away = True
                self._recorder.say_again(
                    "the connection to the server is lost; what it does until it is back is not known"
                )
            else:
                loop.stop()
        except LinkError as err:
            self._recorder.say(str(err))
            self._was_away = True
            return False
        finally:
            _leave(reached)
        return True

    def _begin(self, reached: Reached) -> Loop:
        """A loop that has read everything once; SQL alone where the server's machine can be reached and not be read, as
        one that lets nobody have a second session. Raises LinkError.
        """
        try:
            return self._start(reached)
        except ReaderError as err:
            self._recorder.say(f"{err}: without its machine for now")
            return self._start(replace(reached, remote=None, server_pid=None, devices=()))

    def _start(self, reached: Reached) -> Loop:
        loop = self._loop(reached)
        try:
            loop.start()
        except (LinkError, ReaderError):
            loop.close()
            raise
        return loop

    def _wait(self, seconds: float) -> None:
        """Let time pass, reading the machine if it is this one."""
        until = min(self._ends, time.monotonic() + seconds)
        if self._is_here and seconds > self._options.interval:
            loop = self._loop(None)
            loop.start()
            self._run(loop, until)
            loop.close()
        else:
            self._is_stopped.wait(max(0.0, until - time.monotonic()))

    def _run(self, loop: Loop, until: float) -> None:
        control = select.poll()
        control.register(self._wake, select.POLLIN)
        loop.run(control, self._wake, until=until)

    def _loop(self, reached: Reached | None) -> Loop:
        interval = self._options.interval
        config: dict[str, Any] = {
            "conninfo": reached.conninfo if reached else "",
            "load_conninfo": reached.own_conninfo if reached else "",
            "version_num": reached.version_num if reached else 0,
            "database": self._mark.database,
            "load_sessions": LOAD,
            "views": True,
            "console": "",
            "interval": interval,
            "session_interval": self._options.poll,
            "machine": self._is_here or (reached is not None and reached.remote is not None),
            "devices": reached.devices if reached else self._devices,
            "groups": (),
            "traced": False,
            "remote": asdict(reached.remote.reader) if reached is not None and reached.remote is not None else None,
            "server_pid": reached.server_pid if reached else None,
            "generators": None,
            "parent": os.getpid(),
        }
        lasting = Lasting(
            application=APPLICATION,
            timeout=_TIMEOUT,
            pace=_PACE,
            flush_every=max(1, int(_WRITE_EVERY / interval)),
        )
        return Loop(config, self._recorder, collectors=WATCHED, lasting=lasting)


class _Late:
    """A server that was away at the beginning: it is tried again, and watched from when it is there."""

    def __init__(self, dsn: str, folders: "_Folders") -> None:
        self._dsn = dsn
        self._folders = folders
        self._watcher: Watcher | None = None
        self._is_stopped = threading.Event()
        self.error: Exception | None = None

    def stop(self) -> None:
        self._is_stopped.set()
        if self._watcher is not None:
            self._watcher.stop()

    def run(self) -> None:
        pause = _FIRST_PAUSE
        while (left := self._folders.left) > 0 and not self._is_stopped.wait(min(pause, left)):
            pause = min(2 * pause, _LONGEST_PAUSE)
            with suppress(TargetError):
                first = reach(self._dsn, self._folders.caller, machine=self._folders.options.machine)
                self._watcher = self._folders.begin(self._dsn, first)
                break
        if self._watcher is not None:
            if self._is_stopped.is_set():  # meanwhile
                self._watcher.stop()
            self._watcher.run()


class _Folders:
    """What all watchers of a process have in common; ``stack`` is left when all of them have ended."""

    def __init__(
        self, output: Path, caller: Mapping[str, str], *, options: Options, tell: Tell, stack: ExitStack, several: bool
    ) -> None:
        self._output = output
        self.caller = caller
        self.options = options
        self._tell = tell
        self._stack = stack
        self._several = several
        self._ends = float("inf") if options.duration is None else time.monotonic() + options.duration

    @property
    def left(self) -> float:
        """Seconds until all watchers end by themselves."""
        return self._ends - time.monotonic()

    def place(self, mark: Mark) -> Path:
        return self._output / folder_name(mark) if self._several else self._output

    def begin(self, dsn: str, first: Reached) -> Watcher:
        """A watcher of a server that answers. Raises StoreError."""
        place, options = self.place(first.mark), self.options
        folder = self._stack.enter_context(
            open_folder(
                place,
                first.mark,
                ages=options.ages,
                counters=COUNTERS,
                keep_free=options.keep_free,
                places=first.places,
            )
        )
        say = _prefixed(self._tell, place.name) if self._several else self._tell
        textfile = None
        if options.textfiles is not None:
            textfile = Textfile(options.textfiles, folder_name(first.mark), first.mark)
            textfile.write(time.time())
            self._stack.callback(textfile.remove)
        recorder = Recorder(folder, tell=say, textfile=textfile)
        where = "its machine as well" if first.server_pid is not None else "without its machine"
        say(
            f'watching database "{first.mark.database}" of PostgreSQL {first.version} at {first.mark.server}, '
            f'{where}, into "{place}"'
        )
        for remark in first.remarks:
            recorder.say(remark)
        left = None if options.duration is None else max(0.0, self.left)
        return Watcher(dsn, self.caller, first, recorder, options=replace(options, duration=left), tell=say)


def watch(dsns: Sequence[str], output: Path, caller: Mapping[str, str], *, options: Options, tell: Tell) -> None:
    """Watch servers until SIGINT or SIGTERM, or for the time of the options; one into ``output``, more below it.

    One has to be reached at the beginning. Raises SpecError, ConnectError, PreflightError, TargetError, StoreError.
    """
    ended: queue.SimpleQueue[Watcher | _Late | None] = queue.SimpleQueue()
    with ExitStack() as stack:
        reached, away = [], []
        for dsn in dsns:
            try:
                reached.append((dsn, reach(dsn, caller, machine=options.machine)))
            except TargetError as err:
                away.append((dsn, err))
                continue
            stack.callback(_leave, reached[-1][1])
        if not reached:
            raise away[0][1]
        folders = _Folders(output, caller, options=options, tell=tell, stack=stack, several=len(dsns) > 1)
        if len({folders.place(first.mark) for _, first in reached}) < len(reached):
            raise SpecError("two of the connection strings name the same database", hint="Name each database once.")
        watchers: list[Watcher | _Late] = [folders.begin(dsn, first) for dsn, first in reached]
        for dsn, err in away:
            tell(f"{err.message}: it is tried again, and watched when it is there")
            watchers.append(_Late(dsn, folders))
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.signal(number, lambda _number, _frame: ended.put(None))
            stack.callback(signal.signal, number, before)
        threads = [threading.Thread(target=_run, args=(each, ended), name="watch") for each in watchers]
        for thread in threads:
            thread.start()
        left = len(watchers)
        while left:
            one = ended.get()
            if one is None or one.error is not None:
                break
            left -= 1
        for each in watchers:
            each.stop()
        for thread in threads:
            thread.join()
    for each in watchers:
        if each.error is not None:
            raise each.error


def _is_here(reached: Reached) -> bool:
    """Whether the server runs on this machine, and can be seen here."""
    return reached.server_pid is not None and reached.remote is None


def _leave(reached: Reached) -> None:
    """End what reads another machine; nothing where that is done."""
    if reached.remote is not None:
        reached.remote.close()


def _run(watcher: Watcher | _Late, ended: "queue.SimpleQueue[Watcher | _Late | None]") -> None:
    try:
        watcher.run()
    except Exception as err:  # it is raised by the thread that waits for this one
        watcher.error = err
    ended.put(watcher)


def folder_name(mark: Mark) -> str:
    """A name for the folder of one of several servers."""
    text = f"{mark.server}-{mark.database}".lstrip("/")
    return "".join(each if each.isalnum() or each in "-._" else "-" for each in text).strip(".")[:100] or "server"


def _prefixed(tell: Tell, name: str) -> Tell:
    return lambda text: tell(f"{name}: {text}")
