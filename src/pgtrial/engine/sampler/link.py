"""The sampler's connection to the server, which never waits past a deadline, and the results that it decodes.

A server that is stopped, frozen or overloaded must not hold up the readings of the machine, so this speaks to libpq
without blocking, where psycopg's own connections would wait for an answer.
"""

import select
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo
from psycopg.pq import ConnStatus, ExecStatus, PollingStatus
from psycopg.pq.abc import PGconn, PGresult

from pgtrial.collectors import sessions
from pgtrial.model.load_sessions import LOAD, name_in_folder
from pgtrial.postgres.connect import ONLY_CATALOG, SAMPLER, own_session
from pgtrial.safe_text import without_literals

_MOST_STATEMENTS = 5000  # whose texts are kept

# The same cost and meaning of a reading in every arm, whatever the arm's settings are.
_SESSION = {
    **ONLY_CATALOG,
    "jit": "off",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "on",
}
# Of a reader that lasts, a network that goes leaves sessions behind of which the server hears nothing any more: by its
# own settings they would stay for hours, and new ones come each time. Each is read from once a minute at least.
_ABANDONED = 300.0  # s
_KEEPALIVES = {
    "tcp_keepalives_idle": "60",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "6",
    "tcp_user_timeout": "120s",
}


class LinkError(Exception):
    """The server's words about a connection or a statement that failed."""


class ServerLink:
    """One connection with prepared statements; deadlines are times of the monotonic clock.

    In a session that a pooler shares nothing is prepared or set: each statement is sent with its text.
    """

    def __init__(self, conninfo: str, *, application: str = SAMPLER, timeout: float = 0.0) -> None:
        """The server cancels what takes longer than ``timeout`` seconds, and ends a session of which it hears nothing
        for minutes; 0: it does not.
        """
        self._conninfo = make_conninfo(conninfo, application_name=application, client_encoding="UTF8").encode()
        limit = str(round(timeout * 1000))
        limits = {"statement_timeout": limit, "lock_timeout": limit}
        self._session = {**_SESSION, **limits, **(_KEEPALIVES if timeout else {})}
        self._idle = round(_ABANDONED * 1000) if timeout else 0
        self._texts: dict[str, bytes] | None = None  # of statements by name, where the session is shared
        self._connection: PGconn | None = None
        self._poll = select.poll()
        self._owes_answer = False
        self._in_batch = False  # the answer it owes is to several statements
        self._received: list[PGresult] = []  # of that answer so far

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    @property
    def is_shared(self) -> bool:
        """Whether a pooler hands the session on to others."""
        return self._texts is not None

    def connect(self, statements: Mapping[str, str], *, deadline: float) -> None:
        """Connect and prepare. Raises LinkError, also when the deadline passes."""
        connection = pq.PGconn.connect_start(self._conninfo)
        try:
            self._reach(connection, deadline)
            connection.nonblocking = 1
            self._connection = connection
            self._poll = select.poll()
            self._poll.register(connection.socket, select.POLLIN)
            self._owes_answer = self._in_batch = False
            self._received = []
            self._begin(connection, deadline)
            for name, statement in statements.items():
                self.prepare(name, statement, deadline=deadline)
        except (LinkError, psycopg.Error) as err:
            self._connection = None
            connection.finish()
            raise LinkError(str(err)) from err

    def _begin(self, connection: PGconn, deadline: float) -> None:
        """Make the session that of a sampler."""
        newer = {140000: {"idle_session_timeout": str(self._idle)}, 150000: {"stats_fetch_consistency": "cache"}}
        settings = dict(self._session)
        for since, more in newer.items():
            settings |= more if connection.server_version >= since else {}
        connection.send_query(own_session(connection.backend_pid, settings).encode())
        self._texts = None if self._answer_or_raise(deadline).ntuples else {}

    def prepare(self, name: str, statement: str, *, deadline: float) -> None:
        """Prepare one more statement. Raises LinkError, also when the deadline passes."""
        if self._connection is None:
            raise LinkError("not connected")
        try:
            if self._texts is not None:
                self._texts[name] = statement.encode()
            self._connection.send_prepare(b"" if self._texts is not None else name.encode(), statement.encode())
        except psycopg.Error as err:
            raise LinkError(_one_line(str(err))) from err
        self._answer_or_raise(deadline)

    def _send(self, connection: PGconn, name: str, parameters: Sequence[bytes]) -> None:
        if self._texts is None:
            connection.send_query_prepared(name.encode(), parameters)
        else:
            connection.send_query_params(self._texts[name], parameters)

    def _reach(self, connection: PGconn, deadline: float) -> None:
        wanted = {PollingStatus.READING: select.POLLIN, PollingStatus.WRITING: select.POLLOUT}
        status = PollingStatus.WRITING if connection.status != ConnStatus.BAD else PollingStatus.FAILED
        while status != PollingStatus.OK:
            if status == PollingStatus.FAILED:
                raise LinkError(_one_line(connection.get_error_message()))
            # The socket may be another one after each step (several addresses, TLS).
            waiting = select.poll()
            waiting.register(connection.socket, wanted[status])
            if not _wait(waiting, deadline):
                raise LinkError("the connection timed out")
            status = PollingStatus(connection.connect_poll())

    def run(self, name: str, parameters: Sequence[bytes], *, deadline: float) -> PGresult | None:
        """Result of a prepared statement; None when the server does not answer in time.

        An answer that comes later is thrown away: nobody knows what time it is about. Raises LinkError; the connection
        may be gone then.
        """
        return self._answer(deadline) if self.ask(name, parameters) else None

    def ask(self, name: str, parameters: Sequence[bytes]) -> bool:
        """Send a prepared statement and do not wait; False when the server still owes another answer.

        Raises LinkError when the connection is lost.
        """
        if not self.settle(deadline=0.0):
            return False
        assert self._connection is not None  # otherwise there is nothing to be settled with
        try:
            self._send(self._connection, name, parameters)
        except psycopg.Error as err:
            raise self._lost(err) from err
        self._owes_answer = True
        return True

    def take(self, *, deadline: float = 0.0) -> PGresult | None:
        """The answer to ``ask``; None if it has not arrived yet or was taken already. Raises LinkError.

        What a batch is late with is no answer to ``ask``: it is thrown away.
        """
        if self._in_batch:
            self.settle(deadline=deadline)
            return None
        return self._answer(deadline) if self._owes_answer else None

    def run_all(
        self, statements: Sequence[tuple[str, Sequence[bytes]]], *, deadline: float
    ) -> Sequence[PGresult | LinkError] | None:
        """What comes of each of several prepared statements with their parameters; None as in ``run``.

        They go and come back together and are one transaction: to wake up both sides for each of them costs more than
        what they do. After one that fails the server leaves out the others. Raises LinkError when the connection is
        lost.
        """
        if not self.settle(deadline=deadline):
            return None
        assert self._connection is not None  # otherwise there is nothing to be settled with
        try:
            self._connection.enter_pipeline_mode()
            self._in_batch = True
            for name, parameters in statements:
                self._send(self._connection, name, parameters)
            self._connection.pipeline_sync()
        except psycopg.Error as err:
            raise self._lost(err) from err
        results = self._receive(deadline)
        return None if results is None else [_error_of(result) or result for result in results]

    def settle(self, *, deadline: float) -> bool:
        """Discard the answer that is still owed; return whether a statement can be sent now. Raises LinkError."""
        if self._connection is None:
            return False
        return not self._owes_answer or self._receive(deadline) is not None

    def _answer_or_raise(self, deadline: float) -> PGresult:
        answer = self._answer(deadline)
        if answer is None:
            raise LinkError("no answer within the time limit")
        return answer

    def _answer(self, deadline: float) -> PGresult | None:
        """The last result of an answer. Raises LinkError with the server's words if one is an error."""
        results = self._receive(deadline)
        if results is None:
            return None
        for result in results:
            if (error := _error_of(result)) is not None:
                raise error
        return results[-1] if results else None

    def _receive(self, deadline: float) -> list[PGresult] | None:
        """All results of an answer; None if they do not arrive in time and are still owed.

        Raises LinkError when the connection is lost, with the server's words if there are any.
        """
        connection = self._connection
        assert connection is not None
        self._owes_answer = True
        try:
            while True:
                # These statements are shorter than any socket's buffer; flush() is for the case that they are not.
                while connection.flush() or connection.is_busy():
                    if not _wait(self._poll, deadline):
                        return None
                    connection.consume_input()
                result = connection.get_result()
                if result is None:
                    # In a batch it stands between two statements.
                    if not self._in_batch or connection.status == ConnStatus.BAD:
                        break
                elif result.status == ExecStatus.PIPELINE_SYNC:
                    connection.exit_pipeline_mode()
                    break
                else:
                    self._received.append(result)
        except psycopg.Error as err:
            raise self._lost(err) from err
        received, self._received = self._received, []
        self._owes_answer = self._in_batch = False
        if connection.status == ConnStatus.BAD:
            self.close()
            raise next(filter(None, map(_error_of, received)), LinkError("the connection is lost"))
        return received

    def _lost(self, err: psycopg.Error) -> LinkError:
        self.close()
        return LinkError(_one_line(str(err)))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.finish()
            self._connection = None
        self._owes_answer = self._in_batch = False
        self._received = []


class ConsoleLink(ServerLink):
    """A connection to the console of a pooler, which knows its own commands and nothing else."""

    def _begin(self, connection: PGconn, deadline: float) -> None:
        """There is nothing to be set."""

    def command(self, text: str, *, deadline: float) -> PGresult | None:
        """Result of a command; None as in ``run``. Raises LinkError."""
        if not self.settle(deadline=0.0):
            return None
        assert self._connection is not None  # otherwise there is nothing to be settled with
        try:
            self._connection.send_query(text.encode())
        except psycopg.Error as err:
            raise self._lost(err) from err
        return self._answer(deadline)


def _wait(poll: "select.poll", deadline: float) -> bool:
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))


def _error_of(result: PGresult) -> LinkError | None:
    if result.status == ExecStatus.FATAL_ERROR:
        return LinkError(_one_line(result.get_error_message()))
    if result.status == ExecStatus.PIPELINE_ABORTED:
        return LinkError("skipped after another statement failed")
    return None


def _one_line(text: str) -> str:
    return " ".join(text.split())


@dataclass(slots=True)
class SessionSums:
    """The polls of sessions since the last tick, each with how many it counts for. ``t`` is the time of the first one.

    They are summed at the tick, so that a poll does as little as possible. ``load`` is how the names of the load's own
    sessions begin on the server.
    """

    load: str = LOAD
    t: float = 0.0
    polls: list[tuple[PGresult, int]] = field(default_factory=list)
    statements: dict[str, str] = field(default_factory=dict)  # the first text of each query_id, without literals

    def add(self, t: float, result: PGresult, *, count: int) -> None:
        if not self.polls:
            self.t = t
        self.polls.append((result, count))

    def drain(self) -> dict[str, Any]:
        """Sessions that were alike, with their number, without the literals of their statements; then begin anew.

        There has to be a poll.
        """
        columns = columns_of(self.polls[0][0])
        places = range(len(columns))
        alike: dict[tuple[bytes | None, ...], int] = {}
        for result, times in self.polls:
            value = result.get_value
            for row in range(result.ntuples):
                session = tuple([value(row, place) for place in places])
                alike[session] = alike.get(session, 0) + times
        query, query_id = columns.index(sessions.QUERY), columns.index(sessions.QUERY_ID)
        application = columns.index(sessions.APPLICATION)
        groups: dict[tuple[str | None, ...], int] = {}
        for session, count in alike.items():
            texts = _texts(session)
            if (text := texts[query]) is not None:
                texts[query] = self._name_statement(text, texts[query_id])
            if (name := texts[application]) is not None:
                texts[application] = name_in_folder(name, self.load)
            group = tuple(texts)
            groups[group] = groups.get(group, 0) + count
        rows = [[*group, str(count)] for group, count in groups.items()]
        polls = sum(times for _, times in self.polls)
        late = polls - len(self.polls)
        payload = {"polls": polls, "late": late, "columns": (*columns, sessions.SESSIONS), "rows": rows}
        self.polls = []
        return payload

    def _name_statement(self, text: str, query_id: str | None) -> str:
        """The text without its literals; of statements that the server counts as one, the same for all.

        A text of several statements has the identifier of the one at work, such as a COMMIT's that others have, too.
        """
        name = without_literals(text).strip()  # a comment may have stood at its end
        if query_id is None or ";" in name.rstrip("; "):
            return name
        if len(self.statements) >= _MOST_STATEMENTS:
            return self.statements.get(query_id, name)
        return self.statements.setdefault(query_id, name)


def columns_of(result: PGresult) -> tuple[str, ...]:
    return tuple([(result.fname(column) or b"").decode() for column in range(result.nfields)])


def rows_of(result: PGresult) -> list[list[str | None]]:
    columns = range(result.nfields)
    return [_texts([result.get_value(row, column) for column in columns]) for row in range(result.ntuples)]


def _texts(values: Sequence[bytes | None]) -> list[str | None]:
    return [None if value is None else value.decode("utf-8", "replace") for value in values]
