"""Caveats as the findings carry them."""

from collections.abc import Iterable

from pgtrial.analysis.findings import CaveatFinding
from pgtrial.model.caveat import Caveat


def as_finding(caveat: Caveat, runs: tuple[int, ...] = ()) -> CaveatFinding:
    return CaveatFinding(code=caveat.code, severity=caveat.severity, text=caveat.text, hint=caveat.hint, runs=runs)


def merge_runs(caveats: Iterable[CaveatFinding]) -> tuple[CaveatFinding, ...]:
    """One caveat for each code and text, with the runs of all of them, in the order of their first appearance."""
    merged: dict[tuple[str, str], CaveatFinding] = {}
    for caveat in caveats:
        key = (caveat.code, caveat.text)
        runs = dict.fromkeys((*(merged[key].runs if key in merged else ()), *caveat.runs))
        merged[key] = caveat.model_copy(update={"runs": tuple(runs)})
    return tuple(merged.values())
