"""Changes that pgtrial predict speaks of beforehand: the list, the experiment that makes one, and the score."""

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

from ground_truth.cases import EXPERIMENTS, FOLDER, Case
from ground_truth.kept import MeasuredRecord, ProofRecord, Share, find_counting
from pgtrial.design.limits import AS_IS, limits_experiment
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.generate import file_text, read_time
from pgtrial.experiment_file.load import parse_experiment
from pgtrial.workloads.pauses import longest_sleeps

LIST = FOLDER / "predictions.toml"
CHANGED = "changed"
_DIGEST = 16  # characters
NOMINAL = 0.9  # of pgtrial predict
WISHED = (0.8, 0.97)  # of intervals that should hold, out of some thirty


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A change of a case's first arm: ``factors`` as pgtrial predict has them, ``change`` the tables that make it."""

    name: str
    case: str
    factors: Mapping[str, float]
    change: Mapping[str, Mapping[str, Any]]

    @property
    def digest(self) -> str:
        """Of the change, and of what is asked of the ledger: a prediction that was changed has another."""
        text = json.dumps([self.name, self.case, self.factors, self.change], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]


def read_predictions(cases: Iterable[Case], path: Path = LIST) -> tuple[Prediction, ...]:
    """All of the list, in its order. Raises ValueError where one of them makes no sense."""
    known = {case.name: case for case in cases}
    found = tuple(Prediction(**table) for table in tomllib.loads(path.read_text(encoding="utf-8"))["prediction"])
    names = [each.name for each in found]
    for each in found:
        case = known.get(each.case)
        varied = case.proof.vary if case else ()
        if names.count(each.name) > 1 or case is None or (varied and not set(each.factors) <= set(varied)):
            raise ValueError(f'prediction "{each.name}": its name or its case is wrong, or no ledger has its factors')
    return found


def choose_predictions(predictions: tuple[Prediction, ...], names: Sequence[str]) -> tuple[Prediction, ...]:
    """Those of these names; all without any. Raises ValueError for a name that is not there."""
    unknown = set(names).difference(each.name for each in predictions)
    if unknown:
        raise ValueError(f"no prediction has the name {', '.join(sorted(unknown))}")
    return tuple(each for each in predictions if not names or each.name in names)


def write_experiment(prediction: Prediction, case: Case, place: Path, *, method: str, blocks: int) -> Path:
    """The file of an experiment of two arms, that of the ledger and the changed one, measured as the ledger was.

    The scripts of the case are put beside it.
    """
    given = case.file.read_text(encoding="utf-8")
    experiment = parse_experiment(given, case.file.name, case.file.parent).experiment
    arms, proof = resolve_arms(experiment), case.proof
    ledger = tomllib.loads(
        limits_experiment(
            experiment,
            arms,
            arm=case.arm,
            resources=proof.vary,
            blocks=blocks,
            method=method,
            duration=read_time(proof.duration) if proof.duration else None,
            warmup=read_time(proof.warmup) if proof.warmup else None,
            sleeps=longest_sleeps(experiment, arms, case.file.parent),
        )
    )
    del ledger["format"], ledger["limits"]
    as_is = ledger["arms"][AS_IS]
    changed = as_is | {knob: as_is.get(knob, {}) | table for knob, table in prediction.change.items()}
    claim = {"claim": f"{prediction.name} changes {case.arm}", "arm": CHANGED, "expect": "different"}
    text = file_text(
        f"Written by python -m ground_truth --predict: {prediction.name}.",
        ledger
        | {
            "experiment": {"name": prediction.name},
            "hypothesis": ledger["hypothesis"] | claim,
            "arms": {AS_IS: as_is, CHANGED: changed},
        },
    )
    place.mkdir(parents=True, exist_ok=True)
    for script in EXPERIMENTS.glob("*.sql"):
        (place / script.name).write_bytes(script.read_bytes())
    file = place / "experiment.toml"
    file.write_text(text, encoding="utf-8")
    return file


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """What was said, what was measured, and whether the one holds for the other; None where either is missing."""

    prediction: Prediction
    said: Share | None
    measured: MeasuredRecord | None
    holds: bool | None


def score(
    predictions: Sequence[Prediction],
    proofs: Mapping[str, ProofRecord],
    measured: Mapping[str, Sequence[MeasuredRecord]],
) -> tuple[Scored, ...]:
    """``proofs`` are the ledgers that count, ``measured`` all that was measured, by the names of cases and changes."""
    return tuple(_score(each, proofs, measured) for each in predictions)


def find_said(prediction: Prediction, proofs: Mapping[str, ProofRecord]) -> Share | None:
    """What the ledger of the case said of the change."""
    proof = proofs.get(prediction.case)
    return next((share for share in proof.said if share.name == prediction.name), None) if proof else None


def find_measured(
    prediction: Prediction, proofs: Mapping[str, ProofRecord], measured: Mapping[str, Sequence[MeasuredRecord]]
) -> MeasuredRecord | None:
    """What the change did after it had been said, the first time: of an older one nothing was predicted."""
    proof = proofs.get(prediction.case)
    if proof is None:
        return None
    later = [record for record in measured.get(prediction.name, ()) if record.began > proof.began]
    return find_counting(later, prediction.digest)


def _score(
    prediction: Prediction, proofs: Mapping[str, ProofRecord], measured: Mapping[str, Sequence[MeasuredRecord]]
) -> Scored:
    said, found, holds = find_said(prediction, proofs), find_measured(prediction, proofs, measured), None
    if said is not None and found is not None and found.ratio is not None:
        # Who tells no interval has not said anything that could hold.
        holds = said.low is not None and said.high is not None and said.low <= found.ratio <= said.high
    return Scored(prediction=prediction, said=said, measured=found, holds=holds)


def coverage(scored: Sequence[Scored]) -> tuple[int, int, float, float]:
    """How many hold, of how many, and the exact 95 % interval of the share; (0, 0, 0, 1) of none.

    Source: Clopper & Pearson, Biometrika 26 (1934) 404-413.
    """
    judged = [each.holds for each in scored if each.holds is not None]
    if not judged:
        return 0, 0, 0.0, 1.0
    interval = binomtest(sum(judged), len(judged)).proportion_ci(0.95, method="exact")
    return sum(judged), len(judged), float(interval.low), float(interval.high)
