"""Run what proves the limit of a case, and changes that were predicted from that proof."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ground_truth.cases import Case
from ground_truth.kept import MeasuredRecord, ProofRecord, Share
from ground_truth.predictions import CHANGED, Prediction, write_experiment
from ground_truth.runs import CallError, begin_run, call_pgtrial, made_for, permission
from pgtrial.analysis.causes.ledger import predict_change
from pgtrial.findings.findings import Findings
from pgtrial.findings.questions import LedgerEntry
from pgtrial.findings.record import Estimate
from pgtrial.store.findings_file import read_findings

_METRIC = "pgbench.tps"
_ALL_LEVELS = "all"


def run_proof(case: Case, results: Path, *, predictions: Sequence[Prediction] = (), host_changes: bool) -> ProofRecord:
    """The ledger of the case's first arm, and what it says of changes. HindranceError where it cannot run here."""
    place, asked = results / "limits" / case.name, [each for each in predictions if each.case == case.name]
    return _make_ledger(case, case.arm, case.proof.options, place, predictions=asked, host_changes=host_changes)


def run_control(case: Case, results: Path, *, host_changes: bool) -> ProofRecord:
    """The ledger of the arm that lacks the case's cause, of which the times are the whole. HindranceError as above."""
    place = results / "controls" / case.name
    return _make_ledger(case, case.relieved, case.proof.control_options, place, host_changes=host_changes)


def _make_ledger(
    case: Case,
    arm: str,
    options: Sequence[str],
    place: Path,
    *,
    predictions: Sequence[Prediction] = (),
    host_changes: bool,
) -> ProofRecord:
    arguments = ("limits", str(case.file), "--arm", arm, "--results", str(place), "--quiet", *options)
    made = begin_run(case.digest)
    try:
        with made_for(case, place, host_changes=host_changes) as within:
            folder = call_pgtrial(place, (*arguments, *permission(case)), within=within)
    except CallError as err:
        return ProofRecord(**made(), reason=str(err))
    findings = read_findings(folder)
    asked = predictions if findings.ledger is not None else ()
    return read_proof(findings, said=tuple(_say(folder, each) for each in asked), **made())


def _say(folder: Path, prediction: Prediction) -> Share:
    found = predict_change(folder, prediction.factors).ratio
    return Share(name=prediction.name, value=found.value, low=found.low, high=found.high)


def read_proof(findings: Findings, *, said: tuple[Share, ...] = (), **made: Any) -> ProofRecord:
    """As much of the findings of pgtrial limits as is kept."""
    ledger, experiment = findings.ledger, findings.experiment
    if ledger is None:
        return ProofRecord(**made, reason="no block is complete, so that there is no ledger")
    return ProofRecord(
        **made,
        method=experiment.method,
        server=experiment.target.get("postgres version", ""),
        blocks=ledger.blocks,
        times=tuple(map(_share, ledger.entries)),
        memory=tuple(map(_share, ledger.memory)),
        total=_named("sum", ledger.total),
        rest=_named("rest", ledger.rest),
        said=said,
    )


def _share(entry: LedgerEntry) -> Share:
    return _named(entry.resource.partition(".")[2], entry.elasticity)


def _named(name: str, estimate: Estimate) -> Share:
    return Share(name=name, value=estimate.value, low=estimate.low, high=estimate.high)


def run_prediction(
    prediction: Prediction, case: Case, results: Path, *, ledger: ProofRecord, host_changes: bool
) -> MeasuredRecord:
    """What the change did, measured as the ledger was that spoke of it. HindranceError where it cannot run here."""
    place = results / "predictions" / prediction.name
    made = begin_run(prediction.digest)
    try:
        with made_for(case, place, host_changes=host_changes) as within:
            file = write_experiment(prediction, case, place, method=ledger.method, blocks=ledger.blocks)
            arguments = ("run", str(file), "--results", str(place), "--quiet", *permission(case))
            folder = call_pgtrial(place, arguments, within=within)
    except CallError as err:
        return MeasuredRecord(**made(), reason=str(err))
    return read_measured(read_findings(folder), **made())


def read_measured(findings: Findings, **made: Any) -> MeasuredRecord:
    """As much of the findings of a predicted change as is kept."""
    effect = next(
        (
            each
            for each in findings.effects
            if (each.arm, each.metric, each.scenario, each.load_level) == (CHANGED, _METRIC, None, _ALL_LEVELS)
        ),
        None,
    )
    if effect is None or effect.ratio is None:
        return MeasuredRecord(**made, reason="no effect was estimated")
    return MeasuredRecord(**made, ratio=effect.ratio, low=effect.low, high=effect.high)
