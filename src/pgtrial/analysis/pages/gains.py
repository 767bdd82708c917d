"""What huge pages gain, in sentences."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgtrial.analysis.causes.sessions import estimate_mean
from pgtrial.analysis.causes.words import join
from pgtrial.analysis.effects.estimate import compare_when_due
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.metrics import TPS
from pgtrial.analysis.observations import ALL, Values
from pgtrial.analysis.pages.checks import check_pages, describe_translations
from pgtrial.design.data_size import BYTES_PER_SCALE
from pgtrial.findings.message import say
from pgtrial.findings.naming import name_level
from pgtrial.findings.pages import DataFit, HugePages, PageGain
from pgtrial.language import N_, tr
from pgtrial.model.arm import Arm, Role
from pgtrial.model.verdict import Decision
from pgtrial.stats.equivalence import decide
from pgtrial.units import format_bytes, format_change, parse_bytes


def gain_text(gain: PageGain) -> str:
    """ "+6.1 % (+4.0 % to +8.2 %)"."""
    if gain.ratio is None:
        return "–"
    change = format_change(gain.ratio)
    if gain.low is None or gain.high is None:
        return change
    return tr("{change} ({low} to {high})", change=change, low=format_change(gain.low), high=format_change(gain.high))


def data_text(fit: DataFit) -> str:
    """ "scale 10, about 150 MB"."""
    if fit.scale is None:
        return tr("the data")
    if fit.data is None:
        return tr("scale {scale}", scale=fit.scale)
    return tr("scale {scale}, about {bytes}", scale=fit.scale, bytes=format_bytes(fit.data))


def tell_pages(gains: Sequence[PageGain], fits: Sequence[DataFit], labels: Mapping[int, str]) -> str:
    """The largest gain, and what remains of it where the data no longer fit in shared buffers."""
    sentences = [_tell_largest(gains, labels)]
    for page in dict.fromkeys(gain.page for gain in gains):
        sentences.append(_tell_fit(page, gains, fits))
    sentences.append(_tell_boundary(fits))
    return " ".join(sentence for sentence in sentences if sentence)


# By whether there are several data sizes, and whether it is a single load level.
_LARGEST = {
    (True, True): N_("Pages of {page} gain most at scale {scale} with {level}: {gain}"),
    (True, False): N_("Pages of {page} gain most at scale {scale}: {gain}"),
    (False, True): N_("Pages of {page} gain most with {level}: {gain}"),
    (False, False): N_("Pages of {page} gain most: {gain}"),
}


def _tell_largest(gains: Sequence[PageGain], labels: Mapping[int, str]) -> str:
    """Of the cells, not of their mean; only a gain that its interval shows to be one."""
    clear = [gain for gain in gains if gain.ratio is not None and gain.low is not None and gain.low > 1]
    cells = [gain for gain in clear if gain.load_level != ALL] or clear
    if not cells:
        return tr("In no cell is a gain from huge pages shown.")
    best = max(cells, key=lambda gain: gain.ratio or 0.0)
    told = {
        "page": best.page,
        "gain": gain_text(best),
        "level": "" if best.load_level == ALL else labels[int(best.load_level)],
        "scale": best.scale,
    }
    found = tr(_LARGEST[best.scale is not None, best.load_level != ALL], **told)
    if best.decision is Decision.EQUIVALENT:
        return tr("{gain}, which is less than matters here.", gain=found)
    return f"{found}."


def _tell_fit(page: str, gains: Sequence[PageGain], fits: Sequence[DataFit]) -> str:
    """The gain over all load levels, of data that fit and of data that do not."""
    over_all = [gain for gain in gains if gain.page == page and gain.load_level == ALL]
    told = {}
    for does_fit in (True, False):
        scales = {fit.scale for fit in fits if fit.fits is does_fit}
        told[does_fit] = [
            tr("{gain} at scale {scale}", gain=gain_text(gain), scale=gain.scale)
            for gain in over_all
            if gain.scale in scales
        ]
    if not told[True] or not told[False]:
        return ""
    return tr(
        "Over all load levels pages of {page} change throughput by {inside}, where the data fit in shared_buffers, and "
        "by {outside}, where they do not.",
        page=page,
        inside=join(told[True]),
        outside=join(told[False]),
    )


def _tell_boundary(fits: Sequence[DataFit]) -> str:
    """Between which sizes the data stop fitting."""
    inside = [fit for fit in fits if fit.fits]
    outside = [fit for fit in fits if fit.fits is False]
    if not inside or not outside:
        return ""
    buffers = dict.fromkeys(format_bytes(fit.shared_buffers) for fit in fits if fit.shared_buffers is not None)
    return tr(
        "The data stop fitting in shared_buffers ({buffers}) between {inside}, and {outside}.",
        buffers=join(list(buffers)),
        inside=data_text(inside[-1]),
        outside=data_text(outside[0]),
    )


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


def describe_pages(evidence: Evidence, values: Values) -> HugePages | None:
    """None where no two arms differ in the page size alone."""
    pairs = tuple(_pairs(evidence))
    if not pairs:
        return None
    gains = tuple(_gains(evidence, values, pairs))
    fits = tuple(_fits(evidence, values))
    translations, reason = describe_translations(evidence, values)
    return HugePages(
        gains=gains,
        fits=fits,
        checks=tuple(check_pages(evidence, {arm.name: page_of(arm) for arm in _compared(evidence)})),
        translations=translations,
        reason=reason,
        text=tell_pages(gains, fits, {level.index: say(name_level(level)) for level in evidence.levels}),
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
    for pair in pairs:
        for level in levels:
            yield _gain(evidence, values, pair, level=level, comparisons=len(pairs))


def _gain(evidence: Evidence, values: Values, pair: _Pair, *, level: int | str, comparisons: int) -> PageGain:
    one, other = (
        {run.slot.block: values.get((run.id, TPS.name, None, level), np.nan) for run in evidence.runs_of(arm.name)}
        for arm in (pair.baseline, pair.arm)
    )
    blocks = sorted(one.keys() & other.keys())
    comparison = compare_when_due(
        evidence,
        np.array([one[block] for block in blocks], dtype=np.float64),
        np.array([other[block] for block in blocks], dtype=np.float64),
        comparisons=comparisons,
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
        decision=decide(comparison, margin=evidence.margin, better=TPS.better),
        blocks=comparison.blocks,
    )


def _fits(evidence: Evidence, values: Values) -> Iterator[DataFit]:
    """One per data size and size of shared buffers, the smallest data first."""
    groups: dict[tuple[int | None, float | None], list[Arm]] = {}
    for arm in _compared(evidence):
        groups.setdefault((arm.scale, _shared_buffers(evidence, arm)), []).append(arm)
    for (scale, buffers), arms in sorted(groups.items(), key=lambda item: (item[0][0] or 0, item[0][1] or 0.0)):
        data = None if scale is None else float(scale * BYTES_PER_SCALE)
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
    found: dict[int, list[float]] = {}
    for arm in arms:
        for run in evidence.runs_of(arm.name):
            share = _hit_share(values, run.id, [level.index for level in evidence.levels])
            if share is not None:
                found.setdefault(run.slot.block, []).append(share)
    return [float(np.mean(shares)) for _, shares in sorted(found.items())]


def _hit_share(values: Values, run: int, levels: Sequence[int]) -> float | None:
    """Over all load levels of a run: blocks per transaction × transactions per second are blocks per second."""
    hit = read = 0.0
    for level in levels:
        of_level: Mapping[str, float | None] = {
            name: values.get((run, name, None, level)) for name in (_HIT, _READ, TPS.name)
        }
        found, missed, rate = of_level[_HIT], of_level[_READ], of_level[TPS.name]
        if found is None or missed is None or rate is None:
            return None
        hit, read = hit + found * rate, read + missed * rate
    return hit / (hit + read) if hit + read > 0 else None
