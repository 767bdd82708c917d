"""What is known of each experiment in the served directory, in a line; read again only when something changed."""

import json
import sqlite3
import threading
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pgtrial.engine.folder import is_locked
from pgtrial.engine.status import Status, peek_status
from pgtrial.errors import PgTrialError
from pgtrial.model.verdict import Verdict
from pgtrial.report.words import make_visible
from pgtrial.store import layout
from pgtrial.store.state import State
from pgtrial.web.inside import Place, file_status, find_places, open_inside

UNREADABLE = "unreadable"
_MOST_FINDINGS = 64 << 20  # bytes
_WATCHED = (layout.STATE, f"{layout.STATE}-wal", layout.FINDINGS, layout.REPORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """``state`` is running, complete, interrupted or unreadable, and then ``reason`` says why.

    ``verdict`` is "" while there is none, or while what was concluded earlier is being added to; ``started`` is in
    seconds since the epoch.
    """

    id: str
    name: str
    state: str
    started: float | None = None
    runs: int = 0
    done: int = 0
    blocks: int = 0
    invalid: int = 0
    current: str = ""
    arms: tuple[str, ...] = ()
    claim: str = ""
    verdict: str = ""
    reason: str = ""
    has_report: bool = False

    def as_dict(self) -> dict[str, Any]:
        """For JSON, with what would steer a display written out."""
        return {
            key: make_visible(value) if isinstance(value, str) else value
            for key, value in asdict(replace(self, arms=tuple(make_visible(arm) for arm in self.arms))).items()
        }


@dataclass(slots=True, kw_only=True)
class Shelf:
    """The experiments of the served directory. Used by several threads."""

    root: Path
    _known: dict[str, tuple[object, Summary]] = field(default_factory=dict, init=False)  # by id
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def places(self) -> tuple[Place, ...]:
        """Raises StoreError when the directory cannot be read any more."""
        return find_places(self.root)

    def find(self, place_id: str) -> Place | None:
        return next((place for place in self.places() if place.id == place_id), None)

    def summaries(self) -> list[Summary]:
        """The latest first; what cannot be read last. Raises StoreError as ``places``."""
        places = self.places()
        with self._lock:
            gone = set(self._known) - {place.id for place in places}
            for place_id in gone:
                del self._known[place_id]
        found = [self.summary(place) for place in places]
        return sorted(found, key=lambda one: (-(one.started or 0.0), one.name))

    def summary(self, place: Place) -> Summary:
        """What is known of one; never an error."""
        signature = _signature(place.path)
        with self._lock:
            known = self._known.get(place.id)
        if known is not None and known[0] == signature:
            return known[1]
        summary = _summarize(place)
        with self._lock:
            self._known[place.id] = (signature, summary)
        return summary


def _signature(folder: Path) -> object:
    """Something else when what a summary says may have changed."""
    stats = (file_status(folder, name) for name in _WATCHED)
    found = tuple(None if one is None else (one.st_ino, one.st_size, one.st_mtime_ns) for one in stats)
    return is_locked(folder), found


def _summarize(place: Place) -> Summary:
    has_report = file_status(place.path, layout.REPORT) is not None
    summary = Summary(id=place.id, name=place.name, state=UNREADABLE, has_report=has_report)
    try:
        status, started = peek_status(place.path), _started(place.path)
    except PgTrialError as err:
        return replace(summary, reason=err.message)
    except (sqlite3.Error, ValueError, LookupError, TypeError) as err:
        return replace(summary, reason=f"the folder is damaged: {err}")
    summary = _with_status(summary, status, started)
    return summary if status.state == "running" else _with_headline(summary, place)


def _started(folder: Path) -> float | None:
    """When the first run began."""
    with closing(State.open(folder)) as state:
        return min((run.started for run in state.runs() if run.started is not None), default=None)


def _with_status(summary: Summary, status: Status, started: float | None) -> Summary:
    return replace(
        summary,
        state=status.state,
        started=started,
        runs=status.slots,
        done=status.done,
        blocks=status.blocks,
        invalid=status.invalid,
        current=status.current,
        arms=status.arms,
    )


def _with_headline(summary: Summary, place: Place) -> Summary:
    """With claim and verdict of findings.json, where they can be read: the report says what is wrong with the rest."""
    with open_inside(place, layout.FINDINGS) as opened:
        if opened is None or opened[1] > _MOST_FINDINGS:
            return summary
        data = opened[0].read(_MOST_FINDINGS)
    try:
        asked = json.loads(data)["hypothesis"]
        claim, verdict, reason = str(asked["claim"]), Verdict(asked["verdict"]), str(asked["reason"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return summary
    return replace(summary, claim=claim, verdict=verdict.value, reason=reason)
