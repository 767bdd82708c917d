"""The experiment's arms: inheritance followed, factors crossed, the placebo added."""

from pgtrial.errors import SpecError
from pgtrial.model.arm import Arm, Role
from pgtrial.spec.experiment import PLACEBO, Experiment
from pgtrial.spec.factors import combine_factors, setting_text

__all__ = ["claimed_arm", "common_settings", "effective_settings", "resolve_arms", "setting_text"]


def resolve_arms(experiment: Experiment) -> tuple[Arm, ...]:
    """All arms, the control first, the placebo last; their settings are those that differ from the common ones by
    declaration, inherited ones included.

    SpecError for an unknown or circular "inherit".
    """
    if experiment.factors:
        named = [(combination.name, combination.settings) for combination in combine_factors(experiment.factors)]
    else:
        named = [(name, tuple(_inherited(experiment, name, ()).items())) for name in experiment.arms]
    arms = [
        Arm(name=name, role=Role.CANDIDATE if position else Role.CONTROL, settings=settings)
        for position, (name, settings) in enumerate(named)
    ]
    if experiment.design.placebo and arms:
        arms.append(Arm(name=PLACEBO, role=Role.PLACEBO, settings=arms[0].settings))
    return tuple(arms)


def common_settings(experiment: Experiment) -> dict[str, str]:
    """Settings of ``[target.postgresql]``, the same in all arms unless an arm says otherwise."""
    return {name: setting_text(value) for name, value in experiment.target.postgresql.items()}


def effective_settings(experiment: Experiment, arm: Arm) -> dict[str, str]:
    """What the arm's server is given: the common settings, overridden by the arm's own."""
    return common_settings(experiment) | dict(arm.settings)


def claimed_arm(experiment: Experiment) -> str:
    """Name of the arm the hypothesis is about: as declared, or the first that is not the control."""
    if experiment.hypothesis.arm is not None:
        return experiment.hypothesis.arm
    return resolve_arms(experiment)[1].name


def _inherited(experiment: Experiment, name: str, heirs: tuple[str, ...]) -> dict[str, str]:
    if name not in experiment.arms:
        raise SpecError(f'arm "{heirs[-1]}" inherits from "{name}", which does not exist')
    if name in heirs:
        raise SpecError(f'arm "{name}" inherits from itself')
    arm = experiment.arms[name]
    settings = _inherited(experiment, arm.inherit, (*heirs, name)) if arm.inherit is not None else {}
    return settings | {setting: setting_text(value) for setting, value in arm.postgresql.items()}
