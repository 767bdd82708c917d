"""Checks of factors against the tables in which their levels would stand in an arm."""

from collections.abc import Iterator
from pathlib import Path as FilePath

from pydantic import ValidationError

from pgtrial.experiment_file.experiment import ArmTable, Experiment, FactorTable
from pgtrial.experiment_file.fields import keys_at
from pgtrial.experiment_file.position import Found, Path
from pgtrial.experiment_file.wording import word_error
from pgtrial.knobs import KNOBS, is_list
from pgtrial.nearest import hint_name

_NOT_VARIED = {("sql", "undo"): 'It goes with what is applied. Use [arms.NAME.sql] tables with "apply" and "undo".'}


def check_factor_knobs(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    for name, factor in experiment.factors.items():
        if factor.knob not in KNOBS:
            message = f'knob "{factor.knob}" does not exist'
            yield ("factors", name, "knob"), message, hint_name(factor.knob, KNOBS, what="Knobs are")
        else:
            yield from _check_levels(name, factor)


def _check_levels(name: str, factor: FactorTable) -> Iterator[Found]:
    setting = factor.setting or name
    path: Path = ("factors", name)
    place = path if factor.setting is None else (*path, "setting")
    keys = keys_at(("arms", name, factor.knob))
    if keys and setting not in keys:
        message = f'knob "{factor.knob}" has no setting "{setting}"'
        yield place, message, hint_name(setting, keys, what="It has")
    elif (factor.knob, setting) in _NOT_VARIED:
        yield place, f'"{setting}" of knob "{factor.knob}" cannot be a factor', _NOT_VARIED[factor.knob, setting]
    else:
        for index, level in enumerate(factor.levels):
            fault = find_fault(factor.knob, setting, level)
            if fault is not None:
                yield (*path, "levels", index), *fault


def find_fault(knob: str, key: str, value: object) -> tuple[str, str] | None:
    """What is wrong with a value in a knob's table: message and hint, as if it stood in an arm; None if it is right.

    A list may be given as one text, its elements joined by ", ".
    """
    if is_list(knob, key) and isinstance(value, str):
        value = value.split(", ") if value else []
    try:
        ArmTable.model_validate({knob: {key: value}})
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        _, message, hint = word_error({**detail, "loc": ("arms", "", *detail["loc"])})
        return message, hint
    return None
