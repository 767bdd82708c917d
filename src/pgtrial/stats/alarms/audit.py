"""Does the contract hold? Alarms that were false, by time watched, against what was promised."""

import math
from dataclasses import dataclass
from enum import StrEnum

from pgtrial.stats.counts import count_interval

CONFIDENCE = 0.95
CONTRACT_DAYS = 30.0


class Contract(StrEnum):
    """``HOLDS``: the whole interval is within what was promised; ``BROKEN``: it is beyond it; otherwise the time was
    ``TOO_SHORT`` to know.
    """

    HOLDS = "holds"
    BROKEN = "broken"
    TOO_SHORT = "too-short"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """``rate`` false alarms in 30 days, between ``low`` and ``high``; None, and an endless interval, of no time."""

    alarms: int
    days: float
    rate: float | None
    low: float
    high: float
    contract: Contract


def audit(alarms: int, *, days: float, allowed: float = 1.0) -> Audit:
    """Of ``alarms`` in ``days`` of watching, gaps left out, with ``allowed`` in 30 days; Garwood's exact interval.

    Which alarms were false somebody has to say; counted are all that nobody has called true.
    """
    if days <= 0:
        return Audit(alarms=alarms, days=0.0, rate=None, low=0.0, high=math.inf, contract=Contract.TOO_SHORT)
    per_month = CONTRACT_DAYS / days
    interval = count_interval([alarms], [per_month], alpha=1 - CONFIDENCE)
    contract = Contract.TOO_SHORT
    if interval.high <= allowed:
        contract = Contract.HOLDS
    elif interval.low > allowed:
        contract = Contract.BROKEN
    return Audit(
        alarms=alarms,
        days=days,
        rate=alarms * per_month,
        low=interval.low,
        high=interval.high,
        contract=contract,
    )
