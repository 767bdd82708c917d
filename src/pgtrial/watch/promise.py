"""Whether a change in production brought what an experiment had promised of it.

An experiment's effect is that of its load on its machine; what it promises of the next time is wider than the interval
of its mean: the prediction interval of one more block like its own (Hahn & Meeker, "Statistical intervals", 1991,
section 4.2.1, on the log scale). Against it stands what the server did before and after. Latency is compared with the
time at work per commit; a throughput is one of as many clients as before, so latency is its inverse (Little's law).
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pgtrial.analysis.analyze import analyze
from pgtrial.errors import SpecError
from pgtrial.model.verdict import Verdict
from pgtrial.report.words import change_text, interval_text, primary_effect
from pgtrial.stats.interval import ratio_of, t_quantile
from pgtrial.watch.rows import CONFIDENCE, Row

LATENCY, THROUGHPUT = "pgbench.latency_mean", "pgbench.tps"


class Outcome(StrEnum):
    KEPT = "kept"
    MORE = "more"  # than was promised
    LESS = "less"  # or nothing, or the contrary
    OPEN = "open"  # the windows are too short, or too noisy


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """Ratio of the time of a transaction, after by before: the effect with its interval, ``mean_low`` to ``mean_high``,
    and the experiment's own ``blocks``; ``low`` to ``high`` is where one more of them would lie.
    """

    experiment: str
    arm: str
    verdict: Verdict
    provisional: bool
    ratio: float
    mean_low: float
    mean_high: float
    low: float
    high: float
    blocks: tuple[float, ...]


def read_promise(folder: Path) -> Promise:
    """What the claimed effect of a result folder promises. Raises StoreError, and SpecError where that is nothing."""
    findings = analyze(folder)
    effect, asked = primary_effect(findings), findings.hypothesis
    if effect is None or effect.metric not in (LATENCY, THROUGHPUT) or effect.scenario is not None:
        raise SpecError(
            f'"{folder}" has no effect on the load as a whole',
            hint=f"A promise is one of {LATENCY} or {THROUGHPUT} of all scenarios together.",
        )
    if asked.verdict is Verdict.INVALID:
        raise SpecError(f'the experiment in "{folder}" is invalid: it promises nothing')
    if effect.ratio is None or effect.log_error is None or effect.degrees is None:
        raise SpecError(f'"{folder}" has too few blocks to promise anything')
    if effect.low is None or effect.high is None or effect.low <= 1 <= effect.high:
        raise SpecError(
            f'the experiment in "{folder}" promises nothing: its interval includes no difference',
            hint='"pgtrial suggest" says how many blocks it needs.',
        )
    blocks = [math.log(each) for each in effect.block_ratios if each is not None]
    half = t_quantile((1 + CONFIDENCE) / 2, float(effect.degrees)) * effect.log_error * math.sqrt(len(blocks) + 1)
    sign = -1 if effect.metric == THROUGHPUT else 1
    log = sign * math.log(effect.ratio)
    mean_low, mean_high = sorted(sign * math.log(end) for end in (effect.low, effect.high))
    return Promise(
        experiment=findings.experiment.name,
        arm=effect.arm,
        verdict=asked.verdict,
        provisional=asked.provisional,
        ratio=ratio_of(log),
        mean_low=ratio_of(mean_low),
        mean_high=ratio_of(mean_high),
        low=ratio_of(log - half),
        high=ratio_of(log + half),
        blocks=tuple(ratio_of(sign * each) for each in blocks),
    )


def judge(promise: Promise, time: Row) -> Outcome:
    """``time`` is the time at work per commit from before the change to after it, as a ratio."""
    if time.low is None or time.high is None:
        return Outcome.OPEN
    is_beyond, is_short = time.high < promise.low, time.low > promise.high
    if promise.ratio > 1:
        is_beyond, is_short = is_short, is_beyond
    if is_short:
        return Outcome.LESS
    if time.side != (1 if promise.ratio > 1 else -1):
        return Outcome.OPEN
    return Outcome.MORE if is_beyond else Outcome.KEPT


_WORDS = {
    Outcome.KEPT: "It brought what was promised.",
    Outcome.MORE: "It brought more than was promised.",
    Outcome.LESS: "It did not bring what was promised.",
    Outcome.OPEN: "Whether it brought that is not known: the interval includes no difference, or there is none. "
    "Longer windows tell more.",
}


def promise_lines(promise: Promise, time: Row) -> tuple[str, ...]:
    """What was promised, what came, and whether that is it."""
    verdict = f"{promise.verdict}{', provisionally' if promise.provisional else ''}"
    came = "not known" if time.change is None else change_text(time.change, time.low, time.high)
    interval = "not known" if time.low is None else interval_text(time.low, time.high, time.change)
    promised = change_text(promise.ratio, promise.low, promise.high)
    one_more = interval_text(promise.low, promise.high, promise.ratio)
    who = f"{promise.experiment}, arm {promise.arm} ({verdict})"
    return (
        f"Promised by {who}: time of a transaction {promised} (one more block: {one_more}).",
        f"From A to B the time at work per commit changed by {came} (interval {interval}).",
        f"{_WORDS[judge(promise, time)]} The windows differ in more than the change.",
    )
