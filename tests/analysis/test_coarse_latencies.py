"""Latencies that are told in steps: in the interval of an effect, of a limit, and in what is asked for."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from calibration.test_18_coarse_latencies import run_trial
from pgtrial.analysis.effects.acceptance import judge_acceptance
from pgtrial.analysis.effects.estimate import estimate_primary
from pgtrial.analysis.effects.verdict import judge_hypothesis
from pgtrial.analysis.observations import STEP, index_values, observe_runs, observe_steps
from pgtrial.experiment_file.cause_tables import AcceptanceTable
from pgtrial.findings.record import ALL
from pgtrial.model.rules import RULES
from pgtrial.model.verdict import Verdict

P50 = "pgbench.latency_p50"


@pytest.fixture(scope="module")
def trial():
    evidence, reduction = run_trial(random.Random(1), metric=P50, mean=3e-3, longer=1.0, step=1e-3)
    observed = observe_runs(evidence, reduction)
    return evidence, reduction, index_values((*observed, *observe_steps(evidence, reduction, observed)))


def test_every_percentile_has_its_step_at_each_level_and_over_all(trial) -> None:
    evidence, _, values = trial
    run = evidence.valid[0].id

    for level in (0, ALL):
        told = values[run, P50, None, level]
        assert values[run, P50 + STEP, None, level] == pytest.approx(math.log1p(1e-3 / told))


def test_a_verdict_has_to_hold_with_the_step_and_finer_ones_are_asked_for(trial) -> None:
    evidence, _, values = trial
    primary = estimate_primary(evidence, values)
    found, needed = judge_hypothesis(evidence, primary, ())
    assert primary is not None

    assert found.verdict is Verdict.INCONCLUSIVE
    assert needed.text.code == "needed.steps"
    assert [each.code for each in primary.effect.caveats].count("coarse-latencies") == 1
    # What a run leaves for the next one may be borne as well, at one side.
    below, above = primary.effect.hidden_below, primary.effect.hidden_above
    assert min(below, above) == pytest.approx(primary.comparison.step)
    assert primary.comparison.step > math.log(1.2)


def test_older_rules_know_no_steps(trial) -> None:
    evidence, reduction, _ = trial
    older = replace(evidence, rules=RULES[10])

    assert observe_steps(older, reduction, observe_runs(older, reduction)) == []


@pytest.mark.parametrize(("limit", "verdict"), [(0.0034, Verdict.INCONCLUSIVE), (0.0042, Verdict.SUPPORTED)])
def test_a_limit_within_a_step_is_not_surely_met(trial, limit: float, verdict: Verdict) -> None:
    evidence, _, values = trial
    asked = AcceptanceTable.model_validate({"metric": P50, "at_most": f"{1e3 * limit:g}ms", "arm": "b"})
    asking = replace(evidence, experiment=evidence.experiment.model_copy(update={"acceptance": (asked,)}))
    told = [values[run.id, P50, None, ALL] for run in asking.runs_of("b")]
    assert np.mean(told) < 0.0032

    (found,) = judge_acceptance(asking, values, ())

    assert found.verdict is verdict
