"""Where each value of a knob stands in the file, and which of them an arm has in the end."""

from collections.abc import Iterator
from dataclasses import dataclass

from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.factors import MOST_COMBINATIONS, combine_factors, count_combinations
from pgtrial.experiment_file.position import Path
from pgtrial.knobs import KnobTables
from pgtrial.knobs.values import value_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One value: the knob, its key there, the text, and where it stands."""

    knob: str
    key: str
    value: str
    path: Path


Effective = dict[tuple[str, str], Given]  # by knob and key


def all_given(experiment: Experiment) -> Iterator[Given]:
    """Every value of [target], the arms and the factors, in that order."""
    yield from _in_tables(experiment.target, ("target",))
    for name, arm in experiment.arms.items():
        yield from _in_tables(arm, ("arms", name))
    for name, factor in experiment.factors.items():
        for index, level in enumerate(factor.levels):
            yield Given(
                knob=factor.knob,
                key=factor.setting or name,
                value=value_text(level),
                path=("factors", name, "levels", index),
            )


def effective_arms(experiment: Experiment) -> dict[str, Effective]:
    """By arm what it has: of [target], of what it inherits, and its own. The placebo has what the control has.

    Arms that cannot be resolved have what can be; factors with too many combinations make no arms.
    """
    common = _by_key(_in_tables(experiment.target, ("target",)))
    if not experiment.factors:
        return {name: common | _with_inherited(experiment, name, ()) for name in experiment.arms}
    if count_combinations(experiment.factors) > MOST_COMBINATIONS:
        return {}
    own = [given for given in all_given(experiment) if given.path[0] == "factors"]
    arms = {}
    for combination in combine_factors(experiment.factors):
        chosen = set(combination.settings)
        arms[combination.name] = common | _by_key(g for g in own if (g.knob, g.key, g.value) in chosen)
    return arms


def _in_tables(tables: KnobTables, path: Path) -> Iterator[Given]:
    for knob, values in tables.texts().items():
        for key, value in values.items():
            yield Given(knob=knob, key=key, value=value, path=(*path, knob, key))


def _with_inherited(experiment: Experiment, name: str, heirs: tuple[str, ...]) -> Effective:
    if name not in experiment.arms or name in heirs:
        return {}
    arm = experiment.arms[name]
    inherited = _with_inherited(experiment, arm.inherit, (*heirs, name)) if arm.inherit is not None else {}
    return inherited | _by_key(_in_tables(arm, ("arms", name)))


def _by_key(given: Iterator[Given]) -> Effective:
    return {(one.knob, one.key): one for one in given}
