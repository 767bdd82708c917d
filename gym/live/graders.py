"""What other graders say of the runs of these experiments, beside pgtrial. No files; Otava is asked through a pipe."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gym.contenders import CONTENDERS
from gym.contenders.base import Plain
from gym.contenders.otava import Otava, is_installed
from gym.live.plan import Kind
from gym.live.record import Record
from gym.live.scoring import Count, Finding, Truth, true_log

METHOD = "blocks"  # by which a run has the machine to itself, which is what the others are made for


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """How often a grader was right. ``runs``: of each arm, at most. ``covered``: None where it has no interval."""

    name: str
    runs: int
    alarms: Count
    found: Count
    wrong_sign: Count
    covered: Count | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """``direction`` of treated against control: 1 faster, -1 slower, 0 nothing is said. ``interval`` of the ratio."""

    runs: int
    direction: int
    interval: tuple[float, float] | None = None


def grade(records: Sequence[Record], truths: Mapping[str, Truth]) -> list[Grade]:
    """Of pgtrial, as the records have it, and of each other contender that is installed, on the same runs.

    Experiments by METHOD count that were judged, whose truth is known and whose runs were kept; no grades without one.
    """
    asked = [
        (record, truth)
        for record in records
        if record.method == METHOD and record.is_judged and record.runs
        if (truth := true_log(record, truths)) is not None
    ]
    if not asked:
        return []
    return [
        _grade("pgtrial", [(_concluded(record), record.kind, truth) for record, truth in asked]),
        *(
            _grade(other.name, [(_ask(other, record), record.kind, truth) for record, truth in asked])
            for other in _others()
        ),
    ]


def runs_by_arm(record: Record) -> tuple[list[float], list[float]]:
    """Throughput of control and treated in the order of time, in the blocks in which both have a complete run."""
    control, treated = (
        {run.block: run.throughput for run in record.runs if run.arm == arm} for arm in ("control", "treated")
    )
    return [value for block, value in control.items() if block in treated], [
        value for block, value in treated.items() if block in control
    ]


def _others() -> Iterator[Plain]:
    for contender in CONTENDERS:
        if isinstance(contender, Plain) and (is_installed() or not isinstance(contender, Otava)):
            yield contender


def _concluded(record: Record) -> _Said:
    found = Finding.of(record)
    assert found is not None  # it is judged
    interval = math.exp(found.low), math.exp(found.high)
    return _Said(runs=len(runs_by_arm(record)[0]), direction=found.sign, interval=interval)


def _ask(contender: Plain, record: Record) -> _Said:
    """On as many of the first runs as the largest of its sizes that there are, or on all if there are fewer."""
    control, treated = (np.array([side]) for side in runs_by_arm(record))
    runs = control.shape[1]
    runs = max((size for size in contender.sizes if size <= runs), default=runs)
    answer = contender.answer(control[:, :runs], treated[:, :runs])
    bounds = [float(bound[0]) for bound in (answer.low, answer.high) if bound is not None]
    return _Said(runs=runs, direction=int(answer.direction[0]), interval=(bounds[0], bounds[1]) if bounds else None)


def _grade(name: str, answers: Sequence[tuple[_Said, Kind, float]]) -> Grade:
    null = [said.direction for said, kind, _ in answers if kind is Kind.NULL]
    planted = [said.direction * truth for said, kind, truth in answers if kind is Kind.PLANTED]
    covers = [
        said.interval[0] <= math.exp(truth) <= said.interval[1]
        for said, _, truth in answers
        if said.interval is not None
    ]
    return Grade(
        name=name,
        runs=max(said.runs for said, _, _ in answers),
        alarms=Count(count=sum(direction != 0 for direction in null), of=len(null)),
        found=Count(count=sum(signed > 0 for signed in planted), of=len(planted)),
        wrong_sign=Count(count=sum(signed < 0 for signed in planted), of=len(planted)),
        covered=Count(count=sum(covers), of=len(covers)) if covers else None,
    )
