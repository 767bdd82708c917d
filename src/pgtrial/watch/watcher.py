"""Watch a server: read it until told to stop, through its restarts, upgrades and the network's moods.

It has a sampler's loop, the same as an experiment's. An hour of it at most is a session; then and when the connection
was lost, everything is found anew: the server's version, its processes, its extensions. While the server cannot be
reached only its machine is read, if that is this one, and the server is tried again after growing pauses.
"""

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgtrial.collectors import WATCHED, pg_buffercache, pg_stat_statements
from pgtrial.engine.sampler.config import LoopConfig
from pgtrial.engine.sampler.extensions import Pace
from pgtrial.engine.sampler.files import ReaderError
from pgtrial.engine.sampler.link import LinkError
from pgtrial.engine.sampler.loop import Loop, WatchMode
from pgtrial.errors import TargetError
from pgtrial.watch.folder import Ages
from pgtrial.watch.reach import Reached, reach
from pgtrial.watch.recorder import APPLICATION, Recorder

Tell = Callable[[str], object]
# s; texts of statements are read when a session begins, so the first ones are short: what a server is asked shows soon.
_FIRST_SESSION, _LONGEST_SESSION = 120.0, 3600.0
_LONGEST_REMOTE = 600.0  # s of a session; what reads another machine may end, and is begun again with the next one
_WRITE_EVERY = 5.0  # s
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # s between attempts to reach a server
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

    A tick is up to 1.2 intervals after the one before: with 8 s at most a crash loses no more than 10 s.
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
            pause = FIRST_PAUSE
            while self._goes_on():
                reached = self._reached or self._try_again()
                if reached is not None and self._read(reached):
                    pause = FIRST_PAUSE
                    continue
                self._wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        finally:
            if self._reached is not None:
                leave(self._reached)
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
            leave(reached)
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
        remote = reached.remote if reached else None
        config = LoopConfig(
            conninfo=reached.conninfo if reached else "",
            load_conninfo=reached.own_conninfo if reached else "",
            version_num=reached.version_num if reached else 0,
            database=self._mark.database,
            interval=interval,
            session_interval=self._options.poll,
            machine=self._is_here or remote is not None,
            devices=reached.devices if reached else self._devices,
            remote=remote.reader if remote else None,
            server_pid=reached.server_pid if reached else None,
            generators=None,
        )
        lasting = WatchMode(
            application=APPLICATION,
            timeout=_TIMEOUT,
            pace=_PACE,
            flush_every=max(1, int(_WRITE_EVERY / interval)),
        )
        return Loop(config, self._recorder, collectors=WATCHED, lasting=lasting)


def _is_here(reached: Reached) -> bool:
    """Whether the server runs on this machine, and can be seen here."""
    return reached.server_pid is not None and reached.remote is None


def leave(reached: Reached) -> None:
    """End what reads another machine; nothing where that is done."""
    if reached.remote is not None:
        reached.remote.close()
