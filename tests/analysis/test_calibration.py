import math
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.calibration.promise import (
    Calibration,
    Forecast,
    MethodCalibration,
    find_calibration,
    parse_calibration,
)
from pgtrial.analysis.calibration.summary import block_times, forecast_method, recommend, summarize_calibration
from pgtrial.design.calibration import CalibrationPlan, plan_calibration
from pgtrial.design.method_case import HostFacts
from pgtrial.design.methods import BLOCKS, MethodChoice
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.generate import control_twice
from pgtrial.experiment_file.load import parse_experiment
from pgtrial.findings.findings import RunFinding
from pgtrial.stats.power import detectable_ratio
from pgtrial.store.calibrations import calibration_key, keep_calibration
from pgtrial.store.journal_file import VARIABLE
from support import Simulation, write_result_folder

pytestmark = pytest.mark.usefixtures("analysed_once")

TEXT = """\
format = 1
[experiment]
name = "x"
[hypothesis]
margin = "5%"
[workload]
mix = "select-only"
clients = 4
duration = "8s"
[arms.a.postgresql]
work_mem = "4MB"
[arms.b.postgresql]
work_mem = "64MB"
"""
EXPERIMENT = Experiment.model_validate(tomllib.loads(TEXT))
ONE_CPU = HostFacts(local=True, cores=((0,),), memory_available=None)  # which rules a duet out


@pytest.fixture(scope="module")
def plan() -> CalibrationPlan:
    """Blocks and slices of 1 s in two portions of three blocks, of runs of 4 s."""
    whole = plan_calibration(EXPERIMENT, ONE_CPU, budget=3600)
    chosen = {one.label: replace(one, duration=4.0, warmup=1.0) for one in whole.candidates if one.slice in (None, 1)}
    parts = [
        replace(part, candidate=chosen[part.candidate.label], blocks=3)
        for part in whole.parts
        if part.candidate.label in chosen
    ]
    return replace(whole, candidates=tuple(chosen.values()), parts=tuple(parts))


def simulate(
    plan: CalibrationPlan, folder: Path, *, names: Sequence[str] = (), runs: int | None = None, **simulated: Any
) -> Path:
    """The folder of the calibration, with the parts of these names, or all; ``runs`` as in write_result_folder."""
    for number, part in enumerate(plan.parts):
        if names and part.name not in names:
            continue
        candidate = part.candidate
        text = control_twice(
            EXPERIMENT,
            name=candidate.label,
            method=candidate.method,
            slice=candidate.slice,
            blocks=part.blocks,
            duration=candidate.duration,
            warmup=candidate.warmup,
            portion=part.portion - 1,
        )
        noise = {"run_sd": 0.05 if candidate.method == "blocks" else 0.005, "slice_sd": 0.01, "seed": number}
        simulation = Simulation(**{"tps": {"control": 500.0}, **noise, **simulated})
        write_result_folder(folder / part.name, text=text, simulation=simulation, runs=runs)
    return folder


@pytest.fixture(scope="module")
def folder(plan: CalibrationPlan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate(plan, tmp_path_factory.mktemp("calibration"))


@pytest.fixture(scope="module")
def calibration(plan: CalibrationPlan, folder: Path) -> Calibration:
    found = summarize_calibration(folder, plan, complete=True, created=1.0)
    assert found is not None
    return found


def test_every_method_has_the_blocks_of_all_its_portions(calibration: Calibration, folder: Path) -> None:
    blocks, interleaved = calibration.methods

    assert (blocks.label, interleaved.label) == ("blocks", "interleaved-1s")
    assert (blocks.slice, interleaved.slice) == (None, 1.0)
    assert blocks.folders == ("blocks-1", "blocks-2")
    assert [len(ratios) for ratios in blocks.block_ratios] == [3, 3]
    assert (blocks.blocks, interleaved.blocks) == (6, 6)
    effect = next(
        one
        for one in analyze(folder / "blocks-1").effects
        if (one.metric, one.scenario, one.load_level) == ("pgbench.tps", None, "all")
    )
    assert blocks.block_ratios[0] == pytest.approx(effect.block_ratios)


def test_the_noise_is_that_of_the_simulation(calibration: Calibration) -> None:
    blocks, interleaved = calibration.methods

    # Of two runs with 0.05 each, between the bounds of the interval; the other has a tenth of it.
    assert blocks.sd_low < 0.05 * math.sqrt(2) < blocks.sd_high
    assert interleaved.sd_log_ratio < blocks.sd_log_ratio / 3
    for one in calibration.methods:
        assert one.sd_per_minute == pytest.approx(one.sd_log_ratio * math.sqrt(one.block_seconds / 60))
        assert one.low is not None
        assert one.high is not None
        assert one.low < 1 < one.high
    assert not [caveat.code for caveat in calibration.caveats]


def test_seconds_of_a_block_are_those_of_its_runs(calibration: Calibration) -> None:
    blocks, interleaved = calibration.methods

    # Two runs of 4 s of load, 4 s before it and 0.5 s after it; and one after the other in slices of 1 s.
    assert blocks.block_seconds == pytest.approx(2 * 8.5)
    assert blocks.load_seconds == pytest.approx(8)
    assert interleaved.load_seconds == pytest.approx(8, abs=0.5)
    assert interleaved.block_seconds == pytest.approx(interleaved.load_seconds + 4.5, abs=0.1)


def test_slices_tell_carry_over_and_neighbours(calibration: Calibration) -> None:
    blocks, interleaved = calibration.methods

    assert (blocks.growth, blocks.autocorrelation) == (None, None)
    assert interleaved.growth == pytest.approx(1, abs=1e-3)


def test_the_quieter_method_is_recommended(calibration: Calibration) -> None:
    advice = calibration.recommendation

    assert (advice.label, advice.method, advice.slice) == ("interleaved-1s", "interleaved", 1.0)
    assert advice.blocks == 6
    assert advice.as_good == ()


def test_noise_is_scaled_to_the_duration_of_the_experiment(calibration: Calibration) -> None:
    blocks, interleaved = calibration.methods
    choice = MethodChoice(method="interleaved", reason="", guard=0.1, slice=3.0)

    assert calibration.noise(BLOCKS, 16.0) == pytest.approx(blocks.sd_log_ratio / 2)
    assert calibration.noise(choice, 4.0) == pytest.approx(interleaved.sd_log_ratio)
    assert calibration.noise(MethodChoice(method="duet", reason=""), 4.0) is None


def test_methods_that_had_all_blocks_in_one_go_are_told(plan: CalibrationPlan, tmp_path: Path) -> None:
    at_once = replace(plan, parts=tuple(replace(part, blocks=6) for part in plan.parts if part.portion == 1))
    found = summarize_calibration(simulate(at_once, tmp_path), at_once, complete=True, created=1.0)

    assert found is not None
    assert "calibration-portions" in {caveat.code for caveat in found.caveats}


def test_methods_without_enough_blocks_are_left_out(plan: CalibrationPlan, folder: Path, tmp_path: Path) -> None:
    for name in ("blocks-1", "interleaved-1s-1", "interleaved-1s-2"):
        (tmp_path / name).symlink_to(folder / name)
    found = summarize_calibration(tmp_path, plan, complete=False, created=1.0)

    assert found is not None
    assert [one.label for one in found.methods] == ["interleaved-1s"]
    assert not found.complete
    (tmp_path / "interleaved-1s-2").unlink()
    assert summarize_calibration(tmp_path, plan, complete=False, created=1.0) is None


@pytest.mark.parametrize("runs", [0, 1])
def test_a_portion_that_was_interrupted_in_its_first_block_takes_nothing_away(
    runs: int, plan: CalibrationPlan, tmp_path: Path
) -> None:
    whole = replace(plan.parts[0], blocks=6)
    simulate(replace(plan, parts=(whole,)), tmp_path)
    (begun,) = (part for part in plan.parts if part.name == "blocks-2")
    simulate(replace(plan, parts=(begun,)), tmp_path, runs=runs)
    found = summarize_calibration(tmp_path, plan, complete=False, created=1.0)

    assert found is not None
    assert [(one.label, one.blocks) for one in found.methods] == [("blocks", 6)]
    assert found.methods[0].folders == ("blocks-1", "blocks-2")
    assert [len(ratios) for ratios in found.methods[0].block_ratios] == [6, 0]


def test_what_two_arms_that_are_the_same_must_not_show_is_a_warning(plan: CalibrationPlan, tmp_path: Path) -> None:
    slices = replace(plan, candidates=plan.candidates[1:])
    names = ("interleaved-1s-1", "interleaved-1s-2")
    simulate(slices, tmp_path, names=names, tps={"control": 500.0, "again": 550.0}, leaks={"again": 0.03})
    found = summarize_calibration(tmp_path, slices, complete=True, created=1.0)

    assert found is not None
    caveats = {each.code: each.text for each in found.caveats}
    assert caveats["calibration-effect"].startswith("interleaved 1s: the control differs from itself, by +")
    assert caveats["calibration-carry-over"].startswith("interleaved 1s: the ratio changes inside the slices")


def test_what_is_kept_is_found_for_the_experiment(
    calibration: Calibration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    loaded = parse_experiment(TEXT, "x", tmp_path)
    longer = parse_experiment(TEXT.replace("8s", "1min"), "x", tmp_path)

    assert find_calibration(loaded) is None
    keep_calibration(calibration_key(loaded), calibration.model_dump_json())
    assert find_calibration(longer) == calibration
    assert find_calibration(parse_experiment(TEXT.replace("= 4\n", "= 5\n"), "x", tmp_path)) is None


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"schema_version": 99}'])
def test_what_is_not_understood_is_no_calibration(text: str | None) -> None:
    assert parse_calibration(text) is None


def test_a_newer_calibration_is_not_used(calibration: Calibration) -> None:
    assert parse_calibration(calibration.model_copy(update={"schema_version": 2}).model_dump_json()) is None


def run(block: int, started: float, ended: float, **phases: tuple[float, float]) -> RunFinding:
    return RunFinding(
        id=1,
        slot=1,
        block=block,
        position=1,
        arm="a",
        attempt=1,
        state="done",
        reason="",
        started=started,
        ended=ended,
        phases=tuple(
            {"name": name, "level": 0, "start": start, "end": end, "seconds": end - start}
            for name, (start, end) in phases.items()
        ),
        tps=None,
        overhead=None,
    )


def test_time_that_runs_share_counts_once_and_time_between_them_not_at_all() -> None:
    apart = [run(1, 0, 10, measure=(5, 9)), run(1, 12, 20, measure=(15, 19))]
    together = [run(2, 0, 10, measure=(5, 9)), run(2, 0, 10, measure=(5, 9))]
    invalid = run(1, 20, 90, measure=(30, 80)).model_copy(update={"state": "invalid"})

    assert block_times([*together, *apart, invalid]) == [(18, 8, 0), (10, 4, 0)]


def forecast(sd: float = 0.02, *, degrees: int = 10, block: float = 60.0, margin: float = 0.03) -> Forecast:
    return forecast_method(
        sd=sd,
        degrees=degrees,
        duration=20.0,
        calibrated=5.0,
        block_seconds=block,
        margin=margin,
        confidence=0.95,
        comparisons=1,
    )


def test_a_forecast_is_of_the_experiments_own_duration() -> None:
    found = forecast()

    assert found.sd_log_ratio == pytest.approx(0.01)  # four times the load, half the SD
    assert found.sd_per_minute == pytest.approx(0.01)
    assert [(each.seconds, each.change) for each in found.detectable] == [
        (600, pytest.approx(detectable_ratio(0.01, 10))),
        (1800, pytest.approx(detectable_ratio(0.01, 30))),
        (7200, pytest.approx(detectable_ratio(0.01, 120))),
    ]


def test_blocks_are_the_fewest_that_find_the_margin() -> None:
    found = forecast(0.06)
    assert found.blocks is not None

    assert (detectable_ratio(0.03, found.blocks) or 1) <= 0.03 < (detectable_ratio(0.03, found.blocks - 1) or 0)
    assert found.seconds == found.blocks * 60
    assert forecast(0.0001).blocks == 6  # the exact test needs them


@pytest.mark.parametrize("found", [forecast(margin=0), forecast(20.0)])
def test_a_margin_that_is_out_of_reach_has_no_blocks(found: Forecast) -> None:
    assert (found.blocks, found.seconds) == (None, None)


def test_times_in_which_no_two_blocks_fit_detect_nothing() -> None:
    assert [each.change is None for each in forecast(block=1000.0).detectable] == [True, True, False]


def method(
    template: MethodCalibration, label: str, sd: float, *, doubtful: bool = False, **changes: Any
) -> MethodCalibration:
    slices = {"interleaved-5s": 5.0, "interleaved-1s": 1.0}
    updates = {"label": label, "method": label.partition("-")[0], "slice": slices.get(label), "doubtful": doubtful}
    return template.model_copy(update=updates | {"forecast": forecast(sd, **changes)})


@pytest.mark.parametrize(
    ("sds", "chosen", "as_good"),
    [
        # blocks, slices of 5 s, of 1 s
        ((0.20, 0.08, 0.04), "interleaved-1s", ()),  # each is told apart from the next
        ((0.20, 0.041, 0.04), "interleaved-5s", ("interleaved-1s",)),  # long slices are as good
        ((0.20, 0.05, 0.04), "interleaved-1s", ("interleaved-5s",)),  # cannot be told apart, yet takes much longer
        ((0.04, 0.04, 0.04), "blocks", ("interleaved-5s", "interleaved-1s")),
        ((0.03, 0.08, 0.08), "blocks", ()),
    ],
)
def test_the_simplest_of_the_methods_that_are_as_good_is_recommended(
    calibration: Calibration, sds: tuple[float, ...], chosen: str, as_good: tuple[str, ...]
) -> None:
    template = calibration.methods[0]
    names = ("blocks", "interleaved-5s", "interleaved-1s")
    found = recommend([method(template, *pair) for pair in zip(names, sds, strict=True)], margin=0.03)

    assert (found.label, found.as_good) == (chosen, as_good)


def test_a_doubtful_method_is_recommended_only_if_there_is_no_other(calibration: Calibration) -> None:
    template = calibration.methods[0]
    blocks, duet = method(template, "blocks", 0.2), method(template, "duet", 0.02, doubtful=True)

    assert recommend([blocks, duet], margin=0.03).label == "blocks"
    assert recommend([duet], margin=0.03).label == "duet"


def test_where_the_margin_is_out_of_reach_the_least_noise_is_recommended(calibration: Calibration) -> None:
    template = calibration.methods[0]
    blocks, interleaved = (
        method(template, label, sd, margin=0) for label, sd in (("blocks", 0.2), ("interleaved-1s", 0.02))
    )
    found = recommend([blocks, interleaved], margin=0)

    assert (found.label, found.blocks) == ("interleaved-1s", None)
    assert "no number of blocks" in found.reason
