"""Which arms share one cluster, and which need data of their own."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from pgtrial.design.arms import effective_knobs, scale_of
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.knobs import scope_of
from pgtrial.knobs.declaration import Scope
from pgtrial.model.arm import Arm

FILESYSTEM = "filesystem"
_MADE_WITH = {
    "server": ("postgres", "checksums"),
    "storage": ("data", "wal"),
    FILESYSTEM: ("type", "size", "options"),  # where it is one of its own
    "dataset": ("scale",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """What a cluster is made with: its programs, its places, and a file system of its own ((key, value), () for none).

    ``postgres`` is as in the file, None for what is found first; ``checksums`` None for the version's default;
    ``scale`` that of pgbench's tables, None where there are none.
    """

    postgres: str | None
    checksums: bool | None
    data: str | None
    wal: str | None
    filesystem: tuple[tuple[str, str], ...]
    scale: int | None = None

    @property
    def key(self) -> str:
        """A text that tells it from the others, also for another pgtrial that goes on with the experiment."""
        return json.dumps(asdict(self), sort_keys=True)


def variant_of(experiment: Experiment, arm: Arm) -> Variant:
    """The cluster an arm runs on."""
    knobs = effective_knobs(experiment, arm)
    storage, filesystem = knobs.get("storage", {}), knobs.get(FILESYSTEM, {})
    server = knobs.get("server", {})
    return Variant(
        postgres=server.get("postgres", experiment.target.postgres),
        checksums=server["checksums"] == "on" if "checksums" in server else None,
        data=storage.get("data", experiment.target.directory),
        wal=storage.get("wal"),
        filesystem=tuple(sorted(filesystem.items())) if "type" in filesystem else (),
        scale=scale_of(experiment, arm) if experiment.dataset.kind == "pgbench" else None,
    )


def made_with(experiment: Experiment, arm: Arm) -> frozenset[tuple[str, str]]:
    """Knob and key of what an arm declares and its cluster is made with, as ``variant_of`` has it."""
    table = effective_knobs(experiment, arm)
    kinds = {knob: keys for knob, keys in _MADE_WITH.items() if knob != FILESYSTEM or "type" in table.get(knob, {})}
    return frozenset((knob, key) for knob, keys in kinds.items() for key in keys)


def variants_of(experiment: Experiment, arms: Iterable[Arm]) -> tuple[Variant, ...]:
    """Every one of them once, the control's first."""
    return tuple(dict.fromkeys(variant_of(experiment, arm) for arm in arms))


def host_knobs(experiment: Experiment, arm: Arm) -> dict[str, dict[str, str]]:
    """What has to be set on the host while the arm runs; a file system of its own is there for the whole experiment."""
    return {
        knob: table
        for knob, table in effective_knobs(experiment, arm).items()
        if scope_of(knob) is Scope.HOST and not (knob == FILESYSTEM and "type" in table)
    }
