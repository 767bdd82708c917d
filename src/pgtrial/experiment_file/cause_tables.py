"""The tables that say what to look for in the samples: criteria of the scorecard, what is
enough, checks, associations.
"""

import math
import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from pgtrial.experiment_file.check_rules import SHARE
from pgtrial.experiment_file.criteria import CRITERIA
from pgtrial.knobs.values import Form, Positive, Table, refuse
from pgtrial.units import parse_bytes, parse_duration, parse_ratio

# A name of a metric, "vmstat.wa", or of one of its objects, "iostat.util/vda".
_SERIES = re.compile(r"[a-z_]+\.[A-Za-z0-9_.]+(?:/[^\s].*)?")


@dataclass(frozen=True, slots=True)
class Amount:
    """A limit: ``value`` in the base unit; ``unit`` is share, s or B as it was ``written``, "" for a plain number."""

    value: float
    unit: str
    written: str | float = field(default="", compare=False)


def _amount(value: Any) -> Amount:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        refuse('expected a number, or one with a unit such as "90%", "5ms" or "1MB"')
    if not isinstance(value, str):
        if not math.isfinite(value):
            refuse("expected a finite number")
        return Amount(float(value), "", value)
    for unit, parse in ((SHARE, parse_ratio), ("s", parse_duration), ("B", parse_bytes)):
        try:
            return Amount(parse(value), unit, value)
        except ValueError:
            continue
    refuse(f'"{value}" is no limit; write a number, or one with a unit such as "90%", "5ms" or "1MB"')


def _series(value: str) -> str:
    if not _SERIES.fullmatch(value):
        refuse(f'"{value}" is not a metric; write its source and name, as in "vmstat.wa" or "iostat.util/vda"')
    return value


def _two_different(pair: tuple[str, ...]) -> tuple[str, ...]:
    if len(pair) != 2 or pair[0] == pair[1]:
        refuse('a pair has two different metrics; write ["waits.IO", "vmstat.wa"]')
    return pair


Limit = Annotated[
    Amount,
    PlainValidator(_amount),
    PlainSerializer(lambda amount: amount.written),
    WithJsonSchema({"type": ["string", "number"]}),
    Form('a number, or one with a unit: `"90%"`, `"5ms"`'),
]
Series = Annotated[str, AfterValidator(_series), Form("a metric")]
SeriesPair = Annotated[tuple[Series, ...], AfterValidator(_two_different)]


# Caveats about what happens around an experiment. What it is itself, its claim, blocks and settings, is not waived.
Waivable = Literal[
    "undeclared-difference",
    "fingerprint-differs",
    "fingerprint-changed",
    "other-programs",
    "unseen-load",
    "cpu-steal",
    "cpu-quota",
    "swapping",
    "thermal-throttling",
    "stalled",
]
WAIVABLE: tuple[str, ...] = get_args(Waivable)


def _reason(value: str) -> str:
    if len(value.split()) < 2 or not value.isprintable():
        refuse("a reason has a few words, on one line: they stand in every report")
    return value


class WaiverTable(Table):
    """A disturbance from outside that is accepted: it no longer makes a verdict invalid, and every report says so."""

    caveat: Waivable = Field(
        description=f"Its code, as reports and docs/caveats.md have it: {', '.join(WAIVABLE)}. Of the first only facts "
        "of the machine, never settings."
    )
    reason: Annotated[str, AfterValidator(_reason)] = Field(description="Why it may be; it stands in the report.")


class CriterionTable(Table):
    """One criterion by which arms are scored. Left out: throughput, latency p99, and how even throughput is."""

    metric: str = Field(description=f"What counts: {', '.join(CRITERIA)}.", json_schema_extra={"enum": list(CRITERIA)})
    better: Literal["higher", "lower"] | None = Field(
        default=None, description="Which direction is good. Left out: the metric's own."
    )
    weight: Positive = Field(default=1.0, description="Weight of the criterion, relative to the others.")


class CheckTable(Table):
    """Other limits for one of the checks of the samples, which are listed below."""

    threshold: Limit | None = Field(
        default=None, description="The value that counts as too much. Only for checks by the share of the time."
    )
    info: Limit | None = Field(default=None, description="From where on it is worth a remark.")
    warning: Limit | None = Field(default=None, description="From where on it is a warning.")
    alarm: Limit | None = Field(default=None, description="From where on it is an alarm.")

    def limits(self) -> dict[str, Amount]:
        """What is given, by key."""
        return {name: value for name in CheckTable.model_fields if (value := getattr(self, name)) is not None}


class AssociationsTable(Table):
    """Which metrics to look at together, beside the pairs that are always looked at."""

    pairs: tuple[SeriesPair, ...] = Field(
        default=(), description='Pairs of metrics: [["waits.IO", "vmstat.wa"], ["pgbench.tps", "iostat.util/vda"]].'
    )
    false_discovery: Annotated[float, Field(strict=True, gt=0, lt=0.5)] = Field(
        default=0.05, description="Expected share of the associations called real that are not."
    )


class AcceptanceTable(Table):
    """What an arm has to reach to be enough. As often as needed; the arms then never share the time of a block."""

    metric: str = Field(description="What is asked for: pgbench.latency_p99 and all others of metrics.md.")
    at_most: Limit | None = Field(default=None, description="It is enough up to this value, in each block's mean.")
    at_least: Limit | None = Field(default=None, description="It is enough from this value on; one of the two.")
    scenario: str | None = Field(
        default=None, description="Restrict the metric to one scenario. Left out: all scenarios together."
    )
    arm: str | None = Field(default=None, description="The arm that is asked about. Left out: each arm by itself.")

    @model_validator(mode="after")
    def _has_one_limit(self) -> "AcceptanceTable":
        if (self.at_most is None) == (self.at_least is None):
            refuse('an acceptance has either "at_most" or "at_least"')
        return self

    @property
    def limit(self) -> Amount:
        """The one that is given."""
        limit = self.at_least if self.at_most is None else self.at_most
        assert limit is not None  # validated
        return limit

    @property
    def key(self) -> str:
        """Which of the two it is."""
        return "at_least" if self.at_most is None else "at_most"
