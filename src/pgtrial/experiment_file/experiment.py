"""The experiment file as pydantic models, one class per table; the field descriptions are its documentation.

Only the shape of single values is checked here. What needs two places of the file, or the file system, is in
``crosscheck.py``; the wording of the errors is in ``wording.py``.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from pgtrial.experiment_file.cause_tables import AssociationsTable, CheckTable, CriterionTable, WaiverTable
from pgtrial.experiment_file.disk_tables import LIMITS, DiskTable
from pgtrial.experiment_file.result_formats import FormatName
from pgtrial.experiment_file.values import (
    Connection,
    DatabaseName,
    DataFiles,
    Duration,
    FixedTime,
    Host,
    SettingLevels,
    SliceTime,
)
from pgtrial.knobs import KNOBS, KnobTables
from pgtrial.knobs.cgroup import Cgroup
from pgtrial.knobs.dataset import Scale
from pgtrial.knobs.fio import FILES, FIO, FileJobTable
from pgtrial.knobs.slowdown import KEYS, SLOWDOWN
from pgtrial.knobs.values import Command, Count, Flag, Positive, Ratio, Table, Version, refuse
from pgtrial.knobs.workload import UNIT
from pgtrial.model.metric import Better

FORMAT = 1
COMMAND = "command"  # kind of a load by a program of the user's choice, and name of its only scenario
MIX_SCENARIOS = {
    "oltp": ("read", "insert", "update"),
    "olap": ("read", "insert", "update"),
    "tpcb-like": ("tpcb-like",),
    "simple-update": ("simple-update",),
    "select-only": ("select-only",),
}
PLACEBO = "placebo"  # name of the second copy of the control
DEFAULT_SLICE = 1.0  # s
DEFAULT_DUET_SLICE = 0.03  # s, with few clients
DEFAULT_DURATION = 30.0  # s
DEFAULT_SWITCH_SLICE = 30.0  # s, where an effect builds up
DEFAULT_BLOCKS = 6  # the fewest that an exact test on the blocks can call significant at 5 %


# What an arm's throughput may owe something to: times, and what a device allows per second.
RESOURCES = (*(f"{SLOWDOWN}.{key}" for key in KEYS), *(f"{Cgroup.name}.{key}" for key in LIMITS))

Restore = Literal["each-run", "each-block", "never"]


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


# What a load on files has where the file says nothing: there is no server, a process is a client, nothing is warmed up
# because the state of the page cache is chosen, and what is asked for is mostly bytes per second.
_OF_FILES: dict[str, dict[str, Any]] = {
    "target": {"kind": "host"},
    "workload": {"clients": 1, "warmup": 0},
    "hypothesis": {"metric": "fio.bandwidth"},
}


class ExperimentTable(Table):
    """What the experiment is called."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")] = Field(
        description="Name of the experiment; also the first part of the result folder's name."
    )
    description: str = Field(default="", description="Free text for the report.")


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


class TargetTable(KnobTables):
    """The server under test. It may also have the tables of an arm, ``[target.sysctl]`` and so on, for all arms."""

    kind: Literal["throwaway", "server", "host"] = Field(
        default="throwaway",
        description="throwaway: a cluster created for the experiment and removed afterwards. server: an existing "
        "one. host: no server; the only kind for a load on files.",
    )
    host: Host | None = Field(
        default=None,
        description="The machine of the server, reached with the ssh command. Left out: this machine.",
    )
    connection: Connection = Field(
        default="",
        description='How to connect to an existing server, in the form of libpq: "service=bench", "host=db user=me" or '
        "a URI. No password: put it in .pgpass or a service file. Left out: the PG* variables.",
    )
    database: DatabaseName | None = Field(
        default=None,
        description="Existing database of an existing server, which pgtrial neither creates, restores nor drops. "
        "Left out: pgtrial creates one and drops it.",
    )
    writes: Flag = Field(
        default=False,
        description="Arms and scripts may change the existing database; running it also needs --allow-writes. Left "
        "out: the load's sessions are read-only.",
    )
    settings: Literal["session", "server"] = Field(
        default="session",
        description="How an existing server gets an arm's settings. session: the load's own sessions get those that a "
        "session can have, and only the others are changed for the whole server. server: all are changed for the "
        "whole server, by ALTER SYSTEM.",
    )
    restart: Command = Field(
        default=(),
        description="Command that restarts an existing server, for settings that need it. Left out: it is never "
        "restarted.",
    )
    postgres: Version | None = Field(
        default=None,
        description="Major version or a directory with the server's programs; for an existing server those of "
        "pgbench. Left out: the first found.",
    )
    directory: str | None = Field(
        default=None,
        description="Existing directory for the cluster's data, or for the files of a load on files; it "
        "determines the storage under test. Left out: /var/tmp.",
    )
    count_statements: Flag = Field(
        default=True,
        description="Load pg_stat_statements into throw-away clusters, in all arms alike, where the server has it and "
        "the file names no libraries itself.",
    )


class DatasetTable(Table):
    """The data: created once and restored before the runs, or those of an existing database."""

    kind: Literal["pgbench", "sql", "existing"] = Field(
        default="pgbench",
        description="pgbench: its tables at a scale. sql: only what is loaded, and what the set-up file creates. "
        "existing: the data in the database named in [target].",
    )
    scale: Scale = Field(
        default=10,
        description="pgbench's scale; 1 is 100,000 accounts, about 15 MB. For kind existing: that of its tables.",
    )
    foreign_keys: Flag = Field(default=False, description="Create pgbench's tables with foreign keys.")
    load: DataFiles = Field(
        default=(),
        description="Data to load once, with psql and pg_restore: an archive or a directory of pg_dump, its plain "
        "output, a file for psql, or a list of them. Relative to the experiment file. For kind sql.",
    )
    setup: str | None = Field(
        default=None,
        description="SQL file, relative to the experiment file, run once after the tables are created and loaded.",
    )


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


def _some_resources(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in RESOURCES:
            refuse(f'"{name}" is no resource; write {", ".join(RESOURCES)}')
    return names if names else refuse("the list of resources is empty")


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
    mix: Literal["oltp", "olap", "tpcb-like", "simple-update", "select-only"] | None = Field(
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
        description="sessions: each scenario has its own clients. transactions: one pool, weights per transaction.",
    )
    clients: ClientLevels = Field(
        default=8,
        description="Load levels: a number, a list, or a ramp. With fio the number of its processes. Left out: 8, "
        "with fio 1.",
    )
    rate: RateLevels | None = Field(
        default=None,
        description="Open loop: transactions per second that arrive regardless of the server. Levels as for clients.",
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
    def has_own_sessions(self) -> bool:
        """Whether there are several scenarios, each with sessions of its own."""
        return self.kind != FIO and self.share == "sessions" and len(self.scenario_names) > 1


class ArmTable(KnobTables):
    """One arm and its settings."""

    inherit: str | None = Field(default=None, description="Name of an arm to inherit from; own settings override it.")
    description: str = Field(default="", description="Free text for the report.")


class FactorTable(Table):
    """One factor: a setting, of PostgreSQL or of another table of an arm, and its levels."""

    knob: str = Field(
        default="postgresql",
        description=f"The table of an arm in which the setting stands: {', '.join(KNOBS)}.",
        json_schema_extra={"enum": list(KNOBS)},
    )
    setting: str | None = Field(
        default=None, description="The setting this factor varies. Left out: the factor's name."
    )
    levels: SettingLevels = Field(
        description="Values, at least two; the first of every factor together make the control."
    )


def _with_standard_names(factors: dict[str, FactorTable]) -> dict[str, FactorTable]:
    """Factors whose settings have the one name that a knob gives them, as in the tables of arms."""
    found = {}
    for name, factor in factors.items():
        written = factor.setting or name
        standard = KNOBS[factor.knob].standard_key(written) if factor.knob in KNOBS else written
        found[name] = factor if standard == written else factor.model_copy(update={"setting": standard})
    return found


class DesignTable(Table):
    """How the runs are arranged."""

    method: Literal["blocks", "interleaved", "duet", "switchback", "auto"] = Field(
        default="blocks",
        description="blocks: each block runs every arm once, one after the other. interleaved: the servers of all arms "
        "are up and take turns in short slices. duet: they run at the same time, each on CPUs of its own. switchback: "
        "one server is switched back and forth between the arms. auto: the cheapest of these that is valid.",
    )
    slice: SliceTime | None = Field(
        default=None,
        description="Length of a slice when arms share the time of a block. Left out: "
        f"{DEFAULT_SLICE:g} s if they take turns; {DEFAULT_DUET_SLICE:g} s until they exchange CPUs in a duet, longer "
        f"with many clients and in long runs; {DEFAULT_SWITCH_SLICE:g} s between two switches of one server, or 2 s if "
        "they take effect at once.",
    )
    blocks: Annotated[int, Field(strict=True, ge=1, le=1000)] | None = Field(
        default=None, description=f"Number of blocks. Left out, and no budget: {DEFAULT_BLOCKS}."
    )
    budget: Duration | None = Field(
        default=None,
        description="Time for everything, instead of a number of blocks. Where no duration is given it is chosen with "
        f"their number: {DEFAULT_BLOCKS} blocks at least, if the budget can hold them.",
    )
    stop: Literal["never", "decision", "precision"] = Field(
        default="never",
        description="When to end before the last block. decision: at a look at which the hypothesis is decided, by a "
        "group-sequential rule. precision: as soon as the interval is as narrow as precision says.",
    )
    precision: Ratio | None = Field(
        default=None, description='Wished half-width of the interval, for stop = "precision": "2%".'
    )
    looks: Annotated[int, Field(strict=True, ge=1, le=100)] | None = Field(
        default=None, description="How often stop looks, evenly spread over the blocks. Left out: after every block."
    )
    covariate: Literal["steal", "pressure"] | None = Field(
        default=None,
        description="Also report the effect as it would be if this had been the same in both arms of each block; the "
        "verdict does not use it. steal: share of the CPU time that the hypervisor gave to others. pressure: share of "
        "the time in which some task waited for a CPU. Only for blocks: arms that share a block's time share it too.",
    )
    placebo: Flag = Field(default=False, description="Add a second copy of the control, whose true effect is zero.")
    restore: Restore = Field(default="each-run", description="When the data are put back to the snapshot.")
    cache: Literal["as-is", "cold", "warm"] = Field(
        default="as-is",
        description="State of the caches before a run. cold: the host's page cache is dropped (needs root). warm: the "
        "data are read into shared_buffers, as far as they fit (needs pg_prewarm).",
    )
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] | None = Field(
        default=None,
        description="Seed of everything random, to repeat the order of an earlier experiment. Left out: drawn, and "
        "recorded.",
    )
    repeats: Annotated[int, Field(strict=True, ge=0, le=20)] = Field(
        default=2, description="How often an invalid run is repeated before the experiment stops."
    )
    disturbed: Ratio | None = Field(
        default=None,
        description="Repeat a run, or a block whose arms share its time, in which other programs and the hypervisor "
        'took more than this share of the CPU time: "30%". The last of the repeats counts in any case. Left out: none '
        "is repeated for that.",
    )


class LimitsTable(Table):
    """What the arms slow, where the experiment is to find what limits one of them; "pgtrial limits" writes it."""

    of: str = Field(description="The arm whose limits are looked for, as the report names it.")
    resources: Annotated[tuple[str, ...], AfterValidator(_some_resources)] = Field(
        description='The values in which the arms differ, as knob and key: ["slowdown.cpu", "cgroup.write_iops"].'
    )


class HooksTable(Table):
    """Programs that are run at certain moments, outside of measured time, with the rights of pgtrial.

    By its environment each is told what it is about: PGTRIAL_HOOK, PGTRIAL_FOLDER, of a block PGTRIAL_BLOCK, of a run
    PGTRIAL_RUN and PGTRIAL_ARM as well. Running them needs --allow-code.
    """

    before_dataset: Command = Field(default=(), description="Before the data are prepared, or found prepared.")
    after_dataset: Command = Field(default=(), description="After that.")
    before_block: Command = Field(default=(), description="Before the first run of a block.")
    after_block: Command = Field(default=(), description="After the last run of a block.")
    before_run: Command = Field(default=(), description="Before each attempt at a run; its server does not run yet.")
    after_run: Command = Field(default=(), description="After each attempt, also one that failed.")
    timeout: Duration = Field(
        default=60.0,
        description="Time that each has. One of a run that fails or takes longer makes that run invalid; "
        "another ends the experiment, whose finished runs are kept.",
    )

    def programs(self) -> dict[str, tuple[str, ...]]:
        """The moments that have a program, in the order of the fields."""
        moments = ("before_dataset", "after_dataset", "before_block", "after_block", "before_run", "after_run")
        return {moment: argv for moment in moments if (argv := getattr(self, moment))}


class Experiment(Table):
    """The whole file."""

    format: Literal[1] = Field(description="Version of this file format: 1.")
    experiment: ExperimentTable = Field(description="What the experiment is called.")
    hypothesis: HypothesisTable = Field(default=HypothesisTable(), description="The claim to be tested.")
    target: TargetTable = Field(default=TargetTable(), description="The server that is tested.")
    dataset: DatasetTable = Field(default=DatasetTable(), description="The data.")
    workload: WorkloadTable = Field(description="The load.")
    arms: dict[str, ArmTable] = Field(default={}, description="Named arms; the first is the control.")
    factors: Annotated[dict[str, FactorTable], AfterValidator(_with_standard_names)] = Field(
        default={}, description="Factors instead of arms: every combination."
    )
    disks: dict[str, DiskTable] = Field(default={}, description="Disk classes that arms can be on.")
    design: DesignTable = Field(default=DesignTable(), description="How the runs are arranged.")
    limits: LimitsTable | None = Field(default=None, description="What limits an arm, found by slowing its resources.")
    hooks: HooksTable = Field(default=HooksTable(), description="Programs that are run at certain moments.")
    criteria: tuple[CriterionTable, ...] = Field(default=(), description="What arms are scored by.")
    checks: dict[str, CheckTable] = Field(default={}, description="Other limits for checks of the samples.")
    waive: tuple[WaiverTable, ...] = Field(default=(), description="Disturbances from outside that are accepted.")
    associations: AssociationsTable = Field(
        default=AssociationsTable(), description="Which metrics to look at together."
    )

    @property
    def restore(self) -> Restore:
        """When the data are really put back: an existing database, of which pgtrial has no copy, never is."""
        return "never" if self.target.database is not None else self.design.restore

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        """Put in what is left out of a load on files."""
        workload = data.get("workload") if isinstance(data, dict) else None
        if not isinstance(workload, dict) or workload.get("kind") != FIO:
            return data
        tables = {name: data.get(name, {}) for name in _OF_FILES}
        given = {name: table for name, table in tables.items() if isinstance(table, dict)}
        return {**data, **{name: _OF_FILES[name] | table for name, table in given.items()}}
