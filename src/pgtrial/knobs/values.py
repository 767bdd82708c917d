"""The kinds of values in a knob's table: sizes, shares, settings, names, and how TOML may write them."""

import math
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any, NoReturn

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, WithJsonSchema

from pgtrial.units import parse_bytes, parse_ratio

MOST_CLIENTS = 10_000
_MOUNT_OPTION = re.compile(r"[a-z][a-z0-9_]*(?:-[a-z]+)?(?:=[A-Za-z0-9_.:]+)?")


class Table(BaseModel):
    """The base of all tables of an experiment file: unknown keys are errors, numbers are finite, values do not change
    after reading.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Form:
    """How a kind of value is written, for the documentation; pydantic passes over it."""

    text: str


def refuse(message: str) -> NoReturn:
    raise ValueError(message)


def value_text(value: object) -> str:
    """Text of a TOML value: true is "on", 8 is "8", a string is itself, a list is joined."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ", ".join(value)
    return str(value)


def _program(words: tuple[str, ...]) -> tuple[str, ...]:
    if not all(word.isprintable() for word in words):
        refuse("a command must be printable")
    if words and (not words[0] or words[0].startswith("-") or "=" in words[0]):
        refuse(f'"{words[0]}" is not a program; begin with the program\'s name or path')
    if len(words) == 1 and " " in words[0]:
        listed = ", ".join(f'"{word}"' for word in words[0].split())
        refuse(f'"{words[0]}" is not a program; no shell takes it apart, so give each word by itself: [{listed}]')
    return words


def _ratio(value: Any) -> Any:
    if isinstance(value, str):
        return parse_ratio(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        refuse('expected a percentage such as "3%"')
    return value


def _version(value: Any) -> Any:
    # 15 is what one means by it; 15.4 is refused as not a text, for a file cannot ask for a minor version.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _setting_value(value: Any) -> bool | int | float | str:
    if isinstance(value, dict):
        refuse("expected a value, got a table; write a name with a dot in quotation marks")
    if isinstance(value, list):
        refuse('expected a value, got a list; write lists as PostgreSQL does, in one string: "a, b"')
    if not isinstance(value, bool | int | float | str):
        refuse("expected a text, a number, or true or false")
    if isinstance(value, float) and not math.isfinite(value):
        refuse(f"{value} is not a finite number")
    if isinstance(value, str) and not value.isprintable():
        refuse("a value must fit on one line and be printable")
    return value


def _kernel_value(value: Any) -> bool | int | float | str:
    if isinstance(value, list):
        refuse('expected a value, got a list; write several numbers as the kernel does, in one string: "4096 16384"')
    found = _setting_value(value)
    return found if not isinstance(found, str) or found.strip() else refuse("it is empty")


def _size(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str):
        refuse('expected a size such as "4GB"')
    if parse_bytes(value) < 1:
        refuse("a size must be above 0")
    return value.strip()


def _absolute(value: str) -> str:
    if not PurePosixPath(value).is_absolute():
        refuse(f'directory "{value}" is not an absolute path')
    if not value.isprintable():
        refuse("a path must be printable")
    return value


def _name(value: str) -> str:
    if not re.fullmatch(_NAME, value):
        refuse(f'"{value}" is not a name; use letters, digits and any of _ . $ ! -, beginning with a letter or digit')
    return value


def _mount_options(value: str) -> str:
    names: list[str] = []
    for option in value.split(",") if value else []:
        if not _MOUNT_OPTION.fullmatch(option):
            refuse(f'"{option}" is not a mount option; write them as mount does: "noatime,commit=30"')
        names.append(option.partition("=")[0])
        if names.count(names[-1]) > 1:
            refuse(f'option "{names[-1]}" appears twice')
    return value


# A share, written "3%" or 0.03.
Ratio = Annotated[
    float,
    BeforeValidator(_ratio),
    Field(ge=0, lt=1, allow_inf_nan=False),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "pattern": "%"}, {"type": "number", "minimum": 0, "exclusiveMaximum": 1}]}
    ),
    Form('a percentage: `"3%"`'),
]
# What stands to the right of a setting's name: true and false are on and off.
Command = Annotated[
    tuple[str, ...], AfterValidator(_program), Form('a list of words: `["systemctl", "restart", "postgresql"]`')
]
SettingValue = Annotated[
    Any,
    PlainValidator(_setting_value),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
    Form("a text, number, or `true` or `false`"),
]
# Bytes, with a unit as PostgreSQL writes it; kept as it was written.
Size = Annotated[
    str,
    BeforeValidator(_size),
    WithJsonSchema({"type": "string", "pattern": r"^\s*[0-9.]+\s*(B|kB|MB|GB|TB)\s*$"}),
    Form('a size: `"4GB"`'),
]
Directory = Annotated[str, AfterValidator(_absolute), Form("an absolute path")]
# Of a device, a library, an extension: what can be no path and no option.
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.$!-]{0,62}"
Name = Annotated[
    str, AfterValidator(_name), WithJsonSchema({"type": "string", "pattern": f"^{_NAME}$"}), Form("a name")
]
# What stands to the right of a kernel setting's name: true and false are 1 and 0.
KernelValue = Annotated[
    Any,
    PlainValidator(_kernel_value),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
    Form("a text, number, or `true` or `false`"),
]
MountOptions = Annotated[str, AfterValidator(_mount_options), Form('mount options: `"noatime,commit=30"`')]
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=1, le=MOST_CLIENTS)]
Natural = Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)]
PerSecond = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
Positive = Annotated[float, Field(strict=True, gt=0, le=1e7, allow_inf_nan=False)]
Version = Annotated[
    str, BeforeValidator(_version), WithJsonSchema({"type": ["string", "integer"]}), Form('a text: `"15"`')
]
