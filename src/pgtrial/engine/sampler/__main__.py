"""The sampler: a process of its own that reads everything once a second, and sessions ten times, at random moments.

``python -m pgtrial.engine.sampler`` takes its configuration as one line of JSON on standard input, says "ready" after
the first readings are on disk, and runs until standard input closes, SIGTERM, or the death of its parent. It imports
psycopg and little else and parses nothing, because what it costs, the load loses. Files and processes of another
machine are read by a reader there, those of the load generator and the server's answers always from here. Without a
server's address only the machine is read.
"""

import ctypes
import gc
import json
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pgtrial.collectors import COLLECTORS, sessions
from pgtrial.collectors.base import ConsoleCollector, QueryCollector, find_statement
from pgtrial.collectors.sessions import SessionCollector
from pgtrial.engine.sampler.extensions import Extensions
from pgtrial.engine.sampler.files import (
    FileSource,
    LocalFiles,
    ReaderError,
    wanted_children,
    wanted_files,
    worth_saying,
)
from pgtrial.engine.sampler.link import ConsoleLink, LinkError, ServerLink, SessionSums, columns_of, rows_of
from pgtrial.engine.sampler.reader import OUT_OF_TURN, Moments, Troubles, tick_moments
from pgtrial.engine.sampler.spool import END, REMARK, TROUBLE, UNANSWERED, Header, SpoolWriter

READY = b"ready\n"
_PR_SET_PDEATHSIG = 1
_CONNECT_PATIENCE = 10.0  # s, for the first connection
_FLUSH_EVERY = 5  # ticks
_SIGNALS = 64  # that are noticed at once, at most


class Loop:
    """All state of the sampler; ``run`` returns when it is told to stop."""

    def __init__(self, config: dict[str, Any]) -> None:
        """Open all sources. Raises ReaderError when the reader on another machine fails."""
        version_num: int = config["version_num"]
        self._parameters = {
            "database": str(config["database"]).encode(),
            "load": str(config["load_sessions"]).encode(),
        }
        self._queries: list[QueryCollector] = []
        self._statements: dict[str, str] = {}
        for collector in COLLECTORS if config["conninfo"] else ():
            if isinstance(collector, SessionCollector) or (isinstance(collector, QueryCollector) and config["views"]):
                statement = find_statement(collector.name, version_num)
                if statement is None:
                    continue
                self._statements[collector.name] = statement
                if isinstance(collector, QueryCollector):
                    self._queries.append(collector)
        self._batch = [(query.name, [self._parameters[name] for name in query.parameters]) for query in self._queries]
        self._link = ServerLink(config["conninfo"]) if config["conninfo"] else None
        self._console = ConsoleLink(config["console"]) if config["console"] else None
        self._commands = [each for each in COLLECTORS if isinstance(each, ConsoleCollector)] if self._console else []
        self._asked = 0.0  # time of the last poll of sessions
        self._due = 0  # moments at which one was due, since the last answer
        self._was_frozen = False
        self._troubles = Troubles(self._report)
        self._sums = SessionSums(load=config["load_sessions"])
        self._spool = SpoolWriter(Path(config["spool"]))
        self._interval: float = config["interval"]
        self._session_interval: float = config["session_interval"]
        self._files = self._open_files(config)
        sources = [source for files in self._files for source in files.sources]
        absent = {source: reason for files in self._files for source, reason in files.absent.items()}
        if config["conninfo"] and config["machine"] and config["server_pid"] is None:
            absent["server"] = "the CPU time of the server's processes, of which it does not know the first one"
        databases = dict.fromkeys(filter(None, (config["conninfo"], config["load_conninfo"])))
        self._extensions = Extensions(
            list(databases) if config["load_conninfo"] else [],
            version_num=version_num,
            parameters=self._parameters,
            interval=self._interval,
            add=self._spool.add,
            remark=lambda sentence: self._spool.add(time.time(), REMARK, sentence),
        )
        remote: dict[str, Any] | None = config["remote"]
        self._spool.add_header(
            time.time(),
            Header(
                version_num=version_num,
                interval=self._interval,
                session_interval=self._session_interval,
                sources=(*sources, *self._statements, *(each.name for each in self._commands)),
                devices=tuple(config["devices"]),
                absent=worth_saying(absent, sources, config["groups"]),
                foreign=tuple(self._files[0].sources) if remote else (),
                clock_offset=remote["clock_offset"] if remote else 0.0,
            ),
        )

    def _open_files(self, config: dict[str, Any]) -> Sequence[FileSource]:
        """Those of the server's machine, and, where that is another one, those of this machine."""
        wanted = wanted_files(config["groups"], traced=config["traced"]) if config["machine"] else []
        of_server = wanted_children("server", config["server_pid"])
        mark: str | None = config["generators"]
        of_load = [] if mark is None else [*wanted_children("load", config["parent"], mark=mark)]
        if config["console"]:
            of_load += wanted_children("pooler", config["parent"], mark=mark or "")
        add, troubles = self._spool.add, self._troubles
        if config["remote"] is None:
            return [LocalFiles(wanted, children=[*of_server, *of_load], add=add, troubles=troubles)]
        from pgtrial.engine.sampler.files import RemoteFiles

        command: Sequence[str] = config["remote"]["command"]
        return [
            RemoteFiles(command, wanted, children=of_server, interval=self._interval, add=add, troubles=troubles),
            LocalFiles([], children=of_load, add=add, troubles=troubles),
        ]

    def start(self) -> None:
        """Connect and read everything once. Raises LinkError when the server does not let it, ReaderError."""
        if self._link is not None:
            self._link.connect(self._statements, deadline=time.monotonic() + _CONNECT_PATIENCE)
        now = time.monotonic()
        self._ticks = tick_moments(now, interval=self._interval)
        self._polls = Moments(start=now, interval=self._session_interval)
        for files in self._files:
            files.start()
        self._ask_console()
        self._ask_queries()
        self._ask_sessions(due=1)
        self._take_sessions(deadline=self._ticks.deadline)
        self._extensions.start()
        if self._troubles.current:
            raise LinkError("; ".join(self._troubles.current.values()))
        self._spool.flush()

    def thaw(self, *_: object) -> None:
        """Note that the process goes on after it was stopped, with its server: what was due meanwhile is nobody's."""
        self._was_frozen = True

    def run(self, control: "select.poll", wake: int) -> None:
        """``wake`` becomes readable with a signal."""
        remote = self._files[0]
        files = remote.fd
        if files is not None:
            control.register(files, select.POLLIN)
        while True:
            deadline = min(self._ticks.deadline, self._polls.deadline)
            for fd, _ in control.poll(max(0.0, deadline - time.monotonic()) * 1000):
                if fd == wake:
                    if signal.SIGTERM in os.read(wake, _SIGNALS):
                        return
                elif fd == files:
                    remote.receive()
                    if remote.fd is None:
                        control.unregister(fd)
                else:
                    return
            if self._ticks.take(time.monotonic()):
                self._tick()
                if self._ticks.taken % _FLUSH_EVERY == 0:
                    self._spool.flush()
            if self._was_frozen:
                self._was_frozen = False
                self._polls.forget(time.monotonic())
            if due := self._polls.take(time.monotonic()):
                self._poll_sessions(due)

    def stop(self) -> None:
        # Once more, out of turn: the measured window ends before the next tick would be due.
        for files in self._files:
            files.finish()
        self._take_sessions()
        self._ask_console()
        self._ask_queries()
        self._drain_sessions()
        self._extensions.finish()
        late = self._ticks.skipped + sum(files.late for files in self._files)
        self._spool.add(time.time(), END, {"ticks": self._ticks.taken + OUT_OF_TURN, "late": late})
        self._spool.close()
        for link in (self._link, self._console):
            if link is not None:
                link.close()

    def _tick(self) -> None:
        self._take_sessions()
        self._drain_sessions()
        for files in self._files:
            files.tick()
        self._ask_console()
        self._ask_queries()
        self._extensions.tick(self._ticks.deadline)

    def _ask_queries(self) -> None:
        """Read all views in one go; their time, by this machine's clock, is the middle of that."""
        link = self._link
        if link is None:
            return
        if not link.is_connected:
            self._reconnect(link)
        deadline, asked = self._ticks.deadline, time.time()
        try:
            link.settle(deadline=deadline)
            before = time.time()
            answers = link.run_all(self._batch, deadline=deadline)
            t = (before + time.time()) / 2
        except LinkError as err:
            self._troubles.note("server", str(err))
            return
        if answers is None:
            if link.is_connected:
                self._spool.add(asked, UNANSWERED, "")
            return
        for query, answer in zip(self._queries, answers, strict=True):
            if isinstance(answer, LinkError):
                self._troubles.note(query.name, str(answer))
                continue
            self._troubles.note(query.name, "")
            # No row is no reading where there should be some: the database is not there.
            if answer.ntuples or query.may_be_empty:
                self._spool.add(t, query.name, {"columns": columns_of(answer), "rows": rows_of(answer)})

    def _ask_console(self) -> None:
        """Read what the pooler tells of itself."""
        console, deadline = self._console, self._ticks.deadline
        if console is None:
            return
        try:
            if not console.is_connected:
                console.connect({}, deadline=deadline)
            for collector in self._commands:
                before = time.time()
                answer = console.command(collector.command, deadline=deadline)
                if answer is not None:
                    t = (before + time.time()) / 2
                    self._spool.add(t, collector.name, {"columns": columns_of(answer), "rows": rows_of(answer)})
        except LinkError as err:
            self._troubles.note("pooler", str(err))
        else:
            self._troubles.note("pooler", "")

    def _poll_sessions(self, due: int) -> None:
        """Take the answer to the poll before, and ask for the next.

        It has come long ago. Waiting for each would wake up the sampler twice as often, and that is most of its cost.
        """
        self._take_sessions()
        self._ask_sessions(due=due)

    def _ask_sessions(self, *, due: int) -> None:
        """Poll for so many moments that have passed.

        Where this process or the server's comes late, or has not answered yet, one answer stands for several moments:
        left out they would make busy moments count less.
        """
        self._due += due
        now = time.time()
        try:
            if self._link is not None and self._link.ask(sessions.NAME, ()):
                self._asked = now
        except LinkError as err:
            self._troubles.note("server", str(err))

    def _take_sessions(self, *, deadline: float = 0.0) -> None:
        if self._link is None:
            return
        try:
            result = self._link.take(deadline=deadline)
        except LinkError as err:
            self._troubles.note(sessions.NAME if self._link.is_connected else "server", str(err))
            return
        if result is not None:
            self._sums.add(self._asked, result, count=self._due)
            self._due = 0
            self._troubles.note(sessions.NAME, "")

    def _drain_sessions(self) -> None:
        if self._sums.polls:
            self._spool.add(self._sums.t, sessions.NAME, self._sums.drain())

    def _reconnect(self, link: ServerLink) -> None:
        try:
            link.connect(self._statements, deadline=self._ticks.deadline)
        except LinkError as err:
            self._troubles.note("server", str(err))
        else:
            self._due = 0
            self._troubles.note("server", "")

    def _report(self, trouble: str) -> None:
        self._spool.add(time.time(), TROUBLE, trouble)
        self._spool.flush()


def _die_with(parent: int) -> None:
    """End when the parent does. Its pipe closes then too, but a child it forked may still hold the other end."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)


def main() -> int:
    """Run the sampler; 1 when it cannot start or cannot write, with the reason on standard error."""
    wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    with open(0, "rb", buffering=0, closefd=False) as standard_input:
        config: dict[str, Any] = json.loads(standard_input.readline())
    _die_with(config["parent"])
    control = select.poll()
    control.register(wake, select.POLLIN)
    control.register(0, select.POLLIN)
    try:
        loop = Loop(config)
        loop.start()
        signal.signal(signal.SIGCONT, loop.thaw)
        gc.freeze()  # keeps the collector from scanning imported modules again and again
        os.write(1, READY)
        loop.run(control, wake)
        loop.stop()
    except (LinkError, ReaderError) as err:
        print(err, file=sys.stderr)
        return 1
    except OSError as err:
        print(f"{err.strerror}: {err.filename or config['spool']}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
