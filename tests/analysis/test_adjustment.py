"""The effect at equal values of a declared covariate, beside the unadjusted one."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.effects.adjustment import adjust_primary
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.reduction import Reduction
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.findings.findings import Adjustment, Findings
from pgtrial.findings.message import say
from pgtrial.model.run import Slice
from pgtrial.units import format_change
from support import EXPERIMENT, Simulation, write_result_folder

PRESSURE = "pressure.cpu_some_total"
STEAL = "proc_stat.cpu_steal"

Adjust = Callable[..., Adjustment | None]


def declare(evidence: Evidence, covariate: str | None, **design: object) -> Experiment:
    changed = evidence.experiment.design.model_copy(update={"covariate": covariate, **design})
    return evidence.experiment.model_copy(update={"design": changed})


@pytest.fixture(scope="module")
def stolen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight blocks of on and off, which is twice as fast, beside others who take a tenth of the CPU time in bursts."""
    text = (
        EXPERIMENT.replace("placebo = true", 'covariate = "steal"')
        .replace("blocks = 6", "blocks = 8\nseed = 1")
        .replace('"10s"', '"3s"')
    )
    simulation = Simulation(steal=0.1, run_sd=0.01, seed=4)
    return write_result_folder(tmp_path_factory.mktemp("results") / "stolen", text=text, simulation=simulation)


@pytest.fixture(scope="module")
def findings(stolen: Path) -> Findings:
    return analyze(stolen)


@pytest.fixture
def adjust(evidence: Evidence, assess: Callable[..., Assessment]) -> Adjust:
    """The adjustment of the experiment with a covariate, and with other increases of counters by run."""

    def build(covariate: str | None, increases: Mapping[str, Mapping[int, float | None]], **changes: Any) -> object:
        changes = {"experiment": declare(evidence, covariate), **changes}
        plain = assess(**changes)
        changed = dict(plain.reduction.increases)
        for counter, runs in increases.items():
            for run, value in runs.items():
                key = (run, 0, counter)
                changed.pop(key, None)
                if value is not None:
                    changed[key] = {"all" if counter == STEAL else "": value}
        return adjust_primary(plain.evidence, replace(plain.reduction, increases=changed), plain.primary)

    return build


def test_stolen_time_explains_the_noise_that_it_made(findings: Findings) -> None:
    adjusted = findings.adjusted
    primary = next(e for e in findings.effects if (e.metric, e.load_level) == ("pgbench.tps", "all"))

    assert adjusted is not None
    assert (adjusted.covariate, adjusted.blocks) == ("steal", 8)
    assert adjusted.low < 2 < adjusted.high
    assert adjusted.high / adjusted.low < primary.high / primary.low
    assert adjusted.sd_after < 0.5 * adjusted.sd_before == pytest.approx(0.5 * findings.noise.sd_log_ratio)
    # A share that is stolen is taken from the throughput: log(1 - share) falls a little faster than the share grows.
    assert -1.5 < adjusted.slope_low < adjusted.slope < adjusted.slope_high < -0.9
    assert adjusted.difference_low < 0 < adjusted.difference_high


def test_the_verdict_is_about_the_unadjusted_effect(findings: Findings) -> None:
    primary = next(e for e in findings.effects if (e.metric, e.load_level) == ("pgbench.tps", "all"))
    adjusted = findings.adjusted

    assert adjusted is not None
    assert adjusted.ratio != primary.ratio
    assert format_change(primary.ratio) in say(findings.hypothesis.reason)
    assert format_change(primary.low) in say(findings.hypothesis.reason)
    assert f"{format_change(adjusted.ratio)} (95 % interval" in say(adjusted.text)
    assert f"instead of {format_change(primary.ratio)}" in say(adjusted.text)
    assert "The verdict is about the unadjusted effect." in say(adjusted.text)
    assert "takes away part" not in say(adjusted.text)


def test_without_a_declaration_nothing_is_adjusted(adjust: Adjust) -> None:
    assert adjust(None, {}) is None


def test_a_covariate_that_was_always_the_same_is_told(adjust: Adjust) -> None:
    found = adjust("steal", {})

    assert found is not None
    assert (found.ratio, found.low, found.slope, found.blocks) == (None, None, None, 6)
    assert "not adjusted for stolen CPU time: its difference between the arms was the same" in say(found.text)


def test_blocks_without_a_reading_do_not_count(adjust: Adjust, evidence: Evidence) -> None:
    runs = [run.id for run in evidence.runs_of("off")]
    few = adjust("pressure", {PRESSURE: dict.fromkeys(runs[:3])})
    none = adjust("pressure", {PRESSURE: dict.fromkeys(runs)})

    assert few is not None
    assert none is not None
    assert (few.ratio, few.blocks, none.ratio, none.blocks) == (None, 3, None, 0)
    assert "it takes 4 blocks, and 3 have it in both arms" in say(few.text)
    assert "it was not read" in say(none.text)


def test_what_an_arm_may_cause_itself_is_told(adjust: Adjust, evidence: Evidence) -> None:
    waited = {run.id: 5.0 + run.slot.block / 10 for run in evidence.runs_of("off")}
    found = adjust("pressure", {PRESSURE: waited})

    assert found is not None
    assert found.difference == pytest.approx(np.mean([(seconds - 3.0) / 10 for seconds in waited.values()]))
    assert found.difference_low > 0
    assert "The arm's runs have 23.5 % more CPU pressure than the control's" in say(found.text)


def test_arms_that_share_the_time_share_the_covariate(adjust: Adjust, evidence: Evidence) -> None:
    each = Slice(level=0, number=0, started=0.0, counted=0.1, ended=1.0)
    runs = tuple(replace(run, slices=(each,)) for run in evidence.valid)
    found = adjust_primary(
        replace(evidence, experiment=declare(evidence, "steal"), valid=runs), Reduction(), primary=None
    )

    assert found is not None
    assert found.ratio is None
    assert "they shared it too, and it cancels" in say(found.text)


def test_no_ratio_is_nothing_to_adjust(evidence: Evidence) -> None:
    found = adjust_primary(replace(evidence, experiment=declare(evidence, "steal")), Reduction(), primary=None)

    assert found is not None
    assert (found.ratio, say(found.text)) == (
        None,
        "The effect is not adjusted for stolen CPU time: no block has a ratio.",
    )


def test_before_the_first_look_there_is_no_interval(adjust: Adjust, evidence: Evidence) -> None:
    waited = {run.id: 3.0 + (-1) ** run.slot.block * 0.1 for run in evidence.runs_of("off")}
    slots = tuple(replace(slot, block=slot.block + more) for more in range(0, 40, 6) for slot in evidence.slots)
    kept = tuple(run for run in evidence.valid if run.slot.block <= 5)
    ruled = declare(evidence, "pressure", stop="decision")
    found = adjust("pressure", {PRESSURE: waited}, experiment=ruled, slots=slots, valid=kept)

    assert found is not None
    assert found.ratio is not None
    assert (found.low, found.high, found.slope_low, found.slope_high) == (None, None, None, None)
    assert "without an interval yet; from 5 blocks" in say(found.text)
