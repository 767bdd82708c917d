"""Where the data and the WAL lie."""

from pydantic import Field

from pgtrial.knobs.declaration import ON_DEVICE, About, Acts, Among, EffectTiming, Knob, Rule, Scope
from pgtrial.knobs.values import Directory, Name, Table


class StorageTable(Table):
    """Location of the data."""

    disk: Name | None = Field(
        default=None, description="Name of a disk class, [disks.NAME]: directories, or an emulation with limits."
    )
    data: Directory | None = Field(default=None, description="Existing directory for the cluster's data.")
    wal: Directory | None = Field(default=None, description="Existing directory for the WAL. Left out: with the data.")


class Storage(Knob):
    name = "storage"
    about = About(
        sets="the directories of the data and of the WAL, or the disk class that they are on ([disks.NAME]): a place, "
        "or an emulation, which is a filesystem and limits of a cgroup, below",
        takes_effect="arms with other directories have their own cluster",
        rights="write access for the server's user; an emulation needs root",
        verified="data_directory and the link pg_wal are read back",
        undone="removed with the cluster",
    )
    scope = Scope.CLUSTER
    among_twins = Among.OWN
    acts = (Acts(code="requests", metrics=("iostat.iops",), least=1.0),)
    rules = (
        Rule(
            timing=EffectTiming.BUILDS_UP,
            reason="brings its own device, whose caches and waiting writes come and go over minutes",
            shares=ON_DEVICE,
        ),
    )
    facts = ("storage/*", "limits/I/O")
    not_on_server = "the data of an existing server stay where they are"
    keys_of_server = ("wal",)
    cluster_keys = ("data", "wal")
