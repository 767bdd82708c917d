"""Which calibrated method to use, and what each would detect in the experiment itself."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from pgtrial import __version__
from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.calibration.promise import (
    Calibration,
    Detectable,
    Forecast,
    MethodAdvice,
    MethodCalibration,
    shown_label,
)
from pgtrial.design.calibration import FEWEST_BLOCKS, CalibrationPlan, Candidate, with_method
from pgtrial.design.duration import MOST_BLOCKS, estimate_run
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.generate import AGAIN
from pgtrial.findings.caveat import CaveatFinding, caveat, prefix_words
from pgtrial.findings.findings import ArmSlices, Findings, RunFinding
from pgtrial.findings.record import ALL, Estimate
from pgtrial.model.caveat import Severity
from pgtrial.model.run import PhaseName, RunState
from pgtrial.stats.power import detectable_ratio
from pgtrial.stats.slices import average_estimates, detectable_in, pool_groups, sd_interval, sd_per_minute

TIMES = (600.0, 1800.0, 7200.0)  # s
POWER = 0.8
# A simpler and safer method is preferred to the quickest one if it takes at most this much longer, and if the noise of
# both cannot be told apart: what is saved below that is not worth what may be wrong with the other one.
MOST_EXTRA = 1.1


def forecast_method(
    *,
    sd: float,
    degrees: int,
    duration: float,
    calibrated: float,
    block_seconds: float,
    margin: float,
    confidence: float,
    comparisons: int,
) -> Forecast:
    """What blocks of ``block_seconds`` with runs of ``duration`` seconds find; ``sd`` was measured with ``degrees`` of
    freedom at a duration of ``calibrated``, and is taken to fall with the root of the duration.
    """
    sd *= math.sqrt(calibrated / duration)
    interval = sd_interval(sd, degrees, confidence=confidence)
    blocks = _blocks_for(sd, margin, confidence=confidence, comparisons=comparisons)
    return Forecast(
        duration=duration,
        block_seconds=block_seconds,
        sd_log_ratio=sd,
        sd_per_minute=sd_per_minute(sd, block_seconds),
        sd_per_minute_low=sd_per_minute(interval.low, block_seconds),
        sd_per_minute_high=sd_per_minute(interval.high, block_seconds),
        detectable=tuple(
            Detectable(
                seconds=seconds,
                change=detectable_in(
                    sd, block_seconds, seconds, confidence=confidence, power=POWER, comparisons=comparisons
                ),
            )
            for seconds in TIMES
        ),
        blocks=blocks,
        seconds=None if blocks is None else blocks * block_seconds,
    )


def recommend(methods: Sequence[MethodCalibration], *, margin: float) -> MethodAdvice:
    """The method that takes the fewest minutes to find the margin, or one that is as good and simpler.

    ``methods`` are at least one, the simplest first. Those with doubts are taken only if there is no other. Two are as
    good if the SD per minute of each lies inside the other's interval.
    """
    eligible = [one for one in methods if not one.doubtful] or list(methods)
    best = min(eligible, key=_cost)
    equals = [one for one in eligible if one is best or _are_alike(one.forecast, best.forecast)]
    chosen = next(one for one in equals if _cost(one) <= MOST_EXTRA * _cost(best))
    forecast = chosen.forecast
    if forecast.blocks is None or forecast.seconds is None:
        reason = "it has the least noise for its time, but no number of blocks would find the margin"
    elif chosen is best:
        reason = "it finds the margin in the shortest time"
    else:
        reason = f"it is simpler than {shown_label(best)}, and takes hardly longer"
    return MethodAdvice(
        label=chosen.label,
        method=chosen.method,
        slice=chosen.slice,
        blocks=forecast.blocks,
        seconds=forecast.seconds,
        as_good=tuple(one.label for one in eligible if one is not chosen and _are_alike(one.forecast, chosen.forecast)),
        reason=reason,
    )


def _cost(one: MethodCalibration) -> float:
    """What methods are ordered by: seconds to the margin; where none reaches it, those to any other one, which go with
    the square of the SD per minute.
    """
    if one.forecast.seconds is not None:
        return one.forecast.seconds
    return 1e12 * one.forecast.sd_per_minute**2


def _are_alike(one: Forecast, other: Forecast) -> bool:
    return (
        one.sd_per_minute_low <= other.sd_per_minute <= one.sd_per_minute_high
        and other.sd_per_minute_low <= one.sd_per_minute <= other.sd_per_minute_high
    )


def _blocks_for(sd: float, margin: float, *, confidence: float, comparisons: int) -> int | None:
    """The fewest blocks, FEWEST_BLOCKS at least, that find a change of ``margin``; None beyond MOST_BLOCKS."""

    def find(blocks: int) -> bool:
        found = detectable_ratio(sd, blocks, confidence=confidence, power=POWER, comparisons=comparisons)
        return found is not None and found <= margin

    low, high = FEWEST_BLOCKS, MOST_BLOCKS
    if not find(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if find(middle) else (middle + 1, high)
    return high


# Result folders of a control against itself -> a calibration.


def summarize_calibration(folder: Path, plan: CalibrationPlan, *, complete: bool, created: float) -> Calibration | None:
    """What the parts in a calibration's folder say; None as long as no method has FEWEST_BLOCKS blocks.

    Methods with fewer are left out. Raises StoreError.
    """
    found = [(one, _read_parts(folder, plan, one)) for one in plan.candidates]
    enough = [(one, parts) for one, parts in found if sum(map(len, _log_ratios(parts.values()))) >= FEWEST_BLOCKS]
    measured = [_describe(plan, one, parts, methods=len(enough)) for one, parts in enough]
    methods = tuple(one for one in measured if one is not None)
    if not methods:
        return None
    experiment = plan.experiment
    return Calibration(
        pgtrial_version=__version__,
        experiment=experiment.experiment.name,
        folder=folder.name,
        created=created,
        complete=complete,
        budget=plan.budget,
        metric=experiment.hypothesis.metric,
        scenario=experiment.hypothesis.scenario,
        margin=experiment.hypothesis.margin,
        confidence=experiment.hypothesis.confidence,
        arms=len(resolve_arms(experiment)),
        methods=methods,
        refused=dict(plan.refused),
        recommendation=recommend(methods, margin=experiment.hypothesis.margin),
        caveats=(*_check(methods), *_check_portions(plan), *_check_parts(enough)),
    )


def _read_parts(folder: Path, plan: CalibrationPlan, candidate: Candidate) -> dict[str, Findings]:
    names = [part.name for part in plan.parts if part.candidate == candidate and (folder / part.name).is_dir()]
    return {name: analyze(folder / name) for name in names}


def _log_ratios(parts: Iterable[Findings]) -> list[list[float]]:
    """Of every part the log ratios of its blocks, in the metric of the hypothesis and over all load levels.

    A part that was interrupted before its first block was complete has none.
    """
    return [
        [
            math.log(ratio)
            for effect in findings.effects
            if effect.key == (AGAIN, findings.hypothesis.metric, _scenario(findings), ALL)
            for ratio in effect.block_ratios
            if ratio is not None and ratio > 0
        ]
        for findings in parts
    ]


def _scenario(findings: Findings) -> str | None:
    # The only scenario is all scenarios together.
    named = findings.hypothesis.scenario
    return None if findings.experiment.scenarios == (named,) else named


def _describe(
    plan: CalibrationPlan, candidate: Candidate, parts: Mapping[str, Findings], *, methods: int
) -> MethodCalibration | None:
    """None where the blocks do not tell their noise."""
    experiment, confidence = plan.experiment, plan.experiment.hypothesis.confidence
    groups = _log_ratios(parts.values())
    pooled = pool_groups(groups)
    together = 1 - (1 - confidence) / methods
    if pooled is None or (effect := pooled.mean_interval(together)) is None:
        return None
    spread = sd_interval(pooled.sd, pooled.degrees, confidence=confidence)
    times = [time for findings in parts.values() for time in block_times(findings.runs)]
    block, load, warmup = (math.fsum(each) / len(times) for each in zip(*times, strict=True))
    resolved = resolve_arms(experiment)
    arms = len(resolved)
    # What is neither load nor warm-up goes with the number of servers; these two are known for the experiment itself.
    own = estimate_run(with_method(experiment, candidate.method, candidate.slice), resolved, candidate.choice)
    own_block = (block - load - warmup) * arms / 2 + (own.warmup + own.measure) * arms
    slices = [
        (len(group), findings.slices.arms[0])
        for group, findings in zip(groups, parts.values(), strict=True)
        if findings.slices is not None
    ]
    growth = _growth(slices, confidence=confidence, wanted=together)
    return MethodCalibration(
        method=candidate.method,
        slice=candidate.slice,
        label=candidate.label,
        folders=tuple(parts),
        warnings=candidate.judgement.warnings,
        doubtful=candidate.judgement.doubtful,
        duration=candidate.duration,
        block_ratios=tuple(tuple(map(math.exp, group)) for group in groups),
        blocks=pooled.count,
        sd_log_ratio=pooled.sd,
        sd_low=spread.low,
        sd_high=spread.high,
        block_seconds=block,
        load_seconds=load,
        sd_per_minute=sd_per_minute(pooled.sd, block),
        sd_per_minute_low=sd_per_minute(spread.low, block),
        sd_per_minute_high=sd_per_minute(spread.high, block),
        ratio=math.exp(pooled.mean),
        low=math.exp(effect.low),
        high=math.exp(effect.high),
        growth=None if growth is None else growth.value,
        growth_low=None if growth is None else growth.low,
        growth_high=None if growth is None else growth.high,
        autocorrelation=_autocorrelation(slices),
        forecast=forecast_method(
            sd=pooled.sd,
            degrees=pooled.degrees,
            duration=experiment.workload.duration,
            calibrated=candidate.duration,
            block_seconds=own_block,
            margin=experiment.hypothesis.margin,
            confidence=confidence,
            comparisons=max(1, arms - 1 - experiment.design.placebo),
        ),
    )


def block_times(runs: Sequence[RunFinding]) -> list[tuple[float, float, float]]:
    """Of every block with a run that counts: seconds of everything, of measured load, and of warming up.

    Runs of a block may overlap; time that they share counts once.
    """
    done = sorted((run for run in runs if run.state == RunState.DONE), key=lambda run: run.block)
    found = []
    for _, block in groupby(done, key=lambda run: run.block):
        members = list(block)
        phases = [phase for run in members for phase in run.phases]
        found.append(
            (
                _union((run.started, run.ended) for run in members),
                _union((each["start"], each["end"]) for each in phases if each["name"] == PhaseName.MEASURE),
                _union((each["start"], each["end"]) for each in phases if each["name"] == PhaseName.WARMUP),
            )
        )
    return found


def _union(intervals: Iterable[tuple[float | None, float | None]]) -> float:
    total, last = 0.0, -math.inf
    for start, end in sorted((start, end) for start, end in intervals if start is not None and end is not None):
        total += max(0.0, end - max(start, last))
        last = max(last, end)
    return total


def _growth(parts: Iterable[tuple[int, ArmSlices]], *, confidence: float, wanted: float) -> Estimate | None:
    """Of all parts together; ``parts`` are numbers of blocks and what their slices tell."""
    logs = [
        (blocks, Estimate(value=one.growth, low=one.growth_low or None, high=one.growth_high or None).mapped(math.log))
        for blocks, one in parts
        if one.growth
    ]
    found = average_estimates(logs, confidence=confidence, wanted=wanted)
    return None if found is None else found.mapped(math.exp)


def _autocorrelation(parts: Sequence[tuple[int, ArmSlices]]) -> float | None:
    known = [(blocks, one.autocorrelation) for blocks, one in parts if one.autocorrelation is not None]
    total = sum(blocks for blocks, _ in known)
    return math.fsum(blocks * value for blocks, value in known) / total if total else None


def _check(methods: Sequence[MethodCalibration]) -> Iterator[CaveatFinding]:
    for one in methods:
        name = shown_label(one)
        if _excludes_one(one.low, one.high):
            yield caveat("calibration-effect", method=name, change=one.ratio, low=one.low, high=one.high)
        if _excludes_one(one.growth_low, one.growth_high):
            yield caveat(
                "calibration-carry-over", method=name, factor=one.growth, low=one.growth_low, high=one.growth_high
            )


def _check_portions(plan: CalibrationPlan) -> Iterator[CaveatFinding]:
    if all(part.portion == 1 for part in plan.parts) and len(plan.parts) > 1:
        yield caveat("calibration-portions")


def _check_parts(parts: Iterable[tuple[Candidate, Mapping[str, Findings]]]) -> Iterator[CaveatFinding]:
    """What makes a part's numbers untrue."""
    for _, folders in parts:
        for folder, findings in folders.items():
            for found in findings.caveats:
                if found.severity is Severity.INVALID:
                    yield prefix_words(found, f"{folder}: ")


def _excludes_one(low: float | None, high: float | None) -> bool:
    return low is not None and high is not None and not low <= 1 <= high
