"""Numbers as facts hold them and as a text mentions them; both in base units."""

from dataclasses import dataclass
from enum import StrEnum


class Quantity(StrEnum):
    """What a number counts. ``CHANGE`` is of facts only: the ratio of an arm to its control."""

    CHANGE = "change"
    PERCENT = "percent"  # a share between 0 and 1
    POINTS = "percentage points"  # a difference of shares
    TIMES = "times"
    SECONDS = "time"
    BYTES = "size"
    BYTE_RATE = "size per second"
    RATE = "per second"
    COUNT = "count"
    PLAIN = "number"
    P_VALUE = "p-value"
    PERCENTILE = "percentile"
    NUMBERED = "numbered"  # run 3, block 2
    VERSION = "version"
    DATE = "date"
    FACT = "fact"  # id of a fact: F12


# Those that are compared by how they are written.
WRITTEN = frozenset({Quantity.VERSION, Quantity.DATE, Quantity.FACT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number of the facts.

    ``is_signed``: a difference, whose sign says which way; only such a number can be what something rose or fell by.
    ``is_bound``: a margin or a detectable change, which has no direction of its own.
    """

    value: float
    quantity: Quantity
    shown: str  # as the facts write it
    noun: str = ""  # of a count: "block"
    metric: str = ""  # "throughput", "latency p95"; "" where it belongs to none
    better: str = ""  # higher | lower | "" where no direction is good
    clients: int = 0  # of the load level that it belongs to; 0 for none or all
    arm: str = ""  # whose number it is; of a difference the arm that is compared with the control
    is_signed: bool = False
    is_bound: bool = False
    written: str = ""  # of versions, dates and ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A number in a text, from ``start`` to ``end``.

    ``value`` is without its sign, ``sign`` -1, 0 (none is written) or 1. ``step`` is the unit of its last digit that
    counts, so that what it was rounded from lies within half of it. ``relation`` is ">" of "more than", "<" of
    "almost", else "".
    """

    start: int
    end: int
    text: str
    quantity: Quantity
    value: float
    step: float
    sign: int = 0
    relation: str = ""
    noun: str = ""
    written: str = ""
    factor: float = 1.0  # by which the written number was multiplied
    is_word: bool = False  # "twice", "halved"
