"""How slices begin bears on what is said of arms that take turns."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from pgtrial.analysis.effects.contrasts import find_borne
from pgtrial.analysis.effects.estimate import estimate_effects, estimate_primary
from pgtrial.analysis.effects.verdict import judge_hypothesis
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.observations import index_values, observe_runs, observe_turns
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.analysis.reduction import Reduction
from pgtrial.findings.findings import Effect, HypothesisFinding, Needed
from pgtrial.findings.message import say
from pgtrial.model.rules import CURRENT, RULES
from pgtrial.model.verdict import Decision, Verdict
from support import DUET, INTERLEAVED, Simulation, write_result_folder

EQUAL = Simulation(tps={"on": 500.0, "off": 500.0}, run_sd=0.0)


def read(folder: Path, text: str) -> tuple[Evidence, Reduction]:
    text = text.replace("placebo = true", "placebo = false").replace('"10s"', '"8s"')
    text = text.replace('expect = "better"', 'expect = "not-worse"')
    evidence = read_evidence(write_result_folder(folder, text=text, simulation=EQUAL))
    reduction = reduce_runs(evidence)
    # As many as in what counts, which is as long.
    washouts = (
        {key: sums.sum() for key, sums in parts.items()} for parts in (reduction.parts, reduction.part_latencies)
    )
    return evidence, replace(reduction, **dict(zip(("washout", "washout_latencies"), washouts, strict=True)))


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> tuple[Evidence, Reduction]:
    return read(tmp_path_factory.mktemp("turns") / "turns", INTERLEAVED)


def left_behind(evidence: Evidence, reduction: Reduction) -> Reduction:
    """The arm is as fast as the control at first, and by 10 and 15 % slower in the halves of what counts. Its clients
    wait for answers, so latencies have the same sums.
    """
    mine = {run.id for run in evidence.valid if run.slot.arm == "off"}
    slower = np.array([0.9, 0.9, 0.85, 0.85])
    parts = {key: counts * slower if key[0] in mine else counts for key, counts in reduction.parts.items()}
    return replace(reduction, parts=parts)


def estimate(evidence: Evidence, reduction: Reduction) -> tuple[Mapping[str, Effect], HypothesisFinding, Needed]:
    values = index_values((*observe_runs(evidence, reduction), *observe_turns(evidence, reduction)))
    estimated = estimate_effects(evidence, values, scenarios=(None,))
    effects = {one.effect.metric: one.effect for one in estimated if one.effect.load_level == "all"}
    primary = next(one for one in estimated if one.effect is effects["pgbench.tps"])
    return effects, *judge_hypothesis(evidence, primary, ())


def test_the_interval_bears_what_may_be_left_of_the_other_arm(turns: tuple[Evidence, Reduction]) -> None:
    evidence, reduction = turns
    plain, verdict, _ = estimate(evidence, reduction)
    borne, doubt, needed = estimate(evidence, left_behind(evidence, reduction))

    assert (verdict.verdict, plain["pgbench.tps"].decision) == (Verdict.SUPPORTED, Decision.EQUIVALENT)
    assert (doubt.verdict, borne["pgbench.tps"].decision) == (Verdict.INCONCLUSIVE, Decision.INCONCLUSIVE)
    assert say(needed.text).startswith("longer slices")
    assert needed.blocks is None
    speed, time = (tuple(each[name] for each in (plain, borne)) for name in ("pgbench.tps", "pgbench.latency_mean"))
    assert speed[1].low < speed[0].low - 0.02
    assert speed[1].high == speed[0].high
    assert time[1].low == time[0].low
    assert time[1].high > time[0].high + 0.02


def test_at_a_rate_the_interval_of_a_latency_bears_what_latencies_tell(turns: tuple[Evidence, Reduction]) -> None:
    evidence, reduction = turns
    mine = {run.id for run in evidence.valid if run.slot.arm == "off"}
    longer = {
        key: sums / np.array([0.9, 0.9, 0.85, 0.85]) if key[0] in mine else sums
        for key, sums in reduction.part_latencies.items()
    }
    late = replace(reduction, part_latencies=longer)
    old = replace(evidence, rules=RULES[13])
    plain, borne = (estimate(evidence, told)[0] for told in (reduction, late))
    of_old, before = (estimate(old, told)[0] for told in (reduction, late))

    for time in ("pgbench.latency_mean", "pgbench.latency_p99"):
        assert borne[time].high > plain[time].high + 0.02
        assert borne[time].low == plain[time].low
        assert before[time] == of_old[time]
    assert borne["pgbench.tps"] == plain["pgbench.tps"]


def test_older_rules_bear_nothing(turns: tuple[Evidence, Reduction]) -> None:
    evidence, reduction = turns
    old = replace(evidence, rules=replace(CURRENT, bears_fade=False))

    assert (
        estimate(old, left_behind(evidence, reduction))[0]["pgbench.tps"] == estimate(old, reduction)[0]["pgbench.tps"]
    )


WAL = "cost.wal_bytes"


def test_of_what_slices_do_not_tell_nothing_is_concluded(turns: tuple[Evidence, Reduction]) -> None:
    evidence, reduction = turns
    told, old = (estimate(each, reduction)[0][WAL] for each in (evidence, replace(evidence, rules=RULES[14])))

    assert (old.decision, old.low is None) == (Decision.EQUIVALENT, False)
    assert (told.decision, told.low, told.high, told.p_value) == (Decision.INCONCLUSIVE, None, None, None)
    assert (told.needed, told.ratio, told.block_ratios) == (None, pytest.approx(old.ratio), old.block_ratios)
    assert [each.code for each in told.caveats] == ["untold-by-slices"]


def test_a_claim_of_what_slices_do_not_tell_is_not_decided(turns: tuple[Evidence, Reduction]) -> None:
    evidence, reduction = turns
    hypothesis = evidence.experiment.hypothesis.model_copy(update={"metric": WAL})
    evidence = replace(evidence, experiment=evidence.experiment.model_copy(update={"hypothesis": hypothesis}))
    values = index_values((*observe_runs(evidence, reduction), *observe_turns(evidence, reduction)))
    verdicts = []
    for rules in (RULES[14], CURRENT):
        judged = replace(evidence, rules=rules)
        verdicts.append(judge_hypothesis(judged, estimate_primary(judged, values), ()))

    (old, _), (found, needed) = verdicts
    assert (old.verdict, found.verdict) == (Verdict.SUPPORTED, Verdict.INCONCLUSIVE)
    assert "without an interval" in say(found.reason)
    assert 'method = "blocks"' in say(needed.text)
    assert needed.blocks is None


def test_what_slices_do_not_tell_decides_no_contrast_of_arms(turns: tuple[Evidence, Reduction]) -> None:
    evidence, reduction = turns
    values = index_values((*observe_runs(evidence, reduction), *observe_turns(evidence, reduction)))

    assert find_borne(evidence, values, (WAL, None, "all"))["off"].decides
    assert not find_borne(evidence, values, ("pgbench.tps", None, "all"))["off"].decides


def test_arms_of_a_duet_leave_each_other_nothing(tmp_path: Path) -> None:
    evidence, reduction = read(tmp_path / "duet", DUET)

    assert observe_turns(evidence, reduction) == ()
    assert estimate(evidence, reduction)[0][WAL].low is not None


def comes_late(evidence: Evidence, reduction: Reduction) -> Reduction:
    """What the arm does slows all down by 20 % two slices later, and alone it would be 20 % slower for that."""
    parts = dict(reduction.parts)
    for block in {run.slot.block for run in evidence.valid}:
        runs = [run for run in evidence.valid if run.slot.block == block]
        at_work = [(each.started, each.ended) for run in runs if run.slot.arm == "off" for each in run.slices]
        for run in runs:
            counts = parts[run.id, 0].astype(np.float64)
            for place, each in enumerate(run.slices):
                edges = np.linspace(each.counted, each.ended, counts.shape[1] + 1) - 2 * evidence.method.slice
                for part, (begin, end) in enumerate(pairwise(edges)):
                    hit = sum(max(0.0, min(end, stop) - max(begin, start)) for start, stop in at_work)
                    counts[place, part] *= 0.8 ** (hit / (end - begin))
            parts[run.id, 0] = counts
    return replace(reduction, parts=parts)


def test_the_interval_bears_what_comes_some_slices_late(turns: tuple[Evidence, Reduction]) -> None:
    evidence, reduction = turns
    late = comes_late(evidence, reduction)
    borne, _, needed = estimate(evidence, late)
    older, _, _ = estimate(replace(evidence, rules=RULES[4]), late)

    own, before = borne["pgbench.tps"], older["pgbench.tps"]
    assert own.ratio == before.ratio
    assert own.low is not None
    assert before.low is not None
    assert own.low < 0.8 < before.low
    assert "later turns" in say(needed.text)
