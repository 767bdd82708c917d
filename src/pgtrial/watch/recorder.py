"""Readings of a watch to the rows of its folder: parsed as they come, on the disk at each flush."""

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from pgtrial.collectors import WATCHED, pg_stat_statements, sessions
from pgtrial.engine.sampler.parse import Parser, ReadingError, statement_rows, statement_texts, wait_rows
from pgtrial.engine.sampler.spool import END, REMARK, TROUBLE, UNANSWERED, Header
from pgtrial.errors import StoreError
from pgtrial.model.metric import Sample
from pgtrial.watch.folder import Rows, WatchFolder
from pgtrial.watch.openmetrics import Textfile
from pgtrial.watch.sums import CLOCK, SESSION

APPLICATION = "pgtrial/watch"
SILENT = "watch.unanswered"  # how often the server was asked and did not answer before the next time
_MAINTAIN_EVERY = 300.0  # s
_LAST_PATIENCE = 60.0  # s, for what is being put together when the watch ends
_MOST_TEXTS = 20_000  # of statements
_MOST_TOLD = 1000


class Recorder:
    """A Sink whose readings are kept in a folder, the newest in a ``textfile`` as well, if there is one. ``tell`` gets
    what should be said, each thing once.

    All but ``maintain``, which has a thread of its own, is called by one thread.
    """

    def __init__(self, folder: WatchFolder, *, tell: Callable[[str], object], textfile: Textfile | None = None) -> None:
        self._folder = folder
        self._textfile = textfile
        self._tell = tell
        self._told: set[str] = set()
        self._rows = Rows()
        self._texts: dict[str, str] = {}
        self._parser: Parser | None = None
        self._maintenance: threading.Thread | None = None
        self._maintain_at = time.monotonic()
        self._failed: tuple[StoreError, ...] = ()

    def add_header(self, t: float, header: Header) -> None:
        """A loop begins: what it adds up by itself begins anew."""
        self._parser = Parser(header, collectors=WATCHED)
        self._rows.samples.append(Sample(t, SESSION, "", t))
        if self._textfile is not None:
            self._textfile.begin(is_up=header.version_num > 0)
        for reason in header.absent.values():
            self.say(f"this account cannot read {reason}")

    def add(self, t: float, source: str, payload: Any) -> None:
        if source in (TROUBLE, REMARK):
            self.say(str(payload))
        elif source == UNANSWERED:
            self._rows.samples.append(Sample(t, SILENT, "", 1.0))
        elif source != END and self._parser is not None:
            try:
                self._add_reading(self._parser, t, source, payload)
            except ReadingError as err:
                self.say(str(err))

    def _add_reading(self, parser: Parser, t: float, source: str, payload: Any) -> None:
        if source == pg_stat_statements.TEXTS:
            if len(self._texts) > _MOST_TEXTS:
                self._texts.clear()
            self._texts |= statement_texts(payload)
            return
        self._rows.samples += parser.samples(t, source, payload)
        if source == sessions.NAME:
            self._rows.waits += (row for row in wait_rows(t, payload) if row.application != APPLICATION)
        elif source == pg_stat_statements.NAME:
            self._rows.statements += statement_rows(t, payload, self._texts)

    def say(self, text: str) -> None:
        """Say something that has not been said before."""
        if text not in self._told:
            if len(self._told) >= _MOST_TOLD:
                self._told.clear()
            self._told.add(text)
            self._tell(text)

    def say_again(self, text: str) -> None:
        """Say what may have been said before, as that the server is there again."""
        self._tell(text)

    def flush(self) -> None:
        """Write what was read since the last time. Raises StoreError."""
        now = time.time()
        ahead = now - time.clock_gettime(time.CLOCK_BOOTTIME)
        self._rows.samples.append(Sample(now, CLOCK, "", ahead))
        rows, self._rows = self._rows, Rows()
        self._folder.write(rows)
        if self._textfile is not None:
            self._textfile.add(rows.samples)
            self._textfile.add_sessions(rows.waits)
            self._tell_figures(now)
        for err in self._failed:
            self.say(f"{err.message}{f': {err.detail}' if err.detail else ''}")
        self._failed = ()
        if time.monotonic() >= self._maintain_at and not (self._maintenance and self._maintenance.is_alive()):
            self._maintain_at = time.monotonic() + _MAINTAIN_EVERY
            self._maintenance = threading.Thread(target=self._maintain, name="maintenance", daemon=True)
            self._maintenance.start()

    def lose_server(self) -> None:
        """Tell that there is no server for now."""
        if self._textfile is not None:
            self._textfile.begin(is_up=False)
            self._tell_figures(time.time())

    def _tell_figures(self, now: float) -> None:
        try:
            if self._textfile is not None:
                self._textfile.write(now)
        except StoreError as err:
            self.say(f"{err.message}; the watch goes on without it")

    def close(self) -> None:
        """Write what is left when a loop ends; another one may follow."""
        self.flush()

    def finish(self) -> None:
        """Wait for what is being put together."""
        if self._maintenance is not None:
            self._maintenance.join(_LAST_PATIENCE)

    def _maintain(self) -> None:
        # Of this thread alone: what it does can wait, and the readings cannot.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        try:
            self._failed = self._folder.maintain(time.time())
        except StoreError as err:
            self._failed = (err,)
