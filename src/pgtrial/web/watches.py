"""The watched servers in the served directory: their last hour, two of their times side by side, their alarms, and
their newest figures for a monitor.

What takes time is done once for each minute, and by one thread at a time, as the machine may be the server's own.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pgtrial.errors import PgTrialError
from pgtrial.safe_text import make_visible
from pgtrial.web.folders import ServedFolder, find_places

if TYPE_CHECKING:
    from pgtrial.watch.latest import Course, Latest
    from pgtrial.watch.newest import Newest
    from pgtrial.watch.statements import Statement

MARK = "watch.json"
LAST_HOUR = "now-1h"
_MINUTE = 60.0  # s
_MOST_ROWS = 8
_T = TypeVar("_T")


@dataclass(slots=True, kw_only=True)
class Watches:
    """The folders of watches in ``root``, or itself. Used by several threads."""

    root: Path
    clock: Callable[[], float] = time.time
    _known: dict[tuple[str, str], tuple[int, Any]] = field(default_factory=dict, init=False)  # by id and what it is
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _newest: "dict[str, Newest]" = field(default_factory=dict, init=False)  # by id
    _metrics_lock: threading.Lock = field(default_factory=threading.Lock, init=False)  # they wait for no page

    def places(self) -> tuple[ServedFolder, ...]:
        """Raises StoreError when the directory cannot be read any more."""
        return find_places(self.root, MARK)

    def find(self, place_id: str) -> ServedFolder | None:
        return next((place for place in self.places() if place.id == place_id), None)

    def listed(self) -> list[dict[str, str]]:
        """For JSON, by name: what each is about, or why that cannot be said."""
        return [_name(place) for place in self.places()]

    def describe(self, place: ServedFolder) -> dict[str, Any]:
        """For JSON: the last hour, with an "error" where it cannot be read."""
        return self._once_a_minute(place, "latest", lambda: {"watch": _name(place), **_describe(place, self.clock())})

    def alarms(self, place: ServedFolder) -> dict[str, Any]:
        """For JSON: all alarms, the latest first. Raises PgTrialError where there is too little to learn from."""
        return self._once_a_minute(place, "alarms", lambda: _alarms(place))

    def page(self, place: ServedFolder, window: str) -> str:
        """The HTML page of a window beside the one that it is best compared with. Raises PgTrialError."""
        return self._once_a_minute(place, f"page {window}", lambda: _page(place, window, self.clock()))

    def metrics(self, place: ServedFolder) -> str:
        """The newest figures as OpenMetrics text. Raises PgTrialError, also where there are none."""
        from pgtrial.watch.folder import read_mark
        from pgtrial.watch.newest import Newest

        with self._metrics_lock:
            mark, newest = read_mark(place.path), self._newest.get(place.id)
            if newest is None or newest.mark != mark:
                newest = self._newest[place.id] = Newest(place.path, mark)
            return newest.text(self.clock())

    def _once_a_minute(self, place: ServedFolder, what: str, read: Callable[[], _T]) -> _T:
        minute = int(self.clock() // _MINUTE)
        with self._lock:
            for key in [key for key, (of, _) in self._known.items() if of != minute]:
                del self._known[key]
            known = self._known.get((place.id, what))
            if known is None:
                known = self._known[place.id, what] = minute, read()
        found: _T = known[1]
        return found


def _name(place: ServedFolder) -> dict[str, str]:
    from pgtrial.watch.folder import read_mark

    name = {"id": place.id, "name": make_visible(place.name)}
    try:
        mark = read_mark(place.path)
    except PgTrialError as err:
        return {**name, "server": "", "database": "", "error": make_visible(err.message)}
    return {**name, "server": make_visible(mark.server), "database": make_visible(mark.database), "error": ""}


def _describe(place: ServedFolder, now: float) -> dict[str, Any]:
    from pgtrial.watch.latest import read_latest

    try:
        latest = read_latest(place.path, now)
    except PgTrialError as err:
        return {"error": make_visible(err.message), "until": None, "courses": [], "waits": [], "statements": []}
    return {
        "error": "",
        "window": str(latest.window),
        "until": latest.read_until,
        "courses": [_course(each) for each in latest.courses],
        "waits": _waits(latest),
        "statements": [_statement(each) for each in latest.statements[:_MOST_ROWS]],
    }


def _course(course: "Course") -> dict[str, Any]:
    from pgtrial.watch.words import form

    known = [value for value in course.values if value is not None]
    return {"name": course.name, "now": form(course.unit)(known[-1]), "values": list(course.values)}


def _waits(latest: "Latest") -> list[dict[str, Any]]:
    from pgtrial.watch.words import form, wait_name

    total = sum(sessions for _, sessions in latest.waits)
    return [
        {"label": make_visible(wait_name(event)), "share": sessions / total, "text": form("sessions")(sessions)}
        for event, sessions in latest.waits[:_MOST_ROWS]
    ]


def _statement(statement: "Statement") -> dict[str, str]:
    from pgtrial.watch.words import form, shown, wait_name

    def say(value: float | None, unit: str) -> str:
        return "–" if value is None else form(unit)(value)

    return {
        "text": make_visible(shown(statement.query)),
        "sessions": say(statement.sessions, "sessions"),
        "wait": make_visible(wait_name(next(iter(statement.waits)))) if statement.waits else "–",
        "calls": say(statement.calls, "1/s"),
        "time": say(statement.time, "s"),
    }


def _alarms(place: ServedFolder) -> dict[str, Any]:
    from pgtrial.watch.alarm_words import OBSERVATION, contract_text, moment, summary
    from pgtrial.watch.alarms import find_alarms

    found = find_alarms(place.path)
    return {
        "alarms": [
            {
                "at": f"{moment(alarm.at)} UTC",
                "text": make_visible(summary(alarm)),
                "window": str(found.time_of(number)),
            }
            for number, alarm in enumerate(found.alarms, start=1)
        ][::-1],
        "notes": [contract_text(found.audit, found.one_in), OBSERVATION],
    }


def _page(place: ServedFolder, window: str, now: float) -> str:
    from pgtrial.watch.compare import comparable_window, compare
    from pgtrial.watch.folder import read_mark
    from pgtrial.watch.page import render_times
    from pgtrial.watch.windows import parse_window

    mark, b = read_mark(place.path), parse_window(window, now=now)
    a, remark = comparable_window(place.path, b)
    return render_times(mark, compare(place.path, a, b), [remark])
