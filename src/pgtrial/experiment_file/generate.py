"""Experiment files that pgtrial writes itself: of options, and of the control of an experiment against itself.

They are texts and not models, so that the result folder holds the file as used, and the next experiment can begin with
it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tomli_w

from pgtrial.errors import SpecError
from pgtrial.experiment_file.arms import find_fault, own_values
from pgtrial.experiment_file.experiment import FORMAT, Experiment
from pgtrial.experiment_file.position import Path
from pgtrial.knobs import KNOBS, is_list
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.nearest import hint_name

_LONGEST_NAME = 50
# Values up to a comma; a part in single or double quotation marks may have commas and loses the marks.
_VALUE = re.compile(r"""\s*(?:'([^']*)'|"([^"]*)"|([^,'"]*?))\s*(,|$)""")


_NAME = r"[A-Za-z_][A-Za-z0-9_.$]*"
_NAME_IN_KNOB = r"[A-Za-z_][A-Za-z0-9_./-]*"

CONTROL, AGAIN = "control", "again"  # names of the arms of a control against itself
_KEPT = ("restore", "cache", "seed", "repeats")  # of [design], for a control against itself


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    knob: str
    name: str
    values: tuple[str, ...]

    @property
    def shown(self) -> str:
        return self.name if self.knob == POSTGRESQL else f"{self.knob}:{self.name}"

    @property
    def factor(self) -> str:
        """Name of the factor; what is called "size" says little without its knob."""
        knob = KNOBS.get(self.knob)
        return self.name if knob is not None and knob.keys_tell_all else f"{self.knob}.{self.name}"

    @property
    def is_list(self) -> bool:
        return is_list(self.knob, self.name)

    @property
    def typed(self) -> tuple[str | float, ...]:
        """The values as the file has them: numbers where a table takes nothing else."""
        return tuple(typed_text(self.knob, self.name, value) for value in self.values)


def quick_experiment(
    settings: Sequence[str],
    *,
    mix: str | None = None,
    clients: int | None = None,
    duration: str | None = None,
    warmup: str | None = None,
    scale: int | None = None,
    blocks: int | None = None,
    budget: str | None = None,
    margin: str | None = None,
    method: str | None = None,
    slice: str | None = None,
    postgres: str | None = None,
    placebo: bool | None = None,
    seed: int | None = None,
) -> str:
    """TOML of an experiment that compares values of settings, each given as "NAME=A,B" or "KNOB:NAME=A,B".

    The first value of each is the control's; several settings make every combination; a setting with one value is the
    same in all arms. Without a knob's name a setting is one of PostgreSQL. An option that is None
    is left to the file format's default, except the mix (simple-update).
    SpecError for a setting that cannot be read, or if there is nothing to compare.
    """
    parsed = [_parse_setting(setting) for setting in settings]
    names = [setting.shown for setting in parsed]
    for name in names:
        if names.count(name) > 1:
            raise SpecError(f'setting "{name}" is given twice', hint=f"Give all its values at once: -s {name}=A,B")
    varied = [setting for setting in parsed if len(setting.values) > 1]
    if not varied and not placebo:
        raise SpecError("nothing to compare", hint="Give a setting at least two values: -s shared_buffers=128MB,1GB")
    mix = mix or "simple-update"
    common = {knob: _common(parsed, knob) for knob in KNOBS}
    tables: dict[str, dict[str, Any]] = {
        "experiment": {"name": _name([*(setting.name for setting in varied), mix])},
        "hypothesis": {"expect": "different", "margin": margin},
        "target": {"postgres": postgres, **{knob: table for knob, table in common.items() if table}},
        "dataset": {"scale": scale},
        "workload": {
            "mix": mix,
            "clients": clients,
            "duration": duration and read_time(duration),
            "warmup": warmup and read_time(warmup),
        },
        "factors": {setting.factor: _factor(setting) for setting in varied},
        "arms": {} if varied else {"control": {"description": "what [target] sets"}},
        "design": {
            "method": method,
            "slice": slice and read_time(slice),
            "blocks": blocks,
            "budget": budget and read_time(budget),
            "placebo": placebo,
            "seed": seed,
        },
    }
    given = {name: {key: value for key, value in table.items() if value is not None} for name, table in tables.items()}
    return file_text(
        "Written by pgtrial run; run it again with: pgtrial run experiment.toml",
        {name: table for name, table in given.items() if table},
    )


def file_text(comment: str, tables: Mapping[str, Any]) -> str:
    """TOML of an experiment file that begins with a comment of one line."""
    return f"# {comment}\n{tomli_w.dumps({'format': FORMAT, **tables})}"


def read_time(text: str) -> str | float:
    """A time of the command line as the file has it: a bare number is a number of seconds there, not a text."""
    return text if text.startswith("-") else _read_number(text)


def _read_number(text: str) -> str | float:
    if not re.fullmatch(r"-?[0-9]{1,12}(\.[0-9]{1,6})?", text):
        return text
    return float(text) if "." in text else int(text)


def _common(settings: Sequence[_Setting], knob: str) -> dict[str, Any]:
    chosen = [setting for setting in settings if setting.knob == knob and len(setting.values) == 1]
    return {one.name: _as_list(one.values[0]) if one.is_list else one.typed[0] for one in chosen}


def _factor(setting: _Setting) -> dict[str, Any]:
    return {
        **({} if setting.knob == POSTGRESQL else {"knob": setting.knob}),
        **({} if setting.factor == setting.name else {"setting": setting.name}),
        "levels": list(setting.typed),
    }


def typed_text(knob: str, key: str, text: str) -> str | float:
    """The value of an arm's table as the file has it: a number where the table takes no text."""
    number = _read_number(text)
    as_number = find_fault(knob, key, text) is not None and find_fault(knob, key, number) is None
    return number if as_number else text


def _as_list(text: str) -> list[str]:
    return text.split(", ") if text else []


def _parse_setting(text: str) -> _Setting:
    name, equals, rest = text.partition("=")
    knob, colon, key = name.strip().rpartition(":")
    if not equals or not re.fullmatch(_NAME if knob in ("", POSTGRESQL) else _NAME_IN_KNOB, key):
        raise SpecError(
            f'cannot parse the setting "{text}"',
            hint="Write -s NAME=A,B or -s KNOB:NAME=A,B, such as -s work_mem=4MB,64MB or -s sysctl:vm.swappiness=1,60",
        )
    if colon and knob not in KNOBS:
        hint = hint_name(knob, KNOBS, what="Knobs are")
        raise SpecError(f'knob "{knob}" does not exist', hint=f"{hint} Write -s KNOB:NAME=A,B")
    return _Setting(knob=knob or POSTGRESQL, name=key, values=_parse_values(name.strip(), rest))


def _parse_values(name: str, rest: str) -> tuple[str, ...]:
    values: list[str] = []
    at, separator = 0, ","
    while separator:
        match = _VALUE.match(rest, at)
        if match is None:
            raise SpecError(
                f'cannot parse the values of "{name}": {rest}',
                hint=f"""Put a value with a comma in quotation marks as a whole: -s "{name}='a, b',c\"""",
            )
        values.append(next(part for part in match.groups()[:3] if part is not None))
        at, separator = match.end(), match[4]
        if match[3] == "":
            raise SpecError(
                f'setting "{name}" has an empty value', hint=f"""Write an empty value as '': -s "{name}='',on\""""
            )
    return tuple(values)


def _name(parts: Sequence[str]) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", "-".join(parts)).strip("-_.")[:_LONGEST_NAME]


def control_twice(
    experiment: Experiment,
    *,
    name: str,
    method: str = "blocks",
    slice: float | None = None,
    blocks: int | None = None,
    duration: float | None = None,
    warmup: float | None = None,
    portion: int = 0,
) -> str:
    """TOML with two arms, both the control of ``experiment``, which has no errors; the rest as it is there.

    ``duration``, ``warmup`` and ``slice`` in seconds; what is None stays, a slice goes. The seed of the order is that
    of ``experiment`` plus ``portion``.
    """
    data = experiment.model_dump(mode="json", by_alias=True, exclude_unset=True)
    hypothesis = {key: value for key, value in data.get("hypothesis", {}).items() if key not in ("claim", "arm")}
    # A margin of zero is no claim of equivalence.
    expect = "different" if experiment.hypothesis.margin == 0 else "equivalent"
    design = {key: value for key, value in data.get("design", {}).items() if key in _KEPT}
    if experiment.design.seed is not None:
        design["seed"] = (experiment.design.seed + portion) % 2**63
    design["method"] = method
    design |= {key: value for key, value in (("slice", slice), ("blocks", blocks)) if value is not None}
    given = {"duration": duration, "warmup": warmup}
    workload = data["workload"] | {key: value for key, value in given.items() if value is not None}
    return file_text(
        "Written by pgtrial calibrate: the control of an experiment against itself.",
        {
            "experiment": {"name": name},
            "hypothesis": {**hypothesis, "claim": "The control does not differ from itself", "expect": expect},
            **{key: data[key] for key in ("target", "dataset", "disks") if key in data},
            "workload": workload,
            "arms": {CONTROL: _control_tables(experiment), AGAIN: {"inherit": CONTROL}},
            "design": design,
        },
    )


def _control_tables(experiment: Experiment) -> dict[str, dict[str, Any]]:
    """What the first arm declares or inherits, of factors the first levels, as the tables of an arm have it."""
    tables: dict[str, dict[str, Any]] = {}
    for (knob, key), declared in next(iter(own_values(experiment).values())).items():
        is_text = is_list(knob, key)
        tables.setdefault(knob, {})[key] = (
            _as_list(declared.value) if is_text else _typed_value(experiment, declared.path)
        )
    return tables


def _typed_value(experiment: Experiment, path: Path) -> Any:
    """What the file has at the path of a declared value."""
    if path[0] == "factors":
        return experiment.factors[str(path[1])].levels[int(path[3])]
    table = getattr(experiment.arms[str(path[1])], str(path[2]))
    return table[path[3]] if isinstance(table, Mapping) else getattr(table, str(path[3]))
