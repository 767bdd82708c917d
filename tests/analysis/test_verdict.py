from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pgtrial.analysis.effects.estimate import Estimated, estimate_effects, find_primary
from pgtrial.analysis.effects.verdict import judge_hypothesis
from pgtrial.analysis.evidence import Evidence
from pgtrial.findings.caveat import CaveatFinding
from pgtrial.findings.findings import HypothesisFinding, Needed
from pgtrial.findings.message import say
from pgtrial.findings.record import ALL
from pgtrial.model.caveat import Severity
from pgtrial.model.rules import CURRENT
from pgtrial.model.verdict import Verdict

Judge = Callable[..., tuple[HypothesisFinding, Needed]]

# Noise of about one percent between blocks.
_NOISE = (1.0, 1.012, 0.99, 1.006, 0.995, 1.002)


@pytest.fixture
def judge(evidence: Evidence) -> Judge:
    """Judge a claim about one metric with a given true ratio of off to on, in six blocks."""

    def build(
        ratio: float,
        *,
        metric: str = "pgbench.tps",
        noise: tuple[float, ...] = _NOISE,
        caveats: tuple[CaveatFinding, ...] = (),
        attempts_before: int | None = None,
        **claim: Any,
    ) -> tuple[HypothesisFinding, Needed]:
        hypothesis = evidence.experiment.hypothesis.model_copy(update={"metric": metric, **claim})
        experiment = evidence.experiment.model_copy(update={"hypothesis": hypothesis})
        made = tuple(run for run in evidence.valid if run.slot.block <= len(noise))
        changed = replace(evidence, experiment=experiment, attempts_before=attempts_before, valid=made)
        scenario = hypothesis.scenario
        values = {}
        for (control, run), factor in zip(changed.pairs("off"), noise, strict=False):
            values[control.id, metric, scenario, ALL] = 1.0
            values[run.id, metric, scenario, ALL] = ratio * factor
        estimated = estimate_effects(changed, values, scenarios=(scenario,))
        return judge_hypothesis(changed, find_primary(changed, estimated, arm="off"), caveats)

    return build


@pytest.mark.parametrize(
    ("expect", "ratio", "verdict", "ending"),
    [
        ("better", 1.2, Verdict.SUPPORTED, "which is beyond the margin of 5 %."),
        ("better", 1.0, Verdict.REFUTED, "which does not reach the margin of 5 %."),
        ("worse", 0.8, Verdict.SUPPORTED, "which is beyond the margin of 5 %."),
        ("worse", 1.0, Verdict.REFUTED, "which is not worse by the margin of 5 %."),
        ("not-worse", 1.0, Verdict.SUPPORTED, "which is not worse by more than the margin of 5 %."),
        ("not-worse", 0.8, Verdict.REFUTED, "which is worse by more than the margin of 5 %."),
        ("equivalent", 1.0, Verdict.SUPPORTED, "which is within the margin of 5 % by two one-sided tests."),
        ("equivalent", 1.2, Verdict.REFUTED, "which is beyond the margin of 5 %."),
        ("different", 0.8, Verdict.SUPPORTED, "which is beyond the margin of 5 %."),
        ("different", 1.0, Verdict.REFUTED, "which is within the margin of 5 % by two one-sided tests."),
    ],
)
def test_every_claim_can_be_supported_and_refuted(
    judge: Judge, expect: str, ratio: float, verdict: Verdict, ending: str
) -> None:
    hypothesis, needed = judge(ratio, expect=expect)

    assert hypothesis.verdict is verdict
    assert say(hypothesis.reason).endswith(ending)
    assert (needed.blocks, say(needed.text)) == (None, "none, the claim is decided")


@pytest.mark.parametrize(
    ("ratio", "beginning"),
    [
        (2.3, "off is 2.3 times as fast as on (+130 %, between +128 % and +132 %), "),
        (1.2, "off is 20.1 % faster than on (+20.1 %, between +18.9 % and +21.3 %), "),
        (0.9, "off is 9.9 % slower than on (−9.9 %, "),
        (0.3, "off is 0.30 times as fast as on (−70.0 %, "),
        (0.003, "off is less than 0.01 times as fast as on (−99.7 %, "),
        (12.3, "off is 12.3 times as fast as on (× 12.3, between × 12.2 and × 12.4), "),
        (1e9, "off is more than 10000 times as fast as on (more than × 10000, between more than × 10000 and "),
        (0.999, "off came out as fast as on (0.0 %, "),  # nobody has shown that they are equal
    ],
)
def test_the_size_is_told_in_words_and_numbers(judge: Judge, ratio: float, beginning: str) -> None:
    hypothesis, _ = judge(ratio)

    assert say(hypothesis.reason).startswith(beginning)


def test_a_latency_is_told_as_a_latency(judge: Judge) -> None:
    hypothesis, _ = judge(0.8, metric="pgbench.latency_p95", scenario="read")

    assert hypothesis.verdict is Verdict.SUPPORTED
    assert say(hypothesis.reason).startswith(
        "the 95th percentile of latency of off is 19.9 % lower than that of on in scenario read (−19.9 %, "
    )


def test_a_latency_of_many_times_is_told_as_a_factor(judge: Judge) -> None:
    hypothesis, _ = judge(20.0, metric="pgbench.latency_p95", expect="worse")

    assert say(hypothesis.reason).startswith("the 95th percentile of latency of off is 20 times that of on (× 20, ")


@pytest.mark.parametrize(
    ("metric", "ratio", "beginning"),
    [
        ("pgbench.tps", 1.12, "off came out "),
        ("pgbench.latency_mean", 0.9, "the mean latency of off came out "),
    ],
)
def test_an_effect_that_may_be_none_is_not_told_as_one(judge: Judge, metric: str, ratio: float, beginning: str) -> None:
    hypothesis, _ = judge(ratio, metric=metric, noise=(0.7, 1.4, 0.8, 1.3, 0.9, 1.12))

    assert say(hypothesis.reason).startswith(beginning)
    assert "between −" in say(hypothesis.reason)


def test_an_undecided_claim_says_how_many_blocks_are_missing(judge: Judge) -> None:
    noise = (0.9, 1.1, 0.95, 1.2, 1.0, 1.05)
    hypothesis, needed = judge(1.12, noise=noise)

    assert hypothesis.verdict is Verdict.INCONCLUSIVE
    assert needed.blocks is not None
    assert needed.blocks > 1
    assert needed.low is not None
    assert needed.high is not None
    assert needed.low < needed.blocks < needed.high
    assert say(needed.text) == (
        f"about {needed.blocks} more blocks would decide the claim "
        f"({needed.low} to {needed.high}, as the noise and the effect may be)"
    )
    assert say(hypothesis.reason).endswith(f"which does not settle the claim at the margin of 5 %: {say(needed.text)}.")


def test_no_fewer_blocks_are_promised_than_decide_a_claim(judge: Judge) -> None:
    _, needed = judge(0.758, noise=(0.934, 1.07))

    assert needed.low is not None
    assert 2 + needed.low >= CURRENT.fewest_blocks


def test_more_blocks_are_another_attempt_and_decided_as_one(judge: Judge) -> None:
    noise = (0.9, 1.1, 0.95, 1.2, 1.0, 1.05)
    _, uncounted = judge(1.12, noise=noise)
    _, counted = judge(1.12, noise=noise, attempts_before=0)
    _, later = judge(1.12, noise=noise, attempts_before=2)

    blocks = [needed.blocks for needed in (uncounted, counted, later) if needed.blocks is not None]
    assert len(blocks) == 3
    assert blocks[0] < blocks[1] < blocks[2]


def test_an_estimate_on_the_bound_may_be_out_of_reach(judge: Judge) -> None:
    hypothesis, needed = judge(1.05, noise=(0.9, 1 / 0.9, 0.8, 1 / 0.8, 0.95, 1 / 0.95))

    assert hypothesis.verdict is Verdict.INCONCLUSIVE
    assert needed.high is None
    assert "and perhaps no feasible number" in say(needed.text)


def test_blocks_without_noise_give_no_interval(judge: Judge) -> None:
    hypothesis, _ = judge(1.5, noise=(1.0,) * 6)

    assert hypothesis.verdict is Verdict.INCONCLUSIVE
    assert "(+50.0 %, without an interval)" in say(hypothesis.reason)


def test_an_invalid_caveat_takes_the_verdict_away(judge: Judge) -> None:
    caveat = CaveatFinding(code="x", severity=Severity.INVALID, text="The setting work_mem differs.")
    hypothesis, needed = judge(2.0, caveats=(caveat,))

    assert hypothesis.verdict is Verdict.INVALID
    assert say(hypothesis.reason) == "The runs cannot answer the claim: the setting work_mem differs."
    assert needed.blocks is None


def test_a_warning_does_not_take_the_verdict_away(judge: Judge) -> None:
    caveat = CaveatFinding(code="x", severity=Severity.WARNING, text="Few blocks.")

    assert judge(2.0, caveats=(caveat,))[0].verdict is Verdict.SUPPORTED


def test_without_an_effect_there_is_no_answer(evidence: Evidence) -> None:
    none: Estimated | None = None
    hypothesis, _ = judge_hypothesis(replace(evidence, arms=()), none, ())

    assert hypothesis.verdict is Verdict.INVALID
    assert hypothesis.control == ""
    assert "no ratio of pgbench.tps" in say(hypothesis.reason)


def test_a_metric_that_some_runs_do_not_have_decides_no_claim(evidence: Evidence) -> None:
    hypothesis = evidence.experiment.hypothesis.model_copy(update={"metric": "stability.dip_share", "margin": 0.2})
    claimed = replace(evidence, experiment=evidence.experiment.model_copy(update={"hypothesis": hypothesis}))
    values = {
        (run.id, "stability.dip_share", None, ALL): (0.05 if run.slot.arm == "off" else 0.1) * factor
        for arm in ("on", "off")
        for run, factor in zip(claimed.runs_of(arm), _NOISE, strict=True)
    }
    del values[claimed.runs_of("off")[2].id, "stability.dip_share", None, ALL]
    primary = find_primary(claimed, estimate_effects(claimed, values, scenarios=(None,)), arm="off")
    found, _ = judge_hypothesis(claimed, primary, ())

    assert found.verdict is Verdict.INVALID
    assert say(found.reason) == (
        "The runs cannot answer the claim: in 1 of 6 blocks a run has no value of stability.dip_share, and it may be "
        "the worst one."
    )
