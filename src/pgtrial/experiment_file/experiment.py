"""The experiment file as pydantic models, one class per table; the field descriptions are its documentation. Tables
with much to say have modules of their own.

Only the shape of single values is checked here. What needs two places of the file, or the file system, is in
``crosscheck.py``; the wording of the errors is in ``wording.py``.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from pgtrial.experiment_file.cause_tables import (
    AcceptanceTable,
    AssociationsTable,
    CheckTable,
    CriterionTable,
    WaiverTable,
)
from pgtrial.experiment_file.disk_tables import LIMITS, DiskTable
from pgtrial.experiment_file.guardrails_table import GuardrailsTable
from pgtrial.experiment_file.hypothesis_table import HypothesisTable
from pgtrial.experiment_file.values import Connection, DatabaseName, DataFiles, Duration, Host, SettingLevels, SliceTime
from pgtrial.experiment_file.workload_table import TPCC, WorkloadTable
from pgtrial.knobs import KNOBS, KnobTables
from pgtrial.knobs.cgroup import Cgroup
from pgtrial.knobs.dataset import Scale
from pgtrial.knobs.fio import FIO
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.knobs.slowdown import KEYS, SLOWDOWN
from pgtrial.knobs.values import Command, Flag, Ratio, Table, Version, refuse
from pgtrial.knobs.workload import PAUSES, WORKLOAD

FORMAT = 1
PLACEBO = "placebo"  # name of the second copy of the control
DEFAULT_SLICE = 1.0  # s
DEFAULT_DUET_SLICE = 0.03  # s, with few clients
DEFAULT_SWITCH_SLICE = 30.0  # s, where an effect builds up
DEFAULT_WINDOWS = 24  # of a soak
DEFAULT_BLOCKS = 6  # the fewest that an exact test on the blocks can call significant at 5 %


# What an arm's throughput may owe something to: times, and what a device allows per second; and memory, which is no
# time. Memory and pauses of scripts are looked at only where somebody asks for it.
TIMES = (
    *(f"{SLOWDOWN}.{key}" for key in KEYS),
    *(f"{Cgroup.name}.{key}" for key in LIMITS),
    f"{WORKLOAD}.{PAUSES}",
)
MEMORY = (f"{POSTGRESQL}.shared_buffers", f"{Cgroup.name}.memory")
RESOURCES = (*TIMES, *MEMORY)

Restore = Literal["each-run", "each-block", "never"]


# What a load on files has where the file says nothing: there is no server, a process is a client, nothing is warmed up
# because the state of the page cache is chosen, and what is asked for is mostly bytes per second.
_OF_FILES: dict[str, dict[str, Any]] = {
    "target": {"kind": "host"},
    "workload": {"clients": 1, "warmup": 0},
    "hypothesis": {"metric": "fio.bandwidth"},
}

# The shares of its specification are those of transactions.
_OF_TPCC: dict[str, dict[str, Any]] = {"dataset": {"kind": TPCC}, "workload": {"share": "transactions"}}


class ExperimentTable(Table):
    """What the experiment is called."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")] = Field(
        description="Name of the experiment; also the first part of the result folder's name."
    )
    description: str = Field(default="", description="Free text for the report.")


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
    copy_of: DatabaseName | None = Field(
        default=None,
        description="The database of which the existing one is a copy, as pgtrial copy writes it: no plan advises "
        "another copy then. Nobody checks it.",
    )
    writes: Flag = Field(
        default=False,
        description="Arms and scripts may change the existing database; running it also needs --allow-writes. Left "
        "out: the load's sessions are read-only.",
    )
    settings: Literal["session", "role", "server"] = Field(
        default="session",
        description="How an existing server gets an arm's settings. session: the load's own sessions get those that a "
        "session can have, and only the others are changed for the whole server. role: the same, but by ALTER ROLE … "
        "IN DATABASE of the load's role, for a pooler or a load generator that does not pass libpq's options on; the "
        "role's idle sessions are ended. server: all are changed for the whole server, by ALTER SYSTEM.",
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


SCALED = ("pgbench", TPCC)  # kinds of data that pgtrial makes at a scale


class DatasetTable(Table):
    """The data: created once and restored before the runs, or those of an existing database."""

    kind: Literal["pgbench", "tpcc-like", "sql", "existing"] = Field(
        default="pgbench",
        description="pgbench: its tables at a scale. tpcc-like: tables like those of TPC-C, for so many warehouses. "
        "sql: only what is loaded, and what the set-up file creates. existing: the data in the database named in "
        f"[target]. Left out: pgbench, with mix {TPCC} that.",
    )
    scale: Scale = Field(
        default=10,
        description="pgbench's scale; 1 is 100,000 accounts, about 15 MB. For kind tpcc-like: warehouses, of about "
        "100 MB each. For kind existing: that of its tables.",
    )
    foreign_keys: Flag = Field(default=False, description="Create the tables with foreign keys.")
    load: DataFiles = Field(
        default=(),
        description="Data to load once, with psql and pg_restore: an archive or a directory of pg_dump, its plain "
        "output, a file for psql, or a list of them. Relative to the experiment file. For kind sql.",
    )
    setup: str | None = Field(
        default=None,
        description="SQL file, relative to the experiment file, run once after the tables are created and loaded.",
    )


def _some_resources(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in RESOURCES:
            refuse(f'"{name}" is no resource; write {", ".join(RESOURCES)}')
    if not names:
        refuse("the list of resources is empty")
    # Elasticities to times add up to 1, and say by that whether anything is missing; of memory alone nobody could tell.
    return names if set(names) & set(TIMES) else refuse(f"name a time, too: {', '.join(TIMES)}")


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
    soak: Duration | None = Field(
        default=None,
        description="Instead of blocks: load each arm for so long on one server that is never restarted, with data "
        "that are never put back, and report what drifts. It decides no claim.",
    )
    windows: Annotated[int, Field(strict=True, ge=8, le=1000)] | None = Field(
        default=None,
        description="Equal parts of a soak, of whole seconds, each of which is measured and kept by itself; the load "
        f"reconnects between them. Left out: {DEFAULT_WINDOWS}.",
    )
    stop: Literal["never", "decision", "each-arm", "precision"] = Field(
        default="never",
        description="When to end before the last block. decision: at a look at which the hypothesis is decided, by a "
        "group-sequential rule. each-arm: the same for every arm by itself, which is not run any more once the "
        "hypothesis is decided for it; only with blocks. precision: as soon as the interval is as narrow as precision "
        "says.",
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
        "data are read into shared_buffers, as far as they fit (needs pg_prewarm), and as fast as the disk can: limits "
        "of reads in [target.cgroup] hold from then on.",
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


def count_windows(design: DesignTable) -> int:
    """Windows of a soak."""
    return DEFAULT_WINDOWS if design.windows is None else design.windows


MOST_LOAD_HOSTS = 64


class LoadTable(Table):
    """Where the load comes from, if not from the machine that pgtrial runs on."""

    hosts: Annotated[tuple[Host, ...], Field(min_length=1, max_length=MOST_LOAD_HOSTS)] = Field(
        description="Machines on which pgbench runs, each with an equal part of the clients, reached with the ssh "
        "command. The throw-away server then listens on TCP for them alone, and asks for a password that is drawn for "
        "the experiment."
    )
    server: Annotated[str, Field(pattern=r"^[0-9A-Fa-f:.]{2,45}$")] | None = Field(
        default=None,
        description="IP address at which they reach the server's machine. Left out: the one from which that machine "
        "would reach them.",
    )
    tls: Flag = Field(
        default=False,
        description="They use TLS, with a certificate that is drawn for the experiment, and are let in with nothing "
        "else. It costs both sides CPU time, in all arms. Needs the Python package cryptography.",
    )


class LimitsTable(Table):
    """What limits an arm, found by experiment: times are made longer one by one, and throughput is seen to fall."""

    prove: Flag = Field(
        default=False,
        description="After the last block, find what limits the control and the claim's arm, as pgtrial limits does. "
        "Each has a result folder of its own below limits, and the report has what they say.",
    )
    arm: str | None = Field(default=None, description="With prove: the only arm that is looked at.")
    budget: Duration | None = Field(
        default=None,
        description=f"With prove: time for all of it. Left out: {DEFAULT_BLOCKS} blocks for each arm.",
    )
    of: str | None = Field(
        default=None,
        description="Without prove, as pgtrial limits writes it: the arm whose limits are looked for, as the report "
        "names it.",
    )
    resources: Annotated[tuple[str, ...], AfterValidator(_some_resources)] = Field(
        default=(),
        description='The values in which the arms differ, as knob and key: ["slowdown.cpu", "cgroup.write_iops"]. '
        "With prove: what is made longer, or smaller as postgresql.shared_buffers; left out: all times that can be.",
    )


class HooksTable(Table):
    """Programs that are run at certain moments, outside of measured time, with the rights of pgtrial.

    By its environment each is told what it is about: PGTRIAL_HOOK, PGTRIAL_FOLDER, of a block PGTRIAL_BLOCK, of a run
    PGTRIAL_RUN and PGTRIAL_ARM as well. They start in the directory where pgtrial was started: give programs of your
    own with their whole path. Running them needs --allow-code.

    What they start and leave running ends with a pgtrial that is killed, and before pgtrial resume goes on, which
    calls them again; after an end in order it stays, also when pgtrial restore is run.
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
    guardrails: GuardrailsTable | None = Field(
        default=None, description="What ends the switching of a server that others use."
    )
    load: LoadTable | None = Field(default=None, description="Where the load comes from.")
    limits: LimitsTable | None = Field(default=None, description="What limits an arm, found by slowing its resources.")
    hooks: HooksTable = Field(default=HooksTable(), description="Programs that are run at certain moments.")
    criteria: tuple[CriterionTable, ...] = Field(default=(), description="What arms are scored by.")
    acceptance: tuple[AcceptanceTable, ...] = Field(default=(), description="What is enough.")
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
        """Put in what is left out of a load on files, and of one like TPC-C."""
        workload = data.get("workload") if isinstance(data, dict) else None
        if not isinstance(workload, dict):
            return data
        defaults = _OF_FILES if workload.get("kind") == FIO else _OF_TPCC if workload.get("mix") == TPCC else {}
        tables = {name: data.get(name, {}) for name in defaults}
        given = {name: table for name, table in tables.items() if isinstance(table, dict)}
        return {**data, **{name: defaults[name] | table for name, table in given.items()}}
