"""Whether another limit than the control's is more than chance: thresholds of numbers that sampling has moved.

Two equal arms whose sessions wait for the WAL for a third of their time lie on either side of a threshold half of the
time. So the rules are asked of each block alone, and what they suspect is compared in pairs.
"""

from collections.abc import Callable, Iterable, Sequence

from pgtrial.analysis.causes.limit_rules import RULES, Scene
from pgtrial.analysis.causes.together import estimate_difference
from pgtrial.analysis.effects.comparison import blocks_of
from pgtrial.analysis.evidence import Evidence
from pgtrial.findings.causes import Limit, Resource
from pgtrial.model.run import RunRow

SceneOf = Callable[[RunRow, int], Scene | None]  # of one run at a load level; None where there are no samples


def tell_apart(evidence: Evidence, limits: Sequence[Limit], scene_of: SceneOf) -> tuple[Limit, ...]:
    """The limits with ``is_apart``.

    A limit is another one than the control's if what is named for the arm is more strongly suspected in it than in the
    control, or what is named for the control less: if one of the two differences excludes zero, among those of all
    suspects of both at all load levels. Where arms take turns none is: what one leaves behind is done in the turns of
    the other, where samples find it.
    """
    control = evidence.control
    levels = len({limit.load_level for limit in limits})
    of_control = {limit.load_level: limit for limit in limits if control is not None and limit.arm == control.name}
    told = []
    for limit in limits:
        other = of_control.get(limit.load_level)
        if other is None or other is limit:
            told.append(limit)
        else:
            is_apart = _is_apart(evidence, limit, other, scene_of, levels=levels)
            told.append(limit.model_copy(update={"is_apart": is_apart}))
    return tuple(told)


def _is_apart(evidence: Evidence, limit: Limit, other: Limit, scene_of: SceneOf, *, levels: int) -> bool:
    if limit.resource is other.resource or (evidence.takes_turns and evidence.rules.bears_alike):
        return False
    members = levels * len({suspect.resource for suspect in (*limit.suspects, *other.suspects)})
    expected = [(limit.resource, 1), (other.resource, -1)]
    return any(
        _compare(evidence, limit, resource, members=members, scene_of=scene_of) == side
        for resource, side in expected
        if resource is not Resource.UNDETERMINED
    )


def _compare(evidence: Evidence, limit: Limit, resource: Resource, *, members: int, scene_of: SceneOf) -> int:
    """On which side of none the difference lies of how strongly an arm and the control are suspected of a limit."""
    pairs = [
        (scene_of(control, limit.load_level), scene_of(run, limit.load_level))
        for control, run in evidence.pairs(limit.arm)
    ]
    differences = {
        block: _reach(scene, resource) - _reach(control, resource)
        for block, (control, scene) in zip(blocks_of(evidence.pairs(limit.arm)), pairs, strict=True)
        if control is not None and scene is not None
    }
    if not differences:
        return 0
    return estimate_difference(evidence, differences, arm=limit.arm, members=members).side()


def _reach(scene: Scene, resource: Resource) -> float:
    """How strongly a resource is suspected, without an end; 0 where no rule suspects it at all."""
    found: Iterable[float | None] = (
        suspect.reach
        for rule in RULES
        for suspect in rule(scene)
        if suspect is not None and suspect.resource is resource
    )
    return max((reach for reach in found if reach is not None), default=0.0)
