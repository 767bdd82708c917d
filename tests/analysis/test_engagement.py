from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pgtrial.analysis.engagement import find_engagements, is_idle, say_untested
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.analysis.validity.blocks import check_engagement
from pgtrial.findings.findings import ClaimPart, Engagement, Findings, Needed
from pgtrial.findings.message import message, say
from pgtrial.model.verdict import Verdict

Assess = Callable[..., Any]


def timeline(arm: str, series: Mapping[str, float]) -> Timeline:
    flat = np.full(10, 100.0)
    values = {(name, ""): np.where(np.arange(10) == 5, value, 0.0) for name, value in series.items()}
    return Timeline(
        run=1, arm=arm, block=1, level=0, started=0.0, offset=0.0, tps=flat, latency=flat / 1e4, series=values
    )


def differ(evidence: Evidence, *, knob: str = "", **settings: tuple[str, str]) -> Evidence:
    """The control and the claim's arm with other values of some settings, of PostgreSQL or of a knob."""
    arms = []
    for arm in evidence.arms:
        place = 1 if arm.name == evidence.hypothesis_arm else 0
        table = {name: values[place] for name, values in settings.items()}
        arms.append(replace(arm, knobs={knob: table}, settings={}) if knob else replace(arm, settings=table))
    return replace(evidence, arms=tuple(arms))


def states(evidence: Evidence, *timelines: Timeline) -> list[str]:
    return [each.state for each in find_engagements(evidence, timelines)]


@pytest.mark.parametrize(
    ("control", "treated", "state"),
    [(0.0, 0.0, "idle"), (5e6, 0.0, "engaged"), (0.0, 5e6, "engaged")],
)
def test_one_second_in_either_arm_is_enough(evidence: Evidence, control: float, treated: float, state: str) -> None:
    asked = differ(evidence, work_mem=("4MB", "64MB"))
    lines = [timeline("on", {"db.temp_bytes": control}), timeline("off", {"db.temp_bytes": treated})]

    assert states(asked, *lines) == [state]
    assert is_idle(find_engagements(asked, lines)) is (state == "idle")


def test_dirty_pages_below_the_limit_test_nothing(evidence: Evidence) -> None:
    asked = differ(evidence, knob="sysctl", **{"vm.dirty_ratio": ("30", "10")})
    low, high = ([timeline(arm, {"dirty.share": share}) for arm in ("on", "off")] for share in (0.026, 0.6))
    (found,) = find_engagements(asked, low)

    assert found.state == "idle"
    assert "was at most 2.6 %, and 50.0 % count as much" in say(found.text)
    assert states(asked, *high) == ["engaged"]


def swapping(arm: str, **series: float) -> Timeline:
    """Of a server in a control group of version 1, which has a swappiness of its own."""
    own = {f"cgroup.{name}": value for name, value in series.items()}
    found = timeline(arm, {"vmstat.si": 5e6, "vmstat.so": 5e6, **own})
    found.series["cgroup.swappiness", ""][:] = series["swappiness"]
    return found


@pytest.mark.parametrize(
    ("control", "treated", "state"),
    [
        ({"swappiness": 10.0, "swapped": 5e6, "si": 0.0}, {"swappiness": 1.0, "swapped": 0.0, "si": 0.0}, "engaged"),
        ({"swappiness": 10.0, "swapped": 0.0, "si": 0.0}, {"swappiness": 1.0, "swapped": 0.0, "si": 5e6}, "engaged"),
        ({"swappiness": 10.0, "swapped": 0.0, "si": 0.0}, {"swappiness": 1.0, "swapped": 0.0, "si": 0.0}, "idle"),
        ({"swappiness": 60.0, "swapped": 5e6, "si": 5e6}, {"swappiness": 60.0, "swapped": 5e6, "si": 5e6}, "idle"),
    ],
)
def test_swapping_counts_of_the_group_alone_whose_swappiness_differs(
    evidence: Evidence, control: dict[str, float], treated: dict[str, float], state: str
) -> None:
    asked = differ(evidence, knob="sysctl", **{"vm.swappiness": ("10", "1")})

    assert states(asked, swapping("on", **control), swapping("off", **treated)) == [state]


def test_a_group_whose_swappiness_is_the_same_in_both_arms_is_told(evidence: Evidence) -> None:
    asked = differ(evidence, knob="sysctl", **{"vm.swappiness": ("10", "1")})
    lines = [swapping(arm, swappiness=60.0, swapped=5e6, si=5e6) for arm in ("on", "off")]

    (found,) = find_engagements(asked, lines)

    assert "vm.swappiness did not govern the server" in say(found.text)
    assert "60" in say(found.text)


@pytest.mark.parametrize(("reads", "state"), [(1400.0, "idle"), (1600.0, "engaged")])
def test_a_limit_of_the_disk_acts_where_the_group_comes_near_it(evidence: Evidence, reads: float, state: str) -> None:
    asked = differ(evidence, knob="cgroup", read_iops=("3000", "10000"))
    lines = [timeline(arm, {"cgroup.reads": reads}) for arm in ("on", "off")]

    (found,) = find_engagements(asked, lines)

    assert found.state == state
    if state == "idle":
        assert "no reads or writes near the limit" in say(found.text)
        assert "was at most 1400" in say(found.text)
        assert "1500 counts as much" in say(found.text)


def test_a_limit_that_one_arm_has_is_the_limit(evidence: Evidence) -> None:
    limit = {"off": {"cgroup": {"write_bytes": "10MB"}}}
    arms = tuple(replace(arm, knobs=limit.get(arm.name, {}), settings={}) for arm in evidence.arms)

    assert states(replace(evidence, arms=arms), timeline("off", {"cgroup.write_bytes": 6e6})) == ["engaged"]


def test_a_limit_that_cannot_be_read_is_no_evidence(evidence: Evidence) -> None:
    """In a damaged folder."""
    asked = differ(evidence, knob="cgroup", read_iops=("many", "\x1b"))

    assert states(asked, timeline("off", {"cgroup.reads": 6e6})) == ["unknown"]


def test_what_was_not_sampled_or_not_declared_is_not_known(evidence: Evidence) -> None:
    assert states(differ(evidence, work_mem=("4MB", "64MB")), timeline("on", {})) == ["unknown"]
    undeclared = find_engagements(differ(evidence, random_page_cost=("4", "1")), ())
    assert [each.state for each in undeclared] == ["unknown"]
    assert "pgtrial has no evidence for it" in say(undeclared[0].text)
    assert not is_idle(undeclared)


def test_an_inconclusive_verdict_of_an_idle_setting_is_not_tested(
    evidence: Evidence, findings: Findings, assess: Assess
) -> None:
    asked = differ(evidence, work_mem=("4MB", "64MB"))
    idle = find_engagements(asked, [timeline(arm, {"db.temp_bytes": 0.0}) for arm in ("on", "off")])
    needed = Needed(blocks=40, text=message("needed.infeasible"))
    open_ = findings.hypothesis.model_copy(update={"verdict": Verdict.INCONCLUSIVE})

    told, blocks = say_untested(open_, needed, idle, effects=[])
    supported, same = say_untested(findings.hypothesis, needed, idle, effects=findings.effects)

    assert told.not_tested
    assert say(told.reason).startswith("Not tested: work_mem had nothing to act on, that is, no temporary files")
    assert blocks.blocks is None
    assert (supported, same) == (findings.hypothesis, needed)
    (caveat,) = check_engagement(replace(assess(), engagements=idle))
    assert (caveat.code, caveat.severity) == ("not-engaged", "warning")


@pytest.fixture
def idle(evidence: Evidence) -> tuple[Engagement, ...]:
    asked = differ(evidence, work_mem=("4MB", "64MB"))
    return find_engagements(asked, [timeline(arm, {"db.temp_bytes": 0.0}) for arm in ("on", "off")])


@pytest.mark.parametrize(
    ("claim", "interval", "is_told"),
    [
        (("not-worse", Verdict.SUPPORTED), (0.99, 1.02), True),
        (("equivalent", Verdict.SUPPORTED), (0.99, 1.01), True),
        (("better", Verdict.REFUTED), (0.99, 1.01), True),
        (("different", Verdict.REFUTED), (0.99, 1.01), True),
        # Of what the arms differ by, something acted all the same.
        (("better", Verdict.SUPPORTED), (1.05, 1.12), False),
        (("not-worse", Verdict.SUPPORTED), (1.05, 1.12), False),
        (("better", Verdict.REFUTED), (0.85, 0.92), False),
        (("not-worse", Verdict.REFUTED), (0.85, 0.92), False),
        (("better", Verdict.INVALID), (0.99, 1.01), False),
    ],
)
def test_a_verdict_that_rests_on_no_effect_is_none_where_nothing_acted(
    findings: Findings,
    idle: tuple[Engagement, ...],
    claim: tuple[str, Verdict],
    interval: tuple[float, float],
    is_told: bool,
) -> None:
    expect, verdict = claim
    asked = findings.hypothesis.model_copy(update={"expect": expect, "verdict": verdict})
    effect = findings.effects[0].model_copy(update={"low": interval[0], "high": interval[1]})

    told, needed = say_untested(asked, findings.needed, idle, effects=[effect])

    assert told.not_tested is is_told
    assert told.verdict is (Verdict.INCONCLUSIVE if is_told else verdict)
    if is_told:
        assert say(told.reason).endswith("That no effect was seen is no evidence then that there is none.")
        assert say(needed.text).startswith("a load in which the setting has something to act on")
    else:
        assert (told, needed) == (asked, findings.needed)


SUPPORTED, REFUTED, OPEN = Verdict.SUPPORTED, Verdict.REFUTED, Verdict.INCONCLUSIVE
NONE, MORE = (0.99, 1.01), (1.2, 1.3)  # intervals


@pytest.mark.parametrize(
    ("verdict", "parts", "told"),
    [
        (SUPPORTED, (("not-worse", SUPPORTED, NONE), ("equivalent", SUPPORTED, NONE)), (OPEN, OPEN)),
        (REFUTED, (("better", REFUTED, NONE), ("not-worse", SUPPORTED, NONE)), (OPEN, OPEN)),
        (OPEN, (("not-worse", SUPPORTED, NONE), ("better", OPEN, NONE)), (OPEN, OPEN)),
        # What does not refute may have been seen to change.
        (REFUTED, (("better", REFUTED, NONE), ("not-worse", SUPPORTED, MORE)), (OPEN, SUPPORTED)),
        (SUPPORTED, (("not-worse", SUPPORTED, NONE), ("better", SUPPORTED, MORE)), None),
        (SUPPORTED, (("not-worse", SUPPORTED, MORE), ("not-worse", SUPPORTED, MORE)), None),
        (REFUTED, (("better", REFUTED, NONE), ("not-worse", REFUTED, MORE)), None),
        (REFUTED, (("better", REFUTED, MORE), ("not-worse", SUPPORTED, NONE)), None),
    ],
)
def test_a_claim_of_several_metrics_is_not_tested_where_what_decides_rests_on_no_effect(
    findings: Findings,
    idle: tuple[Engagement, ...],
    verdict: Verdict,
    parts: tuple[tuple[str, Verdict, tuple[float, float]], ...],
    told: tuple[Verdict, ...] | None,
) -> None:
    asked = findings.hypothesis
    part = ClaimPart(
        metric=asked.metric,
        scenario=None,
        expect="better",
        margin=asked.margin,
        verdict=Verdict.SUPPORTED,
        reason=asked.reason,
    )
    found = tuple(part.model_copy(update={"expect": expect, "verdict": own}) for expect, own, _ in parts)
    asked = asked.model_copy(update={"expect": parts[0][0], "verdict": verdict, "parts": found})
    effects = [findings.effects[0].model_copy(update={"low": low, "high": high}) for _, _, (low, high) in parts]

    said, _ = say_untested(asked, findings.needed, idle, effects=effects)

    assert said.not_tested is (told is not None)
    assert said.verdict is (verdict if told is None else OPEN)
    assert tuple(each.verdict for each in said.parts) == (told or tuple(own for _, own, _ in parts))


def test_there_is_nothing_to_tell_of_arms_that_do_not_differ(evidence: Evidence) -> None:
    assert find_engagements(differ(evidence), ()) == ()
