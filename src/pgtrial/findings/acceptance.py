"""Whether arms are enough by themselves, as [[acceptance]] asks."""

from pgtrial.findings.record import Estimate, Record
from pgtrial.model.verdict import Verdict


class Acceptance(Record):
    """One limit, in one arm, at one load level; values are in the metric's base unit.

    ``value`` is the geometric mean of the blocks; its interval holds together with those of all other rows. The verdict
    is "supported" where the whole interval is on the good side of the limit, "refuted" where it is beyond.
    """

    arm: str
    metric: str
    unit: str
    scenario: str | None
    load_level: int | str  # index, or "all" for a metric that has no value of each level
    limit: float
    is_most: bool  # the limit is the highest value that is enough; else the lowest
    value: Estimate | None  # None: no run of the arm has one
    blocks: int
    failed: int  # attempts of the arm that failed: with one it is not enough
    verdict: Verdict
