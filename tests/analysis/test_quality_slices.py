import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from pgtrial.analysis.effects.estimate import Estimated
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.analysis.reduction import Histogram, Reduction, SessionGroup, Wait
from pgtrial.analysis.slices import THROUGHPUT, describe_slices
from pgtrial.analysis.validity import slices as slice_checks
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.analysis.validity.blocks import check_invalid_runs, check_restore
from pgtrial.analysis.validity.runs import check_gaps, check_generator, check_samples, check_steadiness, check_steal
from pgtrial.analysis.validity.slices import check_longer_slices
from pgtrial.findings.caveat import CaveatFinding
from pgtrial.findings.findings import ArmSlices, Slices
from pgtrial.findings.record import ALL
from pgtrial.model.caveat import Severity
from pgtrial.model.histogram import bucket_of
from pgtrial.model.run import RunState
from support import DUET, INTERLEAVED, Simulation, write_result_folder

NUMBER = "pg_stat_checkpointer.num_timed"
CHECKS = vars(slice_checks)


def build(evidence: Evidence, reduction: Reduction, *, slices: Slices | None = None, **reduced: Any) -> Assessment:
    return Assessment(
        evidence=evidence, reduction=replace(reduction, **reduced), values={}, primary=None, placebo=None, slices=slices
    )


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> tuple[Evidence, Reduction]:
    text = INTERLEAVED.replace('"10s"', '"4s"').replace("blocks = 6", "blocks = 3")
    return read(write_result_folder(tmp_path_factory.mktemp("quality") / "turns", text=text))


@pytest.fixture(scope="module")
def duet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Evidence, Reduction]:
    text = DUET.replace('"10s"', '"4s"').replace("blocks = 6", "blocks = 3")
    return read(write_result_folder(tmp_path_factory.mktemp("quality") / "duet", text=text))


def read(folder: Path) -> tuple[Evidence, Reduction]:
    evidence = read_evidence(folder)
    return evidence, reduce_runs(evidence)


def with_slice(evidence: Evidence, run: int, place: int, **changes: float) -> Evidence:
    """The evidence with one slice of one run changed."""
    valid = tuple(
        replace(
            each,
            slices=tuple(replace(s, **changes) if number == place else s for number, s in enumerate(each.slices)),
        )
        if each.id == run
        else each
        for each in evidence.valid
    )
    return replace(evidence, valid=valid)


def test_runs_with_their_time_to_themselves_are_not_looked_at(evidence: Evidence, reduction: Reduction) -> None:
    plain = build(evidence, reduction)

    for name, check in CHECKS.items():
        if name.startswith("check_"):
            assert list(check(plain)) == []


def test_turns_as_planned_leave_only_the_remark_on_costs(turns: tuple[Evidence, Reduction]) -> None:
    found = [caveat for name, check in CHECKS.items() if name.startswith("check_") for caveat in check(build(*turns))]

    assert [(caveat.code, caveat.severity) for caveat in found] == [("no-host-costs", Severity.INFO)]


@pytest.mark.parametrize("check", [check_gaps, check_generator, check_samples, check_steadiness, check_steal])
def test_checks_of_runs_do_not_mistake_the_standstill_for_a_fault(
    check: Any, turns: tuple[Evidence, Reduction], duet: tuple[Evidence, Reduction]
) -> None:
    assert list(check(build(*turns))) == []
    assert list(check(build(*duet))) == []


def test_a_machine_that_stalled_inside_a_slice_is_told(turns: tuple[Evidence, Reduction]) -> None:
    evidence, reduction = turns
    first = evidence.valid[1].slices[2]
    longer = with_slice(evidence, evidence.valid[1].id, 2, ended=first.ended + 4)
    (caveat,) = slice_checks.check_slice_lengths(build(longer, reduction))

    assert (caveat.code, caveat.severity, caveat.runs) == ("uneven-slices", Severity.WARNING, (evidence.valid[1].id,))
    assert "1 slice in 1 run was shorter or longer than planned, by up to 4 s" in caveat.text


def test_what_comes_later_than_in_its_own_slices_is_told(turns: tuple[Evidence, Reduction]) -> None:
    evidence, reduction = turns
    late = {
        (run.id, name, None, ALL): value * (1 + run.slot.block / 100)
        for run in evidence.valid
        for changes, errors in [THROUGHPUT.late]
        for names, value in ((changes, -0.2), (errors, 0.001))
        for name in names
    }
    found = list(slice_checks.check_late(replace(build(evidence, reduction), values=late)))

    assert {(caveat.code, caveat.severity) for caveat in found} == {("comes-late", Severity.INFO)}
    assert "may come later than in its own slices" in found[0].text
    assert "The interval of its throughput, or of the latency that is claimed, is extended" in found[0].text


@pytest.mark.parametrize("duration", ["10s", "20s"])
def test_blocks_with_slices_of_double_length_are_as_planned(duration: str, tmp_path: Path) -> None:
    # In 10 s each arm has four slices of 5 s on average or two of 10 s.
    text = (
        INTERLEAVED.replace('"10s"', f'"{duration}"')
        .replace("blocks = 6", "blocks = 2")
        .replace("placebo = true", 'placebo = false\nslice = "5s"')
    )
    gain = Simulation(builds_up={"off": 0.0})
    evidence, reduction = read(write_result_folder(tmp_path / "doubled", simulation=gain, text=text))

    assert {round(float(np.mean([each.ended - each.started for each in run.slices]))) for run in evidence.valid} == {
        5,
        10,
    }
    assert list(slice_checks.check_slice_lengths(build(evidence, reduction))) == []


def test_a_clock_that_was_set_back_is_told(duet: tuple[Evidence, Reduction]) -> None:
    evidence, reduction = duet
    back = with_slice(evidence, 1, 1, ended=evidence.valid[0].slices[1].started - 30)

    assert [caveat.code for caveat in slice_checks.check_slice_lengths(build(back, reduction))] == ["uneven-slices"]


def test_runs_that_are_left_out_together_are_not_blamed_on_an_arm(turns: tuple[Evidence, Reduction]) -> None:
    evidence, reduction = turns
    lost = tuple(replace(run, state=RunState.INVALID) for run in evidence.valid if run.slot.block == 1)
    kept = tuple(run for run in evidence.valid if run.slot.block > 1)
    (caveat,) = check_invalid_runs(build(replace(evidence, runs=(*lost, *kept), valid=kept), reduction))

    assert caveat.runs == tuple(run.id for run in lost)
    assert "do not tell which arm failed: see the reasons in the table of runs" in caveat.hint


def test_slices_in_which_the_machine_nearly_stood_still_are_counted(turns: tuple[Evidence, Reduction]) -> None:
    evidence, reduction = turns
    slow = reduction.parts[2, 0].copy()
    slow[1:3] /= 10
    (caveat,) = slice_checks.check_slow_slices(build(evidence, reduction, parts={**reduction.parts, (2, 0): slow}))

    assert (caveat.code, caveat.severity, caveat.runs) == ("slow-slices", Severity.INFO, (2,))
    assert caveat.text.startswith("In 2 slices of 1 run throughput was below 25.0 %")


def test_a_slice_in_which_few_transactions_are_usual_is_not_slow_without_one(
    turns: tuple[Evidence, Reduction],
) -> None:
    evidence, reduction = turns
    few = {key: np.full_like(counts, 1) for key, counts in reduction.parts.items()}
    few[2, 0][1] = 0
    more = {key: 4 * counts for key, counts in few.items()}

    assert list(slice_checks.check_slow_slices(build(evidence, reduction, parts=few))) == []
    (caveat,) = slice_checks.check_slow_slices(build(evidence, reduction, parts=more))
    assert caveat.text.startswith("In 1 slice of 1 run")


def test_a_checkpoint_in_one_twin_only_is_told(turns: tuple[Evidence, Reduction]) -> None:
    evidence, reduction = turns
    off = evidence.runs_of("off")[1]
    increases = {**reduction.increases, (off.id, 0, NUMBER): {"": 1.0}}
    (caveat,) = slice_checks.check_one_sided(build(evidence, reduction, increases=increases))

    assert (caveat.code, caveat.severity) == ("one-sided-work", Severity.WARNING)
    assert "In 1 of 3 blocks only some of the servers had a checkpoint" in caveat.text
    assert "(block 2: off)" in caveat.text


def test_checkpoints_that_one_arm_has_everywhere_are_told_once(turns: tuple[Evidence, Reduction]) -> None:
    evidence, reduction = turns
    increases = {**reduction.increases, **{(run.id, 0, NUMBER): {"": 1.0} for run in evidence.runs_of("off")}}

    assert list(slice_checks.check_one_sided(build(evidence, reduction, increases=increases))) == []


def test_autovacuum_in_one_twin_only_is_told(turns: tuple[Evidence, Reduction]) -> None:
    evidence, reduction = turns
    autovacuum = {**reduction.autovacuum, (evidence.runs_of("on")[0].id, 0): 0.4}
    (caveat,) = slice_checks.check_one_sided(build(evidence, reduction, autovacuum=autovacuum))

    assert "only some of the servers had autovacuum at work in their measured time (block 1: on)" in caveat.text


@pytest.mark.parametrize(("waits", "is_told"), [(("IO", "DataFileRead"), True), (("LWLock", "LockManager"), False)])
def test_a_duet_that_waits_for_the_shared_device_is_told(
    duet: tuple[Evidence, Reduction], waits: tuple[str, str], is_told: bool
) -> None:
    evidence, reduction = duet
    both = (
        Wait(wait_type="", wait_event="", sessions=2.0),
        Wait(wait_type=waits[0], wait_event=waits[1], sessions=1.0),
    )
    assessment = build(evidence, reduction, waits=dict.fromkeys(reduction.waits, both))
    found = list(slice_checks.check_shared_device(assessment))

    assert [caveat.code for caveat in found] == (["shared-device"] if is_told else [])
    assert all("off 33.3 % of its active sessions" in caveat.text for caveat in found)


def asleep(
    turns: tuple[Evidence, Reduction],
    *,
    shares: dict[str, float],
    seconds: float,
    wait: str = "PgSleep",
    state: str = "active",
    interval: tuple[float, float] | None = None,
) -> list[CaveatFinding]:
    """What is said where sessions of each arm sleep for such a share of the time, and transactions take so long."""
    evidence, reduction = turns
    sessions, latencies = {}, {}
    for run in evidence.valid:
        share = shares["off" if run.slot.arm == "off" else "on"]  # a placebo is as the control
        group = partial(SessionGroup, scenario="all", query="job")
        sessions[run.id, 0] = (
            group(state="active", wait_type="Timeout", wait_event=wait, sessions=4 * share),
            group(state=state, wait_type="", wait_event="", sessions=4 * (1 - share)),
        )
        bucket = bucket_of(1e6 * seconds)
        latencies[run.id, 0, None] = Histogram(buckets=np.array([bucket]), counts=np.array([100]))
    assessment = build(evidence, reduction, sessions=sessions, histograms=latencies)
    if interval is not None:
        effect = SimpleNamespace(arm="off", low=interval[0], high=interval[1])
        assessment = replace(assessment, primary=cast(Estimated, SimpleNamespace(effect=effect)))
    return list(slice_checks.check_gone_on(assessment))


def test_arms_that_sleep_while_they_stand_still_are_told(turns: tuple[Evidence, Reduction]) -> None:
    (found,) = asleep(turns, shares={"on": 0.8, "off": 0.1}, seconds=0.2)

    assert (found.code, found.severity) == ("goes-on", Severity.INVALID)
    assert "on +16.0 %, off +2.0 %" in found.text


@pytest.mark.parametrize(
    ("interval", "severity"),
    [
        ((1.10, 1.60), Severity.INVALID),  # 16 % of it may be no gain
        ((0.97, 1.02), Severity.INVALID),
        ((1.50, 1.80), Severity.WARNING),
        ((0.40, 0.60), Severity.WARNING),
    ],
)
def test_sleep_that_cannot_turn_the_verdict_is_a_warning(
    turns: tuple[Evidence, Reduction], interval: tuple[float, float], severity: Severity
) -> None:
    (found,) = asleep(turns, shares={"on": 0.8, "off": 0.8}, seconds=0.2, interval=interval)

    assert found.severity == severity


@pytest.mark.parametrize(("share", "severity"), [(0.8, Severity.WARNING), (0.1, Severity.INVALID)])
def test_on_an_existing_server_every_statement_goes_on(
    turns: tuple[Evidence, Reduction], share: float, severity: Severity
) -> None:
    evidence, reduction = turns
    target = evidence.experiment.target.model_copy(update={"kind": "server"})
    there = replace(evidence, experiment=evidence.experiment.model_copy(update={"target": target}))

    (found,) = asleep((there, reduction), shares={"on": 0.8, "off": share}, seconds=0.2, state="idle")

    assert (found.code, found.variant, found.severity) == ("goes-on", "sessions", severity)


@pytest.mark.parametrize(
    ("share", "seconds", "wait"),
    [(0.0, 0.2, "PgSleep"), (0.8, 0.001, "PgSleep"), (0.8, 0.2, "SpinDelay")],
)
def test_short_sleeps_and_other_waits_are_not_told(
    turns: tuple[Evidence, Reduction], share: float, seconds: float, wait: str
) -> None:
    assert asleep(turns, shares={"on": share, "off": 0.0}, seconds=seconds, wait=wait) == []


def test_alike_sets_of_cpus_are_not_told(duet: tuple[Evidence, Reduction]) -> None:
    assert list(slice_checks.check_cpu_sets(build(*duet))) == []


@pytest.mark.parametrize(
    ("growth", "low", "high", "is_told"),
    [
        (1.2, 1.1, 1.3, True),
        (0.9, 0.85, 0.95, True),
        (1.2, 0.9, 1.5, False),  # not sure
        (1.02, 1.01, 1.03, False),  # too small beside a margin of 5 %
        (1.2, None, None, False),
    ],
)
def test_growth_inside_slices_is_told_where_it_is_sure_and_matters(
    turns: tuple[Evidence, Reduction], growth: float, low: float | None, high: float | None, is_told: bool
) -> None:
    arm = ArmSlices(
        longer=None,
        longer_low=None,
        longer_high=None,
        arm="off",
        growth=growth,
        growth_low=low,
        growth_high=high,
        autocorrelation=None,
        sd_blocks=None,
        sd_expected=None,
        is_spread_explained=None,
    )
    slices = Slices(length=20.0, guard=0.1, number=6, counted=114, arms=(arm,))
    found = list(slice_checks.check_inside_slices(build(*turns, slices=slices)))

    assert [caveat.code for caveat in found] == (["effect-grows-inside-slices"] if is_told else [])
    # No more than a file may ask for.
    assert all('slice = "1min"' in caveat.hint for caveat in found)


def test_data_put_back_for_each_block_are_each_runs_own_where_servers_are_twins(
    turns: tuple[Evidence, Reduction], evidence: Evidence, reduction: Reduction
) -> None:
    def per_block(found: Evidence) -> Evidence:
        design = found.experiment.design.model_copy(update={"restore": "each-block"})
        return replace(found, experiment=found.experiment.model_copy(update={"design": design}))

    assert list(check_restore(build(per_block(turns[0]), turns[1]))) == []
    assert [c.code for c in check_restore(build(per_block(evidence), reduction))] == ["data-not-restored"]


def test_effect_that_is_larger_in_longer_slices_is_told(tmp_path: Path) -> None:
    text = INTERLEAVED.replace('"10s"', '"4s"').replace("placebo = true", "placebo = false")
    gain = Simulation(builds_up={"off": 0.2}, run_sd=0.01)
    evidence, reduction = read(write_result_folder(tmp_path / "grows", simulation=gain, text=text))
    slices = describe_slices(evidence, reduction)

    assert slices is not None
    assert slices.arms[0].longer == pytest.approx(math.exp(0.2), rel=0.05)
    (caveat,) = check_longer_slices(build(evidence, reduction, slices=slices))
    assert caveat.code == "effect-grows-with-slices"
    assert "builds up over more than a slice" in caveat.text


def test_slices_of_one_length_say_nothing_of_longer_ones(turns: tuple[Evidence, Reduction]) -> None:
    slices = describe_slices(*turns)

    assert slices is not None
    assert [arm.longer for arm in slices.arms] == [None] * len(slices.arms)
    assert list(check_longer_slices(build(*turns, slices=slices))) == []


@pytest.mark.parametrize(
    ("method", "ratio", "change", "told"),
    [
        ("duet", 1.086, 1.13, ("left-behind", "duet", Severity.INVALID)),  # the effect may be nothing but that
        ("duet", 1.5, 1.13, ("left-behind", "duet", Severity.WARNING)),
        ("duet", 1.5, 1.01, None),  # less than half of the margin
        ("turns", 1.086, 1.13, ("left-behind", "", Severity.INFO)),  # the other arm's, and kept out
    ],
)
def test_what_counts_of_the_slices_of_a_duet_has_to_be_a_fair_part_of_them(
    request: pytest.FixtureRequest, method: str, ratio: float, change: float, told: tuple[str, str, Severity] | None
) -> None:
    evidence, reduction = request.getfixturevalue(method)
    slices = describe_slices(evidence, reduction)
    assert slices is not None
    (arm, *_) = (one for one in slices.arms if one.arm == "off")
    inside = {"left_behind": change, "left_behind_low": change - 0.005, "left_behind_high": change + 0.005}
    slices = slices.model_copy(update={"arms": (arm.model_copy(update=inside),)})
    primary = SimpleNamespace(effect=SimpleNamespace(arm="off", ratio=ratio))
    assessment = replace(build(evidence, reduction, slices=slices), primary=cast(Estimated, primary))

    found = [(one.code, one.variant, one.severity) for one in slice_checks.check_left_behind(assessment)]

    assert found == ([] if told is None else [told])
