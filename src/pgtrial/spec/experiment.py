"""The experiment file as pydantic models, one class per table; the field descriptions are its documentation."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from pgtrial.units import parse_duration, parse_ratio

FORMAT = 1


class Table(BaseModel):
    """Base of all tables: unknown keys are errors, values do not change after reading."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


def _duration(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value


def _ratio(value: Any) -> Any:
    return parse_ratio(value) if isinstance(value, str) else value


# Seconds, written with a unit as PostgreSQL writes it: "30s", "10min", "500ms", "2h".
Duration = Annotated[float, BeforeValidator(_duration), Field(gt=0)]
# A share, written "3%" or 0.03.
Ratio = Annotated[float, BeforeValidator(_ratio), Field(ge=0, lt=1)]


class Expect(StrEnum):
    BETTER = "better"
    WORSE = "worse"
    NOT_WORSE = "not-worse"
    EQUIVALENT = "equivalent"
    DIFFERENT = "different"


class ExperimentTable(Table):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")] = Field(
        description="Name of the experiment; also the first part of the result folder's name."
    )
    description: str = Field(default="", description="Free text for the report.")


class HypothesisTable(Table):
    claim: str = Field(default="", description="The claim in one sentence, as it stands in the report.")
    arm: str | None = Field(
        default=None,
        description="The arm the claim is about. Default: the second arm; the first is the control.",
    )
    metric: str = Field(
        default="pgbench.tps",
        description="pgbench.tps, pgbench.latency_mean, .latency_p50, .latency_p95, .latency_p99, .latency_p999.",
    )
    scenario: str | None = Field(default=None, description="Restrict the metric to one scenario.")
    expect: Expect = Field(default=Expect.DIFFERENT, description="What the claim says of the arm against the control.")
    margin: Ratio = Field(default=0.03, description="The smallest effect that matters.")
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = Field(default=0.95, description="Confidence of the intervals.")


class TargetTable(Table):
    kind: Literal["throwaway"] = Field(default="throwaway", description="A cluster made for the experiment.")
    postgres: str | None = Field(
        default=None,
        description='Major version ("15") or a directory with the server\'s programs. Default: what is found first.',
    )
    directory: str | None = Field(
        default=None,
        description="Where the cluster's data live; choose the storage to be tested. Default: /var/tmp.",
    )
    postgresql: dict[str, Any] = Field(default={}, description="PostgreSQL settings held constant in all arms.")


class DatasetTable(Table):
    kind: Literal["pgbench", "sql"] = Field(
        default="pgbench", description="pgbench: its tables at a scale. sql: only what the set-up file makes."
    )
    scale: Annotated[int, Field(ge=1)] = Field(default=10, description="pgbench scale; 1 is 100,000 accounts, 15 MB.")
    foreign_keys: bool = Field(default=False, description="pgbench -I dtgvpf: with foreign keys.")
    setup: str | None = Field(
        default=None,
        description="SQL file, relative to the experiment file, run once after the tables are made.",
    )


class ScenarioTable(Table):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,40}$")] = Field(description="Name in all tables.")
    file: str | None = Field(default=None, description="pgbench script, relative to the experiment file.")
    builtin: Literal["tpcb-like", "simple-update", "select-only"] | None = Field(
        default=None, description="One of pgbench's own scripts, instead of a file."
    )
    share: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="Share of the sessions or transactions, relative to the other scenarios."
    )
    sessions: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Constant number of sessions instead of a share, at every load level."
    )

    @model_validator(mode="after")
    def _one_source(self) -> "ScenarioTable":
        if (self.file is None) == (self.builtin is None):
            raise ValueError('give either "file" or "builtin"')
        if self.share is not None and self.sessions is not None:
            raise ValueError('give either "share" or "sessions"')
        return self


class RampTable(Table):
    ramp: Literal["linear", "exponential"] = Field(description="Spacing of the load levels.")
    start: Annotated[float, Field(gt=0)] = Field(alias="from", description="First load level.")
    stop: Annotated[float, Field(gt=0)] = Field(alias="to", description="Last load level.")
    levels: Annotated[int, Field(ge=2, le=100)] = Field(description="Number of load levels.")


MIXES = ("oltp", "olap", "tpcb-like", "simple-update", "select-only")


class WarmupTable(Table):
    mode: Literal["auto"] = Field(default="auto", description="Until the load is steady.")
    cap: Duration = Field(description="At most this long.")


class WorkloadTable(Table):
    kind: Literal["pgbench"] = Field(default="pgbench", description="The load generator.")
    mix: Literal["oltp", "olap", "tpcb-like", "simple-update", "select-only"] | None = Field(
        default=None, description="A shipped set of scenarios, or one of pgbench's own scripts."
    )
    scenario: tuple[ScenarioTable, ...] = Field(default=(), description="Own scenarios, instead of a mix.")
    share: Literal["sessions", "transactions"] = Field(
        default="sessions",
        description="sessions: each scenario has its own clients. transactions: one pool, weights per transaction.",
    )
    clients: Annotated[int, Field(ge=1)] | tuple[Annotated[int, Field(ge=1)], ...] | RampTable = Field(
        default=8, description="Load levels: a number, a list, or a ramp."
    )
    rate: Annotated[float, Field(gt=0)] | tuple[Annotated[float, Field(gt=0)], ...] | RampTable | None = Field(
        default=None,
        description="Open loop: transactions per second that arrive, whatever the server does. Levels as for clients.",
    )
    latency_limit: Duration | None = Field(
        default=None,
        description="Transactions later than this count as late; with a rate, hopeless ones are skipped.",
    )
    duration: Duration = Field(default=30.0, description="Measured time per load level.")
    warmup: Literal["auto"] | Duration | Literal[0] | WarmupTable = Field(
        default="auto", description='"auto" (until steady, with a cap), a time, 0, or { cap = "2min" }.'
    )
    protocol: Literal["simple", "extended", "prepared"] = Field(default="simple", description="Query protocol.")
    threads: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="pgbench threads. Default: the CPUs, at most the clients."
    )
    max_tries: Annotated[int, Field(ge=1)] = Field(
        default=1, description="Tries of a transaction that fails with a serialization error or a deadlock."
    )


class ArmTable(Table):
    inherit: str | None = Field(default=None, description="Name of an arm whose settings are taken first.")
    description: str = Field(default="", description="Free text for the report.")
    postgresql: dict[str, Any] = Field(default={}, description="PostgreSQL settings of this arm.")


class FactorTable(Table):
    setting: str | None = Field(default=None, description="The setting this factor varies. Default: the factor's name.")
    levels: tuple[Any, ...] = Field(min_length=2, description="Values; the first of every factor make the control.")


class DesignTable(Table):
    method: Literal["blocks"] = Field(default="blocks", description="Randomised complete blocks.")
    blocks: Annotated[int, Field(ge=1, le=1000)] | None = Field(default=None, description="Number of blocks.")
    budget: Duration | None = Field(default=None, description="Time for everything, instead of a number of blocks.")
    placebo: bool = Field(default=False, description="Add a second copy of the control, whose true effect is zero.")
    restore: Literal["each-run", "each-block", "never"] = Field(
        default="each-run", description="When the data are put back to the snapshot."
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(default=1, description="Seed of the random order.")
    repeats: Annotated[int, Field(ge=0, le=20)] = Field(
        default=2, description="How often an invalid run is repeated before the experiment stops."
    )

    @model_validator(mode="after")
    def _blocks_or_budget(self) -> "DesignTable":
        if self.blocks is not None and self.budget is not None:
            raise ValueError('give either "blocks" or "budget"')
        return self


class Experiment(Table):
    """The whole file."""

    format: Literal[1] = Field(description="Version of this file format.")
    experiment: ExperimentTable
    hypothesis: HypothesisTable = HypothesisTable()
    target: TargetTable = TargetTable()
    dataset: DatasetTable = DatasetTable()
    workload: WorkloadTable
    arms: dict[str, ArmTable] = Field(default={}, description="Named arms; the first is the control.")
    factors: dict[str, FactorTable] = Field(default={}, description="Factors instead of arms: every combination.")
    design: DesignTable = DesignTable()
