"""What all records of findings are made of."""

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Base of all parts. A number that is not known is null, never zero."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="null")


class Estimate(Record):
    """A mean over blocks with its t interval; ``low`` and ``high`` are null with fewer than two blocks."""

    value: float
    low: float | None = None
    high: float | None = None
