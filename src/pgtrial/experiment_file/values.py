"""The kinds of values in an experiment file beside those of its knobs: times, addresses, commands."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from pgtrial.experiment_file.connection import read_connection
from pgtrial.hosts.ssh.command import parse_host
from pgtrial.knobs.values import Form, SettingValue, refuse
from pgtrial.units import parse_duration

_LONGEST_IDENTIFIER = 63  # bytes, of PostgreSQL as it is built


def _read_duration(value: Any) -> Any:
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        refuse('expected a time such as "30s" or "10min"')
    return value


def _host(value: str) -> str:
    parse_host(value)
    return value


def _connection(value: str) -> str:
    read_connection(value)
    return value


def _database(value: str) -> str:
    if not value or not value.isprintable() or len(value.encode()) > _LONGEST_IDENTIFIER:
        refuse(f"a database has a printable name of 1 to {_LONGEST_IDENTIFIER} bytes")
    return value


def _two_at_least(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(values) < 2:
        refuse("a factor needs at least two levels")
    return values


def _as_list(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _files(names: tuple[str, ...]) -> tuple[str, ...]:
    if not all(name and name.isprintable() for name in names):
        refuse("a file has a printable name")
    if len(set(names)) < len(names):
        refuse("a file is named twice")
    return names


LONGEST_TIME = 30 * 86400.0  # seconds; a longer time is a mistake in the unit
# Seconds, written with a unit as PostgreSQL writes it: "30s", "10min", "500ms", "2h".
_DURATION_SCHEMA = WithJsonSchema(
    {"anyOf": [{"type": "string", "pattern": r"^\s*[0-9.]+\s*(us|ms|s|min|h|d)\s*$"}, {"type": "number", "minimum": 0}]}
)
Duration = Annotated[
    float,
    BeforeValidator(_read_duration),
    Field(gt=0, le=LONGEST_TIME, allow_inf_nan=False),
    _DURATION_SCHEMA,
    Form('a time: `"30s"`'),
]
# The same, or 0.
FixedTime = Annotated[
    float,
    BeforeValidator(_read_duration),
    Field(ge=0, le=LONGEST_TIME, allow_inf_nan=False),
    _DURATION_SCHEMA,
    Form("a time or `0`"),
]
# Short enough for many of them in a block; each method says how much more than its guard time it needs.
SliceTime = Annotated[
    float,
    BeforeValidator(_read_duration),
    Field(ge=0.03, le=600, allow_inf_nan=False),
    _DURATION_SCHEMA,
    Form('a time from 30ms to 10min: `"1s"`'),
]
Host = Annotated[
    str,
    AfterValidator(_host),
    WithJsonSchema({"type": "string", "pattern": "^ssh://"}),
    Form('an address: `"ssh://user@host:22"`'),
]
Connection = Annotated[str, AfterValidator(_connection), Form('a connection string: `"service=bench"`')]
DatabaseName = Annotated[str, AfterValidator(_database), Form("a name")]
SettingLevels = Annotated[tuple[SettingValue, ...], AfterValidator(_two_at_least)]
# One name stands for a list of one.
DataFiles = Annotated[
    tuple[str, ...],
    BeforeValidator(_as_list),
    AfterValidator(_files),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
    Form('a file or a list: `"shop.dump"`'),
]
