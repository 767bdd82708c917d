"""A look at what the sampler is writing: what the sessions of the load waited for in the latest seconds."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pgtrial.collectors import sessions
from pgtrial.engine.sampler import spool

_MOST = 1 << 20  # bytes read per look; the sampler writes some tens of kilobytes a second
_MARK = f',"{sessions.NAME}",'.encode()
_LOAD = "pgtrial/"  # how the names begin that the load's sessions give themselves
CPU = "CPU"

Waits = tuple[tuple[str, float], ...]


@dataclass(slots=True, kw_only=True)
class SpoolReader:
    """The sampler's file in ``folder``, which appears there and grows, in pieces of whole lines for the most part."""

    folder: Path
    _offset: int = field(default=0, init=False)

    def look(self) -> Waits:
        """Average number of active sessions by what they waited for since the last look, most first; () if nothing."""
        polls = 0
        totals: dict[str, int] = {}
        for payload in self._payloads():
            polls += int(payload["polls"])
            for group in sessions.COLLECTOR.parse(payload["columns"], payload["rows"]):
                if group.state == "active" and group.application.startswith(_LOAD):
                    label = f"{group.wait_type}:{group.wait_event}" if group.wait_type else CPU
                    totals[label] = totals.get(label, 0) + group.sessions
        if not polls:
            return ()
        ranked = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
        return tuple((label, count / polls) for label, count in ranked)

    def _payloads(self) -> Iterator[dict[str, Any]]:
        """What was said of sessions in the whole lines since the last look; of very much only the end."""
        try:
            with (self.folder / spool.FILE).open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                start = max(self._offset, size - _MOST)
                file.seek(start)
                data = file.read(size - start)
        except OSError:
            return  # not there yet, or removed: the run has ended
        whole = data.rfind(b"\n") + 1
        is_line = start == self._offset  # else it is in the middle of one
        self._offset = start + whole
        for line in data[:whole].splitlines()[0 if is_line else 1 :]:
            # The source stands near the begin of a line.
            if _MARK in line[:60]:
                yield json.loads(line)[2]
