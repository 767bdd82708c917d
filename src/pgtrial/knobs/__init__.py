"""What can be varied, one file each; every list of knobs is made of the tables here and of what their knobs declare."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from pgtrial.knobs.base import HostKnob
from pgtrial.knobs.block_device import BlockDevice, BlockDeviceTable
from pgtrial.knobs.cgroup import Cgroup, CgroupTable
from pgtrial.knobs.dataset import Dataset, ScaleTable
from pgtrial.knobs.declaration import Knob, Scope, matches
from pgtrial.knobs.extensions import Extensions, ExtensionsTable
from pgtrial.knobs.filesystem import Filesystem, FilesystemTable
from pgtrial.knobs.fio import FilesTable, Fio
from pgtrial.knobs.huge_pages import HugePages, HugePagesTable
from pgtrial.knobs.memory_pressure import MemoryPressure, MemoryPressureTable
from pgtrial.knobs.pgbouncer import Pgbouncer, PgbouncerTable
from pgtrial.knobs.postgresql import Postgresql
from pgtrial.knobs.server import Server, ServerTable
from pgtrial.knobs.slowdown import Slowdown, SlowdownTable
from pgtrial.knobs.sql import Sql, SqlTable
from pgtrial.knobs.standby import Standby, StandbyTable
from pgtrial.knobs.storage import Storage, StorageTable
from pgtrial.knobs.sysctl import Sysctl, SysctlTable
from pgtrial.knobs.tracing import Tracing, TracingTable
from pgtrial.knobs.transparent_huge_pages import TransparentHugePages, TransparentHugePagesTable
from pgtrial.knobs.values import SettingValue, Table, value_text
from pgtrial.knobs.workload import ArmLoadTable, Workload


class KnobTables(Table):
    """Everything that an arm can set: each table, and the knob that it turns.

    Those of the host are applied in this order, and undone in the reverse order. Transparent huge pages change
    vm.min_free_kbytes, which an arm may set; memory pressure would leave the kernel nothing to make huge pages of.
    """

    postgresql: Annotated[dict[str, SettingValue], Postgresql()] = Field(default={}, description="PostgreSQL settings.")
    server: Annotated[ServerTable, Server()] = Field(default=ServerTable(), description="The server's programs.")
    extensions: Annotated[ExtensionsTable, Extensions()] = Field(
        default=ExtensionsTable(), description="Libraries and extensions."
    )
    sql: Annotated[SqlTable | None, Sql()] = Field(default=None, description="SQL to run before the load.")
    slowdown: Annotated[SlowdownTable, Slowdown()] = Field(
        default=SlowdownTable(), description="Times that take longer by a factor."
    )
    dataset: Annotated[ScaleTable, Dataset()] = Field(default=ScaleTable(), description="The size of the data.")
    workload: Annotated[ArmLoadTable, Workload()] = Field(
        default=ArmLoadTable(), description="The load, as far as arms differ in it."
    )
    pgbouncer: Annotated[PgbouncerTable, Pgbouncer()] = Field(
        default=PgbouncerTable(), description="A pooler between the load and the server."
    )
    standby: Annotated[StandbyTable, Standby()] = Field(default=StandbyTable(), description="A standby of the server.")
    storage: Annotated[StorageTable, Storage()] = Field(default=StorageTable(), description="Location of the data.")
    filesystem: Annotated[FilesystemTable, Filesystem()] = Field(
        default=FilesystemTable(), description="The file system under the data."
    )
    cgroup: Annotated[CgroupTable, Cgroup()] = Field(default=CgroupTable(), description="Limits for the server.")
    transparent_huge_pages: Annotated[TransparentHugePagesTable, TransparentHugePages()] = Field(
        default=TransparentHugePagesTable(), description="Huge pages that the kernel uses automatically."
    )
    sysctl: Annotated[SysctlTable, Sysctl()] = Field(
        default={}, description='Kernel settings by name: "vm.swappiness" = 1.'
    )
    block_device: Annotated[BlockDeviceTable, BlockDevice()] = Field(
        default=BlockDeviceTable(), description="The queue of the block device."
    )
    huge_pages: Annotated[HugePagesTable | None, HugePages()] = Field(
        default=None, description="Huge pages for shared memory."
    )
    memory_pressure: Annotated[MemoryPressureTable, MemoryPressure()] = Field(
        default=MemoryPressureTable(), description="Memory to withhold from the server."
    )
    tracing: Annotated[TracingTable, Tracing()] = Field(
        default=TracingTable(), description="Additional counts by the kernel."
    )
    fio: Annotated[FilesTable, Fio()] = Field(default=FilesTable(), description="The jobs of a load on files.")

    def texts(self) -> dict[str, dict[str, str]]:
        """Knob to name to value as text, only what was given; lists are joined by ", "."""
        found: dict[str, dict[str, str]] = {}
        for knob in KNOBS:
            if knob not in self.model_fields_set:
                continue
            table = getattr(self, knob)
            if isinstance(table, ArmLoadTable):
                if own := table.texts():
                    found[knob] = own
                continue
            values = table if isinstance(table, Mapping) else dict(table) if table is not None else {}
            texts = {name: value_text(value) for name, value in values.items() if value not in (None, ())}
            if texts:
                found[knob] = texts
        return found


def _knob_of(name: str) -> Knob:
    (knob,) = (note for note in KnobTables.model_fields[name].metadata if isinstance(note, Knob))
    if knob.name != name:
        raise TypeError(f'the table "{name}" turns the knob "{knob.name}"')
    return knob


KNOBS: Mapping[str, Knob] = {name: _knob_of(name) for name in KnobTables.model_fields}
HOST_KNOBS: tuple[HostKnob, ...] = tuple(knob for knob in KNOBS.values() if isinstance(knob, HostKnob))


def scope_of(knob: str) -> Scope:
    """What a knob changes; one that is not known, as of a newer pgtrial, may change the host."""
    return KNOBS[knob].scope if knob in KNOBS else Scope.HOST


def intends(knobs: Mapping[str, Mapping[str, str]], code: str) -> bool:
    """Whether what the caveat of that code tells of is what an arm with these tables asks for."""
    known = {knob: table for knob, table in knobs.items() if knob in KNOBS}
    return any(matches(key, KNOBS[knob].intends.get(code, ())) for knob, table in known.items() for key in table)


def is_sql(knob: str, key: str) -> bool:
    """Whether the values of a key are statements."""
    return knob in KNOBS and key in KNOBS[knob].sql_keys


def is_list(knob: str, key: str) -> bool:
    """Whether the key of a knob's table takes a list; as a text its elements are joined by ", "."""
    return knob in KNOBS and isinstance(getattr(KnobTables.model_fields[knob].default, key, None), tuple)
