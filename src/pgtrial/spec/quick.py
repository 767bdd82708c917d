"""The small experiment without a file: options to the text of an experiment file.

A text and not a model, so that the result folder holds the file as used, and the next experiment can begin with it.
"""

import json
import re
from collections.abc import Sequence

from pgtrial.errors import SpecError
from pgtrial.spec.experiment import FORMAT

_LONGEST_NAME = 50
# Values up to a comma; a part in single or double quotation marks may have commas and loses the marks.
_VALUE = re.compile(r"""\s*(?:'([^']*)'|"([^"]*)"|([^,'"]*?))\s*(,|$)""")


_Value = str | float | bool | list[str]


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
    postgres: str | None = None,
    placebo: bool | None = None,
    seed: int | None = None,
) -> str:
    """TOML of an experiment that compares values of settings, each given as "NAME=A,B".

    The first value of each is the control's; several settings make every combination; a setting with one value is the
    same in all arms. An option that is None is left to the file format's default, except the mix (simple-update).
    SpecError for a setting that cannot be read, or if there is nothing to compare.
    """
    parsed = [_parse_setting(setting) for setting in settings]
    names = [name for name, _ in parsed]
    for name in names:
        if names.count(name) > 1:
            raise SpecError(f'setting "{name}" is given twice', hint=f"Give all its values at once: -s {name}=A,B")
    varied = [(name, values) for name, values in parsed if len(values) > 1]
    if not varied and not placebo:
        raise SpecError("nothing to compare", hint="Give a setting at least two values: -s shared_buffers=128MB,1GB")
    mix = mix or "simple-update"
    tables: list[tuple[str, Sequence[tuple[str, _Value | None]]]] = [
        ("experiment", [("name", _name([*(name for name, _ in varied), mix]))]),
        ("hypothesis", [("expect", "different"), ("margin", margin)]),
        ("target", [("postgres", postgres)]),
        ("target.postgresql", [(name, values[0]) for name, values in parsed if len(values) == 1]),
        ("dataset", [("scale", scale)]),
        (
            "workload",
            [
                ("mix", mix),
                ("clients", clients),
                ("duration", duration and read_time(duration)),
                ("warmup", warmup and read_time(warmup)),
            ],
        ),
        *((f"factors.{_key(name)}", [("levels", values)]) for name, values in varied),
        *([] if varied else [("arms.control", [("description", "the settings in [target.postgresql]")])]),
        (
            "design",
            [("blocks", blocks), ("budget", budget and read_time(budget)), ("placebo", placebo), ("seed", seed)],
        ),
    ]
    text = f"# Written by pgtrial run; run it again with: pgtrial run experiment.toml\nformat = {FORMAT}\n"
    for table, pairs in tables:
        given = [f"{_key(key)} = {_render(value)}" for key, value in pairs if value is not None]
        if given:
            text += f"\n[{table}]\n" + "\n".join(given) + "\n"
    return text


def read_time(text: str) -> str | float:
    """A time of the command line as the file has it: a bare number is a number of seconds there, not a text."""
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,6})?", text):
        return text
    return float(text) if "." in text else int(text)


def _parse_setting(text: str) -> tuple[str, list[str]]:
    name, equals, rest = text.partition("=")
    name = name.strip()
    if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.$]*", name):
        raise SpecError(f'cannot read the setting "{text}"', hint="Write -s NAME=A,B, such as -s work_mem=4MB,64MB")
    values: list[str] = []
    at, separator = 0, ","
    while separator:
        match = _VALUE.match(rest, at)
        if match is None:
            raise SpecError(
                f'cannot read the values of "{name}": {rest}',
                hint=f"""Put a value with a comma in quotation marks as a whole: -s "{name}='a, b',c\"""",
            )
        values.append(next(part for part in match.groups()[:3] if part is not None))
        at, separator = match.end(), match[4]
        if match[3] == "":
            raise SpecError(
                f'setting "{name}" has an empty value', hint=f"""Write an empty value as '': -s "{name}='',on\""""
            )
    return name, values


def _name(parts: Sequence[str]) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", "-".join(parts)).strip("-_.")[:_LONGEST_NAME]


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _render(value: _Value) -> str:
    # JSON's strings, numbers, true and false are TOML's as well, but for characters that TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
