"""The table [guardrails]: what ends the switching of a server that others use, before it does them harm."""

from typing import Annotated

from pydantic import Field

from pgtrial.experiment_file.values import Duration
from pgtrial.knobs.values import Ratio, Table

WINDOW = 30.0  # s over which shares and percentiles are taken
FEWEST = 100  # transactions to tell a share or a 99th percentile of
LIMITS = ("p99", "errors", "replication_lag", "active")


class GuardrailsTable(Table):
    """What may not happen while an existing server is switched between arms (method = "switchback").

    Looked at once a second while a load runs. At the first breach the settings are put back, before anything else is
    done, and the experiment ends; so it does where the load, the server or a switch fails, and where somebody else
    changes settings. Without this table no existing server is switched.
    """

    p99: Duration | None = Field(
        default=None,
        description="Longest 99th percentile of the load's latency, over 30 s; of fewer than 100 transactions two that "
        "took longer are enough. Also breached where none of the load's transactions ends for 10 s, twice this limit, "
        "or 25 mean gaps of the rate, whichever is longest.",
    )
    errors: Ratio | None = Field(
        default=None,
        description="Largest share of the transactions that are rolled back, of all databases of the server and all "
        "that use it, over the last 30 s and 100 transactions or more.",
    )
    replication_lag: Duration | None = Field(
        default=None,
        description="Longest time by which a standby may be behind in replaying. Also breached where one that replayed "
        "at the beginning of a block is gone, by its application_name.",
    )
    active: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = Field(
        default=None, description="Most sessions of clients that may be at work at a time, in three looks in a row."
    )
    harm: Ratio = Field(
        default=0.2,
        description="By how much the 99th percentile may be longer with an arm than with the control. More than that "
        "ends the experiment as soon as it is shown, by a test that is wrong in 5 % of experiments at most, however "
        "often it looks. It needs six slices of each of two arms, seven of three, of 100 transactions each; one with "
        "fewer, and by this much fewer a second than the control, counts as worse.",
    )

    @property
    def has_limit(self) -> bool:
        """Whether something ends it at once."""
        return any(getattr(self, name) is not None for name in LIMITS)
