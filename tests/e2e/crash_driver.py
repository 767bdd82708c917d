"""pgtrial that kills itself at a given moment: before or after a write to the journal of host changes.

    python crash_driver.py STEP EVENTS [--operations] -- run experiment.toml --allow-host-changes

runs the command line after "--" in this process. Each moment is a step, counted from 1, and a line in the file EVENTS:
"before begin vm.swappiness", "after begin vm.swappiness", "before confirm …", "before end …". At the step STEP the
process ends by SIGKILL. With STEP 0 nothing is killed, and EVENTS has as many lines as there are steps. --operations
adds the writes to the host itself as steps, such as "before write /proc/sys/vm/swappiness": those in the middle of a
change of several values, and those of undoing it. The exit status is that of the command.

    python crash_driver.py --serve

reads such lists of arguments as JSON from standard input, one per line, runs each in a process of its own, forked from
this one, where everything is imported already, and answers with a line [exit status, what it printed].
"""

import argparse
import gc
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pgtrial.cli.main import main
from pgtrial.hosts.operations import Operations
from pgtrial.model.change import Change, JournalEntry
from pgtrial.store.journal import Journal

JOURNAL = ("begin", "confirm", "end")
OPERATIONS = ("write", "put", "make_directory", "remove", "remove_directory", "unmount", "signal")


class Steps:
    """Counts, writes down, and kills. What is written is in the kernel's hands, and outlives the process."""

    def __init__(self, last: int, events: Path) -> None:
        self.last, self.count = last, 0
        self.events = os.open(events, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)

    def step(self, text: str) -> None:
        self.count += 1
        os.write(self.events, f"{text}\n".encode())
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)

    def patch(self, owner: type, name: str) -> None:
        """Let a method make a step before and after its work, also where that fails."""
        work: Callable[..., Any] = getattr(owner, name)

        def stepping(self_: object, about: object, *positional: object, **named: object) -> Any:
            text = f"{name} {describe(about)}"
            self.step(f"before {text}")
            try:
                return work(self_, about, *positional, **named)
            finally:
                self.step(f"after {text}")

        setattr(owner, name, stepping)


def describe(about: object) -> str:
    """The name of a change, or a path."""
    if isinstance(about, JournalEntry):
        about = about.change
    return about.name if isinstance(about, Change) else str(about)


def drive(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("step", type=int)
    parser.add_argument("events", type=Path)
    parser.add_argument("--operations", action="store_true")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args(arguments)
    steps = Steps(given.step, given.events)
    for name in JOURNAL:
        steps.patch(Journal, name)
    for name in OPERATIONS if given.operations else ():
        steps.patch(Operations, name)
    return main(given.command)


def serve() -> None:
    """Import what the commands import, but nothing that starts threads, which a fork would not copy."""
    import pgtrial.cli.console
    import pgtrial.cli.restore
    import pgtrial.cli.resume
    import pgtrial.cli.run
    import pgtrial.cli.session
    import pgtrial.engine.experiment  # noqa: F401

    gc.freeze()  # what has been imported is not looked through in each process, nor its memory copied for that
    for line in sys.stdin:
        with tempfile.TemporaryFile() as printed:
            child = os.fork()
            if child == 0:
                for stream in (sys.stdout, sys.stderr):
                    os.dup2(printed.fileno(), stream.fileno())
                os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
                status = drive(json.loads(line))
                sys.stdout.flush()
                os._exit(status)
            _, waited = os.waitpid(child, 0)
            printed.seek(0)
            text = printed.read().decode(errors="replace")
        sys.stdout.write(json.dumps([os.waitstatus_to_exitcode(waited), text]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        sys.exit(drive(sys.argv[1:]))
