"""What can be varied beside PostgreSQL's settings: one table per knob, in an arm or, for all, in [target].

Values stay texts as far as a knob reads them itself: they are shown as they were written.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from pgtrial.experiment_file.file_tables import FilesTable
from pgtrial.experiment_file.values import (
    Directory,
    Flag,
    KernelValue,
    MountOptions,
    Name,
    Ratio,
    SettingValue,
    Size,
    Table,
    Version,
)

POSTGRESQL = "postgresql"  # the table of the server's own settings

# Kernel settings (ratio, absolute) of which one is in force and the other reads 0: the kernel makes it 0 as soon as the
# other is set. Source: kernel documentation, admin-guide/sysctl/vm.rst.
EXCLUSIVE_SYSCTLS = (
    ("vm.dirty_ratio", "vm.dirty_bytes"),
    ("vm.dirty_background_ratio", "vm.dirty_background_bytes"),
    ("vm.overcommit_ratio", "vm.overcommit_kbytes"),
)

Natural = Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)]
Scale = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
PerSecond = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]


class ServerTable(Table):
    """The server's programs, where arms differ in them."""

    postgres: Version | None = Field(
        default=None, description='Major version ("18") or a directory with the server\'s programs.'
    )
    checksums: Flag | None = Field(
        default=None,
        description="Data checksums of the cluster. Left out: what the version's initdb does, which is on from 18.",
    )


class ScaleTable(Table):
    """Another size of pgbench's tables than [dataset] has."""

    scale: Scale | None = Field(
        default=None, description="pgbench's scale; every scale has a cluster and a snapshot of its own."
    )


class StorageTable(Table):
    """Where the data lie."""

    disk: Name | None = Field(
        default=None, description="Name of a disk class, [disks.NAME]: a place, or an emulation with limits."
    )
    data: Directory | None = Field(default=None, description="Existing directory in which the cluster's data are put.")
    wal: Directory | None = Field(default=None, description="Existing directory for the WAL. Left out: with the data.")


class FilesystemTable(Table):
    """The file system under the data: one made for the experiment, or the one that is there with other options."""

    type: Literal["ext4", "xfs", "btrfs"] | None = Field(
        default=None,
        description="Make a file system of this kind in an image file in the storage directory. "
        "Left out: the one that is there is remounted with the options.",
    )
    size: Size | None = Field(default=None, description='Size of the image: "20GB".')
    options: MountOptions | None = Field(
        default=None,
        description="Mount options that bear on speed, such as noatime, nobarrier, commit=30, compress=zstd.",
    )


class CgroupTable(Table):
    """Limits of a control group in which the server runs, with its share of the page cache."""

    memory: Size | None = Field(default=None, description='Memory and page cache together: "2GB".')
    cpus: Annotated[float, Field(strict=True, gt=0, le=10_000)] | None = Field(default=None, description="CPUs: 1.5.")
    read_iops: PerSecond | None = Field(default=None, description="Reads per second from the device under the data.")
    write_iops: PerSecond | None = Field(default=None, description="Writes per second to it.")
    read_bytes: Size | None = Field(default=None, description='Bytes read per second: "100MB".')
    write_bytes: Size | None = Field(default=None, description="Bytes written per second.")


class BlockDeviceTable(Table):
    """The queue of a block device."""

    device: Name | None = Field(default=None, description='Its name ("sda"). Left out: the one under the data.')
    scheduler: Name | None = Field(default=None, description='I/O scheduler: "none", "mq-deadline", "bfq", "kyber".')
    read_ahead_kb: Natural | None = Field(default=None, description="Read-ahead in kB.")
    nr_requests: Natural | None = Field(default=None, description="Requests in its queue.")
    wbt_lat_usec: Annotated[int, Field(strict=True, ge=-1)] | None = Field(
        default=None, description="Latency in µs that write-back throttling aims at; 0 is off, -1 the kernel's default."
    )
    max_sectors_kb: Natural | None = Field(default=None, description="Largest request in kB.")


class TransparentHugePagesTable(Table):
    """Huge pages that the kernel uses by itself."""

    enabled: Literal["always", "madvise", "never"] | None = Field(default=None, description="For ordinary memory.")
    defrag: Literal["always", "defer", "defer+madvise", "madvise", "never"] | None = Field(
        default=None, description="How hard it tries to get them."
    )
    shmem: Literal["always", "within_size", "advise", "never", "deny", "force"] | None = Field(
        default=None, description="For shared memory (shmem_enabled)."
    )


class HugePagesTable(Table):
    """Explicit huge pages for the server's shared memory; sets huge_pages and huge_page_size."""

    size: Literal["none", "2MB", "1GB"] = Field(
        description="Page size; the pool is made as large as the server needs, and given back. none: no huge pages."
    )


class MemoryPressureTable(Table):
    """Memory that is taken away: locked by a process of its own. A size or a share."""

    size: Size | None = Field(default=None, description='So much: "8GB".')
    share: Ratio | None = Field(default=None, description='This share of the memory that is available: "50%".')


class TracingTable(Table):
    """What the kernel is asked to count while a run is made, because it has no counter of it."""

    throttling: Literal["off", "if-possible", "required"] | None = Field(
        default=None,
        description="Pauses of writers (tracepoint writeback:balance_dirty_pages). It needs root and tracefs; "
        "how long they last is known with histogram triggers. if-possible: otherwise nothing is counted.",
    )


class ExtensionsTable(Table):
    """Libraries and extensions."""

    preload: tuple[Name, ...] = Field(default=(), description="Libraries for shared_preload_libraries.")
    create: tuple[Name, ...] = Field(default=(), description="Extensions to create in the load's database.")


class SqlTable(Table):
    """SQL that is run in the load's database once the server is up: indexes, storage options, statistics targets."""

    apply: str = Field(description="Statements, separated by semicolons; each is a transaction of its own.")
    undo: str | None = Field(
        default=None, description="What undoes them; needed where the data are not put back before each run."
    )


class KnobTables(Table):
    """Everything that an arm can set, PostgreSQL's settings first."""

    postgresql: dict[str, SettingValue] = Field(default={}, description="PostgreSQL settings.")
    server: ServerTable = Field(default=ServerTable(), description="The server's programs.")
    extensions: ExtensionsTable = Field(default=ExtensionsTable(), description="Libraries and extensions.")
    sql: SqlTable | None = Field(default=None, description="SQL that is run before the load.")
    dataset: ScaleTable = Field(default=ScaleTable(), description="The size of the data.")
    storage: StorageTable = Field(default=StorageTable(), description="Where the data lie.")
    filesystem: FilesystemTable = Field(default=FilesystemTable(), description="The file system under the data.")
    cgroup: CgroupTable = Field(default=CgroupTable(), description="Limits for the server.")
    sysctl: dict[str, KernelValue] = Field(default={}, description='Kernel settings by name: "vm.swappiness" = 1.')
    block_device: BlockDeviceTable = Field(default=BlockDeviceTable(), description="The queue of the block device.")
    transparent_huge_pages: TransparentHugePagesTable = Field(
        default=TransparentHugePagesTable(), description="Huge pages that the kernel uses by itself."
    )
    huge_pages: HugePagesTable | None = Field(default=None, description="Huge pages for shared memory.")
    memory_pressure: MemoryPressureTable = Field(
        default=MemoryPressureTable(), description="Memory that is taken away."
    )
    tracing: TracingTable = Field(default=TracingTable(), description="What the kernel counts beside its counters.")
    fio: FilesTable = Field(default=FilesTable(), description="What the jobs of a load on files do.")

    def texts(self) -> dict[str, dict[str, str]]:
        """Knob to name to value as text, only what was given; lists are joined by ", "."""
        found: dict[str, dict[str, str]] = {}
        for knob in KNOB_NAMES:
            if knob not in self.model_fields_set:
                continue
            table = getattr(self, knob)
            values = table if isinstance(table, Mapping) else dict(table) if table is not None else {}
            texts = {name: value_text(value) for name, value in values.items() if value not in (None, ())}
            if texts:
                found[knob] = texts
        return found


KNOB_NAMES = tuple(KnobTables.model_fields)


def is_list(knob: str, key: str) -> bool:
    """Whether the key of a knob's table takes a list; as a text its elements are joined by ", "."""
    return knob in KNOB_NAMES and isinstance(getattr(KnobTables.model_fields[knob].default, key, None), tuple)


def value_text(value: object) -> str:
    """Text of a TOML value: true is "on", 8 is "8", a string is itself, a list is joined."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ", ".join(value)
    return str(value)
