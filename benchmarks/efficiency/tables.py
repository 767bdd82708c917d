"""From raw results to tables: what each contender concluded, how wrong it was, how long it would have to test."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from contenders import CONFIDENCE, CONTENDERS, Array, Contender, blocks, mean_of_three
from laboratory import Counted
from records import Records, Trial, select, session_ratios, slice_pairs, tps
from scipy.stats import binom, f
from segments import (
    ASYNC,
    BURSTY_CASES,
    CONTROL,
    COPY,
    DUET,
    INTERLEAVED,
    LONG,
    QUIET_CASES,
    SESSIONS,
    SLOWER_5,
    SLOWER_10,
    TWICE,
)

from pgtrial.stats.interval import mean_and_sd, t_interval
from pgtrial.stats.slices import PARTS, carry_over, compare_spread

PARTS_OF_TEST = {"quiet": QUIET_CASES, "bursty": BURSTY_CASES}
CASE_NAMES = {COPY: "A/A", SLOWER_5: "5 % slower", SLOWER_10: "10 % slower", ASYNC: "synchronous_commit off"}
POWER = 0.9
_RESAMPLES = 300
_LONGEST = 3600.0  # s of load that are tried
_REGROUPINGS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Log ratio of a case with its standard error, and where it comes from."""

    value: float
    error: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A contender in a case. ``minutes`` are those to 90 % detection, None where an hour is not enough."""

    contender: Contender
    case: str
    count: int
    found: int
    error: float
    covered: int | None
    minutes: float | None
    log_ratios: Array


def find_truths(records: Records) -> dict[str, Truth]:
    """By construction where transactions do extra work; of synchronous_commit the mean of the long turns, for in a
    duet the two share a disk that decides.
    """
    value, error = _mean(session_ratios(records.part("truth"), INTERLEAVED, ASYNC))
    by_construction = {COPY: 0.0, **{case: -math.log1p(1 / twice) for case, twice in TWICE.items()}}
    return {
        **{case: Truth(value=known, error=0.0, source="by construction") for case, known in by_construction.items()},
        ASYNC: Truth(value=value, error=error, source=INTERLEAVED),
    }


def _mean(values: Array) -> tuple[float, float]:
    mean, sd = mean_and_sd(values)
    return mean, sd / math.sqrt(values.size)


def score(contender: Contender, case: str, trials: Sequence[Trial], truth: float, seconds: float) -> Score:
    """``truth`` is the log ratio, ``seconds`` the wall time of a trial."""
    found = [contender.conclude(*trial.stream(contender.stream)) for trial in trials]
    intervals = [(each.low, each.high) for each in found if each.low is not None and each.high is not None]
    ratio = math.exp(truth)
    return Score(
        contender=contender,
        case=case,
        count=len(found),
        found=sum(each.found for each in found),
        error=float(np.median([abs(each.ratio / ratio - 1) for each in found])),
        covered=sum(low <= ratio <= high for low, high in intervals) if intervals else None,
        minutes=None if case == COPY else minutes_to_detection(contender, trials, truth, seconds),
        log_ratios=np.log([max(each.ratio, 1e-9) for each in found]),
    )


def minutes_to_detection(contender: Contender, trials: Sequence[Trial], truth: float, seconds: float) -> float | None:
    """Load until a difference is found in 90 % of experiments, which are put together out of the measured ones.

    What has one number per session is drawn session by session, with replacement; what is one run after the other is
    drawn repetition by repetition, each piece the mean of those drawn, as if the runs had been so many times as long.
    That is kind to the latter: noise that lasts for minutes averages out in it as it would not in one long run. The
    mean of all that is drawn from is put to the truth before: its own error would become certain with repeating.
    """
    pairs = [trial.stream(contender.stream) for trial in trials]
    control, treated = (np.stack([pair[i] for pair in pairs]) for i in (0, 1))
    pooled = contender.stream == "contiguous"
    if not pooled:
        control, treated = control.reshape(-1, 1), treated.reshape(-1, 1)
    treated = treated * math.exp(truth - float(np.log(treated.mean(axis=1) / control.mean(axis=1)).mean()))
    step = 1 if pooled or contender.conclude is not mean_of_three else SESSIONS
    unit = seconds if pooled else step * seconds / SESSIONS
    least = 1 if pooled or step > 1 else 2

    def is_enough(count: int) -> bool:
        rng = np.random.default_rng(count)
        found = 0
        for _ in range(_RESAMPLES):
            drawn = rng.integers(len(control), size=count * step)
            one, other = ((each[drawn].mean(axis=0) if pooled else each[drawn].ravel()) for each in (control, treated))
            found += contender.conclude(one, other).found
        return found >= POWER * _RESAMPLES

    needed = first_true(is_enough, least, int(_LONGEST / unit))
    return None if needed is None else needed * unit / 60


def first_true(holds: Callable[[int], bool], least: int, most: int) -> int | None:
    """The smallest number from ``least`` to ``most`` for which it holds, which then holds for all larger ones."""
    low, high = least, least
    while not holds(high):
        if high >= most:
            return None
        low, high = high + 1, min(most, 2 * high)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high


def regrouped_misses(trials: Iterable[Trial], stream: str, truth: float) -> float:
    """Share of intervals without the truth when all sessions are put into repetitions anew, at random."""
    pairs = [trial.stream(stream) for trial in trials]
    control, treated = (np.concatenate([pair[i] for pair in pairs]) for i in (0, 1))
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(_REGROUPINGS):
        for group in rng.permutation(control.size).reshape(-1, SESSIONS):
            found = blocks(control[group], treated[group])
            assert found.low is not None  # blocks() gives an interval
            assert found.high is not None
            missed += not found.low <= math.exp(truth) <= found.high
    return missed / (_REGROUPINGS * control.size / SESSIONS)


def gain(one: Sequence[Array], other: Sequence[Array]) -> tuple[float, float, float]:
    """How many times the testing time of ``other`` ``one`` needs for the same width: ratio of variances, with its 90 %
    interval by the F distribution. Each has the log ratios of the same wall time, one array per case.
    """
    return _variance_ratio(*_within(one), *_within(other))


def _variance_ratio(one: float, degrees: float, other: float, others: float) -> tuple[float, float, float]:
    ratio = one / other
    return ratio, ratio / float(f.ppf(0.95, degrees, others)), ratio / float(f.ppf(0.05, degrees, others))


def _within(groups: Sequence[Array]) -> tuple[float, int]:
    degrees = sum(group.size - 1 for group in groups)
    return sum(float(((group - group.mean()) ** 2).sum()) for group in groups) / degrees, degrees


def render(records: Records) -> str:
    """All tables as Markdown."""
    if len(records.part("truth")) < 2:
        return "The true sizes are not known before two sessions have been played."
    seconds = records.header["seconds"]
    truths = find_truths(records)
    text = [_truth_table(records, truths)]
    for part, cases in PARTS_OF_TEST.items():
        trials = {case: records.trials(part, case) for case in cases}
        if min(len(each) for each in trials.values()) < 2:
            continue
        scores = [
            score(contender, case, trials[case], truths[case].value, seconds)
            for contender in CONTENDERS
            for case in cases
        ]
        text += [
            f"## {part}: {len(trials[COPY])} repetitions of {seconds:g} s of load for each contender and case",
            _summary(scores, trials, truths, seconds),
            *(_case_table(case, [each for each in scores if each.case == case], seconds) for case in cases),
            _noise_table(records, part, cases),
            _long_table(
                records,
                part,
                {
                    method: [each.log_ratios for each in scores if each.contender.stream == method]
                    for method in (INTERLEAVED, DUET)
                },
                seconds,
            ),
        ]
    return "\n\n".join(filter(None, text))


def _truth_table(records: Records, truths: dict[str, Truth]) -> str:
    rows = []
    for case, truth in truths.items():
        long = [
            "–" if case == COPY else _with_error(*_mean(session_ratios(records.part("truth"), method, case)))
            for method in (DUET, INTERLEAVED)
        ]
        rows.append([CASE_NAMES[case], *long, _with_error(truth.value, truth.error), truth.source])
    return "## True sizes\n\n" + _table(["case", "long duet", "long interleaved", "taken", "from"], rows)


def _summary(scores: Sequence[Score], trials: dict[str, list[Trial]], truths: dict[str, Truth], seconds: float) -> str:
    rows = []
    one_run = [each.log_ratios for each in scores if each.contender is CONTENDERS[0]]
    for contender in CONTENDERS:
        own = [each for each in scores if each.contender is contender]
        log_ratios = [each.log_ratios for each in own]
        alarms = next(each for each in own if each.case == COPY)
        covered = [each.covered for each in own if each.covered is not None]
        intervals = sum(each.count for each in own)
        missed = (
            "–"
            if contender.conclude is not blocks
            else _percent(
                float(
                    np.mean(
                        [regrouped_misses(trials[each.case], contender.stream, truths[each.case].value) for each in own]
                    )
                )
            )
        )
        ratio, low, high = gain(one_run, log_ratios)
        rows.append(
            [
                contender.name,
                f"{alarms.found}/{alarms.count}",
                f"{sum(covered)}/{intervals}" if covered else "–",
                missed,
                f"{math.sqrt(_within(log_ratios)[0] * seconds / 60):.4f}",
                "1" if contender is CONTENDERS[0] else f"{ratio:.1f} ({low:.1f} to {high:.1f})",
            ]
        )
    count = len(trials[COPY])
    bound = int(binom.ppf(0.999, count, 1 - CONFIDENCE))
    note = f"Up to {bound} false alarms in {count} are within chance (99.9 %) for a test that gives 5 %."
    head = [
        "contender",
        "false alarms",
        "covered",
        "missed, regrouped",
        "SD per minute",
        "testing time of one run / own",
    ]
    return f"{_table(head, rows)}\n\n{note}"


def _case_table(case: str, scores: Sequence[Score], seconds: float) -> str:
    rows = [
        [
            each.contender.name,
            f"{each.found}/{each.count}",
            _percent(each.error),
            "–" if each.covered is None else f"{each.covered}/{each.count}",
            "–" if case == COPY else "> 60" if each.minutes is None else f"{each.minutes:.1f}",
            f"{math.sqrt(_within([each.log_ratios])[0] * seconds / 60):.4f}",
            _together(each.log_ratios),
        ]
        for each in scores
    ]
    found = "false alarms" if case == COPY else "found"
    head = ["contender", found, "median error", "covered", "minutes to 90 %", "SD per minute", "all together"]
    return f"### {CASE_NAMES[case]}\n\n{_table(head, rows)}"


def _together(log_ratios: Array) -> str:
    mean, sd = mean_and_sd(log_ratios)
    interval = t_interval(mean, sd, log_ratios.size, confidence=CONFIDENCE)
    return f"{math.exp(mean):.4f} ({math.exp(interval.low):.4f} to {math.exp(interval.high):.4f})"


def _noise_table(records: Records, part: str, cases: Sequence[str]) -> str:
    """Where the noise of the interleaved contender comes from."""
    rows = []
    for case in cases:
        sessions = records.part(part)
        spread = compare_spread(np.array([slice_pairs(rows_of, case) for rows_of in sessions]))
        quarters = [
            np.array(
                [np.sum([row.counts for row in select(each, INTERLEAVED, case, arm)], axis=0) for each in sessions]
            )
            for arm in (CONTROL, case)
        ]
        leak = carry_over(*(each.astype(np.float64) for each in quarters))
        total = sum(each.sum(axis=0) for each in quarters)
        rows.append(
            [
                CASE_NAMES[case],
                "–" if spread is None else f"{spread.expected:.4f}",
                "–" if spread is None else f"{spread.observed:.4f}",
                "–" if spread is None else f"{spread.p_value:.3f}",
                f"{leak.value:.3f} ({leak.low:.3f} to {leak.high:.3f})" if leak and leak.low and leak.high else "–",
                " ".join(f"{share:.3f}" for share in total / total.sum() * PARTS),
            ]
        )
    head = [
        "case",
        "SD of sessions by slices",
        "SD of sessions",
        "p",
        "ratio late / early in a slice",
        "throughput in the quarters of a slice",
    ]
    guard, length = records.header["guard"], records.header["slice"]
    return (
        f"### What limits the interleaved contender\n\n{_table(head, rows)}\n\n"
        f"Slices of {length:g} s, of which {guard:g} s are guard: {guard / length:.0%} of the load is not counted."
    )


def _long_table(records: Records, part: str, shared: Mapping[str, Sequence[Array]], seconds: float) -> str:
    """Noise of two neighbouring runs of the same configuration by the length of a run, beside that of the methods whose
    arms share a block's time (``shared``: log ratios by case).

    The runs overlap, each is compared with the one before and the one behind it: the variance is as sure as from two
    thirds as many that do not (von Neumann, Ann. Math. Statist. 12 (1941) 367-395).
    """
    played = [np.array([tps([row]) for row in _in_order(rows)]) for rows in records.part(f"{LONG}, {part}")]
    own = {method: _within(groups) for method, groups in shared.items()}
    rows = []
    for length in (1, 2, 5, 10, 15, 30):
        runs = [each[: each.size // length * length].reshape(-1, length).mean(axis=1) for each in played]
        ratios = np.concatenate([np.diff(np.log(each)) for each in runs]) if runs else np.array([])
        if ratios.size < 3:
            continue
        variance = float((ratios**2).mean()) * 2 * length / 60
        gains = (
            _variance_ratio(variance, ratios.size * 2 / 3, noise * seconds / 60, degrees)
            for noise, degrees in own.values()
        )
        rows.append(
            [
                f"{length}",
                f"{ratios.size}",
                f"{math.sqrt(float((ratios**2).mean())):.4f}",
                f"{math.sqrt(variance):.4f}",
                *(f"{ratio:.1f} ({low:.1f} to {high:.1f})" for ratio, low, high in gains),
            ]
        )
    head = [
        "seconds of a run",
        "neighbours",
        "SD of the log ratio",
        "SD per minute",
        *(f"testing time / {method}" for method in own),
    ]
    return "" if not rows else "### Two runs one after the other, by their length\n\n" + _table(head, rows)


def _in_order(rows: Sequence[Counted]) -> list[Counted]:
    return sorted(rows, key=lambda row: row.piece)


def _with_error(value: float, error: float) -> str:
    return f"{math.exp(value):.4f} ± {math.exp(value) * error:.4f}"


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
