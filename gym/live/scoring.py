"""Records against the truth: counts, and what they say of the rates behind them. No input, no output."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from scipy.stats import beta, kstest, t

from gym.live.experiment import PLANTED
from gym.live.plan import METHODS, Kind
from gym.live.record import Record
from pgtrial.stats.interval import t_quantile
from pgtrial.stats.power import find_power

CONFIDENCE = 0.95
LEVELS = (0.5, 0.8, 0.95)  # at which coverage is counted: few experiments say more of the middle than of the tail


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """``count`` of ``of`` experiments, and the exact interval of the share.

    Source: Clopper & Pearson, Biometrika 26 (1934) 404-413.
    """

    count: int
    of: int

    @property
    def share(self) -> float:
        return self.count / self.of

    @property
    def interval(self) -> tuple[float, float]:
        tail = (1 - CONFIDENCE) / 2
        low = float(beta.ppf(tail, self.count, self.of - self.count + 1)) if self.count else 0.0
        high = float(beta.ppf(1 - tail, self.count + 1, self.of - self.count)) if self.count < self.of else 1.0
        return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What 3 % more work is in throughput, by one method: log of the ratio burdened / unburdened, with its error.

    ``fixed`` is the share of a transaction's time that does not grow with its work. ``double`` is the log ratio that
    twice the work should have, ``measured`` the one that it had, with the bounds of its interval.
    """

    method: str
    fixed: float
    planted: float
    error: float
    double: float
    measured: tuple[float, float, float] | None = None

    @property
    def is_linear(self) -> bool | None:
        return None if self.measured is None else self.measured[1] <= self.double <= self.measured[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What a method said of experiments with a known answer. Those without an interval are in no rate.

    ``covered`` is by level of confidence, in the order of LEVELS. ``alarms`` and ``supported_null`` are of equal arms;
    ``found``, ``wrong_sign``, ``supported`` and ``refuted`` of planted work, which is more than the margin.
    ``expected`` is the mean power that the errors of all experiments give, ``half_width`` the median.
    """

    method: str
    null: int
    planted: int
    lost: int
    alarms: Count
    supported_null: Count
    covered: tuple[Count, ...]
    found: Count
    wrong_sign: Count
    supported: Count
    refuted: Count
    expected: float
    half_width: float
    minutes: float
    uniform: float  # p of Kolmogorov's test of the errors, in units of what they should be, against Student


def degrees_of(record: Record) -> int:
    """Degrees of freedom of the error: where arms run one after the other, what the place does is estimated too."""
    return len(record.blocks) - (2 if record.method == "blocks" else 1)


def find_truths(records: Sequence[Record]) -> dict[str, Truth]:
    """By method, as far as the experiments with an idle arm are there."""
    truths = {}
    for method in METHODS:
        idle = _first(records, Kind.IDLE, method)
        if idle is None or idle.ratio is None or idle.error is None:
            continue
        fixed = 1 / idle.ratio
        double = _first(records, Kind.DOUBLE, method)
        truths[method] = Truth(
            method=method,
            fixed=fixed,
            planted=-math.log1p(PLANTED * (1 - fixed)),
            error=PLANTED * fixed * idle.error,
            double=-math.log1p(1 - fixed),
            measured=_logs(double) if double is not None else None,
        )
    return truths


def _first(records: Sequence[Record], kind: Kind, method: str) -> Record | None:
    return next((each for each in records if (each.kind, each.method) == (kind, method) and each.is_judged), None)


def _logs(record: Record) -> tuple[float, float, float]:
    assert record.ratio is not None
    assert record.low is not None
    assert record.high is not None
    return math.log(record.ratio), math.log(record.low), math.log(record.high)


def true_log(record: Record, truths: dict[str, Truth]) -> float:
    """Log of treated / control in truth."""
    if record.kind is Kind.NULL:
        return 0.0
    planted = truths[record.method].planted
    return planted if record.burdened == "treated" else -planted


def score(records: Sequence[Record], truths: dict[str, Truth], method: str = "all") -> Score | None:
    """The score of one method, or of all together; None where there is no experiment to judge.

    Planted work counts only where its truth is known.
    """
    of_it = [each for each in records if method in ("all", each.method)]
    asked = [each for each in of_it if each.kind is Kind.NULL or (each.kind is Kind.PLANTED and each.method in truths)]
    judged = [each for each in asked if each.is_judged and each.error]
    if not judged:
        return None
    null = [each for each in judged if each.kind is Kind.NULL]
    planted = [each for each in judged if each.kind is Kind.PLANTED]
    signs = [said_sign(each) * math.copysign(1, true_log(each, truths)) for each in planted]
    return Score(
        method=method,
        null=len(null),
        planted=len(planted),
        lost=len(asked) - len(judged),
        alarms=Count(count=sum(said_sign(each) != 0 for each in null), of=len(null)),
        supported_null=Count(count=sum(each.verdict == "supported" for each in null), of=len(null)),
        covered=tuple(_coverage(judged, truths, level) for level in LEVELS),
        found=Count(count=sum(sign > 0 for sign in signs), of=len(planted)),
        wrong_sign=Count(count=sum(sign < 0 for sign in signs), of=len(planted)),
        supported=Count(count=sum(each.verdict == "supported" for each in planted), of=len(planted)),
        refuted=Count(count=sum(each.verdict == "refuted" for each in planted), of=len(planted)),
        expected=_expected_power(judged, truths),
        half_width=math.expm1(median((math.log(each.high or 1) - math.log(each.low or 1)) / 2 for each in judged)),
        minutes=sum(each.seconds for each in judged) / len(judged) / 60,
        uniform=float(kstest([_place(each, truths) for each in judged], "uniform").pvalue),
    )


def said_sign(record: Record) -> int:
    """What the interval says of the treated arm: 1 faster, -1 slower, 0 neither."""
    _, low, high = _logs(record)
    return 1 if low > 0 else -1 if high < 0 else 0


def _coverage(records: Sequence[Record], truths: dict[str, Truth], level: float) -> Count:
    """At the level of the experiment it is the interval that the findings have; at others, one of the same error."""
    covered = 0
    for each in records:
        middle, low, high = _logs(each)
        if level != CONFIDENCE:
            half = t_quantile((1 + level) / 2, degrees_of(each)) * (each.error or 0.0)
            low, high = middle - half, middle + half
        covered += low <= true_log(each, truths) <= high
    return Count(count=covered, of=len(records))


def _place(record: Record, truths: dict[str, Truth]) -> float:
    """Where the estimate's error stands in its distribution; uniform from 0 to 1 if that is right."""
    shift = (_logs(record)[0] - true_log(record, truths)) / (record.error or 1.0)
    return float(t.cdf(shift, degrees_of(record)))


def _expected_power(records: Sequence[Record], truths: dict[str, Truth]) -> float:
    """Power against the planted work, of the errors of all experiments: those of equal arms say as much of it."""
    known = [each for each in records if each.method in truths]
    if not known:
        return math.nan
    powers = [
        find_power(truths[each.method].planted / (each.error or 1.0), degrees=degrees_of(each), alpha=1 - CONFIDENCE)
        for each in known
    ]
    return sum(powers) / len(powers)
