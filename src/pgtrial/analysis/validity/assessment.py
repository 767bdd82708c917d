"""The input of the quality checks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pgtrial.analysis.effects.estimate import Estimated
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.analysis.reduction import Reduction
from pgtrial.findings.findings import Engagement, Failures, Slices, Stopping
from pgtrial.findings.questions import Hosts, Soak


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """``primary`` is the effect that the claim is about, ``placebo`` the placebo's effect on the same metric.

    ``slices`` is None where each run had its time to itself, ``stopping`` where there is no rule for stopping,
    ``soak`` where runs are of blocks, ``hosts`` where all of them are of one host, ``failures`` where none tells
    anything of the arms. ``devices``: by run that of its data, "" where none is known.
    """

    evidence: Evidence
    reduction: Reduction
    values: Values
    primary: Estimated | None
    placebo: Estimated | None
    slices: Slices | None = None
    stopping: Stopping | None = None
    failures: Failures | None = None
    engagements: tuple[Engagement, ...] = ()
    soak: Soak | None = None
    hosts: Hosts | None = None
    devices: Mapping[int, str] = field(default_factory=dict)

    def increase(self, run: int, level: int, counters: Iterable[str], *, object: str = "") -> float | None:
        """The same as of the reduction."""
        return self.reduction.increase(run, level, counters, object=object)
