"""Ledgers of elasticities against the truth. Pure: from what is kept of them to what they prove."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ground_truth.cases import Case
from ground_truth.kept import ProofRecord, Share, find_counting

NOT_FOUND = "not found"  # what is missing from 1


class Proved(StrEnum):
    RIGHT = "right"  # the largest, and its interval excludes that of the second
    UNSURE = "right, not surely"
    WRONG = "wrong"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the ledger of a case proves. ``largest`` and ``second`` are of the times; where nothing makes the right one
    longer, what is missing from 1 is one of them. ``covers``: whether the sum may be 1; None where something must be
    missing. ``attempts``: how many ledgers of the case are kept, of which one counts.
    """

    case: Case
    record: ProofRecord
    state: Proved
    reason: str = ""
    largest: Share | None = None
    second: Share | None = None
    covers: bool | None = None
    attempts: int = 1

    @property
    def is_right(self) -> bool:
        return self.state in (Proved.RIGHT, Proved.UNSURE)


def right_names(case: Case) -> tuple[str, ...]:
    return case.proof.times or (NOT_FOUND,)


def judge_kept(cases: Iterable[Case], proofs: Mapping[str, Sequence[ProofRecord]]) -> tuple[Judgement, ...]:
    """Of the cases that have a ledger, by the one that counts; ``proofs`` are all attempts."""
    found = []
    for case in cases:
        attempts = proofs.get(case.name, ())
        record = find_counting(attempts, case.digest)
        if record is not None:
            found.append(replace(judge_proof(case, record), attempts=len(attempts)))
    return tuple(found)


def judge_proof(case: Case, record: ProofRecord) -> Judgement:
    """The largest has to be the right one, surely larger than the second; memory has to count where it is asked for."""
    total, rest = record.total, record.rest
    if record.reason or not record.times or total is None or rest is None:
        return Judgement(case=case, record=record, state=Proved.FAILED, reason=record.reason or "there is no ledger")
    # The name of the rest is given here: it is no resource.
    missing = [] if case.proof.is_varied else [rest.model_copy(update={"name": NOT_FOUND})]
    first, *others = sorted((*record.times, *missing), key=lambda share: -share.value)
    second = others[0] if others else None
    state, reason = _judge(case, record, first, second)
    return Judgement(
        case=case,
        record=record,
        state=state,
        reason=reason,
        largest=first,
        second=second,
        covers=_may_be(total, 1.0) if case.proof.is_varied else None,
    )


def _judge(case: Case, record: ProofRecord, first: Share, second: Share | None) -> tuple[Proved, str]:
    names = right_names(case)
    if first.name not in names:
        return Proved.WRONG, f"expected {' or '.join(names)}, found {first.name}"
    memory = next((share for share in record.memory if share.name == case.proof.memory), None)
    if case.proof.memory and (memory is None or memory.low is None or memory.low <= 0):
        return Proved.UNSURE, f"that throughput depends on {case.proof.memory} is not shown"
    if first.low is None or first.low <= 0 or (second is not None and _reaches(second, first.low)):
        return Proved.UNSURE, "the interval of the largest does not exclude that of the second"
    return Proved.RIGHT, ""


def _reaches(share: Share, value: float) -> bool:
    return share.high is None or share.high >= value


def _may_be(share: Share, value: float) -> bool:
    """False where no interval is known: nothing is covered then."""
    return share.low is not None and share.high is not None and share.low <= value <= share.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many of some cases are proved right, surely so, and of how many the sum may be 1."""

    cases: int
    right: int
    sure: int
    covered: int


def tally(judgements: Sequence[Judgement]) -> Tally:
    return Tally(
        cases=len(judgements),
        right=sum(each.is_right for each in judgements),
        sure=sum(each.state is Proved.RIGHT for each in judgements),
        covered=sum(each.covers is True for each in judgements),
    )
