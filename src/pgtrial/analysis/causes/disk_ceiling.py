"""Which rate of a device is held by a ceiling, how high, how steady, and whether it is the one that is declared."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgtrial.analysis.causes import limit_thresholds as thresholds
from pgtrial.analysis.causes.sessions import estimate_mean, pooled_mean, pooled_values, undisturbed_values
from pgtrial.analysis.timelines.timeline import Array, Timeline
from pgtrial.experiment_file.disk_tables import LIMITS
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.findings.record import Estimate
from pgtrial.findings.storage import SAME_LIMIT, DiskCeiling
from pgtrial.model.arm import Arm
from pgtrial.stats.plateau import BAND, LEAST_SHARE, Plateau, find_plateau
from pgtrial.units import parse_bytes

_FEWEST_OF_RUN = 5  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rate:
    """A rate of a device: in words, its series, the best first, and the limit that a class can have of it.

    The control group counts requests where they are limited, the device after it has put neighbours together.
    """

    of: str
    metrics: tuple[str, ...]
    limit: str = ""

    @property
    def is_bytes(self) -> bool:
        return self.metrics[-1].endswith("bytes")


_RATES = (
    _Rate(of="reads", metrics=("cgroup.reads", "iostat.r"), limit="read_iops"),
    _Rate(of="writes", metrics=("cgroup.writes", "iostat.w"), limit="write_iops"),
    _Rate(of="requests", metrics=("iostat.iops",)),
    _Rate(of="read", metrics=("cgroup.read_bytes", "iostat.r_bytes"), limit="read_bytes"),
    _Rate(of="written", metrics=("cgroup.write_bytes", "iostat.w_bytes"), limit="write_bytes"),
    _Rate(of="read and written", metrics=("iostat.bytes",)),
)


def declared_limits(experiment: Experiment, arm: Arm) -> Mapping[str, float]:
    """Limits of the arm's disk in 1/s and B/s: of its class, or of its control group; {} for none."""
    limits = {key: text for key, text in arm.knobs.get("cgroup", {}).items() if key in LIMITS}
    name = arm.disk
    if name is not None and name in experiment.disks:
        limits |= experiment.disks[name].limits()
    return {key: parse_bytes(text) if key.endswith("bytes") else float(text) for key, text in limits.items()}


def find_ceiling(
    timelines: Sequence[Timeline], device: str, *, declared: Mapping[str, float], hint: str, confidence: float
) -> DiskCeiling | None:
    """The rate that stands at a ceiling: at a declared one, else the one of the ``hint`` ("iostat.r/vda": what the
    rules for limits name), else the one that is pinned most. None where no rate is.
    """
    candidates = list(_candidates(timelines, device, declared=declared, confidence=confidence))
    at_declared = [ceiling for ceiling in candidates if ceiling.is_at_declared]
    named = [ceiling for ceiling in candidates if f"{ceiling.metric}/{device}" == hint]
    plateaus = [ceiling for ceiling in candidates if ceiling.is_plateau]
    for group in (at_declared, named, plateaus):
        if group:
            return max(group, key=lambda ceiling: ceiling.pinned_share)
    return None


def _candidates(
    timelines: Sequence[Timeline], device: str, *, declared: Mapping[str, float], confidence: float
) -> Iterator[DiskCeiling]:
    requests, volume = (pooled_mean(timelines, metric, device) for metric in ("iostat.iops", "iostat.bytes"))
    if not requests or not volume:
        return
    for rate in _RATES:
        metric = next((name for name in rate.metrics if pooled_mean(timelines, name, device) is not None), None)
        mean = pooled_mean(timelines, metric, device) if metric else None
        if metric is None or not mean:
            continue
        limit = declared.get(rate.limit)
        # A kind of request that is only a small part is not what holds the load up, unless its limit is known.
        if limit is None and mean < thresholds.SERIES_SHARE * (volume if rate.is_bytes else requests):
            continue
        size = volume / requests if rate.is_bytes else 1.0
        rates = undisturbed_values(timelines, metric, device, steal=thresholds.PLATEAU_STEAL)
        plateau = find_plateau(rates, request=size)
        if plateau is None:
            continue
        yield DiskCeiling(
            of=rate.of,
            metric=metric,
            unit="B/s" if rate.is_bytes else "1/s",
            value=_by_block(timelines, metric, device, whole=plateau.ceiling, confidence=confidence),
            pinned_share=plateau.pinned_share,
            steadiness=plateau.steadiness if np.isfinite(plateau.steadiness) else None,
            free_steadiness=plateau.free_steadiness,
            is_plateau=plateau.is_plateau,
            declared=limit,
            is_at_declared=_is_at(limit, plateau),
        )


def _is_at(limit: float | None, plateau: Plateau) -> bool:
    return limit is not None and abs(plateau.ceiling / limit - 1) <= SAME_LIMIT and plateau.pinned_share >= LEAST_SHARE


def _by_block(timelines: Sequence[Timeline], metric: str, device: str, *, whole: float, confidence: float) -> Estimate:
    """The ceiling with an interval over the blocks; of all seconds together where runs have too few of their own."""
    tops = [_top(pooled_values((timeline,), metric, device), whole) for timeline in timelines]
    estimate = estimate_mean(tops, confidence=confidence)
    return estimate if estimate is not None and None not in tops else Estimate(value=whole)


def _top(values: Array, whole: float) -> float | None:
    """The ceiling of one run; its few seconds are enough for a value, not to call it a plateau.

    What lies near the ceiling of all runs, ``whole``; where a run has nothing there, what lies near its own highest.
    """
    if values.size < _FEWEST_OF_RUN:
        return None
    near = _near(values, whole)
    if near is not None:
        return near
    highest = float(np.percentile(values, 95))
    return (_near(values, highest) or highest) if highest > 0 else None


def _near(values: Array, height: float) -> float | None:
    """Median of what lies near a height above zero; None where nothing does."""
    near = values[np.abs(values - height) <= BAND * height]
    return float(np.median(near)) if height > 0 and near.size else None
