"""What the comparison of two arms proves: a wait that is missing where a setting differs has limited the other arm."""

from collections.abc import Iterator

from pgtrial.analysis.causes import limit_thresholds as limits
from pgtrial.analysis.causes.limit_rules.base import PartFilter, Scene, accuse, find_clue
from pgtrial.analysis.causes.limit_rules.parts import is_lock, is_lwlock, is_temporary, is_wal
from pgtrial.findings.causes import Resource, Suspect
from pgtrial.findings.message import message

# Waits that stand for one resource each. CPU time that is saved shows that there was work, not that it was in the way.
_WAITS: tuple[tuple[Resource, PartFilter], ...] = (
    (Resource.WAL_FLUSH, is_wal),
    (Resource.LOCKS, is_lock),
    (Resource.LWLOCKS, is_lwlock),
    (Resource.TEMPORARY_FILES, is_temporary),
)


def suspect_by_difference(scene: Scene) -> Iterator[Suspect | None]:
    """Another arm surely needs less time, and most of what it saves are waits of one kind.

    That is an intervention, where a share of the latency is only a sign: what a transaction would gain is measured.
    """
    for relief in scene.facts.reliefs.get((scene.arm, scene.level.index), ()):
        for resource, belongs in _WAITS:
            saved = sum(seconds for kind, seconds in relief.parts.items() if belongs(*kind))
            yield accuse(
                resource,
                detail=scene.largest(belongs),
                needs=(
                    find_clue(
                        *("latency.difference", saved / relief.latency, "share", limits.SAVED),
                        message("difference.saved", arm=relief.other, time=saved, share=saved / relief.latency),
                    ),
                    find_clue(
                        *("latency.difference", saved / relief.saved, "share", limits.SAVED_OF_ALL),
                        message("difference.of-all", share=min(1.0, saved / relief.saved)),
                    ),
                ),
            )
