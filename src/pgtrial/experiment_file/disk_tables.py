"""Disk classes: places for the data by name, real ones and emulated ones, and what a name stands for in an arm."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from pgtrial.knobs.values import Directory, MountOptions, PerSecond, Size, Table

STORAGE, DISK = "storage", "disk"  # table and key of an arm that name a disk class
LIMITS = ("read_iops", "write_iops", "read_bytes", "write_bytes")  # of a class, and of the table cgroup
_DEFAULT_TYPE = "ext4"


class DiskTable(Table):
    """A disk class: a place that is there, or, with a size, an emulation whose limits are enforced on a loop device."""

    data: Directory | None = Field(
        default=None,
        description="Existing directory on the disk, for the data; of an emulation, for its image file. Left out: as "
        "for arms without a disk class.",
    )
    wal: Directory | None = Field(default=None, description="Existing directory for the WAL. Left out: with the data.")
    size: Size | None = Field(
        default=None,
        description="Makes it an emulation: a file system in an image file of this size on a loop device. Room for the "
        "data twice, and for the WAL.",
    )
    type: Literal["ext4", "xfs", "btrfs"] | None = Field(
        default=None, description=f"Kind of the emulation's file system. Left out: {_DEFAULT_TYPE}."
    )
    options: MountOptions | None = Field(
        default=None, description="Mount options of that file system, as in the table filesystem."
    )
    read_iops: PerSecond | None = Field(
        default=None,
        description="Reads per second that the class allows. Of an emulation they are enforced; of a disk that is "
        "there they are what its provider says, and the report compares.",
    )
    write_iops: PerSecond | None = Field(default=None, description="Writes per second, likewise.")
    read_bytes: Size | None = Field(default=None, description='Bytes read per second, likewise: "100MB".')
    write_bytes: Size | None = Field(default=None, description="Bytes written per second, likewise.")

    @property
    def is_emulated(self) -> bool:
        return self.size is not None

    def limits(self) -> dict[str, str]:
        """The declared limits, by key, as texts."""
        return {key: str(value) for key in LIMITS if (value := getattr(self, key)) is not None}

    def tables(self) -> dict[str, dict[str, str]]:
        """What an arm on this disk has, knob to key to value."""
        places = {key: value for key, value in (("data", self.data), ("wal", self.wal)) if value is not None}
        found = {STORAGE: places}
        if self.size is not None:
            found["filesystem"] = {"type": self.type or _DEFAULT_TYPE, "size": self.size}
            if self.options:
                found["filesystem"]["options"] = self.options
            found["cgroup"] = self.limits()
        return {knob: table for knob, table in found.items() if table}


def put_disk(
    disks: Mapping[str, DiskTable], tables: Mapping[str, Mapping[str, str]]
) -> Mapping[str, Mapping[str, str]]:
    """An arm's tables (knob to key to value) with what its disk class stands for in place of the class's name."""
    name = tables.get(STORAGE, {}).get(DISK)
    if name is None or name not in disks:
        return tables
    own = {**tables, STORAGE: {key: value for key, value in tables[STORAGE].items() if key != DISK}}
    class_tables = disks[name].tables()
    merged = {knob: {**own.get(knob, {}), **class_tables.get(knob, {})} for knob in {**own, **class_tables}}
    return {knob: table for knob, table in merged.items() if table}
