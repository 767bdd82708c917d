"""The sampler's loop: everything once in an interval, and sessions more often, at random moments.

It parses nothing, because what it costs, the load loses: readings go as they are to a ``Sink``. Files and processes of
another machine are read by a reader there, those of the load generator and the server's answers always from here.
Without a server's address only the machine is read.
"""

import os
import select
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pgtrial.collectors import COLLECTORS, Collector, sessions
from pgtrial.collectors.base import ConsoleCollector, QueryCollector, find_statement
from pgtrial.collectors.sessions import SessionCollector
from pgtrial.engine.sampler.config import LoopConfig
from pgtrial.engine.sampler.extensions import RUN, ExtensionReader, Pace
from pgtrial.engine.sampler.files import (
    FileSource,
    LocalFiles,
    wanted_children,
    wanted_files,
    worth_saying,
)
from pgtrial.engine.sampler.link import (
    ConsoleLink,
    LinkError,
    ServerLink,
    SessionSums,
    columns_of,
    rows_of,
)
from pgtrial.engine.sampler.reader import OUT_OF_TURN, Moments, Troubles, tick_moments
from pgtrial.engine.sampler.spool import END, REMARK, TROUBLE, UNANSWERED, Header
from pgtrial.postgres.connect import SAMPLER

_CONNECT_PATIENCE = 10.0  # s, for the first connection
_FLUSH_EVERY = 5  # ticks
_SIGNALS = 64  # that are noticed at once, at most
# s without an answer, after which a lasting loop takes the server for lost, which cancels what takes long itself. Where
# the network is back, a connection over which packets got lost may stay silent as long again, since TCP waits twice as
# long before each of its tries: a new one does not.
_MOST_SILENCE = 20.0
_REST = 60.0  # s in which a view is not asked that a lasting loop could not read


class Sink(Protocol):
    """Where readings go: (time in seconds since the epoch, source, payload), in the order in which they were taken.

    ``flush`` puts what it has on the disk.
    """

    def add(self, t: float, source: str, payload: object) -> None: ...
    def add_header(self, t: float, header: Header) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchMode:
    """A loop that reads a server as long as there is one, not during a run.

    A source that cannot be read is a trouble and nothing more, and ``run`` returns when the connection is lost. The
    server cancels what takes longer than ``timeout`` seconds. ``flush_every`` are ticks.
    """

    application: str
    timeout: float
    pace: Pace
    flush_every: int


class Loop:
    """All state of the sampler; ``run`` returns when it is told to stop."""

    def __init__(
        self,
        config: LoopConfig,
        sink: Sink,
        *,
        collectors: Sequence[Collector] = COLLECTORS,
        lasting: WatchMode | None = None,
    ) -> None:
        """Open all sources. Raises ReaderError when the reader on another machine fails."""
        self._lasting = lasting
        self.is_lost = False  # the server, of a lasting loop
        version_num = config.version_num
        self._parameters = {
            "database": config.database.encode(),
            "load": config.load_sessions.encode(),
        }
        self._queries: list[QueryCollector] = []
        self._statements: dict[str, str] = {}
        for collector in collectors if config.conninfo else ():
            if isinstance(collector, SessionCollector) or (isinstance(collector, QueryCollector) and config.views):
                statement = find_statement(collector.name, version_num)
                if statement is None:
                    continue
                self._statements[collector.name] = statement
                if isinstance(collector, QueryCollector):
                    self._queries.append(collector)
        self._resting: dict[str, float] = {}  # until when a view is not asked, by the monotonic clock
        application, timeout = (SAMPLER, 0.0) if lasting is None else (lasting.application, lasting.timeout)
        self._link = ServerLink(config.conninfo, application=application, timeout=timeout) if config.conninfo else None
        self._console = ConsoleLink(config.console) if config.console else None
        self._commands = [each for each in collectors if isinstance(each, ConsoleCollector)] if self._console else []
        self._answered = time.monotonic()
        self._asked = 0.0  # time of the last poll of sessions
        self._due = 0  # moments at which one was due, since the last answer
        self._was_frozen = False
        self._troubles = Troubles(self._report)
        self._sums = SessionSums(load=config.load_sessions)
        self._spool = sink
        self._interval = config.interval
        self._session_interval = config.session_interval
        # For how many moments a lasting loop lets one answer stand where it is late itself, as on a busy disk.
        self._most_due = _MOST_SILENCE / self._session_interval + 1
        self._files = self._open_files(config)
        sources = [source for files in self._files for source in files.sources]
        absent = {source: reason for files in self._files for source, reason in files.absent.items()}
        if config.conninfo and config.machine and config.server_pid is None:
            absent["server"] = "the CPU time of the server's processes, of which it does not know the first one"
        databases = dict.fromkeys(filter(None, (config.conninfo, config.load_conninfo)))
        self._extensions = ExtensionReader(
            list(databases) if config.load_conninfo else [],
            version_num=version_num,
            parameters=self._parameters,
            interval=self._interval,
            add=self._spool.add,
            remark=lambda sentence: self._spool.add(time.time(), REMARK, sentence),
            open_link=lambda conninfo: ServerLink(conninfo, application=application, timeout=timeout),
            pace=RUN if lasting is None else lasting.pace,
        )
        self._spool.add_header(
            time.time(),
            Header(
                version_num=version_num,
                interval=self._interval,
                session_interval=self._session_interval,
                sources=(*sources, *self._statements, *(each.name for each in self._commands)),
                devices=tuple(config.devices),
                absent=worth_saying(absent, sources, config.groups),
                foreign=tuple(self._files[0].sources) if config.remote else (),
                clock_offset=config.remote.clock_offset if config.remote else 0.0,
            ),
        )

    def _open_files(self, config: LoopConfig) -> Sequence[FileSource]:
        """Those of the server's machine, and, where that is another one, those of this machine."""
        wanted = wanted_files(config.groups, traced=config.traced) if config.machine else []
        of_server = wanted_children("server", config.server_pid)
        mark = config.generators
        of_load = [] if mark is None else [*wanted_children("load", config.parent, mark=mark)]
        if config.console:
            of_load += wanted_children("pooler", config.parent, mark=mark or "")
        add, troubles = self._spool.add, self._troubles
        if config.remote is None:
            return [LocalFiles(wanted, children=[*of_server, *of_load], add=add, troubles=troubles)]
        from pgtrial.engine.sampler.files import RemoteFiles

        return [
            RemoteFiles(
                config.remote.command,
                wanted,
                children=of_server,
                interval=self._interval,
                add=add,
                troubles=troubles,
                clock_offset=config.remote.clock_offset,
            ),
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
        if self._troubles.current and self._lasting is None:
            raise LinkError("; ".join(self._troubles.current.values()))
        self._spool.flush()

    def thaw(self, *_: object) -> None:
        """Note that the process goes on after it was stopped, with its server: what was due meanwhile is nobody's."""
        self._was_frozen = True

    def run(self, control: "select.poll", wake: int, *, until: float = float("inf")) -> bool:
        """Read until something is readable, where ``wake`` is with any signal, but only SIGTERM counts; or until a time
        of the monotonic clock; or, of a lasting loop, until the server is lost. Returns whether there is something to
        be read.
        """
        flush_every = _FLUSH_EVERY if self._lasting is None else self._lasting.flush_every
        remote = self._files[0]
        files = remote.fd
        if files is not None:
            control.register(files, select.POLLIN)
        while not self.is_lost and time.monotonic() < until:
            deadline = min(self._ticks.deadline, self._polls.deadline, until)
            for fd, _ in control.poll(max(0.0, deadline - time.monotonic()) * 1000):
                if fd == wake:
                    if signal.SIGTERM in os.read(wake, _SIGNALS):
                        return False
                elif fd == files:
                    remote.receive()
                    if remote.fd is None:
                        control.unregister(fd)
                else:
                    return True
            if self._ticks.take(time.monotonic()):
                self._tick()
                if self._ticks.taken % flush_every == 0:
                    self._spool.flush()
            if self._was_frozen:
                self._was_frozen = False
                self._polls.forget(time.monotonic())
            if due := self._polls.take(time.monotonic()):
                self._poll_sessions(due)
        return False

    def read_now(self) -> None:
        """Read out of turn what is counted, and end a sum of sessions: what follows is of another time."""
        for files in self._files:
            files.tick()
        self._take_sessions(deadline=self._ticks.deadline)
        self._drain_sessions()
        self._ask_console()
        self._ask_queries()
        self._extensions.read_now(self._ticks.deadline)

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
        self.close()

    def close(self) -> None:
        """End without last readings."""
        self._drain_sessions()
        self._spool.close()
        self._extensions.close()
        for files in self._files:
            files.close()
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
            if self._lasting is not None:
                self.is_lost = True
                return
            self._reconnect(link)
        queries = [each for each in self._queries if self._resting.get(each.name, 0.0) <= time.monotonic()]
        batch = [(query.name, [self._parameters[name] for name in query.parameters]) for query in queries]
        deadline, asked = self._ticks.deadline, time.time()
        try:
            link.settle(deadline=deadline)
            before = time.time()
            answers = link.run_all(batch, deadline=deadline)
            t = (before + time.time()) / 2
        except LinkError as err:
            self._troubles.note("server", str(err))
            return
        if answers is None:
            if link.is_connected:
                self._spool.add(asked, UNANSWERED, "")
            if self._lasting is not None:
                self._due = 0  # the network is gone, or the server away: a gap, and none of the next poll's moments
            # Who has failed over to another machine says nothing, and neither does a network that is gone.
            silence = time.monotonic() - self._answered
            self.is_lost = self._lasting is not None and silence > _MOST_SILENCE
            return
        self._answered = time.monotonic()
        for query, answer in zip(queries, answers, strict=True):
            if isinstance(answer, LinkError):
                if self._lasting is not None:
                    self._rest(query.name, answer)
                    break  # the others were only skipped
                self._troubles.note(query.name, str(answer))
                continue
            self._troubles.note(query.name, "")
            # No row is no reading where there should be some: the database is not there.
            if answer.ntuples or query.may_be_empty:
                self._spool.add(t, query.name, {"columns": columns_of(answer), "rows": rows_of(answer)})

    def _rest(self, name: str, err: LinkError) -> None:
        """Leave out a view for a while, so that what is wrong with it does not keep the others from being read."""
        self._troubles.note(name, str(err))
        self._resting[name] = time.monotonic() + _REST

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
            # Who was stopped for longer has a gap there: what is seen now would be told of all that time.
            if self._lasting is None or self._due <= self._most_due:
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
