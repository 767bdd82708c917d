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

    def side(self, neutral: float = 0.0) -> int:
        """1 where the whole interval lies above ``neutral``, -1 where it lies below, and 0 where neither is sure.

        Whatever is said of a difference is said by this alone: of 0 nothing is asserted. What is said of several
        differences together has intervals that hold together.
        """
        if self.low is not None and self.low > neutral:
            return 1
        return -1 if self.high is not None and self.high < neutral else 0
