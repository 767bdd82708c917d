"""The table [workload]: kind of load, scenarios, load levels, times."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag

from pgtrial.experiment_file.result_formats import FORMATS, FormatName
from pgtrial.experiment_file.values import DataFiles, Duration, FixedTime
from pgtrial.knobs.fio import FILES, FIO, FileJobTable
from pgtrial.knobs.values import Command, Count, Positive, Table, refuse
from pgtrial.knobs.workload import UNIT

COMMAND = "command"  # kind of a load by a program of the user's choice, and name of its only scenario

TPCC = "tpcc-like"  # the mix of transactions like those of TPC-C, and the kind of data that it needs

MIX_SCENARIOS = {
    "oltp": ("read", "insert", "update"),
    "olap": ("read", "insert", "update"),
    TPCC: ("new-order", "payment", "order-status", "delivery", "stock-level"),
    "tpcb-like": ("tpcb-like",),
    "simple-update": ("simple-update",),
    "select-only": ("select-only",),
}


DEFAULT_DURATION = 30.0  # s


class ScenarioTable(Table):
    """One SQL script of the workload, with its share."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,40}$")] = Field(description="Name in all tables.")
    file: str | None = Field(default=None, description="pgbench script, relative to the experiment file.")
    builtin: Literal["tpcb-like", "simple-update", "select-only"] | None = Field(
        default=None, description="One of pgbench's own scripts, instead of a file."
    )
    share: Positive | None = Field(
        default=None,
        description="Share of the sessions or transactions, relative to the other scenarios. Left out: 1.",
    )
    sessions: Count | None = Field(
        default=None, description="Constant number of sessions instead of a share, at every load level."
    )


class RampTable(Table):
    """Load levels by rule: ``{ ramp = "exponential", from = 5, to = 22, levels = 6 }``."""

    ramp: Literal["linear", "exponential"] = Field(description="Equal steps, or equal ratios.")
    start: Positive = Field(alias="from", description="First load level.")
    stop: Positive = Field(alias="to", description="Last load level.")
    levels: Annotated[int, Field(strict=True, ge=2, le=100)] = Field(description="Number of load levels.")

    def expand(self) -> tuple[float, ...]:
        """The levels, both ends exact, not rounded."""
        steps = self.levels - 1
        if self.ramp == "linear":
            inner = [self.start + (self.stop - self.start) * i / steps for i in range(1, steps)]
        else:
            inner = [self.start * (self.stop / self.start) ** (i / steps) for i in range(1, steps)]
        return (self.start, *inner, self.stop)


class WarmupTable(Table):
    """Warm-up until steady, with a custom cap."""

    mode: Literal["auto"] = Field(default="auto", description="Until the load is steady.")
    cap: Duration = Field(description="At most this long.")


def _levels_tag(value: Any) -> str | None:
    # Chosen by the type of the value, so that an error speaks of the one form that was meant, not of all three.
    if isinstance(value, dict | RampTable):
        return "<ramp>"
    if isinstance(value, list | tuple):
        return "<list>"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "<number>"
    return None


def _warmup_tag(value: Any) -> str:
    if isinstance(value, dict | WarmupTable):
        return "<table>"
    return "<auto>" if value == "auto" else "<time>"


def _some(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return values if values else refuse("the list of load levels is empty")


_LEVELS = Discriminator(_levels_tag)

ClientLevels = Annotated[
    Annotated[Count, Tag("<number>")]
    | Annotated[tuple[Count, ...], AfterValidator(_some), Tag("<list>")]
    | Annotated[RampTable, Tag("<ramp>")],
    _LEVELS,
]

RateLevels = Annotated[
    Annotated[Positive, Tag("<number>")]
    | Annotated[tuple[Positive, ...], AfterValidator(_some), Tag("<list>")]
    | Annotated[RampTable, Tag("<ramp>")],
    _LEVELS,
]

Warmup = Annotated[
    Annotated[Literal["auto"], Tag("<auto>")]
    | Annotated[FixedTime, Tag("<time>")]
    | Annotated[WarmupTable, Tag("<table>")],
    Discriminator(_warmup_tag),
]


class WorkloadTable(Table):
    """The load."""

    kind: Literal["pgbench", "fio", "command"] = Field(
        default="pgbench",
        description="The load generator. pgbench: on a server. fio: on files, without a server. command: on a server, "
        "by a program of your choice.",
    )
    command: Command = Field(
        default=(),
        description="The program and its arguments, for kind command. {clients}, {rate}, {seconds}, {seed}, {host}, "
        "{port}, {user} and {database} in an argument stand for these.",
    )
    files: DataFiles = Field(
        default=(),
        description="Files that the command needs, relative to the experiment file; they are put into the directory "
        "where it is started.",
    )
    results: FormatName = Field(
        default="json",
        description="How the command tells of its requests. json: it prints lines of JSON. hdr: the lines of an "
        "HdrHistogram log. openmetrics: a text at its end. Otherwise it is that program.",
    )
    mix: Literal["oltp", "olap", "tpcc-like", "tpcb-like", "simple-update", "select-only"] | None = Field(
        default=None, description="A predefined set of scenarios, or one of pgbench's own scripts."
    )
    scenario: tuple[ScenarioTable, ...] = Field(default=(), description="Own scenarios, instead of a mix.")
    job: tuple[FileJobTable, ...] = Field(
        default=(),
        description="Concurrent jobs of a load on files (fio). Left out: one job, defined by the fio tables of "
        "target and arms.",
    )
    unit: str = Field(
        default=UNIT,
        description="What one transaction, or request, does. Arms whose load differs do the same in it. Left out: "
        f"{UNIT}.",
    )
    share: Literal["sessions", "transactions"] = Field(
        default="sessions",
        description="sessions: each scenario has its own clients. transactions: one pool, weights per transaction; "
        f"with mix {TPCC} always.",
    )
    clients: ClientLevels = Field(
        default=8,
        description="Load levels: a number, a list, or a ramp. With fio the number of its processes. Left out: 8, "
        "with fio 1.",
    )
    rate: RateLevels | None = Field(
        default=None,
        description="Open loop: transactions per second that arrive regardless of the server. Levels as for clients. "
        "pgbench may end when none is due before its time, so it gets 9.2 mean gaps more than is measured.",
    )
    latency_limit: Duration | None = Field(
        default=None,
        description="Transactions that take longer count as late; with a rate, transactions already late before "
        "they start are skipped and counted.",
    )
    duration: Duration = Field(
        default=DEFAULT_DURATION,
        description=f"Measured time per load level, in whole seconds. Left out: {DEFAULT_DURATION:g} s; with a budget "
        "as long as tells most in that time.",
    )
    warmup: Warmup = Field(
        default="auto",
        description='"auto" (until the load is steady, at most a fifth of the duration, but 5 s to 5 min), a time, 0, '
        'or { cap = "2min" } for another cap. Left out: "auto", with fio 0.',
    )
    protocol: Literal["simple", "extended", "prepared"] = Field(default="simple", description="Query protocol.")
    threads: Count | None = Field(
        default=None, description="pgbench threads. Left out: as many as CPUs, at most the clients."
    )
    max_tries: Count = Field(
        default=1, description="Tries of a transaction that fails with a serialization error or a deadlock."
    )

    @property
    def scenario_names(self) -> tuple[str, ...]:
        """Names of the scenarios, or of the jobs of a load on files; () when there is neither a mix nor a scenario."""
        if self.kind == FIO:
            return tuple(job.name for job in self.job) or (FILES,)
        if self.kind == COMMAND:
            return (COMMAND,)
        if self.scenario:
            return tuple(scenario.name for scenario in self.scenario)
        return MIX_SCENARIOS[self.mix] if self.mix is not None else ()

    @property
    def client_levels(self) -> tuple[int, ...]:
        """The numbers of clients of the load levels; a ramp's are rounded, equal ones are there once."""
        if isinstance(self.clients, RampTable):
            return tuple(dict.fromkeys(max(1, round(level)) for level in self.clients.expand()))
        return (self.clients,) if isinstance(self.clients, int) else self.clients

    @property
    def bounds_latencies(self) -> bool:
        """Whether the latencies of a program's requests are together no longer than the time of its clients: the file
        says how many these are, and nobody adds to what a request took.
        """
        known = FORMATS[self.results]
        return "clients" in self.model_fields_set and known.keeps_clients and not known.may_correct

    @property
    def rate_levels(self) -> tuple[float | None, ...]:
        """The rates of the load levels; None: the loop is closed."""
        if isinstance(self.rate, RampTable):
            return self.rate.expand()
        return self.rate if isinstance(self.rate, tuple) else (self.rate,)

    def most_sessions(self, own_clients: int | None = None) -> int:
        """Sessions of the highest load level, or of an arm with clients of its own; those of scenarios with a constant
        number come on top of its clients.
        """
        return (own_clients or max(self.client_levels)) + sum(scenario.sessions or 0 for scenario in self.scenario)

    @property
    def has_own_sessions(self) -> bool:
        """Whether there are several scenarios, each with sessions of its own."""
        return self.kind != FIO and self.share == "sessions" and len(self.scenario_names) > 1
