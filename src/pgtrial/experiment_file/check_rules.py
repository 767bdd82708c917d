"""The checks of samples with their thresholds, from checks.toml: what [checks] of an experiment file can change.

They stand here, below the analysis, so that a wrong name or unit is an error before the first run.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

CHECKS_FILE = Path(__file__).with_name("checks.toml")
SHARE = "share"
LIMITS = ("info", "warning", "alarm")  # mildest first


class CheckKind(StrEnum):
    """What a check's limits are held against; checks.toml explains each."""

    TIME = "time"
    TOTAL = "total"
    TREND = "trend"
    LOG = "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRule:
    """One check; the fields are explained in checks.toml. A limit of None is a level that the check never gives."""

    id: str
    name: str
    kind: CheckKind
    metric: tuple[str, ...]
    per: tuple[str, ...]
    known_by: str
    unit: str
    is_higher_worse: bool
    threshold: float
    info: float | None
    warning: float | None
    alarm: float | None

    def limits(self) -> tuple[tuple[str, float], ...]:
        """(level, limit), mildest first."""
        found = zip(LIMITS, (self.info, self.warning, self.alarm), strict=True)
        return tuple((level, limit) for level, limit in found if limit is not None)

    def unit_of(self, key: str) -> str:
        """Unit of "threshold", "info", "warning" or "alarm"."""
        return SHARE if self.kind is CheckKind.TIME and key != "threshold" else self.unit


@cache
def check_rules() -> Mapping[str, CheckRule]:
    """All checks by their ids, in the order of the file."""
    tables = tomllib.loads(CHECKS_FILE.read_text(encoding="utf-8"))
    return {name: make_rule(name, table) for name, table in tables.items()}


def make_rule(name: str, table: Mapping[str, Any]) -> CheckRule:
    """A check from its table. Only checks of the kind "time" have a threshold; the mildest limit stands for others'."""
    limits: list[float] = [table[level] for level in LIMITS if level in table]
    return CheckRule(
        id=name,
        name=table["name"],
        kind=CheckKind(table["kind"]),
        metric=tuple(table["metric"]),
        per=tuple(table.get("per", ())),
        known_by=table.get("known_by", ""),
        unit=table["unit"],
        is_higher_worse=table.get("worse", "higher") == "higher",
        threshold=table.get("threshold", limits[0]),
        info=table.get("info"),
        warning=table.get("warning"),
        alarm=table.get("alarm"),
    )


def change_rule(rule: CheckRule, changes: Mapping[str, float]) -> CheckRule:
    """The same check with other values of threshold, info, warning or alarm."""
    table = {**dict(rule.limits()), **changes}
    if rule.kind is CheckKind.TIME:
        table.setdefault("threshold", rule.threshold)
    return make_rule(
        rule.id,
        {
            **table,
            "name": rule.name,
            "kind": rule.kind,
            "metric": rule.metric,
            "per": rule.per,
            "known_by": rule.known_by,
            "unit": rule.unit,
            "worse": "higher" if rule.is_higher_worse else "lower",
        },
    )
