"""Records against the truth: counts, and what they say of the rates behind them. No input, no output."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from scipy.stats import beta, kstest, t

from gym.live.experiment import PLANTED
from gym.live.plan import METHODS, PGBENCH, Kind
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
    """What a little more work is in throughput, by one method: log of the ratio burdened / unburdened, with its error.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The effect that an experiment found, as the log of treated / control, with its interval."""

    log: float
    low: float
    high: float
    error: float
    degrees: int

    @classmethod
    def of(cls, record: Record) -> "Finding | None":
        """None where it found none."""
        ratio, low, high, error, degrees = record.ratio, record.low, record.high, record.error, record.degrees
        if ratio is None or low is None or high is None or error is None or degrees is None:
            return None
        return cls(log=math.log(ratio), low=math.log(low), high=math.log(high), error=error, degrees=degrees)

    @property
    def sign(self) -> int:
        """What the interval says of the treated arm: 1 faster, -1 slower, 0 neither."""
        return 1 if self.low > 0 else -1 if self.high < 0 else 0

    def covers(self, truth: float, level: float) -> bool:
        """At the level of the experiment it is the interval that it told; at others, one of the same error."""
        if level == CONFIDENCE:
            return self.low <= truth <= self.high
        return abs(self.log - truth) <= t_quantile((1 + level) / 2, self.degrees) * self.error

    def place(self, truth: float) -> float:
        """Where the error stands in its distribution: uniform from 0 to 1 if that is right."""
        return float(t.cdf((self.log - truth) / self.error, self.degrees))

    def power(self, effect: float) -> float:
        """To find such an effect with this error."""
        return find_power(effect / self.error, degrees=self.degrees, alpha=1 - CONFIDENCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    record: Record
    found: Finding
    truth: float


def find_truths(records: Sequence[Record], load: str = PGBENCH) -> dict[str, Truth]:
    """By method, as far as the experiments with an idle arm are there."""
    truths, more = {}, PLANTED[load]
    for method in METHODS:
        idle = _first(records, Kind.IDLE, method)
        if idle is None:
            continue
        double = _first(records, Kind.DOUBLE, method)
        fixed = math.exp(-idle.log)
        truths[method] = Truth(
            method=method,
            fixed=fixed,
            planted=-math.log1p(more * (1 - fixed)),
            error=more * fixed * idle.error,
            double=-math.log1p(1 - fixed),
            measured=None if double is None else (double.log, double.low, double.high),
        )
    return truths


def _first(records: Sequence[Record], kind: Kind, method: str) -> Finding | None:
    found = (Finding.of(each) for each in records if (each.kind, each.method) == (kind, method))
    return next((each for each in found if each is not None), None)


def true_log(record: Record, truths: Mapping[str, Truth]) -> float | None:
    """Log of treated / control in truth; None where it is not known."""
    if record.kind is Kind.NULL:
        return 0.0
    if record.kind is not Kind.PLANTED or record.method not in truths:
        return None
    planted = truths[record.method].planted
    return planted if record.burdened == "treated" else -planted


def score(records: Sequence[Record], truths: Mapping[str, Truth], method: str = "all") -> Score | None:
    """The score of one method, or of all together; None where there is no experiment to judge.

    Planted work counts only where its truth is known.
    """
    known = [
        (each, Finding.of(each), truth)
        for each in records
        if method in ("all", each.method) and (truth := true_log(each, truths)) is not None
    ]
    judged = [_Judged(record=each, found=found, truth=truth) for each, found, truth in known if found is not None]
    if not judged:
        return None
    null = [each for each in judged if each.record.kind is Kind.NULL]
    planted = [each for each in judged if each.record.kind is Kind.PLANTED]
    signs = [each.found.sign * math.copysign(1, each.truth) for each in planted]
    powers = [each.found.power(truths[each.record.method].planted) for each in judged if each.record.method in truths]
    return Score(
        method=method,
        null=len(null),
        planted=len(planted),
        lost=len(known) - len(judged),
        alarms=Count(count=sum(each.found.sign != 0 for each in null), of=len(null)),
        supported_null=_verdicts(null, "supported"),
        covered=tuple(
            Count(count=sum(each.found.covers(each.truth, level) for each in judged), of=len(judged))
            for level in LEVELS
        ),
        found=Count(count=sum(sign > 0 for sign in signs), of=len(planted)),
        wrong_sign=Count(count=sum(sign < 0 for sign in signs), of=len(planted)),
        supported=_verdicts(planted, "supported"),
        refuted=_verdicts(planted, "refuted"),
        expected=sum(powers) / len(powers) if powers else math.nan,
        half_width=math.expm1(median((each.found.high - each.found.low) / 2 for each in judged)),
        minutes=sum(each.record.seconds for each in judged) / len(judged) / 60,
        uniform=float(kstest([each.found.place(each.truth) for each in judged], "uniform").pvalue),
    )


def _verdicts(judged: Sequence[_Judged], verdict: str) -> Count:
    return Count(count=sum(each.record.verdict == verdict for each in judged), of=len(judged))
