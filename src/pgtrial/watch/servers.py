"""All servers that one process watches, each with a thread and a folder: until told to stop, or for a time."""

import queue
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from pgtrial.errors import PgTrialError, SpecError, TargetError
from pgtrial.watch.folder import Mark, open_folder
from pgtrial.watch.openmetrics import Textfile
from pgtrial.watch.reach import Reached, reach
from pgtrial.watch.recorder import Recorder
from pgtrial.watch.sums import COUNTERS
from pgtrial.watch.watcher import FIRST_PAUSE, LONGEST_PAUSE, Options, Tell, Watcher, leave


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
        pause = FIRST_PAUSE
        while (left := self._folders.left) > 0 and not self._is_stopped.wait(min(pause, left)):
            pause = min(2 * pause, LONGEST_PAUSE)
            try:
                self._watcher = self._begin()
                break
            except TargetError:
                continue
            except PgTrialError as err:  # nothing that ends the watch of the others
                self._folders.tell(f"{err.message}: this server is not watched")
                return
        if self._watcher is not None:
            if self._is_stopped.is_set():  # meanwhile
                self._watcher.stop()
            self._watcher.run()

    def _begin(self) -> Watcher:
        """Raises TargetError where the server is still away, other PgTrialErrors where it cannot be watched."""
        first = reach(self._dsn, self._folders.caller, machine=self._folders.options.machine)
        try:
            return self._folders.begin(self._dsn, first)
        except BaseException:
            leave(first)
            raise


class _Folders:
    """What all watchers of a process have in common; ``stack`` is left when all of them have ended."""

    def __init__(
        self, output: Path, caller: Mapping[str, str], *, options: Options, tell: Tell, stack: ExitStack, several: bool
    ) -> None:
        self._output = output
        self.caller = caller
        self.options = options
        self.tell = tell
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
        say = _prefixed(self.tell, place.name) if self._several else self.tell
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
        reached: list[tuple[str, Reached]] = []
        away: list[tuple[str, TargetError]] = []
        for dsn in dsns:
            try:
                reached.append((dsn, reach(dsn, caller, machine=options.machine)))
            except TargetError as err:
                away.append((dsn, err))
                continue
            stack.callback(leave, reached[-1][1])
        if not reached:
            raise away[0][1]
        folders = _Folders(output, caller, options=options, tell=tell, stack=stack, several=len(dsns) > 1)
        if len({folders.place(first.mark) for _, first in reached}) < len(reached):
            raise SpecError("two of the connection strings name the same database", hint="Name each database once.")
        watchers: list[Watcher | _Late] = [folders.begin(dsn, first) for dsn, first in reached]
        for dsn, reason in away:
            tell(f"{reason.message}: it is tried again, and watched when it is there")
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
    errors = [each.error for each in watchers if each.error is not None]
    for other in errors[1:]:
        tell(f"another watch has ended as well: {str(other) or type(other).__name__}")
    if errors:
        raise errors[0]


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
