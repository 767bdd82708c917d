"""The experiment's arms: inheritance followed, factors crossed, the placebo added."""

from collections.abc import Mapping

from pgtrial.errors import SpecError
from pgtrial.experiment_file.disk_tables import DISK, STORAGE, put_disk
from pgtrial.experiment_file.experiment import PLACEBO, Experiment
from pgtrial.experiment_file.factors import combine_factors
from pgtrial.model.arm import Arm, Role

POSTGRESQL = "postgresql"
_Tables = dict[str, dict[str, str]]  # knob to name to value


def resolve_arms(experiment: Experiment) -> tuple[Arm, ...]:
    """All arms, the control first, the placebo last; what they set is what differs from the common ones by
    declaration, inherited ones included.

    SpecError for an unknown or circular "inherit".
    """
    named: list[tuple[str, _Tables]] = []
    if experiment.factors:
        for combination in combine_factors(experiment.factors):
            tables: _Tables = {}
            for knob, name, value in combination.settings:
                tables.setdefault(knob, {})[name] = value
            named.append((combination.name, tables))
    else:
        named = [(name, _inherited(experiment, name, ())) for name in experiment.arms]
    arms = [
        Arm(
            name=name,
            role=Role.CANDIDATE if position else Role.CONTROL,
            settings=tuple(tables.get(POSTGRESQL, {}).items()),
            knobs=tuple(
                (knob, key, value)
                for knob, table in tables.items()
                if knob != POSTGRESQL
                for key, value in table.items()
            ),
        )
        for position, (name, tables) in enumerate(named)
    ]
    if experiment.design.placebo and arms:
        control = arms[0]
        arms.append(Arm(name=PLACEBO, role=Role.PLACEBO, settings=control.settings, knobs=control.knobs))
    return tuple(arms)


def common_settings(experiment: Experiment) -> dict[str, str]:
    """PostgreSQL settings of ``[target.postgresql]``, the same in all arms unless an arm says otherwise."""
    return experiment.target.texts().get(POSTGRESQL, {})


def effective_settings(experiment: Experiment, arm: Arm) -> dict[str, str]:
    """What the arm's server is given: the common settings, overridden by the arm's own."""
    return common_settings(experiment) | dict(arm.settings)


def effective_knobs(experiment: Experiment, arm: Arm) -> dict[str, dict[str, str]]:
    """Everything else an arm has, knob to name to value: what [target] says for all, overridden by the arm's own.

    A disk class is there as what it stands for.
    """
    return {knob: dict(table) for knob, table in put_disk(experiment.disks, _declared(experiment, arm)).items()}


def disk_of(experiment: Experiment, arm: Arm) -> str | None:
    """Name of the disk class that an arm is on, None for none."""
    return _declared(experiment, arm).get(STORAGE, {}).get(DISK)


def is_emulated(experiment: Experiment, arm: Arm) -> bool:
    """Whether an arm's disk is one that pgtrial emulates."""
    disk = disk_of(experiment, arm)
    return disk is not None and disk in experiment.disks and experiment.disks[disk].is_emulated


def scale_of(experiment: Experiment, arm: Arm) -> int:
    """Scale of the pgbench tables that an arm works on."""
    declared = _declared(experiment, arm).get("dataset", {}).get("scale")
    return experiment.dataset.scale if declared is None else int(declared)


def _declared(experiment: Experiment, arm: Arm) -> _Tables:
    common = {knob: table for knob, table in experiment.target.texts().items() if knob != POSTGRESQL}
    return _overridden(common, {knob: arm.knob(knob) for knob, _, _ in arm.knobs})


def claimed_arm(experiment: Experiment) -> str:
    """Name of the arm the hypothesis is about: as declared, or the first that is not the control."""
    if experiment.hypothesis.arm is not None:
        return experiment.hypothesis.arm
    return resolve_arms(experiment)[1].name


def _inherited(experiment: Experiment, name: str, heirs: tuple[str, ...]) -> _Tables:
    if name not in experiment.arms:
        raise SpecError(f'arm "{heirs[-1]}" inherits from "{name}", which does not exist')
    if name in heirs:
        raise SpecError(f'arm "{name}" inherits from itself')
    arm = experiment.arms[name]
    tables = _inherited(experiment, arm.inherit, (*heirs, name)) if arm.inherit is not None else {}
    return _overridden(tables, arm.texts())


def _overridden(below: Mapping[str, dict[str, str]], above: Mapping[str, dict[str, str]]) -> _Tables:
    return {knob: below.get(knob, {}) | above.get(knob, {}) for knob in {**below, **above}}
