"""Ledgers against the truth: of constructed ones, and of a simulated experiment."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from ground_truth.kept import ProofRecord, Share
from ground_truth.predictions import Prediction
from ground_truth.proving import NOT_FOUND, Proved, Sum, judge_proof, tally

from ground_truth import by_experiment, cases, proof_page, proving
from pgtrial.analysis.analyze import analyze
from pgtrial.design.limits import limits_experiment
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.load import examine
from support import EXPERIMENT, Simulation, write_result_folder

CASES = {case.name: case for case in cases.read_cases()}
OTHERS = (("cpu", -0.1, 0.1), ("files", -0.1, 0.1), ("generator", -0.1, 0.1))
FLUSH, WRITERS, MEMORY = CASES["wal-flush"], CASES["write-back"], CASES["memory"]
MADE = {"machine": "2 CPUs", "began": 1.0, "seconds": 300.0}


def share(name: str, low: float, high: float) -> Share:
    return Share(name=name, value=(low + high) / 2, low=low, high=high)


def record(*times: Share, total: tuple[float, float] = (0.8, 1.2), memory: tuple[Share, ...] = ()) -> ProofRecord:
    low, high = total
    sum_, rest = share("sum", low, high), share("rest", 1 - high, 1 - low)
    return ProofRecord(
        **MADE, times=times, memory=memory, total=sum_, rest=rest, blocks=6, method="blocks", server="15"
    )


def of_now(proofs: Mapping[str, ProofRecord]) -> dict[str, tuple[ProofRecord, ...]]:
    """All attempts, one at each case as it is."""
    return {name: (each.model_copy(update={"digest": CASES[name].digest}),) for name, each in proofs.items()}


def test_the_largest_is_right_where_its_interval_excludes_that_of_the_second() -> None:
    judged = judge_proof(FLUSH, record(share("cpu", -0.1, 0.3), share("flush", 0.5, 0.9)))

    assert judged.state is Proved.RIGHT
    assert judged.sum is Sum.COVERS
    assert judged.largest is not None
    assert judged.second is not None
    assert (judged.largest.name, judged.second.name) == ("flush", "cpu")


@pytest.mark.parametrize(
    ("flush", "cpu"),
    [
        (share("flush", 0.3, 0.9), share("cpu", 0.0, 0.4)),
        (share("flush", -0.1, 0.5), share("cpu", -0.3, -0.2)),
        (Share(name="flush", value=0.9), Share(name="cpu", value=0.1)),
    ],
    ids=["intervals overlap", "none is shown", "one block tells no interval"],
)
def test_the_largest_is_right_and_not_surely(flush: Share, cpu: Share) -> None:
    judged = judge_proof(FLUSH, record(flush, cpu))

    assert judged.state is Proved.UNSURE
    assert judged.is_right


def test_another_largest_is_wrong_however_sure() -> None:
    judged = judge_proof(FLUSH, record(share("cpu", 0.7, 0.9), share("flush", 0.1, 0.2)))

    assert (judged.state, judged.reason) == (Proved.WRONG, "expected flush, found cpu")


@pytest.mark.parametrize(
    ("total", "found", "third"),
    [
        ((0.8, 1.2), Sum.COVERS, False),
        ((0.62, 1.1), Sum.COVERS, True),
        ((0.2, 0.9), Sum.MISSES, False),
        ((1.1, 1.5), Sum.MISSES, False),
        ((0.0, 1.17), Sum.WIDE, False),
        ((0.74, 1.26), Sum.WIDE, False),
    ],
)
def test_a_sum_counts_where_its_interval_is_narrow(total: tuple[float, float], found: Sum, third: bool) -> None:
    """What holds 1 and next to everything else tells nothing; and some that count would hold a third less as well."""
    judged = judge_proof(FLUSH, record(share("flush", 0.5, 0.9), total=total))

    assert judged.sum is found
    assert judged.half == pytest.approx((total[1] - total[0]) / 2)
    assert judged.lacks_power is third


def test_a_sum_without_an_interval_covers_nothing() -> None:
    one = record(share("flush", 0.5, 0.9)).model_copy(update={"total": Share(name="sum", value=1.0)})

    assert judge_proof(FLUSH, one).sum is Sum.WIDE


def test_the_largest_is_right_where_it_is_more_than_what_is_missing() -> None:
    """Of a flush of 0.25 with three quarters missing nobody knows what limits."""
    judged = judge_proof(FLUSH, record(share("flush", 0.2, 0.3), share("cpu", -0.1, 0.1), total=(0.1, 0.4)))

    assert judged.state is Proved.UNSURE
    assert judged.reason == "the interval of the largest does not exclude that of what is missing from 1"
    assert judged.sum is Sum.MISSES


def test_intervals_of_times_and_of_what_is_missing_hold_together() -> None:
    """That of the sum holds by itself, so it is wider beside those of times: here by t of 35 degrees, 2.72 / 2.03."""
    times = tuple(share(name, low, high) for name, low, high in (("flush", 0.5, 0.9), *OTHERS))
    apart = judge_proof(FLUSH, record(*times, total=(0.51, 0.81)))
    near = judge_proof(FLUSH, record(*times, total=(0.54, 0.68)))

    # 0.34 ± 0.15 would end at 0.49, below 0.5; it ends at 0.34 + 0.15 × 1.34.
    assert apart.state is Proved.UNSURE
    assert near.state is Proved.RIGHT


NOTHING = record(share("cpu", -0.1, 0.1), share("files", -0.1, 0.1), total=(-0.15, 0.15))
WHOLE = record(share("cpu", 0.7, 1.0), share("files", -0.1, 0.1), total=(0.85, 1.15))


def test_what_is_missing_has_to_be_the_largest_where_nothing_makes_the_right_time_longer() -> None:
    right = judge_proof(WRITERS, record(share("cpu", -0.05, 0.1), total=(-0.1, 0.2)), WHOLE)
    wrong = judge_proof(WRITERS, record(share("cpu", 0.7, 0.9), total=(0.7, 1.0)), WHOLE)

    assert right.state is Proved.RIGHT
    assert right.largest is not None
    assert right.largest.name == NOT_FOUND
    assert right.sum is None
    assert wrong.state is Proved.WRONG


@pytest.mark.parametrize(
    ("control", "reason"),
    [
        (None, "no ledger of kernel_default shows that times were made longer"),
        (NOTHING, "whether the sum of kernel_default covers 1 within ±0.25: no"),
        (record(share("cpu", 0.0, 1.9), total=(0.1, 1.9)), "the sum of kernel_default covers 1 within ±0.25: too wide"),
        (ProofRecord(**MADE, reason="error: no compiler"), "the ledger of kernel_default failed: error: no compiler"),
    ],
    ids=["none", "as dead", "tells nothing", "failed"],
)
def test_a_dead_instrument_refutes_nothing_and_proves_nothing(control: ProofRecord | None, reason: str) -> None:
    """Where nothing is made longer at all, everything is missing from 1."""
    judged = judge_proof(WRITERS, NOTHING, control)

    assert judged.state is Proved.NOT_REFUTED
    assert not judged.is_right
    assert reason in judged.reason


def test_a_control_is_asked_for_where_something_has_to_be_missing_and_nowhere_else() -> None:
    assert judge_proof(FLUSH, record(share("flush", 0.6, 0.9), share("cpu", 0.0, 0.2))).state is Proved.RIGHT
    assert judge_proof(WRITERS, record(share("cpu", 0.7, 0.9), total=(0.7, 1.0))).state is Proved.WRONG


def test_throughput_has_to_depend_on_memory_where_that_is_short() -> None:
    times = (share("files", 0.5, 0.9), share("cpu", 0.0, 0.2))

    assert judge_proof(MEMORY, record(*times, memory=(share("memory", 0.3, 0.6),))).state is Proved.RIGHT
    for memory in ((), (share("memory", -0.1, 0.6),)):
        assert judge_proof(MEMORY, record(*times, memory=memory)).state is Proved.UNSURE


def test_a_case_without_a_ledger_has_failed() -> None:
    judged = judge_proof(FLUSH, ProofRecord(**MADE, reason="error: no compiler"))

    assert (judged.state, judged.reason, judged.sum) == (Proved.FAILED, "error: no compiler", None)
    assert not judged.is_right


def test_cases_are_counted() -> None:
    sure = share("flush", 0.6, 0.9), share("cpu", 0.0, 0.2)
    judged = [
        judge_proof(FLUSH, record(*sure)),
        judge_proof(FLUSH, record(*sure, total=(0.62, 1.1))),
        judge_proof(FLUSH, record(share("flush", 0.2, 0.9), share("cpu", 0.0, 0.3), total=(0.2, 0.9))),
        judge_proof(FLUSH, record(share("cpu", 0.5, 0.9), total=(0.0, 2.0))),
        judge_proof(WRITERS, NOTHING),
    ]

    found = tally(judged)

    assert (found.cases, found.right, found.sure, found.unrefuted) == (5, 3, 2, 1)
    assert (found.covered, found.wide, found.lacking) == (2, 1, 1)


def test_the_page_tells_what_must_be_shown() -> None:
    proofs = {
        "wal-flush": record(share("flush", 0.5, 0.9), share("cpu", 0.0, 0.2)),
        "row-locks": record(share("cpu", 0.5, 0.9), total=(0.2, 0.9)),
        "write-back": record(share("cpu", -0.05, 0.1), total=(-0.1, 0.2)),
    }

    alone = proof_page.render_proofs(tuple(CASES.values()), of_now(proofs), {})
    text = proof_page.render_proofs(tuple(CASES.values()), of_now(proofs), of_now({"write-back": WHOLE}))

    assert "3 of 18 cases have been judged." in text
    assert "Of 2 whose time can be made longer, the right one is the largest in 1" in text
    assert "excludes those of the second and of what is missing in 1. The sum covers 1 within ±0.25 in 1" in text
    assert "(0 of these would cover 0.65 as well); 0 are wider and tell nothing." in text
    assert "Of 1 whose time nothing makes longer, what is missing from 1 is the largest in 1." in text
    assert "In 1 of these the sum of the same load without the cause covers 1" in text
    assert "they are right, surely in 1." in text
    assert "In 0 of these the sum of the same load without the cause covers 1" in alone
    assert "- write-back: not refuted; no ledger of kernel_default shows that times were made longer" in alone
    assert "| wal-flush | flush | flush 0.70 (0.50 to 0.90) | cpu 0.10 (0.00 to 0.20) | 1.00 (0.80 to 1.20) " in text
    assert "| 0.20 | yes | no | – | 6 blocks | right |" in text
    assert "| 0.35 | **no** | – | – | 6 blocks | **wrong** |" in text
    assert "- row-locks: wrong; expected flush, found cpu" in text
    assert proof_page.render_proofs((FLUSH,), {}, {}) == "None of the 1 cases has been judged by experiment yet."


def test_the_page_says_what_is_kept() -> None:
    """Nobody writes its tables by hand."""
    page = proof_page.PAGE.read_text(encoding="utf-8")

    assert proof_page.fill(page) == page


def test_as_much_of_a_ledger_is_kept_as_is_judged_and_what_it_predicts(tmp_path: Path) -> None:
    experiment = examine(EXPERIMENT, Path("/")).experiment
    assert experiment is not None
    text = limits_experiment(experiment, resolve_arms(experiment), duration=10)
    written = examine(text, Path("/")).experiment
    assert written is not None
    # Flushes alone: half as long again, throughput is two thirds.
    tps = {arm.name: 300 / float(arm.knobs["slowdown"]["flush"]) for arm in resolve_arms(written)}
    folder = write_result_folder(
        tmp_path / "folder", text=text, simulation=Simulation(tps=tps, run_sd=0.01, slice_sd=0.01, seed=5)
    )
    findings = analyze(folder)
    change = Prediction(name="faster", case="wal-flush", factors={"flush": 0.8}, change={})

    found = by_experiment.read_proof(findings, said=(by_experiment._say(folder, change),), **MADE)

    assert judge_proof(replace(FLUSH, arm=experiment.arms and next(iter(experiment.arms))), found).state is Proved.RIGHT
    assert {share.name for share in found.times} == {"cpu", "flush", "files", "generator"}
    (said,) = found.said
    assert said.low is not None
    assert said.high is not None
    assert said.name == "faster"
    assert said.low < 1.25 < said.high
    assert found.blocks == 6
    assert proving.right_names(FLUSH) == ("flush",)
