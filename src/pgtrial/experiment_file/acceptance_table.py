"""The table [[acceptance]]: what is enough, whatever the other arms do."""

from pydantic import Field, model_validator

from pgtrial.experiment_file.cause_tables import Amount, Limit
from pgtrial.knobs.values import Table, refuse


class AcceptanceTable(Table):
    """What an arm has to reach to be enough. As often as needed; the arms then never share the time of a block."""

    metric: str = Field(description="What is asked for: pgbench.latency_p99 and all others of metrics.md.")
    at_most: Limit | None = Field(default=None, description="It is enough up to this value, in each block's mean.")
    at_least: Limit | None = Field(default=None, description="It is enough from this value on; one of the two.")
    scenario: str | None = Field(
        default=None, description="Restrict the metric to one scenario. Left out: all scenarios together."
    )
    arm: str | None = Field(default=None, description="The arm that is asked about. Left out: each arm by itself.")

    @model_validator(mode="after")
    def _has_one_limit(self) -> "AcceptanceTable":
        if (self.at_most is None) == (self.at_least is None):
            refuse('an acceptance has either "at_most" or "at_least"')
        return self

    @property
    def limit(self) -> Amount:
        """The one that is given."""
        limit = self.at_least if self.at_most is None else self.at_most
        assert limit is not None  # validated
        return limit

    @property
    def key(self) -> str:
        """Which of the two it is."""
        return "at_least" if self.at_most is None else "at_most"
