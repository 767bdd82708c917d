"""What drifts in a soak, as data: values of its windows, and a slope with an interval for each metric of an arm."""

from pgtrial.findings.message import Message
from pgtrial.findings.record import Estimate, Record


class Drift(Record):
    """``values``: one per window of the soak. ``per_hour``: the slope; no bounds where the soak was too short for any.

    The intervals of all metrics and arms hold together.
    """

    metric: str
    unit: str
    values: tuple[float | None, ...]
    per_hour: Estimate | None  # None: too short for a slope
    share: float | None  # of the first window, by which it changes along the slope; a size: from first to last window
    grown: int = 0  # of a size: 1 where it has grown, -1 where it has shrunk


class SoakArm(Record):
    """``windows`` are the numbers of the analysed ones: the longest stretch of load without a restart."""

    arm: str
    windows: tuple[int, ...]
    done: int  # windows in all stretches
    stretches: int
    hours: tuple[float, ...]  # middle of each window, since the beginning of the first
    drifts: tuple[Drift, ...]
    text: Message


class Soak(Record):
    planned: int  # windows of each arm
    window: float  # s
    confidence: float
    arms: tuple[SoakArm, ...]
