"""pg_wait_sampling, if loaded: waits of the load's sessions, sampled inside the server.

The object is "type/event", "/" for a session that did not wait, where the extension samples those too; an idle one
waits for its client. Its profile counts by process, and keeps what sessions had that have ended; so one that was there
at a reading is read once more at the next, and the sums over all of them only grow. Nothing is ever reset.

Once a second, because with a reading that is ten seconds old the end of a load level would be missing. It costs the
extension's own process a copy of its profile, which has a row per session, event and statement.
"""

from collections.abc import Iterator
from typing import Any

from pgtrial.collectors.base import ExtensionCollector, Reading, counters, gauges
from pgtrial.collectors.following import Beginnings
from pgtrial.model.metric import Sample

NAME = "pg_wait_sampling"


class EventSums:
    """Samples of each event over all sessions of the load that have been seen; a Follower."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], float] = {}  # by process and event, as last read
        self._sums: dict[str, float] = {}
        self._beginnings = Beginnings()

    def __call__(self, t: float, payload: Any) -> Iterator[Sample]:
        place = {name: payload["columns"].index(name) for name in ("pid", "object", "count", "period")}
        period = None
        for row in payload["rows"]:
            key, count = (row[place["pid"]], row[place["object"]]), float(row[place["count"]])
            before = self._counts.get(key, 0.0)
            # Somebody may reset the profile: then all of it is new.
            self._sums[key[1]] = self._sums.get(key[1], 0.0) + count - (before if before <= count else 0.0)
            self._counts[key] = count
            period = row[place["period"]]
        yield from self._beginnings.samples(
            t, [Reading(f"{NAME}.count", event, total) for event, total in self._sums.items()]
        )
        if period is not None:
            yield Sample(t, f"{NAME}.period", "", float(period))


COLLECTOR = ExtensionCollector(
    name=NAME,
    extension="pg_wait_sampling",
    metrics=(*counters(NAME, "", "count"), *gauges(NAME, "s", "period")),
    parameters=("sessions", "load"),
    follow=EventSums,
)
