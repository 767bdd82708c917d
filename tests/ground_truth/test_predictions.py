"""Predicted changes: their list, the experiment of each, and the score of constructed ones."""

from pathlib import Path

import pytest
from ground_truth.kept import MeasuredRecord, ProofRecord, Share
from ground_truth.predictions import CHANGED, Prediction, coverage, score

from ground_truth import cases, predictions, proof_page
from pgtrial.cli.checked import check_file
from pgtrial.design.limits import AS_IS
from pgtrial.units import parse_bytes

ALL = {case.name: case for case in (*cases.read_cases(), *cases.read_cases(cases.UNSEEN))}
LISTED = {each.name: each for each in predictions.read_predictions(ALL.values())}
FASTER = Prediction(name="faster", case="wal-flush", factors={"flush": 0.8}, change={})
STEP = 1.5  # of the ledgers


def ledger(*said: Share, began: float = 1.0) -> ProofRecord:
    return ProofRecord(machine="2 CPUs", began=began, seconds=300.0, said=said)


def measured(ratio: float | None, *, began: float = 2.0, reason: str = "") -> MeasuredRecord:
    return MeasuredRecord(machine="2 CPUs", began=began, seconds=60.0, digest=FASTER.digest, ratio=ratio, reason=reason)


def said(low: float | None, high: float | None) -> Share:
    return Share(name="faster", value=1.2, low=low, high=high)


def test_thirty_changes_are_listed_and_none_is_a_step_of_its_ledger() -> None:
    assert len(LISTED) >= 30
    for each in LISTED.values():
        assert each.factors != dict.fromkeys(each.factors, STEP)
        assert set(each.change) <= {"cgroup", "slowdown", "workload"}


@pytest.mark.parametrize("name", LISTED)
def test_the_experiment_of_each_changes_what_was_predicted_and_nothing_else(name: str, tmp_path: Path) -> None:
    prediction = LISTED[name]
    case = ALL[prediction.case]

    file = predictions.write_experiment(prediction, case, tmp_path, method="blocks", blocks=case.proof.blocks)

    checked = check_file(file)
    as_is, changed = checked.plan.arms
    assert (as_is.name, changed.name) == (AS_IS, CHANGED)
    assert as_is.settings == changed.settings
    assert checked.plan.estimate.total < 150
    differing = {
        f"{knob}.{key}": (as_is.knobs[knob][key], value)
        for knob, table in changed.knobs.items()
        for key, value in table.items()
        if as_is.knobs[knob][key] != value
    }
    expected = {f"{knob}.{key}" for knob, table in prediction.change.items() for key in table}
    assert set(differing) == expected
    for key, factor in prediction.factors.items():
        before, after = next(
            values
            for setting, values in differing.items()
            if setting.endswith(f".{key}") or (key, setting) == ("cpu", "cgroup.cpus")
        )
        ratio = amount(after) / amount(before)
        is_time = bool({f"slowdown.{key}", f"workload.{key}"} & set(differing)) or key == "memory"
        assert (ratio if is_time else 1 / ratio) == pytest.approx(factor, rel=1e-5)


def amount(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float(parse_bytes(text))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('name    = "quota-a-tenth-more"', 'name    = "quota-a-fifth-more"'),
        ('case    = "cpu-quota"', 'case    = "no-such-case"'),
        ("{ read_iops = 0.909091 }", "{ write_iops = 0.909091 }"),
    ],
)
def test_a_prediction_that_makes_no_sense_is_refused(tmp_path: Path, old: str, new: str) -> None:
    (tmp_path / "list.toml").write_text(predictions.LIST.read_text().replace(old, new, 1))

    with pytest.raises(ValueError, match="its name or its case is wrong"):
        predictions.read_predictions(ALL.values(), tmp_path / "list.toml")


@pytest.mark.parametrize(
    ("low", "high", "ratio", "holds"),
    [
        (1.1, 1.3, 1.25, True),
        (1.1, 1.3, 1.31, False),
        (1.1, 1.3, 1.09, False),
        (None, None, 1.2, False),
        (1.1, 1.3, None, None),
    ],
)
def test_an_interval_holds_or_not(low: float | None, high: float | None, ratio: float | None, holds: bool) -> None:
    (found,) = score([FASTER], {"wal-flush": ledger(said(low, high))}, {"faster": [measured(ratio)]})

    assert found.holds is holds


def test_what_was_measured_before_it_was_predicted_does_not_count() -> None:
    proofs = {"wal-flush": ledger(said(1.1, 1.3), began=3.0)}

    (found,) = score([FASTER], proofs, {"faster": [measured(1.2, began=2.0)]})

    assert found.holds is None
    assert found.measured is None


def test_the_first_of_several_measurements_counts() -> None:
    proofs = {"wal-flush": ledger(said(1.1, 1.3), began=1.0)}
    attempts = [measured(1.2, began=0.5), measured(None, reason="killed"), measured(1.4, began=3.0), measured(1.2)]

    (found,) = score([FASTER], proofs, {"faster": attempts})

    assert found.measured == attempts[2]
    assert found.holds is False


def test_nothing_is_scored_of_which_no_ledger_has_spoken() -> None:
    (found,) = score([FASTER], {"wal-flush": ledger()}, {"faster": [measured(1.2)]})

    assert found.holds is None
    assert coverage([found]) == (0, 0, 0.0, 1.0)


def test_coverage_has_its_exact_interval() -> None:
    proofs = {"wal-flush": ledger(said(1.1, 1.3))}
    ratios = [1.2] * 27 + [2.0] * 3
    scored = [score([FASTER], proofs, {"faster": [measured(ratio)]})[0] for ratio in ratios]

    held, judged, low, high = coverage(scored)

    # Clopper & Pearson of 27 in 30, as in any table: 0.735 to 0.979.
    assert (held, judged) == (27, 30)
    assert (low, high) == pytest.approx((0.7347, 0.9789), abs=1e-4)


def test_the_page_tells_how_many_hold() -> None:
    proofs = {"wal-flush": ledger(said(1.1, 1.3))}
    scored = score([FASTER], proofs, {"faster": [measured(1.4)]})

    text = proof_page.render_predictions(scored)

    assert (
        "Of 1 listed changes 1 were predicted and 1 measured after that. 0 of 1 90% intervals hold, 0% (0% to" in text
    )
    assert "| faster | wal-flush | flush × 0.8 | 1.200 (1.100 to 1.300) | 1.400 | **no** |" in text
    assert "Nothing has been predicted yet" in proof_page.render_predictions(score([FASTER], {}, {}))
