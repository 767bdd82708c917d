"""What all records of findings are made of."""

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler

ALL = "all"  # the load level of what is over all of them


def _end_at_the_first_error(schema: Any) -> None:
    for part in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(part, dict | list):
            _end_at_the_first_error(part)
    if isinstance(schema, dict) and schema.get("type") == "tuple":
        schema["fail_fast"] = True


class Record(BaseModel):
    """Base of all parts. A number that is not known is null, never zero."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="null")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> Any:
        """Reading ends at the first wrong entry of a list: each error takes a kilobyte, and who forges has them made
        of two bytes.
        """
        schema = handler(source)
        _end_at_the_first_error(schema)
        return schema


class Estimate(Record):
    """A number with its interval, as a mean over blocks: an end is null that the data do not set, both with fewer than
    two blocks, or of a difference of arms with fewer than decide a claim.
    """

    value: float
    low: float | None = None
    high: float | None = None

    def mapped(self, by: Callable[[float], float]) -> "Estimate":
        """The estimate of an increasing function of what this is of, such as a ratio of a log ratio."""
        low, high = (None if end is None else by(end) for end in (self.low, self.high))
        return Estimate(value=by(self.value), low=low, high=high)

    def side(self, neutral: float = 0.0) -> int:
        """1 where the whole interval lies above ``neutral``, -1 where it lies below, and 0 where neither is sure.

        Whatever is said of a difference is said by this alone: of 0 nothing is asserted. What is said of several
        differences together has intervals that hold together.
        """
        if self.low is not None and self.low > neutral:
            return 1
        return -1 if self.high is not None and self.high < neutral else 0


def parts_of(estimate: Estimate | None) -> tuple[float | None, float | None, float | None]:
    """Value, low and high end, for records that keep them apart; all None of no estimate."""
    return (None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)
