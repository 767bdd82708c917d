"""The base of all tables of an experiment file."""

from pydantic import BaseModel, ConfigDict


class Table(BaseModel):
    """Unknown keys are errors, values do not change after reading."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)
