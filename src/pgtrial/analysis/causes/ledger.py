"""What limits an arm, from runs in which its times are longer: an elasticity for each, and what is missing from one."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.effects.attempts import find_excess
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.large import refuse_large
from pgtrial.analysis.observations import Values, index_values, observe_runs
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.design.limits import log_time
from pgtrial.errors import SpecError, StoreError
from pgtrial.experiment_file.experiment import MEMORY, TIMES
from pgtrial.findings.message import Message, Value, message
from pgtrial.findings.questions import Ledger, LedgerEntry
from pgtrial.findings.record import ALL, Estimate
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.knobs.slowdown import SLOWDOWN
from pgtrial.knobs.workload import PAUSES, WORKLOAD
from pgtrial.nearest import hint_name
from pgtrial.stats.elasticity import Elasticities, fit_elasticities, predict_log_ratio
from pgtrial.stats.interval import ratio_of

CONFIDENCE = 0.9  # of predictions
_SURE = 0.05  # probability of being wrong, of what is said in words
_LESS = 0.9  # of a time, in the sentence about what less of it buys
_ROUNDED = 0.01  # by which the logarithm of a factor may be off that of the step
_NEVER_VARIED = ("network", PAUSES, "wake-ups", "locks", "whole-pages", "autovacuum")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """``ratio``: of the arm's throughput after a change to before it; no bounds where one block is all there is.
    ``beyond``: by the short name of a resource that is changed by more than was tried, the step that was. ``fits``: as
    of the ledger.
    """

    arm: str
    ratio: Estimate
    beyond: Mapping[str, float]
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Points:
    """What was measured: logarithms of times (arms, resources), and of throughput (blocks, arms)."""

    resources: tuple[str, ...]
    log_times: NDArray[np.float64]
    log_throughput: NDArray[np.float64]

    @property
    def are_times(self) -> NDArray[np.bool_]:
        return np.array([name not in MEMORY for name in self.resources])

    @property
    def steps(self) -> NDArray[np.float64]:
        """How many times as long each time was made, or as small the memory."""
        return np.asarray(np.exp(np.ptp(self.log_times, axis=0)))

    def fit(self, confidence: float) -> Elasticities:
        return fit_elasticities(self.log_times, self.log_throughput, confidence=confidence, are_times=self.are_times)

    def predict(self, factors: NDArray[np.float64]) -> Estimate:
        """Ratio of throughput, where a time is so many times as long, or memory as large."""
        change = np.log(factors) * np.where(self.are_times, 1, -1)
        return predict_log_ratio(
            self.log_times, self.log_throughput, change, confidence=CONFIDENCE, are_times=self.are_times
        ).mapped(ratio_of)


def keep_ledger(evidence: Evidence, values: Values) -> Ledger | None:
    """None where the file is not that of one, or no block is complete."""
    asked = evidence.experiment.limits
    if asked is None or asked.of is None:
        return None
    points = _read_points(evidence, values, asked.resources)
    if points is None:
        return None
    fitted = points.fit(evidence.confidence)
    found = sorted(
        (
            LedgerEntry(resource=name, name=message(f"slowed.{name}"), step=float(step), elasticity=each)
            for name, step, each in zip(asked.resources, points.steps, fitted.each, strict=True)
        ),
        key=lambda entry: -entry.elasticity.value,
    )
    entries = [entry for entry in found if entry.resource not in MEMORY]
    memory = tuple(entry for entry in found if entry.resource in MEMORY)
    excesses = [find_excess(evidence, arm.name) for arm in evidence.arms if arm != evidence.control]
    fails = evidence.rules.bears_failures and any(each is not None and each.decides for each in excesses)
    leads = fitted.lead_p is not None and fitted.lead_p < _SURE and not fails
    if leads and fitted.total.side(neutral=1.0) > 0 and len(entries) > 1:
        leads = is_larger_without_excess(entries[0].elasticity, entries[1].elasticity, fitted.total)
    fits = _fits(fitted)
    less = np.array([_LESS if name == entries[0].resource else 1.0 for name in asked.resources])
    return Ledger(
        of=asked.of,
        metric=evidence.load.throughput.name,
        blocks=fitted.blocks,
        confidence=evidence.confidence,
        entries=tuple(entries),
        memory=memory,
        total=fitted.total,
        rest=_less_one(fitted.total),
        leads=leads,
        fits=fits,
        not_varied=tuple(_not_varied(asked.resources)),
        text=_tell(
            asked.of,
            entries,
            memory,
            fitted.total,
            saved=points.predict(less).value,
            leads=leads,
            fits=fits,
            fails=fails,
        ),
    )


def is_the_largest(ledger: Ledger) -> bool:
    """Whether throughput surely owes something to the first of the ledger, more than to the second, and more than to
    all that was not varied.
    """
    return ledger.leads and _exceeds(ledger.entries[0].elasticity, ledger.rest)


def is_larger_without_excess(one: Estimate, other: Estimate, total: Estimate) -> bool:
    """Whether one is surely the larger, by intervals that hold together, even if all by which the sum surely exceeds 1
    is an error of this one alone.
    """
    excess = total.high - 1 if total.high is not None and total.side(neutral=1.0) > 0 else 0.0
    return one.low is not None and other.high is not None and one.low - excess > other.high


def _exceeds(one: Estimate, rest: Estimate) -> bool:
    return one.side() > 0 and one.low is not None and rest.high is not None and one.low > rest.high


def predict_change(folder: Path, factors: Mapping[str, float]) -> Prediction:
    """What a change of times brings to the arm of a ledger, from the folder of its experiment.

    ``factors``: by the short name of a resource, how many times as long its time is, or as large the memory. SpecError
    for a name that the ledger does not have, StoreError for a folder without a ledger.
    """
    evidence = read_evidence(folder)
    refuse_large(evidence)
    asked = evidence.experiment.limits
    values = index_values(observe_runs(evidence, reduce_runs(evidence)))
    points = None
    if asked is not None and asked.of is not None:
        points = _read_points(evidence, values, asked.resources)
    if asked is None or asked.of is None or points is None:
        raise StoreError(
            f'"{folder}" has no ledger to predict from',
            hint='Make one with "pgtrial limits FILE"; it takes a whole block at least.',
        )
    names = [name.partition(".")[2] for name in asked.resources]
    for name in factors:
        if name not in names:
            raise SpecError(f'the ledger has no "{name}"', hint=hint_name(name, names, what="It has"))
    steps = dict(zip(names, points.steps, strict=True))
    return Prediction(
        arm=asked.of,
        ratio=points.predict(np.array([factors.get(name, 1.0) for name in names])),
        beyond={
            name: float(steps[name])
            for name, factor in factors.items()
            if abs(math.log(factor)) > math.log(steps[name]) * (1 + _ROUNDED)
        },
        fits=_fits(points.fit(evidence.confidence)),
    )


def _fits(fitted: Elasticities) -> bool:
    return fitted.misfit_p is None or fitted.misfit_p >= _SURE


def _read_points(evidence: Evidence, values: Values, resources: tuple[str, ...]) -> _Points | None:
    """None without a whole block, and where the arms do not tell the resources apart."""
    log_times, throughput = _read_times(evidence, resources), _read_throughput(evidence, values)
    if throughput is None or np.linalg.matrix_rank(log_times - log_times.mean(axis=0)) < log_times.shape[1]:
        return None
    return _Points(resources=resources, log_times=log_times, log_throughput=throughput)


def _read_throughput(evidence: Evidence, values: Values) -> NDArray[np.float64] | None:
    """(blocks, arms): logarithms, of the blocks in which every arm has some; None without any."""
    name, rows = evidence.load.throughput.name, []
    runs = {(run.slot.block, run.slot.arm): run.id for run in evidence.valid}
    for block in evidence.complete_blocks():
        row = [values.get((runs[block, arm.name], name, None, ALL), 0.0) for arm in evidence.arms]
        if min(row) > 0:
            rows.append([math.log(value) for value in row])
    return np.array(rows) if rows else None


def _read_times(evidence: Evidence, resources: tuple[str, ...]) -> NDArray[np.float64]:
    """(arms, resources): logarithms of times, up to a constant of each resource."""
    names = [name.partition(".") for name in resources]
    tables = [{**arm.knobs, POSTGRESQL: arm.settings} for arm in evidence.arms]
    return np.array([[log_time(knob, table[knob][key]) for knob, _, key in names] for table in tables])


def _less_one(total: Estimate) -> Estimate:
    low, high = total.high, total.low
    return Estimate(
        value=1 - total.value, low=None if low is None else 1 - low, high=None if high is None else 1 - high
    )


def _not_varied(resources: tuple[str, ...]) -> Iterator[Message]:
    for name in TIMES:
        if name.startswith(f"{SLOWDOWN}.") and name not in resources:
            yield message("not-slowed.left-out", name=message(f"slowed.{name}"))
    if not set(MEMORY) & set(resources):
        yield message("not-slowed.memory")
    for name in _NEVER_VARIED:
        are_varied = name == PAUSES and f"{WORKLOAD}.{PAUSES}" in resources
        yield message("not-slowed.sleeping" if are_varied else f"not-slowed.{name}")


def _tell(
    arm: str,
    entries: list[LedgerEntry],
    memory: tuple[LedgerEntry, ...],
    total: Estimate,
    *,
    saved: float,
    leads: bool,
    fits: bool,
    fails: bool,
) -> Message:
    parts = [message("ledger.fails")] if fails else []
    for entry in memory:
        code = {1: "ledger.memory", 0: "ledger.no-memory", -1: "ledger.too-much"}[entry.elasticity.side()]
        parts.append(message(code, name=entry.name, elasticity=entry.elasticity.value))
    first, *others = entries
    values: dict[str, Value] = {"arm": arm, "name": first.name, "elasticity": first.elasticity.value}
    if first.elasticity.side() <= 0:
        parts.append(message("ledger.nothing", arm=arm))
    elif leads or not others:
        is_largest = _exceeds(first.elasticity, _less_one(total))
        parts.append(message("ledger.leads" if is_largest else "ledger.leads-of-varied", **values))
        parts.append(message("ledger.buys", ratio=saved))
        if others and others[0].elasticity.side() > 0:
            parts.append(message("ledger.next", name=others[0].name, elasticity=others[0].elasticity.value))
    else:
        second = others[0]
        other = second.elasticity.value
        parts.append(message("ledger.undecided", **values, second=second.name, other=other))
    parts.append(_tell_total(total))
    if not fits:
        parts.append(message("ledger.kink"))
    return message("sentences", parts=tuple(parts))


def _tell_total(total: Estimate) -> Message:
    if total.low is None:
        return message("ledger.no-interval", total=total.value)
    code = {0: "whole", 1: "more", -1: "less"}[total.side(neutral=1.0)]
    values: dict[str, Value] = {"total": total.value, "low": total.low, "high": total.high}
    if code == "less":
        values["rest"] = 1 - total.value
    return message(f"ledger.{code}", **values)
