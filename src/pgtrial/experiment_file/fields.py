"""What the file format has at a path: keys, their descriptions, their allowed values; read from the models."""

import enum
import json
import types
import typing
from typing import Any

from pydantic import BaseModel

from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.position import Path

UNIONS = (typing.Union, types.UnionType, typing.Annotated)

TABLES = tuple(
    name
    for name, field in Experiment.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
)


def keys_at(path: Path) -> tuple[str, ...]:
    """Keys that the table at ``path`` may have; () where there is no table, or any name goes."""
    model = _model_in(_annotation_at(path))
    return tuple(field.alias or name for name, field in model.model_fields.items()) if model else ()


def describe_key(path: Path) -> str:
    """The key's description, "" if the format has no such key."""
    model = _model_in(_annotation_at(path[:-1]))
    for name, field in (model.model_fields if model else {}).items():
        if path[-1] == (field.alias or name):
            return field.description or ""
    return ""


def choices_at(path: Path) -> tuple[str, ...]:
    """Allowed words of the key at ``path``, () where it is not a choice."""
    return choices_of(_annotation_at(path))


def choices_of(annotation: Any) -> tuple[str, ...]:
    if isinstance(annotation, type) and issubclass(annotation, enum.StrEnum):
        return tuple(annotation)
    if typing.get_origin(annotation) is typing.Literal:
        return tuple(map(str, typing.get_args(annotation)))
    if typing.get_origin(annotation) in UNIONS:
        return tuple(choice for part in typing.get_args(annotation) for choice in choices_of(part))
    return ()


def _annotation_at(path: Path) -> Any:
    found: Any = Experiment
    for part in path:
        found = _step(found, part)
    return found


def _step(annotation: Any, part: str | int) -> Any:
    """The annotation of what is below ``part``; None where there is nothing."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = {field.alias or name: field for name, field in annotation.model_fields.items()}
        return fields[str(part)].annotation if part in fields else None
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is dict:
        return inner[1]
    if origin is tuple:
        return inner[0] if isinstance(part, int) else None
    if origin in UNIONS:
        return next((below for member in inner if (below := _step(member, part)) is not None), None)
    return None


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in UNIONS:
        return next((model for part in typing.get_args(annotation) if (model := _model_in(part)) is not None), None)
    return None


def render_schema() -> str:
    """The file format for editors: a JSON Schema, as text that ends in a line feed."""
    schema = Experiment.model_json_schema(by_alias=True)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "pgtrial experiment file"}
    return json.dumps({**schema, **head}, indent=2, ensure_ascii=False) + "\n"
