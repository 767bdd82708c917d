"""Connections: there are no more to be had."""

from collections.abc import Iterator

from pgtrial.analysis.causes import limit_thresholds as limits
from pgtrial.analysis.causes.limit_rules.base import Scene, accuse, find_clue
from pgtrial.analysis.causes.words import number
from pgtrial.findings.causes import Resource, Suspect
from pgtrial.language import ntr, tr

_STATES = ("sessions.active", "sessions.idle_in_transaction", "sessions.idle")
_REFUSED = limits.Ramp(low=0.0, high=1.0)


def suspect_connections(scene: Scene) -> Iterator[Suspect | None]:
    """Clients were refused; or nearly all of max_connections is in use, which alone limits nothing yet."""
    spans = [(t.run, t.started, t.started + t.seconds) for t in scene.timelines]
    refused = sum(
        limits.TOO_MANY_CONNECTIONS in (event.object, event.kind.rpartition(" ")[2])
        and any(event.run == run and start <= event.start < end for run, start, end in spans)
        for event in scene.facts.events
    )
    if refused:
        yield accuse(
            Resource.CONNECTIONS,
            detail="max_connections",
            needs=(
                find_clue(
                    *("log.error 53300", float(refused), "", _REFUSED),
                    ntr(
                        "{count} clients were refused, because there were too many",
                        "{count} clients were refused, because there were too many",
                        refused,
                    ),
                ),
            ),
        )
        return
    found = [scene.median(state) for state in _STATES]
    most = scene.facts.max_connections.get(scene.arm)
    used = sum(each for each in found if each is not None)
    share = used / most if most and any(each is not None for each in found) else None
    yield accuse(
        Resource.CONNECTIONS,
        detail="max_connections",
        needs=(
            find_clue(
                *("sessions", share, "share", limits.CONNECTIONS_USED),
                tr("the load has {used} of {most} connections that the server allows", used=number(used), most=most),
            ),
        ),
        at_most=limits.NEARLY_FULL,
    )
