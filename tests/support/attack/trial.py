"""Give pgtrial a mutant in a process of its own, which has little time and little memory, and no right to harm."""

import contextlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from pgtrial.cli.terminal import visible_traceback
from pgtrial.hosts.processes import end_strays
from support.attack.browser import FAULT, browsing

# Of root, mutants get none of its rights: a damaged journal may say what the kernel is to be told. Nobody has it.
_UID = 64_321
_PATIENCE = 400  # s that a process gets, however busy the machine is
_MOST_CPU = 30  # s of CPU time, for one that computes without end
_TOOK = "took"  # file with what it took
_COMMANDS = "commands"  # file with the command lines, until they are given
_EXPECTED = frozenset({0, 1, 2, 3, 4, 5, 6})
_MOST_ADDRESSES = 3 << 30  # bytes that a process may ask for: one that is out of hand does not take the machine along
PRECIOUS = "precious"  # directory beside the mutant, which no command has anything to do with …
_TREASURE = "bytes"  # … and what is in it, which is this, too
MOST_SECONDS = 5.0  # of CPU time, once the mutant has been made
MOST_MEMORY = 500 << 20  # bytes that are resident


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How pgtrial took a mutant; ``problem`` is "" where it did as it should."""

    label: str
    seconds: float  # of CPU time
    elapsed: float  # s by the clock, but for those in which it waited for a CPU
    memory: int  # bytes, the most that was resident
    status: int
    problem: str


class _Took(NamedTuple):
    seconds: float
    elapsed: float
    memory: int


Attack = Callable[[Path], Sequence[Sequence[str]]]  # makes a mutant in a directory; the command lines to give it to


def attack(label: str, make: Attack) -> Outcome:
    """Make a mutant and give it to pgtrial, all in a new process."""
    with tempfile.TemporaryDirectory(prefix="pgtrial-attack-") as name, tempfile.TemporaryFile() as said:
        directory = Path(name)
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            _be_attacked(make, directory, said.fileno())
        _, status, used = os.wait4(child, 0)
        for mutant in directory.iterdir():
            end_strays(str(mutant))  # nothing is started that outlives its attack
        told = directory / _TOOK
        # Of one that was ended, with what it took to make the mutant.
        seconds, elapsed, memory = used.ru_utime + used.ru_stime, 0.0, used.ru_maxrss * 1024
        if told.exists():
            seconds, elapsed, memory = _Took(*json.loads(told.read_text()))
        said.seek(0)
        text = said.read().decode("utf-8", "replace")
        is_harmed = not _is_untouched(directory / PRECIOUS)
    code = os.waitstatus_to_exitcode(status)
    return Outcome(
        label=label,
        seconds=seconds,
        elapsed=elapsed,
        memory=memory,
        status=code,
        problem=_problem(code, text, seconds, memory) or ("it changed what is not its own" if is_harmed else ""),
    )


def _is_untouched(precious: Path) -> bool:
    try:
        return [*precious.iterdir()] == [precious / _TREASURE] and (precious / _TREASURE).read_text() == _TREASURE
    except OSError:
        return False


def _problem(code: int, text: str, seconds: float, memory: int) -> str:
    telling = text[-2000:]
    if code == -signal.SIGALRM:
        return f"it took more than {_PATIENCE} s: {telling}"
    if code not in _EXPECTED:
        return f"it ended with {code}: {telling}"
    if "this is a bug" in text or "Traceback" in text or FAULT in text:
        return telling
    if seconds > MOST_SECONDS:
        return f"it took {seconds:.1f} s of CPU time: {telling}"
    return f"it took {memory >> 20} MB: {telling}" if memory > MOST_MEMORY else ""


def _be_attacked(make: Attack, directory: Path, said: int) -> None:
    """What the new process does; it does not return."""
    status = 99
    try:
        signal.alarm(_PATIENCE)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has those in its background ignore it
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for stream in (1, 2):
            os.dup2(said, stream)
        os.environ["PGTRIAL_STATE_DIRECTORY"] = str(directory / "state")
        os.environ["XDG_CACHE_HOME"] = str(directory / "cache")
        os.chdir(directory)
        (directory / PRECIOUS).mkdir()
        (directory / PRECIOUS / _TREASURE).write_text(_TREASURE)
        commands = _make_apart(make, directory)
        resource.setrlimit(resource.RLIMIT_CPU, (_MOST_CPU, _MOST_CPU))
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_ADDRESSES, resource.getrlimit(resource.RLIMIT_AS)[1]))
        if os.geteuid() == 0:
            _give_up_rights(directory)
        from pgtrial.cli import main

        begun, begun_at, waited = time.process_time(), time.monotonic(), _waited()

        render_bug = main._render_unexpected
        with mock.patch.object(main, "_render_unexpected", lambda error: render_bug(error) + visible_traceback(error)):
            for command in commands:
                with browsing(said) if command[0] == "serve" else contextlib.nullcontext():
                    status = main.main(command)
        elapsed = time.monotonic() - begun_at - (_waited() - waited)
        took = _Took(seconds=time.process_time() - begun, elapsed=elapsed, memory=_most_memory())
        (directory / _TOOK).write_text(json.dumps(took))
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _make_apart(make: Attack, directory: Path) -> Sequence[Sequence[str]]:
    """Make the mutant in a process of its own: what that takes is not what pgtrial takes."""
    told = directory / _COMMANDS
    child = os.fork()
    if child == 0:
        try:
            told.write_text(json.dumps(make(directory)))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(f"the mutant could not be made: {os.waitstatus_to_exitcode(status)}, a signal if negative")
    commands: list[list[str]] = json.loads(told.read_text())
    told.unlink()
    return commands


def _waited() -> float:
    """Seconds in which this thread was ready and had no CPU (Documentation/scheduler/sched-stats.rst)."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, LookupError, ValueError):
        return 0.0


def _most_memory() -> int:
    """Bytes that were resident in this process at most; wait4(2) adds the children's."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def _give_up_rights(directory: Path) -> None:
    for place, directories, files in os.walk(directory):
        for name in (".", *directories, *files):
            os.chown(Path(place) / name, _UID, _UID, follow_symlinks=False)
    os.setgroups([])
    os.setgid(_UID)
    os.setuid(_UID)
