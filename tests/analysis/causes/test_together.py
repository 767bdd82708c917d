"""What may be said of differences between arms: from how many blocks on, and of how many load levels together."""

import random
from dataclasses import replace
from typing import Any, cast

import pytest

from calibration.trials import plan_trial
from pgtrial.analysis.causes import limit_contrast
from pgtrial.analysis.causes.limit_contrast import tell_apart
from pgtrial.analysis.causes.together import estimate_difference
from pgtrial.findings.causes import Limit, Resource, Suspect
from pgtrial.findings.message import message
from pgtrial.model.rules import RULES

BEYOND = (1.0, 1.1, 0.9, 1.05, 0.95, 1.0)  # differences of the blocks that nobody takes for chance


def test_fewer_blocks_than_decide_a_claim_assert_no_difference() -> None:
    found = {}
    for blocks in (5, 6):
        evidence = plan_trial(random.Random(1), blocks=blocks)
        found[blocks] = estimate_difference(evidence, BEYOND[:blocks], members=1, blocks=range(1, blocks + 1))

    assert (found[5].side(), found[6].side()) == (0, 1)
    assert found[5].value == pytest.approx(1.0)


def test_by_rules_of_their_time_two_blocks_assert_one() -> None:
    evidence = replace(plan_trial(random.Random(1), blocks=2), rules=RULES[1])

    assert estimate_difference(evidence, [1.0, 1.01], members=1, blocks=[1, 2]).side() == 1


def limit(arm: str, level: int, resource: Resource) -> Limit:
    suspects = tuple(Suspect(resource=each, strength=1.0, detail="", evidence=()) for each in REACHES)
    return Limit(
        arm=arm, load_level=level, resource=resource, detail="", text=message("page-gain.none"), suspects=suspects
    )


REACHES = (Resource.CPU, Resource.WAL_FLUSH)


@pytest.mark.parametrize(("levels", "is_apart"), [(1, True), (12, False)])
def test_that_limits_differ_is_said_of_all_load_levels_together(
    monkeypatch: pytest.MonkeyPatch, levels: int, is_apart: bool
) -> None:
    """The difference is the same at each level, and clear of zero for one of them alone."""
    evidence = plan_trial(random.Random(1), blocks=6)
    noise = dict(zip(range(1, 7), (0.0, 0.3, -0.3, 0.2, -0.2, 0.1), strict=True))
    reaches = {
        run.id: (noise[run.slot.block] + 0.36) * (run.slot.arm == "b") for run in evidence.valid
    }  # of the CPU, more in b
    monkeypatch.setattr(limit_contrast, "_reach", lambda scene, resource: scene if resource is Resource.CPU else 0.0)
    limits = [
        limit(arm, level, resource)
        for arm, resource in (("a", Resource.WAL_FLUSH), ("b", Resource.CPU))
        for level in range(levels)
    ]

    told = tell_apart(evidence, limits, lambda run, _: cast(Any, reaches[run.id]))

    assert {each.is_apart for each in told if each.arm == "b"} == {is_apart}
