"""The newest figures of a watch from its folder, for who asks for them time and again, as Prometheus does.

Only parts of files that were not there before are read each time, and at first those of the last minutes; so counts of
sessions begin when somebody first asks, and grow from then on, as counters do.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pgtrial.engine.folder import is_locked
from pgtrial.errors import StoreError
from pgtrial.model.metric import Sample
from pgtrial.store.samples import WaitRow
from pgtrial.watch.folder import Mark
from pgtrial.watch.layout import LOCK, SAMPLES, WAITS, hour_parts, look, retry_once
from pgtrial.watch.openmetrics import Figures
from pgtrial.watch.series import MOST
from pgtrial.watch.sums import LONGEST, LONGEST_OFTEN, POLLS, read_readings

_MOST_PARTS = 60  # of an hour: a part has 4 s or more, and what is older than three minutes is not told


class Newest:
    """The figures of the watch in ``root``, which is about ``mark``; for one thread at a time."""

    def __init__(self, root: Path, mark: Mark) -> None:
        self.mark = mark
        self._root = root
        self._figures = Figures(mark)
        self._done: dict[tuple[int, str], int] = {}  # number of the newest part that was read, by hour and kind
        self._written = self._polled = -math.inf  # when the folder got something last, and something of the server
        self._is_up = False

    def text(self, now: float) -> str:
        """OpenMetrics text of ``now``, seconds since the epoch.

        Raises StoreError where nothing has come for a minute and nobody watches, as nothing is known then, and where
        a file is damaged.
        """
        samples, rows = self._read(now)
        recent = [each for each in samples if abs(now - each.t) <= LONGEST_OFTEN]
        if self._written > now + LONGEST_OFTEN:  # the clock was set back: what was known is of no time that there is
            self._written = self._polled = -math.inf
        self._written = max([self._written, *(each.t for each in recent)])
        self._polled = max([self._polled, *(each.t for each in recent if each.metric == POLLS and each.value >= 1)])
        if now - self._written > LONGEST_OFTEN and not is_locked(self._root, LOCK):
            raise StoreError(
                "nothing has been read in the last minute, and no watch is at work",
                hint="Start it again with pgtrial watch.",
            )
        is_up = now - self._polled <= LONGEST_OFTEN
        if is_up != self._is_up:
            self._is_up = is_up
            self._figures.begin(is_up=is_up)
        self._figures.add(samples)
        self._figures.add_sessions(rows)
        return self._figures.text(now)

    @retry_once
    def _read(self, now: float) -> tuple[list[Sample], list[WaitRow]]:
        """What has come since the last time, in the order of time; of a damaged folder nothing that is no number."""
        hours = look(self._root, start=now - LONGEST, end=now + LONGEST).hours
        done: dict[tuple[int, str], int] = {}
        files: dict[str, list[Path]] = {SAMPLES: [], WAITS: []}
        for hour, kinds in hours.items():
            for kind in files:
                held = kinds[kind]
                before = self._done.get((hour, kind), 0)
                if before > held.number:  # another folder has taken the name
                    before = 0
                new = [name for number, name in held.parts.items() if number > before]
                files[kind] += (self._root.joinpath(*hour_parts(hour), name) for name in new[-_MOST_PARTS:])
                done[hour, kind] = held.number
        found = read_readings(SAMPLES, files[SAMPLES], "t, metric, object, value")
        waits = read_readings(WAITS, files[WAITS], ", ".join(WaitRow._fields))
        self._done = done
        samples = [Sample(*each) for each in _rows(found) if abs(each[-1]) < MOST]
        return samples, [WaitRow(*each) for each in _rows(waits)]


def _rows(columns: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.tolist() for column in columns.values()), strict=True)
