"""The table [hypothesis]: what is claimed, of which metrics."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from pgtrial.knobs.values import Ratio, Table
from pgtrial.model.metric import Better


class Expect(StrEnum):
    BETTER = "better"
    WORSE = "worse"
    NOT_WORSE = "not-worse"
    EQUIVALENT = "equivalent"
    DIFFERENT = "different"
    LOWER = "lower"
    HIGHER = "higher"


# Claims of a direction, whichever is good.
DIRECTIONS = {Expect.LOWER: Better.LOWER, Expect.HIGHER: Better.HIGHER}


def judged_as(expect: Expect, better: Better) -> tuple[str, Better]:
    """What is expected in the words of the statistics, and which direction is good for that; of a metric of which
    ``better`` is.
    """
    direction = DIRECTIONS.get(expect)
    return (expect, better) if direction is None else (Expect.BETTER, direction)


_METRIC = "pgbench.tps, cost.cpu_seconds, stability.lowest, iostat.r_await, waits.IO and all others of metrics.md"


class AndTable(Table):
    """Another metric of the claim, which holds only if all of its metrics do."""

    metric: str = Field(description=f"What is compared: {_METRIC}.")
    scenario: str | None = Field(
        default=None, description="Restrict the metric to one scenario. Left out: all scenarios together."
    )
    expect: Expect = Field(
        default=Expect.DIFFERENT,
        description="The claimed relation of the arm to the control. lower, higher: whichever is good.",
    )
    margin: Ratio = Field(default=0.03, description="The smallest effect that matters.")


class HypothesisTable(Table):
    """The claim to test. Left out: does the second arm differ from the first in throughput?"""

    claim: str = Field(default="", description="The claim in one sentence, as shown in the report.")
    arm: str | None = Field(
        default=None,
        description="The arm the claim is about. Left out: the second arm; the first is the control.",
    )
    metric: str = Field(
        default="pgbench.tps",
        description=f"What is compared: {_METRIC}. Left out: pgbench.tps, with fio fio.bandwidth.",
    )
    scenario: str | None = Field(
        default=None, description="Restrict the metric to one scenario. Left out: all scenarios together."
    )
    expect: Expect = Field(
        default=Expect.DIFFERENT,
        description="The claimed relation of the arm to the control. lower, higher: whichever is good.",
    )
    margin: Ratio = Field(default=0.03, description="The smallest effect that matters.")
    also: tuple[AndTable, ...] = Field(
        default=(), alias="and", description="Other metrics of the claim: it is supported only if it is in all of them."
    )
    confidence: Annotated[float, Field(strict=True, gt=0.5, lt=1)] = Field(
        default=0.95, description="Confidence of the intervals."
    )

    @property
    def claims(self) -> "tuple[HypothesisTable | AndTable, ...]":
        """Every metric of the claim, the first one first."""
        return (self, *self.also)


# How a claim reads: "large is better than small".
RELATIONS: dict[str, str] = {
    Expect.BETTER: "better than",
    Expect.WORSE: "worse than",
    Expect.NOT_WORSE: "not worse than",
    Expect.EQUIVALENT: "equivalent to",
    Expect.DIFFERENT: "different from",
    Expect.LOWER: "lower than",
    Expect.HIGHER: "higher than",
}
