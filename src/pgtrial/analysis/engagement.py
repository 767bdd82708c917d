"""Could the settings act at all? For each in which the claim's arm differs from the control, what was seen of it.

A knob declares its evidence (``Acts``); one second in one of the two arms is enough: where a setting keeps something
from happening, it happens in the other arm.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pgtrial.analysis.causes.sessions import find_objects, pooled_values
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.factors import read_number
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.design.effect_timing import Difference, find_differences
from pgtrial.findings.findings import ClaimPart, Effect, Engagement, HypothesisFinding, Needed
from pgtrial.findings.message import Message, message
from pgtrial.findings.naming import name_metric
from pgtrial.knobs import KNOBS
from pgtrial.knobs.declaration import Acts, OfGroup
from pgtrial.model.arm import Arm
from pgtrial.model.observable import find_observable
from pgtrial.model.verdict import Verdict

_SEEN = {"share": "seen.share", "B": "seen.bytes", "B/s": "seen.byte-rate"}
_NO_EFFECT = ("not-worse", "equivalent")  # claims that are true of a setting that does nothing
_ANY = 1e-6  # of a threshold that only tells something from nothing


def find_engagements(evidence: Evidence, timelines: Sequence[Timeline]) -> tuple[Engagement, ...]:
    """One for each setting; () where the two arms do not differ in any."""
    names = {evidence.hypothesis_arm, evidence.control.name if evidence.control else ""}
    arms = [arm for arm in evidence.arms if arm.name in names]
    if len(arms) < 2:
        return ()
    mine = [each for each in timelines if each.arm in names]
    return tuple(_judge(difference, arms, mine) for difference in find_differences(arms))


def _judge(difference: Difference, arms: Sequence[Arm], timelines: Sequence[Timeline]) -> Engagement:
    acts, setting = KNOBS[difference.knob].acts_of(difference.key), difference.label
    least = None if acts is None else _find_least(acts, difference, arms)
    if acts is None or least is None:
        return _found(difference, "unknown", message("engagement.undeclared", setting=setting))
    if not acts.metrics:
        return _found(difference, "engaged", message("engagement.always", setting=setting))
    if acts.in_group is not None and (governing := _find_governing(acts.in_group, arms, timelines)):
        if len(set(governing)) == 1:
            text = message(
                "engagement.not-governing", setting=setting, metric=name_metric(acts.in_group.value), value=governing[0]
            )
            return _found(difference, "idle", text)
        acts = replace(acts, metrics=acts.in_group.metrics)
    what = message(f"acts.{acts.code}")
    highest = {
        metric: max(value)
        for metric in acts.metrics
        if (value := [h for about in find_objects(timelines, metric) for h in _highest(timelines, metric, about)])
    }
    seen = tuple(_tell(least, metric, value) for metric, value in highest.items())
    if any(value >= least for value in highest.values()):
        return _found(difference, "engaged", message("engagement.seen", setting=setting, acts=what, seen=seen))
    if len(highest) < len(acts.metrics):
        missing = tuple(name_metric(metric) for metric in acts.metrics if metric not in highest)
        return _found(difference, "unknown", message("engagement.unread", setting=setting, acts=what, metrics=missing))
    needs = message(f"needs.{acts.code}")
    idle = message("engagement.idle", setting=setting, acts=what, seen=seen, needs=needs)
    return _found(difference, "idle", idle)


def _found(difference: Difference, state: str, text: Message) -> Engagement:
    return Engagement(setting=difference.label, state=state, text=text)


def _highest(timelines: Sequence[Timeline], metric: str, about: str) -> list[float]:
    values = pooled_values(timelines, metric, about)
    return [float(values.max())] if values.size else []


def _find_least(acts: Acts, difference: Difference, arms: Sequence[Arm]) -> float | None:
    """What has to be reached; None where a folder has no limit that can be read."""
    if not acts.of_value:
        return acts.least
    values = (arm.knobs.get(difference.knob, {}).get(difference.key, "") for arm in arms)
    limits = [limit for value in values if (limit := read_number(value)) is not None]
    return acts.of_value * min(limits) if limits else None


def _find_governing(of_group: OfGroup, arms: Sequence[Arm], timelines: Sequence[Timeline]) -> list[float]:
    """By arm what the control group had; [] where that was not sampled of each."""
    values = [pooled_values([t for t in timelines if t.arm == arm.name], of_group.value) for arm in arms]
    return [float(np.median(own)) for own in values] if all(own.size for own in values) else []


def _tell(least: float, metric: str, value: float) -> Message:
    known = find_observable(metric)
    name = name_metric(metric)
    if value == 0:
        return message("seen.nothing", metric=name)
    if least < _ANY:
        return message("seen.any", metric=name, value=value)
    code = _SEEN.get(known.metric.unit if known else "", "seen.number")
    return message(code, metric=name, value=value, least=least)


def is_idle(engagements: Sequence[Engagement]) -> bool:
    """Whether none of the settings had anything to act on, and that is known of all of them."""
    return bool(engagements) and all(each.state == "idle" for each in engagements)


def say_untested(
    hypothesis: HypothesisFinding,
    needed: Needed,
    engagements: Sequence[Engagement],
    *,
    effects: Sequence[Effect | None],
) -> tuple[HypothesisFinding, Needed]:
    """A verdict that is not reached because nothing acted is told as that, and more blocks are no remedy.

    Neither is one that only says that there is no effect: without anything to act on there could not be one, whatever
    the setting does elsewhere. ``effects`` are those of the claim's parts, or that of a claim of one metric; None where
    it was not measured.
    """
    if not is_idle(engagements):
        return hypothesis, needed
    why = tuple(each.text for each in engagements)
    open_: dict[str, object] = {
        "verdict": Verdict.INCONCLUSIVE,
        "reason": message("verdict.not-tested.no-effect", why=why),
    }
    if hypothesis.verdict is Verdict.INCONCLUSIVE:
        changed: dict[str, object] = {"reason": message("verdict.not-tested", why=why)}
    elif _rests_on_no_effect(hypothesis, effects):
        changed = open_
    else:
        return hypothesis, needed
    pairs = zip(hypothesis.parts, effects, strict=False)  # of one metric there are no parts
    parts = tuple(part.model_copy(update=open_) if _is_of_no_effect(part, own) else part for part, own in pairs)
    return (
        hypothesis.model_copy(update={**changed, "parts": parts, "not_tested": True}),
        Needed(blocks=None, text=message("needed.not-engaged")),
    )


def _rests_on_no_effect(asked: HypothesisFinding, effects: Sequence[Effect | None]) -> bool:
    """Whether what decides the claim does: all parts of a supported one, those that refute a refuted one."""
    judged: tuple[HypothesisFinding | ClaimPart, ...] = asked.parts or (asked,)
    pairs = zip(judged, effects, strict=False)
    telling = [_is_of_no_effect(each, effect) for each, effect in pairs if each.verdict is asked.verdict]
    return bool(telling) and all(telling)


def _is_of_no_effect(asked: HypothesisFinding | ClaimPart, effect: Effect | None) -> bool:
    """Whether the verdict would be the same of a setting without any effect, and none was seen either."""
    if effect is None or effect.low is None or effect.high is None or not effect.low <= 1 <= effect.high:
        return False
    return asked.verdict is (Verdict.SUPPORTED if asked.expect in _NO_EFFECT else Verdict.REFUTED)
