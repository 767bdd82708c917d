"""Run a case, and judge what the rules of the analysis say of it."""

import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ground_truth.cases import Case
from ground_truth.runs import (
    CallError,
    HindranceError,
    NoResultError,
    call_pgtrial,
    last_folder,
    made_for,
    permission,
)
from ground_truth.scoring import Outcome, State, judge


def run_case(case: Case, results: Path, *, host_changes: bool) -> Outcome:
    """Run a case's experiment and judge what was found."""
    try:
        return run_rules(case, results, host_changes=host_changes)
    except NoResultError as err:
        return Outcome(case=case, state=State.FAILED, reason=str(err))
    except HindranceError as err:
        return Outcome(case=case, state=State.NOT_RUN, reason=str(err))


def run_rules(case: Case, results: Path, *, host_changes: bool) -> Outcome:
    """As ``run_case``. HindranceError where the case cannot run here, NoResultError where there is nothing to judge."""
    place = results / case.name
    # No run of a case is another attempt at a claim: what is tried is whether its cause is named.
    arguments = ("run", str(case.file), "--results", str(place), "--quiet", "--revision", uuid.uuid4().hex)
    with made_for(case, place, host_changes=host_changes) as within:
        return _judge_after(case, place, (*arguments, *permission(case)), within=within)


def judge_again(case: Case, results: Path) -> Outcome:
    """Analyse the last finished folder of a case anew, and judge what is found."""
    found = last_folder(results / case.name)
    if found is None:
        return Outcome(case=case, state=State.NOT_RUN, reason=f"no finished run of it in {results / case.name}")
    return _judge_after(case, results / case.name, ["report", str(found)])


def _judge_after(case: Case, place: Path, arguments: Sequence[str], *, within: Sequence[str] = ()) -> Outcome:
    try:
        found = call_pgtrial(place, arguments, within=within)
    except CallError as err:
        return Outcome(case=case, state=State.FAILED, reason=str(err))
    document: dict[str, Any] = json.loads((found / "findings.json").read_text(encoding="utf-8"))
    return judge(case, document)
