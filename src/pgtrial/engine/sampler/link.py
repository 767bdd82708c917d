"""The sampler's connection to the server, which never waits longer than it is told to.

A server that is stopped, frozen or overloaded must not hold up the readings of the machine, so this speaks to libpq
without blocking, where psycopg's own connections would wait for an answer.
"""

import select
import time
from collections.abc import Mapping, Sequence

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo
from psycopg.pq import ConnStatus, ExecStatus, PollingStatus
from psycopg.pq.abc import PGconn, PGresult

APPLICATION = "pgtrial sampler"

# The same cost and meaning of a reading in every arm, whatever the arm's settings are.
_SESSION = b"""
SET jit = off;
SET stats_fetch_consistency = cache;
SET statement_timeout = 0;
SET idle_session_timeout = 0;
SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = on
"""


class LinkError(Exception):
    """The server's words about a connection or a statement that failed."""


class ServerLink:
    """One connection with prepared statements; deadlines are times of the monotonic clock."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = make_conninfo(conninfo, application_name=APPLICATION, client_encoding="UTF8").encode()
        self._connection: PGconn | None = None
        self._poll = select.poll()
        self._owes_answer = False

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    def connect(self, statements: Mapping[str, str], *, deadline: float) -> None:
        """Connect and prepare. Raises LinkError, also when the deadline passes."""
        connection = pq.PGconn.connect_start(self._conninfo)
        try:
            self._reach(connection, deadline)
            connection.nonblocking = 1
            self._connection = connection
            self._poll = select.poll()
            self._poll.register(connection.socket, select.POLLIN)
            self._owes_answer = False
            connection.send_query(_SESSION)
            self._answer_or_raise(deadline)
            for name, statement in statements.items():
                self.prepare(name, statement, deadline=deadline)
        except (LinkError, psycopg.Error) as err:
            self._connection = None
            connection.finish()
            raise LinkError(str(err)) from err

    def prepare(self, name: str, statement: str, *, deadline: float) -> None:
        """Prepare one more statement. Raises LinkError, also when the deadline passes."""
        if self._connection is None:
            raise LinkError("not connected")
        try:
            self._connection.send_prepare(name.encode(), statement.encode())
        except psycopg.Error as err:
            raise LinkError(_one_line(str(err))) from err
        self._answer_or_raise(deadline)

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
                raise LinkError("no connection in time")
            status = PollingStatus(connection.connect_poll())

    def run(self, name: str, parameters: Sequence[bytes], *, deadline: float) -> PGresult | None:
        """Result of a prepared statement; None when the server does not answer in time.

        An answer that comes later is thrown away: nobody knows what time it is about. Raises LinkError; the connection
        may be gone then.
        """
        if self._connection is None:
            return None
        try:
            if self._owes_answer and self._answer(deadline=0) is None:
                return None
            self._connection.send_query_prepared(name.encode(), parameters)
            return self._answer(deadline)
        except psycopg.Error as err:
            self.close()
            raise LinkError(_one_line(str(err))) from err
        except LinkError:
            if self._connection.status == ConnStatus.BAD:
                self.close()
            raise

    def _answer_or_raise(self, deadline: float) -> None:
        if self._answer(deadline) is None:
            raise LinkError("no answer in time")

    def _answer(self, deadline: float) -> PGresult | None:
        """The last result of what was sent. Raises LinkError with the server's words if it is an error."""
        connection = self._connection
        assert connection is not None
        self._owes_answer = True
        last: PGresult | None = None
        while True:
            # These statements are shorter than any socket's buffer; flush() is for the case that they are not.
            while connection.flush() or connection.is_busy():
                if not _wait(self._poll, deadline):
                    return None
                connection.consume_input()
            result = connection.get_result()
            if result is None:
                break
            if last is None or last.status != ExecStatus.FATAL_ERROR:
                last = result
        self._owes_answer = False
        if last is not None and last.status == ExecStatus.FATAL_ERROR:
            raise LinkError(_one_line(last.get_error_message()))
        return last

    def close(self) -> None:
        if self._connection is not None:
            self._connection.finish()
            self._connection = None


def _wait(poll: "select.poll", deadline: float) -> bool:
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))


def _one_line(text: str) -> str:
    return " ".join(text.split())
