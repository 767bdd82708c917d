import random
from dataclasses import replace
from pathlib import Path

import pytest

from pgtrial.analysis.effects import estimate as module
from pgtrial.analysis.effects.estimate import Estimated, estimate_effects, estimate_primary, find_effect, find_primary
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.observations import Values
from pgtrial.findings.record import ALL
from pgtrial.model.arm import Arm, Role
from pgtrial.model.rules import RULES
from pgtrial.model.verdict import Decision
from pgtrial.stats.interval import holm


def estimate(evidence: Evidence, values: Values) -> tuple[Estimated, ...]:
    return estimate_effects(evidence, values, scenarios=(None,))


def throughputs(
    evidence: Evidence, rng: random.Random, ratios: dict[str, float]
) -> dict[tuple[int, str, None, str], float]:
    """Log-normal throughput with the arms' true ratios, a common factor per block, and noise of 5 % per run."""
    blocks = {run.slot.block: rng.gauss(0, 0.3) for run in evidence.valid}
    return {
        (run.id, "pgbench.tps", None, ALL): ratios[run.slot.arm]
        * 2.718281828 ** (blocks[run.slot.block] + rng.gauss(0, 0.05))
        for run in evidence.valid
    }


def test_a_known_effect_is_recovered(evidence: Evidence, values: Values) -> None:
    found = find_primary(evidence, estimate(evidence, values), arm="off")

    assert found is not None
    effect = found.effect
    assert effect.low is not None
    assert effect.high is not None
    assert effect.low < 2 < effect.high
    assert effect.high - effect.low < 0.2
    assert (effect.decision, effect.blocks, len(effect.block_ratios)) == (Decision.BETTER, 6, 6)
    # In three of the six blocks "off" ran before "on": 20 such orders are possible, each with its mirror image.
    assert effect.p_sign_flip == pytest.approx(2 / 20)


def test_half_the_throughput_of_latency_is_better(evidence: Evidence, values: Values) -> None:
    found = find_effect(estimate(evidence, values), arm="off", metric="pgbench.latency_mean", scenario=None, level=0)

    assert found is not None
    assert found.effect.ratio == pytest.approx(0.5, rel=0.05)
    assert found.effect.decision is Decision.BETTER


def test_a_decision_is_sure_where_it_holds_together_with_all_others(evidence: Evidence, values: Values) -> None:
    found = estimate(evidence, values)
    claim = find_primary(evidence, found, arm="off")
    latency = find_effect(found, arm="off", metric="pgbench.latency_mean", scenario=None)
    sure = [one.effect for one in found if one.effect.sure]

    assert claim is not None
    assert latency is not None
    assert latency.effect.sure  # half of it
    assert not claim.effect.sure  # it alone was named beforehand
    assert {effect.arm for effect in sure} == {"off"}
    assert Decision.INCONCLUSIVE not in {effect.decision for effect in sure}


def test_the_only_load_level_is_no_further_comparison(
    evidence: Evidence, values: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    families = []
    monkeypatch.setattr(module, "holm", lambda p: families.append(p) or holm(p))
    found = estimate(evidence, values)
    beside = [one.effect for one in found if one.effect.arm == "off" and one.effect.load_level == ALL]
    told = {one.effect.key: one.effect.sure for one in found}

    assert len(evidence.levels) == 1
    # All of the candidate but its claim, each once.
    assert len([p for p in families[-1] if p is not None]) == len(beside) - 1
    assert all(told[arm, metric, scenario, 0] is told[arm, metric, scenario, ALL] for arm, metric, scenario, _ in told)


def test_the_placebo_is_clean(evidence: Evidence, values: Values) -> None:
    effects = [one.effect for one in estimate(evidence, values) if one.effect.arm == "placebo"]

    assert effects
    assert not [effect for effect in effects if effect.decision in (Decision.BETTER, Decision.WORSE)]


def test_failures_are_no_effect_unless_the_claim_is_about_them(evidence: Evidence, values: Values) -> None:
    failing = {**values, **{(run.id, "pgbench.failures", None, ALL): 0.01 for run in evidence.valid}}
    hypothesis = evidence.experiment.hypothesis.model_copy(update={"metric": "pgbench.failures"})
    claiming = replace(evidence, experiment=evidence.experiment.model_copy(update={"hypothesis": hypothesis}))

    assert find_effect(estimate(evidence, failing), arm="off", metric="pgbench.failures", scenario=None) is None
    assert find_primary(claiming, estimate(claiming, failing), arm="off") is not None


def test_a_metric_that_is_always_zero_has_no_effect(evidence: Evidence, values: Values) -> None:
    assert find_effect(estimate(evidence, values), arm="off", metric="cost.temp_bytes", scenario=None) is None


def test_a_zero_in_one_block_leaves_no_ratio_but_a_caveat(evidence: Evidence, values: Values) -> None:
    _, run = evidence.pairs("off")[2]
    changed = {**values, (run.id, "pgbench.tps", None, ALL): 0.0}
    found = find_primary(evidence, estimate(evidence, changed), arm="off")

    assert found is not None
    assert found.effect.ratio is None
    assert found.effect.block_ratios[2] is None
    assert "no-log-ratio" in {caveat.code for caveat in found.effect.caveats}


def test_a_zero_at_one_of_several_levels_does_not_leave_its_block_out(mix_folder: Path) -> None:
    evidence = read_evidence(mix_folder)
    last = evidence.runs_of("off")[-1].id
    values: dict[tuple[int, str, str | None, int | str], float] = {}
    for run in evidence.valid:
        values |= {(run.id, "cost.wal_bytes", None, level): 100.0 + run.id for level in (0, 1, ALL)}
    values[last, "cost.wal_bytes", None, 1] = 0.0
    del values[last, "cost.wal_bytes", None, ALL]  # as observe_runs has it
    found = find_effect(estimate(evidence, values), arm="off", metric="cost.wal_bytes", scenario=None)
    del values[last, "cost.wal_bytes", None, 1]
    unknown = find_effect(estimate(evidence, values), arm="off", metric="cost.wal_bytes", scenario=None)

    assert found is not None
    assert found.effect.ratio is None
    assert [caveat.code for caveat in found.effect.caveats] == ["no-log-ratio"]
    assert found.effect.block_ratios[-1] is None
    assert unknown is not None
    assert "missing-blocks" in {caveat.code for caveat in unknown.effect.caveats}


def test_a_missing_observation_leaves_its_block_out(evidence: Evidence, values: Values) -> None:
    _, run = evidence.pairs("off")[0]
    changed = {key: value for key, value in values.items() if key[0] != run.id}
    found = find_primary(evidence, estimate(evidence, changed), arm="off")

    assert found is not None
    assert found.effect.blocks == 5
    assert found.effect.block_ratios[0] is None
    assert "missing-blocks" in {caveat.code for caveat in found.effect.caveats}


def test_a_time_of_only_some_of_an_arms_runs_decides_nothing(evidence: Evidence, values: Values) -> None:
    """No transaction ended in one of them: without it the arm would seem to be as the control is."""
    time = "pgbench.latency_mean"
    alike = {key: 0.01 + 1e-6 * key[0] if key[1] == time else value for key, value in values.items()}
    evidence = replace(evidence, rules=replace(evidence.rules, fewest_blocks=5))
    whole = find_effect(estimate(evidence, alike), arm="off", metric=time, scenario=None)
    last = evidence.pairs("off")[-1][1].id
    part = {key: value for key, value in alike.items() if key[:2] != (last, time)}
    partial = find_effect(estimate(evidence, part), arm="off", metric=time, scenario=None)

    assert whole is not None
    assert whole.effect.decision is Decision.EQUIVALENT
    assert partial is not None
    assert partial.effect.decision is Decision.INCONCLUSIVE


@pytest.mark.parametrize("missing", [("off",), ("on",), ("on", "off")])
def test_a_metric_of_only_some_runs_has_no_effect(evidence: Evidence, values: Values, missing: tuple[str, ...]) -> None:
    """Whether of one arm or of both: what is missing may be missing because of what it would have been."""
    cost = "cost.wal_bytes"
    control, treated = evidence.pairs("off")[-1]
    lost = {run.id for run in (control, treated) if run.slot.arm in missing}
    whole: Values = {**values, **{(run.id, cost, None, ALL): 1.0 + 0.01 * run.id for run in evidence.valid}}
    part = {key: value for key, value in whole.items() if not (key[0] in lost and key[1] == cost)}
    older = replace(evidence, rules=RULES[14])

    all_of_it, found, before = (
        find_effect(estimate(rules, known), arm="off", metric=cost, scenario=None)
        for rules, known in ((evidence, whole), (evidence, part), (older, part))
    )

    assert all_of_it is not None
    assert all_of_it.effect.low is not None
    assert found is not None
    assert (found.effect.ratio, found.effect.low, found.effect.decision) == (None, None, Decision.INCONCLUSIVE)
    assert [caveat.code for caveat in found.effect.caveats] == ["missing-blocks"]
    assert before is not None
    assert before.effect.low is not None


def test_several_candidates_share_the_error_probability(evidence: Evidence) -> None:
    values = throughputs(evidence, random.Random(4), {"on": 1.0, "off": 1.05, "placebo": 1.05})
    alone = find_primary(evidence, estimate(evidence, values), arm="off")
    two = replace(
        evidence,
        arms=tuple(
            Arm(name=arm.name, role=arm.role if arm.name != "placebo" else Role.CANDIDATE) for arm in evidence.arms
        ),
    )
    estimated = estimate(two, values)
    together = find_primary(two, estimated, arm="off")
    other = find_primary(two, estimated, arm="placebo")

    assert alone is not None
    assert together is not None
    assert other is not None
    assert together.effect.low is not None
    assert alone.effect.low is not None
    assert together.effect.low < alone.effect.low
    assert alone.effect.p_adjusted == alone.effect.p_value
    p_values = sorted(
        (one.effect.p_value, one.effect.p_adjusted)
        for one in (together, other)
        if one.effect.p_value is not None and one.effect.p_adjusted is not None
    )
    assert p_values[0][1] == pytest.approx(min(1, 2 * p_values[0][0]))
    assert p_values[1][1] == pytest.approx(max(p_values[1][0], p_values[0][1]))


def test_equal_arms_are_rarely_found_different(evidence: Evidence) -> None:
    """False alarms of 400 simulated A/A experiments: 5 % ± 4 standard errors of 1.1 %."""
    rng = random.Random(20260120)
    alarms = 0
    for _ in range(400):
        values = throughputs(evidence, rng, {"on": 1.0, "off": 1.0, "placebo": 1.0})
        found = estimate_primary(evidence, values)
        assert found is not None
        assert found.effect.low is not None
        assert found.effect.high is not None
        alarms += not found.effect.low <= 1 <= found.effect.high

    assert 3 <= alarms <= 37
