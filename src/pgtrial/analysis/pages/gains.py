"""What huge pages gain, and where the data stop fitting in shared buffers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgtrial.analysis.causes.sessions import estimate_mean
from pgtrial.analysis.effects.contrasts import Borne, bear_arms, find_borne
from pgtrial.analysis.effects.estimate import blocks_of, compare_when_due, places, value_of
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.analysis.pages.checks import check_pages, describe_translations
from pgtrial.design.data_size import BYTES_PER_SCALE
from pgtrial.findings.message import Message, Value, message
from pgtrial.findings.naming import name_data, name_gain, name_level
from pgtrial.findings.questions import DataFit, HugePageFindings, PageGain
from pgtrial.findings.record import ALL
from pgtrial.model.arm import Arm, Role
from pgtrial.model.metrics import TPS
from pgtrial.model.verdict import Decision
from pgtrial.stats.equivalence import decide
from pgtrial.units import parse_bytes


def tell_pages(gains: Sequence[PageGain], fits: Sequence[DataFit], labels: Mapping[int, Message]) -> Message:
    """The largest gain, and what remains of it where the data no longer fit in shared buffers."""
    pages = dict.fromkeys(gain.page for gain in gains)
    sentences = (_tell_largest(gains, labels), *(_tell_fit(page, gains, fits) for page in pages), _tell_boundary(fits))
    return message("sentences", parts=tuple(sentence for sentence in sentences if sentence is not None))


# By whether there are several data sizes, and whether it is a single load level.
_LARGEST = {
    (True, True): "page-gain.most-at-both",
    (True, False): "page-gain.most-at-scale",
    (False, True): "page-gain.most-with-level",
    (False, False): "page-gain.most",
}


def _tell_largest(gains: Sequence[PageGain], labels: Mapping[int, Message]) -> Message:
    """Of the cells, not of their mean; only a gain that its interval shows to be one."""
    clear = [gain for gain in gains if gain.ratio is not None and gain.low is not None and gain.low > 1]
    cells = [gain for gain in clear if gain.load_level != ALL] or clear
    if not cells:
        return message("page-gain.none")
    best = max(cells, key=lambda gain: gain.ratio or 0.0)
    values: dict[str, Value] = {"page": best.page, "gain": name_gain(best)}
    if best.scale is not None:
        values["scale"] = best.scale
    if best.load_level != ALL:
        values["level"] = labels[int(best.load_level)]
    largest = message(_LARGEST["scale" in values, "level" in values], **values)
    is_small = best.decision is Decision.EQUIVALENT
    return message("page-gain.is-small" if is_small else "page-gain.matters", gain=largest)


def _tell_fit(page: str, gains: Sequence[PageGain], fits: Sequence[DataFit]) -> Message | None:
    """The gain over all load levels, of data that fit and of data that do not."""
    over_all = [gain for gain in gains if gain.page == page and gain.load_level == ALL]
    by_fit = {}
    for does_fit in (True, False):
        scales = {fit.scale for fit in fits if fit.fits is does_fit}
        by_fit[does_fit] = tuple(
            message("gain.at-scale", gain=name_gain(gain), scale=gain.scale)
            for gain in over_all
            if gain.scale in scales
        )
    if not by_fit[True] or not by_fit[False]:
        return None
    return message("page-gain.by-fit", page=page, inside=by_fit[True], outside=by_fit[False])


def _tell_boundary(fits: Sequence[DataFit]) -> Message | None:
    """Between which sizes the data stop fitting."""
    inside = [fit for fit in fits if fit.fits]
    outside = [fit for fit in fits if fit.fits is False]
    if not inside or not outside:
        return None
    buffers = tuple(dict.fromkeys(fit.shared_buffers for fit in fits if fit.shared_buffers is not None))
    return message("page-data.boundary", buffers=buffers, inside=name_data(inside[-1]), outside=name_data(outside[0]))


# Huge pages: what they gain, cell by cell, and whether the runs really had them.
#
# A cell is a data size at a load level. The gain is the ratio to the arm with the same of everything but the page size,
# block by block, so the cells can be read beside each other although their throughputs are far apart.


NONE = "none"  # ordinary pages
_HIT, _READ = "cost.blocks_hit", "cost.blocks_read"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """Two arms that differ in their page size alone."""

    baseline: Arm
    arm: Arm


def describe_pages(evidence: Evidence, values: Values) -> HugePageFindings | None:
    """None where no two arms differ in the page size alone."""
    pairs = tuple(_pairs(evidence))
    if not pairs:
        return None
    gains = tuple(_gains(evidence, values, pairs))
    fits = tuple(_fits(evidence, values))
    translations, reason = describe_translations(evidence, values)
    return HugePageFindings(
        gains=gains,
        fits=fits,
        checks=tuple(check_pages(evidence, {arm.name: page_of(arm) for arm in _compared(evidence)})),
        translations=translations,
        reason=reason,
        text=tell_pages(gains, fits, {level.index: name_level(level) for level in evidence.levels}),
    )


def page_of(arm: Arm) -> str:
    """Page size that an arm declares, "" for none."""
    return arm.knobs.get("huge_pages", {}).get("size", "")


def _compared(evidence: Evidence) -> tuple[Arm, ...]:
    return tuple(arm for arm in evidence.arms if arm.role is not Role.PLACEBO)


def _pairs(evidence: Evidence) -> Iterator[_Pair]:
    """Every arm with the one of ordinary pages among those that are like it, or the first where none has them."""
    groups: dict[object, list[Arm]] = {}
    for arm in _compared(evidence):
        groups.setdefault(_rest(arm), []).append(arm)
    for group in groups.values():
        baseline = next((arm for arm in group if page_of(arm) == NONE), group[0])
        for arm in group:
            if page_of(arm) != page_of(baseline):
                yield _Pair(baseline=baseline, arm=arm)


def _rest(arm: Arm) -> object:
    """Everything that an arm has but its page size."""
    knobs = arm.knobs
    around = (
        (knob, key, value) for knob, table in knobs.items() if knob != "huge_pages" for key, value in table.items()
    )
    return frozenset(arm.settings.items()), frozenset(around)


def _gains(evidence: Evidence, values: Values, pairs: Sequence[_Pair]) -> Iterator[PageGain]:
    levels: tuple[int | str, ...] = (ALL, *(level.index for level in evidence.levels))
    borne = {level: find_borne(evidence, values, (TPS.name, None, level)) for level in levels}
    for pair in pairs:
        for level in levels:
            yield _gain(evidence, values, pair, level=level, comparisons=len(pairs), borne=borne[level])


def _gain(
    evidence: Evidence,
    values: Values,
    pair: _Pair,
    *,
    level: int | str,
    comparisons: int,
    borne: Mapping[str, Borne],
) -> PageGain:
    pairs = evidence.pairs(pair.arm.name, baseline=pair.baseline.name)
    baseline, arm = (
        np.array([_throughput(evidence, values, run.id, level) for run in runs], dtype=np.float64)
        for runs in (zip(*pairs, strict=True) if pairs else ((), ()))
    )
    after, blocks = places(evidence, pairs), blocks_of(pairs)
    comparison = compare_when_due(
        *(evidence, baseline, arm),
        comparisons=comparisons,
        after=after,
        blocks=blocks,
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ratios = np.log(arm) - np.log(baseline)
    comparison = bear_arms(
        *(evidence, comparison, {pair.arm.name: 1.0, pair.baseline.name: -1.0}, borne),
        log_ratios=log_ratios,
        blocks=blocks,
        after=after,
    )
    return PageGain(
        arm=pair.arm.name,
        baseline=pair.baseline.name,
        page=page_of(pair.arm),
        baseline_page=page_of(pair.baseline),
        scale=pair.arm.scale,
        load_level=level,
        ratio=comparison.ratio,
        low=comparison.low,
        high=comparison.high,
        confidence=evidence.confidence,
        decision=decide(comparison, bounds=evidence.bounds, better=TPS.better),
        blocks=comparison.blocks,
    )


def _throughput(evidence: Evidence, values: Values, run: int, level: int | str) -> float:
    key = (run, TPS.name, None, level)
    return value_of(evidence, values, key) if evidence.rules.bears_alike else values.get(key, np.nan)


def _fits(evidence: Evidence, values: Values) -> Iterator[DataFit]:
    """One per data size and size of shared buffers, the smallest data first."""
    groups: dict[tuple[int | None, float | None], list[Arm]] = {}
    for arm in _compared(evidence):
        groups.setdefault((arm.scale, _shared_buffers(evidence, arm)), []).append(arm)
    for (scale, buffers), arms in sorted(groups.items(), key=lambda item: (item[0][0] or 0, item[0][1] or 0.0)):
        data = None if scale is None else float(scale * BYTES_PER_SCALE[evidence.experiment.dataset.kind])
        by_block = _hit_shares(evidence, values, arms)
        yield DataFit(
            arms=tuple(arm.name for arm in arms),
            scale=scale,
            data=data,
            shared_buffers=buffers,
            fits=None if data is None or buffers is None else data <= buffers,
            hit_share=estimate_mean(by_block, confidence=evidence.confidence),
        )


def _shared_buffers(evidence: Evidence, arm: Arm) -> float | None:
    """As the arm's server said it, of the first run that has it."""
    for run in evidence.runs_of(arm.name):
        shown, _ = evidence.settings.get(run.id, {}).get("shared_buffers", ("", ""))
        if shown:
            return parse_bytes(shown)
    return None


def _hit_shares(evidence: Evidence, values: Values, arms: Sequence[Arm]) -> list[float | None]:
    """(blocks,) share of the blocks found in shared buffers, mean over the arms of a block of the experiment."""
    shares: dict[int, list[float]] = {}
    for arm in arms:
        for run in evidence.runs_of(arm.name):
            share = _hit_share(values, run.id, [level.index for level in evidence.levels])
            if share is not None:
                shares.setdefault(run.slot.block, []).append(share)
    return [float(np.mean(of_block)) for _, of_block in sorted(shares.items())]


def _hit_share(values: Values, run: int, levels: Sequence[int]) -> float | None:
    """Over all load levels of a run: blocks per transaction × transactions per second are blocks per second."""
    hit = read = 0.0
    for level in levels:
        of_level: Mapping[str, float | None] = {
            name: values.get((run, name, None, level)) for name in (_HIT, _READ, TPS.name)
        }
        hits, reads, rate = of_level[_HIT], of_level[_READ], of_level[TPS.name]
        if hits is None or reads is None or rate is None:
            return None
        hit, read = hit + hits * rate, read + reads * rate
    return hit / (hit + read) if hit + read > 0 else None
