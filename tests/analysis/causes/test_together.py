"""What may be said of differences between arms: from how many blocks on, and of how many load levels together."""

import math
import random
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from calibration.trials import make_run, plan_trial
from pgtrial.analysis.causes import limit_contrast
from pgtrial.analysis.causes.limit_contrast import tell_apart
from pgtrial.analysis.causes.together import estimate_difference, find_hidden
from pgtrial.findings.causes import Limit, Resource, Suspect
from pgtrial.findings.message import message
from pgtrial.findings.record import ALL
from pgtrial.model.metrics import FAILURES, LATENCY_MEAN, TPS
from pgtrial.model.rules import RULES
from pgtrial.model.run import Phase, PhaseName, RunState, Slice

BEYOND = (1.0, 1.1, 0.9, 1.05, 0.95, 1.0)  # differences of the blocks that nobody takes for chance


def test_fewer_blocks_than_decide_a_claim_assert_no_difference() -> None:
    found = {}
    for blocks in (5, 6):
        evidence = plan_trial(random.Random(1), blocks=blocks)
        found[blocks] = estimate_difference(
            evidence, dict(zip(range(1, blocks + 1), BEYOND, strict=False)), arm="b", members=1
        )

    assert (found[5].side(), found[6].side()) == (0, 1)
    assert found[5].value == pytest.approx(1.0)


def test_by_rules_of_their_time_two_blocks_assert_one() -> None:
    evidence = replace(plan_trial(random.Random(1), blocks=2), rules=RULES[1])

    assert estimate_difference(evidence, {1: 1.0, 2: 1.01}, arm="b", members=1).side() == 1


def test_what_an_arm_leaves_for_the_next_run_makes_no_difference_of_its_own() -> None:
    """b takes as long as a, and the run after it 5 % longer: most of those are a's."""
    evidence = plan_trial(random.Random(4), blocks=24)
    rng = np.random.default_rng(2)
    own = {slot.number: rng.normal(0, 0.01) for slot in evidence.slots}
    before = ["", *(slot.arm for slot in evidence.slots[:-1])]
    left = {slot.number: 0.05 * (last == "b") for slot, last in zip(evidence.slots, before, strict=True)}
    plain, hit = (
        {
            run.slot.block: one[run.slot.number] - one[control.slot.number] - 0.025
            for control, run in evidence.pairs("b")
        }
        for one in (own, {number: own[number] + left[number] for number in own})
    )

    assert estimate_difference(evidence, plain, arm="b", members=1).side() == -1
    found = estimate_difference(evidence, hit, arm="b", members=1)
    assert found.value < -0.03
    assert found.side() == 0


def test_a_first_run_that_is_slower_hides_no_difference() -> None:
    evidence = plan_trial(random.Random(3), blocks=6)
    differences = {
        run.slot.block: 0.2 * BEYOND[run.slot.block - 1] + (1 if run.slot.position == 1 else -1)
        for _, run in evidence.pairs("b")
    }

    assert estimate_difference(evidence, differences, arm="b", members=1).side() == 1
    earlier = replace(evidence, rules=RULES[14])
    assert estimate_difference(earlier, differences, arm="b", members=1).side() == 0


@pytest.mark.parametrize("state", [RunState.INVALID, RunState.INTERRUPTED])
def test_what_failed_may_have_been_what_is_missing(state: RunState) -> None:
    evidence = plan_trial(random.Random(1), blocks=12)
    differences = {block: BEYOND[block % 6] - 0.8 for block in range(1, 13)}
    lost = make_run(next(slot for slot in evidence.slots if slot.arm == "b"), number=1000, state=state)
    plain, failing = (
        estimate_difference(replace(evidence, runs=runs), differences, arm="b", members=1)
        for runs in (evidence.runs, (*evidence.runs, lost))
    )
    several = tuple(replace(lost, id=1000 + number) for number in range(6))
    much = estimate_difference(replace(evidence, runs=(*evidence.runs, *several)), differences, arm="b", members=1)

    assert plain.low is not None
    assert failing.low is not None
    assert failing.low < plain.low
    assert much.low is None


def test_what_slices_hide_is_in_the_interval() -> None:
    evidence = plan_trial(random.Random(1), blocks=6)
    differences = dict(enumerate(BEYOND, start=1))
    plain, hiding = (
        estimate_difference(evidence, differences, arm="b", members=1, hidden=hidden)
        for hidden in ((0.0, 0.0), (1.5, 0.25))
    )

    assert plain.low is not None
    assert plain.high is not None
    assert (hiding.low, hiding.high) == pytest.approx((plain.low - 1.5, plain.high + 0.25))
    assert (plain.side(), hiding.side()) == (1, 0)


@pytest.mark.parametrize(("lost", "is_bounded"), [(0.0, True), (0.05, False)])
def test_nothing_bounds_the_time_of_an_arm_that_lost_its_slowest_transactions(lost: float, is_bounded: bool) -> None:
    evidence = plan_trial(random.Random(1), blocks=6)
    phases = (Phase(name=PhaseName.MEASURE, start=0.0, end=10.0, level=0),)
    runs = tuple(replace(run, phases=phases) for run in evidence.runs)
    evidence = replace(evidence, runs=runs, valid=runs)
    values: dict[tuple[int, str, str | None, int | str], float] = {}
    for run in evidence.valid:
        is_arm = run.slot.arm == "b"
        values[run.id, TPS.name, None, 0] = 500.0
        values[run.id, LATENCY_MEAN.name, None, ALL] = (0.95 if is_arm else 1.0) * BEYOND[run.slot.block - 1]
        values[run.id, FAILURES.name, None, ALL] = lost * is_arm
    hidden = find_hidden(evidence, values, "b", LATENCY_MEAN.name)
    told = estimate_difference(evidence, dict(enumerate(BEYOND, start=1)), arm="b", members=1, hidden=hidden)

    assert all(map(math.isfinite, hidden)) is is_bounded
    assert told.value == pytest.approx(1.0, abs=0.02)
    assert told.side() == is_bounded


def limit(arm: str, level: int, resource: Resource) -> Limit:
    suspects = tuple(Suspect(resource=each, strength=1.0, detail="", evidence=()) for each in REACHES)
    return Limit(
        arm=arm, load_level=level, resource=resource, detail="", text=message("page-gain.none"), suspects=suspects
    )


REACHES = (Resource.CPU, Resource.WAL_FLUSH)


@pytest.mark.parametrize(
    ("levels", "takes_turns", "is_apart"), [(1, False, True), (12, False, False), (1, True, False)]
)
def test_that_limits_differ_is_said_of_all_load_levels_together(
    monkeypatch: pytest.MonkeyPatch, levels: int, takes_turns: bool, is_apart: bool
) -> None:
    """The difference is the same at each level, and clear of zero for one of them alone. In turns it may be what the
    other arm has left.
    """
    evidence = plan_trial(random.Random(1), blocks=6)
    if takes_turns:
        slices = (Slice(level=0, number=0, started=0.0, counted=1.0, ended=2.0),)
        valid = tuple(replace(run, slices=slices) for run in evidence.valid)
        evidence = replace(evidence, runs=valid, valid=valid)
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
