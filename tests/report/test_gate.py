import pytest

from pgtrial.findings.findings import ClaimPart, Findings
from pgtrial.findings.message import say
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.report.gate import CaseResult, GateCase, gate_verdict, list_cases, unfinished_text
from pgtrial.report.words import primary_effect


def with_verdict(findings: Findings, verdict: Verdict, *, complete: bool = True) -> Findings:
    return findings.model_copy(
        update={
            "hypothesis": findings.hypothesis.model_copy(update={"verdict": verdict}),
            "experiment": findings.experiment.model_copy(
                update={"complete": complete, "blocks_complete": 6 if complete else 3}
            ),
        }
    )


def find(findings: Findings, key: str) -> GateCase:
    (found,) = [case for case in list_cases(findings) if case.key == key]
    return found


@pytest.mark.parametrize(
    ("verdict", "outcome", "kind"),
    [
        (Verdict.SUPPORTED, CaseResult.PASSED, ""),
        (Verdict.REFUTED, CaseResult.FAILED, "refuted"),
        (Verdict.INCONCLUSIVE, CaseResult.FAILED, "inconclusive"),
        (Verdict.INVALID, CaseResult.BROKEN, "invalid"),
    ],
)
def test_the_claim_passes_only_if_it_is_supported(sample, verdict, outcome, kind):
    claim = find(with_verdict(sample, verdict), "claim")

    assert (claim.outcome, claim.kind) == (outcome, kind)
    assert claim.name == "claim: synchronous_commit = off is faster for small updates"
    assert claim.message == ("" if outcome is CaseResult.PASSED else say(sample.hypothesis.reason))
    assert claim.figures["verdict"] == verdict


def test_a_claim_that_was_not_tested_fails_as_that(sample):
    untested = with_verdict(sample, Verdict.INCONCLUSIVE)
    asked = untested.hypothesis.model_copy(update={"not_tested": True})

    claim = find(untested.model_copy(update={"hypothesis": asked}), "claim")

    assert (claim.outcome, claim.kind) == (CaseResult.FAILED, "not tested")
    assert claim.figures["verdict"] == "inconclusive"


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (Verdict.SUPPORTED, Verdict.INCONCLUSIVE),
        (Verdict.REFUTED, Verdict.INCONCLUSIVE),
        (Verdict.INVALID, Verdict.INVALID),
    ],
)
def test_an_experiment_that_is_not_finished_has_not_decided_anything(sample, verdict, expected):
    early = with_verdict(sample, verdict, complete=False)

    assert gate_verdict(early) is expected
    assert unfinished_text(early) == "3 of 6 blocks complete"
    schedule = find(early, "schedule")
    assert (schedule.outcome, schedule.kind) == (CaseResult.BROKEN, "unfinished")
    if expected is Verdict.INCONCLUSIVE:
        assert find(early, "claim").message.startswith(
            "The experiment is not finished: 3 of 6 blocks complete. So far: "
        )


def test_an_experiment_that_its_rule_has_ended_is_finished(stopped):
    assert gate_verdict(stopped) is Verdict.SUPPORTED
    assert unfinished_text(stopped) == ""
    assert find(stopped, "schedule").outcome is CaseResult.PASSED


def test_what_nobody_claimed_does_not_fail_whichever_way_it_goes(sample):
    decisions = {
        Decision.BETTER: CaseResult.PASSED,
        Decision.EQUIVALENT: CaseResult.PASSED,
        Decision.WORSE: CaseResult.PASSED,
        Decision.INCONCLUSIVE: CaseResult.SKIPPED,
    }
    for decision, outcome in decisions.items():
        changed = sample.model_copy(
            update={"effects": tuple(effect.model_copy(update={"decision": decision}) for effect in sample.effects)}
        )
        case = find(changed, "effect.off.pgbench.latency_p99.all")

        assert case.outcome is outcome
        assert case.text.endswith(f": {decision}")


def test_a_placebo_that_differs_is_a_failure(sample):
    changed = sample.model_copy(
        update={"placebo": tuple(e.model_copy(update={"decision": Decision.WORSE}) for e in sample.placebo)}
    )
    case = find(changed, "effect.placebo.pgbench.tps.all")

    assert (case.outcome, case.kind) == (CaseResult.FAILED, "false alarm")
    assert case.name == "placebo: throughput of placebo, all load levels"
    assert case.message.startswith("A difference was found where there is none")
    assert case.message.endswith(": worse")
    assert find(sample, "effect.placebo.pgbench.tps.all").outcome is CaseResult.PASSED


def test_a_placebo_that_differs_in_a_latency_alone_says_so_of_the_latency(sample):
    placebo = tuple(
        one.model_copy(
            update={"decision": Decision.WORSE if one.metric == "pgbench.latency_p99" else Decision.EQUIVALENT}
        )
        for one in sample.placebo
    )
    changed = sample.model_copy(update={"placebo": placebo})

    assert find(changed, "effect.placebo.pgbench.tps.all").outcome is CaseResult.PASSED
    assert find(changed, "effect.placebo.pgbench.latency_p99.all").message.startswith(
        "A difference was found where there is none"
    )


def test_declared_criteria_are_listed_with_their_ratios(sample):
    criteria = [case for case in list_cases(sample) if case.key.startswith("criterion.")]

    assert criteria
    assert {case.outcome for case in criteria} <= {CaseResult.PASSED, CaseResult.SKIPPED}
    assert all(case.key.split(".")[1] != sample.hypothesis.control for case in criteria)
    assert all("ratio" in case.figures for case in criteria if case.outcome is CaseResult.PASSED)


def test_the_claims_own_effect_is_not_listed_twice(sample):
    keys = [case.key for case in list_cases(sample)]

    assert "effect.off.pgbench.tps.all" not in keys
    assert "effect.off.pgbench.tps.level0" in keys
    assert len(set(keys)) == len(keys)
    assert {"ratio", "low", "high", "p", "blocks", "margin", "decision"} <= set(find(sample, "claim").figures)


@pytest.mark.parametrize(
    ("decision", "expect", "verdict", "word"),
    [
        (Decision.INCONCLUSIVE, "not-worse", Verdict.SUPPORTED, "not worse"),
        (Decision.INCONCLUSIVE, "better", Verdict.REFUTED, "not better"),
        (Decision.EQUIVALENT, "not-worse", Verdict.INCONCLUSIVE, "inconclusive"),  # of too few blocks
        (Decision.BETTER, "better", Verdict.SUPPORTED, "better"),
    ],
)
def test_what_is_decided_of_the_claim_is_told_in_the_words_of_the_summary(sample, decision, expect, verdict, word):
    claimed = primary_effect(sample)
    effects = tuple(one.model_copy(update={"decision": decision}) if one == claimed else one for one in sample.effects)
    asked = sample.hypothesis.model_copy(update={"expect": expect})
    changed = sample.model_copy(update={"effects": effects, "hypothesis": asked})

    assert find(with_verdict(changed, verdict), "claim").figures["decision"] == word
    early = with_verdict(changed, verdict, complete=False)
    assert find(early, "claim").figures["decision"] == "inconclusive"


@pytest.mark.parametrize(
    ("verdict", "complete", "outcome", "word"),
    [
        (Verdict.SUPPORTED, True, CaseResult.PASSED, "not worse"),
        (Verdict.INCONCLUSIVE, True, CaseResult.SKIPPED, "inconclusive"),
        (Verdict.SUPPORTED, False, CaseResult.SKIPPED, "inconclusive"),
    ],
)
def test_a_part_of_the_claim_is_known_where_its_verdict_is(sample, verdict, complete, outcome, word):
    p99 = "pgbench.latency_p99"
    effects = tuple(
        one.model_copy(update={"decision": Decision.INCONCLUSIVE}) if one.metric == p99 else one
        for one in sample.effects
    )
    part = ClaimPart(
        metric=p99, scenario=None, expect="not-worse", margin=0.1, verdict=verdict, reason=sample.hypothesis.reason
    )
    asked = sample.hypothesis.model_copy(update={"parts": (part,)})
    changed = sample.model_copy(update={"effects": effects, "hypothesis": asked})
    case = find(with_verdict(changed, Verdict.INCONCLUSIVE, complete=complete), f"effect.off.{p99}.all")

    assert (case.outcome, case.figures["decision"]) == (outcome, word)
    assert case.text.endswith(f": {word}")


def test_an_experiment_without_a_run_is_invalid_and_has_no_effects(minimal):
    assert [(case.key, case.outcome) for case in list_cases(minimal)] == [
        ("claim", CaseResult.BROKEN),
        ("schedule", CaseResult.BROKEN),
    ]


def test_grave_caveats_stand_with_the_claim(sample):
    text = find(sample, "claim").text

    assert "warning: The hypervisor took 4.2 % of the CPU time in one run. Repeat at a quieter hour" in text
    assert "Other processes used" not in text
