"""Metrics of the server's extensions, where they are installed, read over separate connections.

So an answer that takes long holds up none of the other readings, and one that fails makes no run invalid: what is read
here explains, and nothing is concluded from it alone.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from psycopg.pq.abc import PGresult

from pgtrial.collectors import COLLECTORS
from pgtrial.collectors.base import NO_EXTENSION, ExtensionCollector, find_statement, in_schema
from pgtrial.engine.sampler.link import LinkError, ServerLink, columns_of, rows_of
from pgtrial.model.metric import MetricKind

_PROBE = "extensions"
_FIND = """
SELECT extname, pg_catalog.quote_ident(nspname)
FROM pg_catalog.pg_extension
JOIN pg_catalog.pg_namespace ON pg_namespace.oid = extnamespace
"""
_QUIET = "quiet"
# So that readings are not among the statements of the load's database. Only a superuser may.
_DO_NOT_TRACK = "SELECT pg_catalog.set_config('pg_stat_statements.track', 'none', false)"
_START_PATIENCE = 3.0  # s, for all of a database
_END_PATIENCE = 10.0  # s, for the last answers, when the load is over


@dataclass(slots=True, kw_only=True)
class _Reading:
    collector: ExtensionCollector
    link: ServerLink
    statement: str
    due: float  # time of the monotonic clock
    is_prepared: bool = True  # on the connection as it is now
    owes: bool = False  # the last answer has not come in time


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often extensions are read: at ``least`` seconds between two readings, where a collector says less.

    ``at_start`` are collectors that are read at the beginning as well as at the end, ``without`` those that never are.
    One that cannot be read is tried again after ``rest`` seconds, after twice as many each time until it can, up to
    ``longest_rest``, and on another connection where that is lost; None: it is given up.
    """

    least: float = 0.0
    at_start: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    rest: float | None = None
    longest_rest: float = 3600.0


RUN = Pace()


class ExtensionReader:
    """``conninfos`` are databases, the first one that has an extension is asked; the last one is the load's.

    ``parameters`` are the values of the collectors' parameters. What is read goes to ``add`` (time, source, payload), a
    sentence on what cannot be read to ``remark``.
    """

    def __init__(
        self,
        conninfos: Sequence[str],
        *,
        version_num: int,
        parameters: Mapping[str, bytes],
        interval: float,
        add: Callable[[float, str, object], object],
        remark: Callable[[str], object],
        open_link: Callable[[str], ServerLink] | None = None,
        pace: Pace = RUN,
    ) -> None:
        self._conninfos = conninfos
        self._parameters = {**parameters, "sessions": b"{}"}
        self._interval = interval
        self._add = add
        self._remark = remark
        self._open_link = open_link
        self._pace = pace
        self._wanted: dict[str, tuple[ExtensionCollector, str]] = {}
        for collector in COLLECTORS:
            if isinstance(collector, ExtensionCollector) and collector.name not in pace.without:
                statement = find_statement(collector.name, version_num)
                if statement is not None:
                    self._wanted[collector.name] = collector, statement
        self._readings: list[_Reading] = []
        # Extensions that are there and cannot be read: until when, and for how long that is.
        self._resting: dict[str, tuple[float, float]] = {}

    def start(self) -> None:
        """Find the installed extensions, and read each once."""
        for number, conninfo in enumerate(self._conninfos):
            self._open(conninfo, is_of_load=number == len(self._conninfos) - 1)
        at_start = self._pace.at_start
        first = [one for one in self._readings if not one.collector.at_end or one.collector.name in at_start]
        first.sort(key=lambda one: one.collector.name not in at_start)  # texts before what they are of
        self._read(first, deadline=time.monotonic() + self._interval)

    def tick(self, deadline: float) -> None:
        """Read the extensions that are due, until ``deadline`` at the latest."""
        soon = time.monotonic() + self._interval / 2  # rather now than at the next tick
        due = [one for one in self._readings if not one.collector.at_end and one.due <= soon]
        self._read(due, deadline=deadline)

    def read_now(self, deadline: float) -> None:
        """Read what is counted, due or not."""
        counted = [one for one in self._readings if any(m.kind is MetricKind.COUNTER for m in one.collector.metrics)]
        self._read([one for one in counted if not one.collector.at_end], deadline=deadline)

    def finish(self) -> None:
        """Read everything a last time, including what is only read at the end."""
        self._read(self._readings, deadline=time.monotonic() + _END_PATIENCE)
        self.close()

    def close(self) -> None:
        """End without last readings."""
        for one in self._readings:
            one.link.close()

    def _open(self, conninfo: str, *, is_of_load: bool) -> None:
        """Prepare the statements of extensions found in a database; close the connection if there are none."""
        deadline = time.monotonic() + _START_PATIENCE
        link = (self._open_link or ServerLink)(conninfo)
        found = 0
        try:
            link.connect({_QUIET: _DO_NOT_TRACK, _PROBE: _FIND}, deadline=deadline)
            self._quieten(link, deadline)
            answer = link.run(_PROBE, (), deadline=deadline)
            schemas: dict[str | None, str | None] = {NO_EXTENSION: "pg_catalog"}
            schemas.update((row[0], row[1]) for row in ([] if answer is None else rows_of(answer)))
            missing = [c for c, _ in self._wanted.values() if is_of_load or not c.in_database]
            for collector in missing:
                schema = schemas.get(collector.extension)
                if schema is not None:
                    found += self._prepare(link, collector, schema, deadline=deadline)
        except LinkError as err:
            self._remark(f"Extensions of the server are not read: {err}.")
        if not found:
            link.close()

    def _prepare(self, link: ServerLink, collector: ExtensionCollector, schema: str, *, deadline: float) -> bool:
        _, text = self._wanted.pop(collector.name)
        statement = in_schema(text, schema)
        try:
            link.prepare(collector.name, statement, deadline=deadline)
        except LinkError as err:
            self._leave_alone(collector.extension, str(err))
            return False
        self._readings.append(_Reading(collector=collector, link=link, statement=statement, due=0.0))
        return True

    def _read(self, readings: Iterable[_Reading], *, deadline: float) -> None:
        for one in readings:
            collector, before = one.collector, time.time()
            one.due = time.monotonic() + max(collector.every, self._pace.least if collector.every else 0.0)
            if self._resting.get(collector.extension, (0.0, 0.0))[0] > time.monotonic():
                continue
            try:
                result = self._ask(one, deadline)
            except LinkError as err:
                self._leave_alone(collector.extension, str(err))
                continue
            if result is None:
                self._note_silence(one)
                continue
            one.owes = False
            self._resting.pop(collector.extension, None)
            columns, rows = columns_of(result), rows_of(result)
            self._add((before + time.time()) / 2, collector.name, {"columns": columns, "rows": rows})
            if "sessions" in collector.parameters:
                self._parameters["sessions"] = _sessions(columns, rows)

    def _ask(self, one: _Reading, deadline: float) -> PGresult | None:
        """The answer; None where it does not come in time. Raises LinkError."""
        if self._pace.rest is not None and not one.link.is_connected:
            self._connect_again(one.link, deadline)
        if not one.is_prepared:
            if not one.link.settle(deadline=0.0):
                return None
            try:
                one.link.prepare(one.collector.name, one.statement, deadline=deadline)
            except LinkError:
                if not one.link.settle(deadline=0.0):
                    one.link.close()  # whether it is prepared by now is not known there
                raise
            one.is_prepared = True
        parameters = [self._parameters[name] for name in one.collector.parameters]
        return one.link.run(one.collector.name, parameters, deadline=deadline)

    def _connect_again(self, link: ServerLink, deadline: float) -> None:
        """Each statement is prepared when it is due, so that what is gone by then fails alone. Raises LinkError."""
        link.connect({_QUIET: _DO_NOT_TRACK}, deadline=deadline)
        for one in self._readings:
            if one.link is link:
                one.is_prepared = False
        self._quieten(link, deadline)

    def _quieten(self, link: ServerLink, deadline: float) -> None:
        if not link.is_shared:  # else others' statements would not be tracked, either
            with suppress(LinkError):
                link.run(_QUIET, (), deadline=deadline)

    def _note_silence(self, one: _Reading) -> None:
        if self._pace.rest is not None and one.owes:
            # The server cancels what takes long, so an answer that is still owed a turn later will not come: packets of
            # this connection get lost, though those of others may not.
            one.link.close()
        one.owes = not one.owes
        if one.collector.at_end:
            self._leave_alone(one.collector.extension, "no answer within the time limit")

    def _leave_alone(self, extension: str, reason: str) -> None:
        is_said = extension in self._resting
        pace = self._pace
        if pace.rest is None:
            self._resting[extension] = math.inf, math.inf
        else:
            _, before = self._resting.get(extension, (0.0, pace.rest / 2))
            rest = min(2 * before, pace.longest_rest)
            self._resting[extension] = time.monotonic() + rest, rest
        if not is_said:
            self._remark(f"{extension} cannot be read: {reason.rstrip('.')}.")


def _sessions(columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> bytes:
    """Sessions that are there, as an array of SQL."""
    pid, is_there = columns.index("pid"), columns.index("is_there")
    return ("{" + ",".join({row[pid] or "" for row in rows if row[is_there] == "t"}) + "}").encode()
