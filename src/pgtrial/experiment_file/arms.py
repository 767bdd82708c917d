"""From the tables of the file to arms: inheritance followed, factors crossed, common values and disk classes put in.

This is the only place that does it. The checks of a file use the same values with the place of each, as far as they can
be read; ``resolve_arms`` makes of a file without errors the arms that everything else works with.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import cast

from pydantic import ValidationError

from pgtrial.errors import SpecError
from pgtrial.experiment_file.disk_tables import DISK, STORAGE, put_disk
from pgtrial.experiment_file.experiment import PLACEBO, SCALED, ArmTable, Experiment, FactorTable
from pgtrial.experiment_file.position import Found, Path, format_path
from pgtrial.experiment_file.wording import word_error
from pgtrial.experiment_file.workload_table import WorkloadTable
from pgtrial.knobs import KnobTables, is_list
from pgtrial.knobs.cgroup import Cgroup
from pgtrial.knobs.cgroup_limits import OWN_SWAPPINESS
from pgtrial.knobs.fio import DEFAULT_BLOCK_SIZE, DEFAULT_ENGINE, FILES, FIO, Cache, FileJobTable, FileWork
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.knobs.sysctl import SWAPPINESS, Sysctl
from pgtrial.knobs.values import value_text
from pgtrial.knobs.workload import WORKLOAD
from pgtrial.model.arm import Arm, FileJob, Role, Tables, Variant
from pgtrial.nearest import hint_name
from pgtrial.units import parse_bytes

MOST_COMBINATIONS = 64
FILESYSTEM = "filesystem"
WORK = tuple(FileWork.model_fields)
OF_JOBS = frozenset((FIO, key) for key in (*WORK, "cache"))  # knob and key of what jobs and cache are made of
_LONGEST_NAME = 63  # a run's folder carries it
_WORK_DEFAULTS = {
    "block_size": DEFAULT_BLOCK_SIZE,
    "norandommap": "off",
    "once": "off",
    "direct": "off",
    "fsync": "0",
    "engine": DEFAULT_ENGINE,
    "depth": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One value: the knob, its key there, the text, and where it stands in the file."""

    knob: str
    key: str
    value: str
    path: Path

    @property
    def is_level(self) -> bool:
        """Whether it is that of a factor, which names knob and key once for all of its levels."""
        return self.path[0] == "factors"

    @property
    def place_of_knob(self) -> Path:
        """Where the knob is named."""
        return ("factors", self.path[1], "knob") if self.is_level else self.path[:-1]


Values = dict[tuple[str, str], Declared]  # by knob and key


# -- values with their places --------------------------------------------------------------------------------------


def all_declared(experiment: Experiment) -> Iterator[Declared]:
    """Every value of [target], the arms and the factors, in that order; also levels of factors that are wrong."""
    yield from _in_tables(experiment.target, ("target",))
    for name, arm in experiment.arms.items():
        yield from _in_tables(arm, ("arms", name))
    for name, factor in experiment.factors.items():
        for index, level in enumerate(factor.levels):
            yield _level(name, factor, index, value_text(level))


def arm_values(experiment: Experiment) -> dict[str, Values]:
    """By arm what it has: of [target], of what it inherits, and its own. The placebo has what the control has.

    Arms that cannot be resolved have what can be, and a level that is wrong is none; factors with too many combinations
    make no arms.
    """
    common = _by_key(_in_tables(experiment.target, ("target",)))
    return {name: common | own for name, own in own_values(experiment).items()}


def own_values(experiment: Experiment) -> dict[str, Values]:
    """By arm what it declares or inherits, without what [target] says; see ``arm_values``."""
    if not experiment.factors:
        return {name: _with_inherited(experiment, name, ()) for name in experiment.arms}
    if count_combinations(experiment.factors) > MOST_COMBINATIONS:
        return {}
    levels = [
        [_read_level(name, factor, index) for index in range(len(factor.levels))]
        for name, factor in experiment.factors.items()
    ]
    names = combination_names(experiment.factors)
    chosen = itertools.product(*levels)
    return {name: _by_key(filter(None, values)) for name, values in zip(names, chosen, strict=True)}


def _in_tables(tables: KnobTables, path: Path) -> Iterator[Declared]:
    for knob, values in tables.texts().items():
        for key, value in values.items():
            place = key.split(".", 1) if knob == WORKLOAD else [key]  # its tables of scripts and variables
            yield Declared(knob=knob, key=key, value=value, path=(*path, knob, *place))


def _with_inherited(experiment: Experiment, name: str, heirs: tuple[str, ...]) -> Values:
    if name not in experiment.arms or name in heirs:
        return {}
    arm = experiment.arms[name]
    inherited = _with_inherited(experiment, arm.inherit, (*heirs, name)) if arm.inherit is not None else {}
    return inherited | _by_key(_in_tables(arm, ("arms", name)))


def _by_key(values: Iterable[Declared]) -> Values:
    return {(value.knob, value.key): value for value in values}


def check_inheritance(experiment: Experiment, _: FilePath | None = None) -> Iterator[Found]:
    """Arms that inherit from one that does not exist, or from themselves."""
    for name, arm in experiment.arms.items():
        if arm.inherit is None:
            continue
        path: Path = ("arms", name, "inherit")
        if arm.inherit not in experiment.arms:
            others = [other for other in experiment.arms if other != name]
            yield path, f'arm "{arm.inherit}" does not exist', hint_name(arm.inherit, others, what="Arms are")
            continue
        chain = [name]
        ancestor: str | None = arm.inherit
        while ancestor is not None and ancestor in experiment.arms and ancestor not in chain:
            chain.append(ancestor)
            ancestor = experiment.arms[ancestor].inherit
        if ancestor == name:
            circle = " → ".join([*chain, name])
            yield path, f'arm "{name}" inherits from itself', f"The chain is {circle}. Remove one link."


# -- factors -------------------------------------------------------------------------------------------------------


def count_combinations(factors: Mapping[str, FactorTable]) -> int:
    """How many arms the factors make."""
    count = 1
    for factor in factors.values():
        count *= len(factor.levels)
    return count


def all_names(experiment: Experiment) -> list[str]:
    """Of the arms, the control first, without a placebo; none while they are not known, or too many."""
    if experiment.factors and count_combinations(experiment.factors) <= MOST_COMBINATIONS:
        return combination_names(experiment.factors)
    return list(experiment.arms)


def combination_names(factors: Mapping[str, FactorTable]) -> list[str]:
    """The name of every combination; the first has the first level of every factor, the last factor varies fastest.

    A name is "shared_buffers=1GB,work_mem=64MB", or only the levels ("1GB,64MB") or a number ("combination-7")
    where that would be too long for a folder's name. SpecError for more than 64 combinations.
    """
    if count_combinations(factors) > MOST_COMBINATIONS:
        raise SpecError(f"the factors make {count_combinations(factors)} combinations, more than {MOST_COMBINATIONS}")
    parts = [[(_portable(name), _portable(value_text(level))) for level in f.levels] for name, f in factors.items()]
    combinations = list(itertools.product(*parts))
    full = [",".join(f"{factor}={level}" for factor, level in levels) for levels in combinations]
    short = [",".join(level for _, level in levels) for levels in combinations]
    for names in (full, short):
        # Compared without case: a folder's name must not depend on it.
        if max(map(len, names)) <= _LONGEST_NAME and len({name.lower() for name in names}) == len(names):
            return names
    return [f"combination-{number}" for number in range(1, len(combinations) + 1)]


def find_fault(knob: str, key: str, value: object) -> tuple[str, str] | None:
    """What is wrong with a value in a knob's table: message and hint, as if it stood in an arm; None if it is right.

    A list may be given as one text, its elements joined by ", ".
    """
    try:
        _validate(knob, key, value)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        _, message, hint = word_error({**detail, "loc": ("arms", "", *detail["loc"])})
        return message, hint
    return None


def _validate(knob: str, key: str, value: object) -> ArmTable:
    """An arm that has nothing but this value."""
    if is_list(knob, key) and isinstance(value, str):
        value = value.split(", ") if value else []
    return ArmTable.model_validate({knob: {key: value}})


def _read_level(name: str, factor: FactorTable, index: int) -> Declared | None:
    """A level as the table of its knob reads it; None where that cannot read it, which the checks say."""
    key = factor.setting or name
    try:
        tables = _validate(factor.knob, key, factor.levels[index]).texts()
    except ValidationError:
        return None
    return _level(name, factor, index, tables.get(factor.knob, {}).get(key, ""))


def _level(name: str, factor: FactorTable, index: int, text: str) -> Declared:
    return Declared(knob=factor.knob, key=factor.setting or name, value=text, path=("factors", name, "levels", index))


def _portable(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.+-]+", "_", text) or "empty"


# -- arms ----------------------------------------------------------------------------------------------------------


def resolve_arms(experiment: Experiment) -> tuple[Arm, ...]:
    """All arms, the control first, the placebo last. SpecError for an unknown or circular "inherit", and for too many
    combinations of factors.
    """
    if experiment.factors:
        combination_names(experiment.factors)  # says so if there are too many
    else:
        for path, message, hint in check_inheritance(experiment):
            raise SpecError(f"{format_path(path)}: {message}", hint=hint)
    arms = [
        _resolve(experiment, name, Role.CANDIDATE if position else Role.CONTROL, own)
        for position, (name, own) in enumerate(own_values(experiment).items())
    ]
    if experiment.target.kind != "server" and any(SWAPPINESS in arm.knobs.get(Sysctl.name, {}) for arm in arms):
        arms = [_with_own_swappiness(arm) for arm in arms]
    if experiment.design.placebo and arms:
        arms.append(replace(arms[0], name=PLACEBO, role=Role.PLACEBO))
    return tuple(arms)


def _with_own_swappiness(arm: Arm) -> Arm:
    """The arm with a control group in which its swappiness governs, if the machine has such; all arms alike."""
    return replace(arm, knobs={**arm.knobs, Cgroup.name: {**arm.knobs.get(Cgroup.name, {}), OWN_SWAPPINESS: "on"}})


def complete_arm(experiment: Experiment, name: str, role: Role, own: Tables) -> Arm:
    """An arm of which only its own values are known, knob to name to value, as old result folders have it."""
    place: Path = ("arms", name)
    values = (
        Declared(knob=knob, key=key, value=value, path=(*place, knob, key))
        for knob, table in own.items()
        for key, value in table.items()
    )
    return _resolve(experiment, name, role, _by_key(values))


def _resolve(experiment: Experiment, name: str, role: Role, own: Values) -> Arm:
    target, dataset = experiment.target, experiment.dataset
    effective = _by_key(_in_tables(target, ("target",))) | own
    declared = _tables(effective)
    settings = declared.pop(POSTGRESQL, {})
    own_knobs = _tables(own)
    own_settings = own_knobs.pop(POSTGRESQL, {})
    disk = declared.get(STORAGE, {}).get(DISK)
    knobs = {knob: dict(table) for knob, table in put_disk(experiment.disks, declared).items()}
    storage, filesystem, server = knobs.get(STORAGE, {}), knobs.get(FILESYSTEM, {}), knobs.get("server", {})
    return Arm(
        name=name,
        role=role,
        own_settings=own_settings,
        own_knobs=own_knobs,
        settings=settings,
        knobs=knobs,
        origins=_origins(effective),
        disk=disk,
        is_emulated=disk in experiment.disks and experiment.disks[disk].is_emulated,
        variant=Variant(
            postgres=server.get("postgres", target.postgres),
            checksums=server["checksums"] == "on" if "checksums" in server else None,
            data=storage.get("data", target.directory),
            wal=storage.get("wal"),
            filesystem=tuple(sorted(filesystem.items())) if "type" in filesystem else (),
            scale=int(knobs.get("dataset", {}).get("scale", dataset.scale)) if dataset.kind in SCALED else None,
        ),
        jobs=_resolve_jobs(experiment.workload, knobs.get(FIO, {})) if experiment.workload.kind == FIO else (),
        cache=cast("Cache", knobs.get(FIO, {}).get("cache", experiment.design.cache)),
    )


def _tables(values: Values) -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = {}
    for (knob, key), declared in values.items():
        tables.setdefault(knob, {})[key] = declared.value
    return tables


def _origins(values: Values) -> dict[str, dict[str, str]]:
    origins: dict[str, dict[str, str]] = {}
    for (knob, key), declared in values.items():
        origins.setdefault(knob, {})[key] = format_path(declared.path)
    return origins


# -- jobs of a load on files ---------------------------------------------------------------------------------------


def job_tables(workload: WorkloadTable) -> tuple[FileJobTable, ...]:
    """The jobs of the file; where it has none, one that says nothing by itself."""
    return workload.job or (FileJobTable(name=FILES),)


def work_of(job: FileJobTable, common: Mapping[str, str]) -> dict[str, str]:
    """What a job does, as texts; ``common`` is the arm's table fio. What neither says has its default, or is missing.

    A table fio holds for all jobs; the file's check sees to it that no job says the same.
    """
    own = {key: value_text(value) for key in WORK if (value := getattr(job, key)) is not None}
    return {**_WORK_DEFAULTS, **own, **{key: value for key, value in common.items() if key in WORK}}


def _resolve_jobs(workload: WorkloadTable, common: Mapping[str, str]) -> tuple[FileJob, ...]:
    """The jobs of an arm; one that lacks its pattern or size, which is an error of the file, is left out."""
    jobs = ((job, work_of(job, common)) for job in job_tables(workload))
    return tuple(
        FileJob(
            name=job.name,
            pattern=work["pattern"],
            size=int(parse_bytes(work["size"])),
            block_size=int(parse_bytes(work["block_size"])),
            may_repeat=work["norandommap"] == "on",
            once=work["once"] == "on",
            direct=work["direct"] == "on",
            fsync=int(work["fsync"]),
            engine=work["engine"],
            depth=int(work["depth"]),
            share=job.share or 1.0,
        )
        for job, work in jobs
        if "pattern" in work and "size" in work
    )
