"""Ledgers of elasticities against the truth. Pure: from what is kept of them to what they prove."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ground_truth.cases import Case
from ground_truth.kept import ProofRecord, Share, find_counting
from pgtrial.design.limits import two_level_design
from pgtrial.stats.interval import t_quantile

NOT_FOUND = "not found"  # what is missing from 1
NARROW = 0.25  # half of the interval of a sum, up to which it tells something
A_THIRD_LESS = 0.65  # about a sum of which a third is missing: what covers this as well does not tell
_CONFIDENCE = 0.95  # of the intervals of ledgers


class Proved(StrEnum):
    RIGHT = "right"  # the largest, and its interval excludes those of the second and of what is missing
    UNSURE = "right, not surely"
    NOT_REFUTED = "not refuted"  # what is missing is the largest, which it would also be if nothing took effect
    WRONG = "wrong"
    FAILED = "failed"


class Sum(StrEnum):
    """Whether the elasticities may add up to 1."""

    COVERS = "yes"
    MISSES = "no"
    WIDE = "too wide"  # it covers 1, and next to everything else


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the ledger of a case proves. ``largest`` and ``second`` are of the times; where nothing makes the right one
    longer, what is missing from 1 is one of them. ``sum``: whether it may be 1; None where something must be missing.
    ``half``: of its interval. ``attempts``: how many ledgers of the case as it is are kept, of which one counts.
    """

    case: Case
    record: ProofRecord
    state: Proved
    reason: str = ""
    largest: Share | None = None
    second: Share | None = None
    sum: Sum | None = None
    half: float | None = None
    attempts: int = 1

    @property
    def lacks_power(self) -> bool:
        """Whether a sum that covers 1 would do so as well where a third is missing."""
        total = self.record.total
        return self.sum is Sum.COVERS and total is not None and _may_be(total, A_THIRD_LESS)

    @property
    def is_right(self) -> bool:
        return self.state in (Proved.RIGHT, Proved.UNSURE)


def right_names(case: Case) -> tuple[str, ...]:
    return case.proof.times or (NOT_FOUND,)


def judge_kept(
    cases: Iterable[Case], proofs: Mapping[str, Sequence[ProofRecord]], controls: Mapping[str, Sequence[ProofRecord]]
) -> tuple[Judgement, ...]:
    """Of the cases that have a ledger, by the one that counts; ``proofs`` and ``controls`` are all attempts."""
    found = []
    for case in cases:
        attempts = [each for each in proofs.get(case.name, ()) if each.digest == case.digest]
        record = find_counting(attempts)
        if record is not None:
            control = find_counting(controls.get(case.name, ()), case.digest)
            found.append(replace(judge_proof(case, record, control), attempts=len(attempts)))
    return tuple(found)


def judge_proof(case: Case, record: ProofRecord, control: ProofRecord | None = None) -> Judgement:
    """The largest has to be the right one, surely larger than the second and than what is missing; memory has to count
    where it is asked for.

    ``control``: the ledger of the same load without the case's cause. Where what is missing from 1 has to be the
    largest, the sum of this one has to cover 1: what makes times longer could have had no effect at all.
    """
    total, rest = record.total, record.rest
    if record.reason or not record.times or total is None or rest is None:
        return Judgement(case=case, record=record, state=Proved.FAILED, reason=record.reason or "there is no ledger")
    # The name of the rest is given here: it is no resource.
    missing = _widened(rest, record).model_copy(update={"name": NOT_FOUND})
    first, *others = sorted(
        (*record.times, *([] if case.proof.is_varied else [missing])), key=lambda share: -share.value
    )
    second = others[0] if others else None
    state, reason = _judge(case, record, first, [*others, missing] if case.proof.is_varied else others)
    if not case.proof.is_varied and state is not Proved.WRONG:
        doubt = _doubt(case, control)
        state, reason = (Proved.NOT_REFUTED, doubt) if doubt else (state, reason)
    return Judgement(
        case=case,
        record=record,
        state=state,
        reason=reason,
        largest=first,
        second=second,
        sum=_judge_sum(total) if case.proof.is_varied else None,
        half=_half(total),
    )


def _doubt(case: Case, control: ProofRecord | None) -> str:
    """Why it is not known that times were made longer; "" where it is."""
    if control is None:
        return f"no ledger of {case.relieved} shows that times were made longer"
    if control.reason or control.total is None:
        return f"the ledger of {case.relieved} failed: {control.reason or 'it has no sum'}"
    found = _judge_sum(control.total)
    return "" if found is Sum.COVERS else f"whether the sum of {case.relieved} covers 1 within ±{NARROW}: {found}"


def _widened(rest: Share, record: ProofRecord) -> Share:
    """What is missing from 1, with an interval that holds together with those of times and memory, as theirs do."""
    members = len(record.times) + len(record.memory)
    degrees = (record.blocks - 1) * (len(two_level_design(members)) - 1)
    if rest.low is None or rest.high is None or degrees <= 0:
        return rest
    alone, together = (t_quantile(1 - (1 - _CONFIDENCE) / 2 / count, degrees) for count in (1, members + 1))
    half = (rest.high - rest.low) / 2 * together / alone
    return rest.model_copy(update={"low": rest.value - half, "high": rest.value + half})


def _judge(case: Case, record: ProofRecord, first: Share, others: Sequence[Share]) -> tuple[Proved, str]:
    names = right_names(case)
    if first.name not in names:
        return Proved.WRONG, f"expected {' or '.join(names)}, found {first.name}"
    memory = next((share for share in record.memory if share.name == case.proof.memory), None)
    if case.proof.memory and (memory is None or memory.low is None or memory.low <= 0):
        return Proved.UNSURE, f"that throughput depends on {case.proof.memory} is not shown"
    reached = [share for share in others if first.low is not None and _reaches(share, first.low)]
    if first.low is None or first.low <= 0 or any(share.name != NOT_FOUND for share in reached):
        return Proved.UNSURE, "the interval of the largest does not exclude that of the second"
    if reached:
        return Proved.UNSURE, "the interval of the largest does not exclude that of what is missing from 1"
    return Proved.RIGHT, ""


def _reaches(share: Share, value: float) -> bool:
    return share.high is None or share.high >= value


def _judge_sum(total: Share) -> Sum:
    """Too wide where no interval is known."""
    half = _half(total)
    if half is None:
        return Sum.WIDE
    if not _may_be(total, 1.0):
        return Sum.MISSES
    return Sum.COVERS if half <= NARROW else Sum.WIDE


def _half(share: Share) -> float | None:
    return None if share.low is None or share.high is None else (share.high - share.low) / 2


def _may_be(share: Share, value: float) -> bool:
    """False where no interval is known: nothing is covered then."""
    return share.low is not None and share.high is not None and share.low <= value <= share.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many of some cases are proved right, and surely so, and how many are not refuted. Of how many the sum is
    narrow and covers 1, of how many it would do so with a third missing (``lacking``), and of how many it is too wide
    to tell.
    """

    cases: int
    right: int
    sure: int
    unrefuted: int
    covered: int
    lacking: int
    wide: int


def tally(judgements: Sequence[Judgement]) -> Tally:
    return Tally(
        cases=len(judgements),
        right=sum(each.is_right for each in judgements),
        sure=sum(each.state is Proved.RIGHT for each in judgements),
        unrefuted=sum(each.state is Proved.NOT_REFUTED for each in judgements),
        covered=sum(each.sum is Sum.COVERS for each in judgements),
        lacking=sum(each.lacks_power for each in judgements),
        wide=sum(each.sum is Sum.WIDE for each in judgements),
    )
