"""The runs that take hours, whose results are kept beside the code: what is left of them, and one after the other."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ground_truth.by_experiment import run_control, run_prediction, run_proof
from ground_truth.by_rules import run_rules
from ground_truth.cases import Case
from ground_truth.kept import (
    CONTROLS,
    MEASURED,
    PROOFS,
    RULES,
    Kept,
    MeasuredRecord,
    ProofRecord,
    RulesRecord,
    find_counting,
    keep,
    longest,
    read_counting,
    read_kept,
)
from ground_truth.predictions import Prediction, find_measured, find_said
from ground_truth.runs import HindranceError, NoResultError, begin_run
from pgtrial.units import format_duration

FIRST_GUESS = 7 * 60.0  # s, of one run, as long as none of its kind has been kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A run whose record is kept in a file by a name. ``run`` raises HindranceError where it cannot be made here."""

    file: Path
    name: str
    run: Callable[[], Kept]


def run_within(tasks: Sequence[Task], *, limit: float) -> int:
    """Run the tasks and keep what comes out, but begin none that is likely not to be over in ``limit`` seconds.

    How many are left for the next time; what cannot be made here at all is told, and is not among them.
    """
    started, left = time.monotonic(), 0
    for place, task in enumerate(tasks):
        if time.monotonic() - started + (longest(task.file) or FIRST_GUESS) > limit:
            return left + len(tasks) - place
        begun = time.monotonic()
        try:
            record = task.run()
        except HindranceError as err:
            left += isinstance(err, NoResultError)
            print(f"{task.name:<34} not run: {err}", flush=True)
            continue
        keep(task.file, task.name, record)
        print(f"{task.name:<34} {_tell(record)} ({format_duration(time.monotonic() - begun)})", flush=True)
    return left


def _tell(record: Kept) -> str:
    if record.reason:
        return record.reason
    if isinstance(record, ProofRecord):
        return ", ".join(f"{share.name} {share.value:.2f}" for share in record.times)
    return f"{record.ratio:.3f} times" if isinstance(record, MeasuredRecord) else "has been run"


def proof_tasks(
    cases: Sequence[Case], predictions: Sequence[Prediction], results: Path, *, host_changes: bool, again: bool
) -> tuple[Task, ...]:
    """The ledgers that are not there yet, or of a case that was changed since; ``again``: of all these cases."""
    there = read_counting(PROOFS, ProofRecord, _digests(cases))
    return tuple(
        _proof_task(case, predictions, results, host_changes=host_changes)
        for case in cases
        if again or case.name not in there
    )


def control_tasks(cases: Sequence[Case], results: Path, *, host_changes: bool, again: bool) -> tuple[Task, ...]:
    """Of cases whose time nothing makes longer: the ledgers without their causes; ``again``: also what failed."""
    there = read_counting(CONTROLS, ProofRecord, _digests(cases))
    return tuple(
        _control_task(case, results, host_changes=host_changes)
        for case in cases
        if not case.proof.is_varied and is_left(there.get(case.name), again=again)
    )


def unseen_tasks(
    cases: Sequence[Case], predictions: Sequence[Prediction], results: Path, *, host_changes: bool, again: bool
) -> tuple[Task, ...]:
    """Of cases that are run once: what the rules say of each, and its ledger, as far as they are not there yet.

    ``again``: also what failed, and so has not been judged.
    """
    rules, proofs = read_kept(RULES, RulesRecord), read_kept(PROOFS, ProofRecord)
    found = []
    for case in cases:
        if is_left(find_counting(rules.get(case.name, ())), again=again):
            found.append(_rules_task(case, results, host_changes=host_changes))
        if is_left(find_counting(proofs.get(case.name, ())), again=again):
            found.append(_proof_task(case, predictions, results, host_changes=host_changes))
    return tuple(found)


def prediction_tasks(
    predictions: Sequence[Prediction], cases: Mapping[str, Case], results: Path, *, host_changes: bool, again: bool
) -> tuple[Task, ...]:
    """The changes of which a ledger has spoken, and that have not been measured since; ``again``: also what failed."""
    proofs = read_counting(PROOFS, ProofRecord, _digests(cases.values()))
    there = read_kept(MEASURED, MeasuredRecord)
    return tuple(
        _prediction_task(each, cases[each.case], results, proofs[each.case], host_changes=host_changes)
        for each in predictions
        if find_said(each, proofs) is not None and is_left(find_measured(each, proofs, there), again=again)
    )


def _digests(cases: Iterable[Case]) -> dict[str, str]:
    return {case.name: case.digest for case in cases}


def is_left(record: Kept | None, *, again: bool) -> bool:
    return record is None or (again and record.has_failed)


def unspoken(predictions: Sequence[Prediction], cases: Mapping[str, Case]) -> tuple[str, ...]:
    """Cases whose ledger has to be there before their changes can be predicted."""
    proofs = read_counting(PROOFS, ProofRecord, _digests(cases.values()))
    return tuple(dict.fromkeys(each.case for each in predictions if find_said(each, proofs) is None))


def _proof_task(case: Case, predictions: Sequence[Prediction], results: Path, *, host_changes: bool) -> Task:
    return Task(
        file=PROOFS,
        name=case.name,
        run=lambda: run_proof(case, results, predictions=predictions, host_changes=host_changes),
    )


def _control_task(case: Case, results: Path, *, host_changes: bool) -> Task:
    return Task(
        file=CONTROLS,
        name=case.name,
        run=lambda: run_control(case, results, host_changes=host_changes),
    )


def _rules_task(case: Case, results: Path, *, host_changes: bool) -> Task:
    def run() -> RulesRecord:
        made = begin_run(case.digest)
        return RulesRecord.of(run_rules(case, results, host_changes=host_changes), **made())

    return Task(file=RULES, name=case.name, run=run)


def _prediction_task(
    prediction: Prediction, case: Case, results: Path, ledger: ProofRecord, *, host_changes: bool
) -> Task:
    return Task(
        file=MEASURED,
        name=prediction.name,
        run=lambda: run_prediction(prediction, case, results, ledger=ledger, host_changes=host_changes),
    )
