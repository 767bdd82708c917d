"""The effect that the claim is about, over the blocks so far; each run is read once, when its block is complete."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from pgtrial.analysis.effects.estimate import estimate_primary
from pgtrial.analysis.evidence import read_evidence
from pgtrial.analysis.findings import Observation
from pgtrial.analysis.observations import index_values, observe_runs
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.design.plan import Plan
from pgtrial.engine.events import EstimateUpdated

FEWEST_BLOCKS = 3  # before that an interval says next to nothing; "pgtrial status" waits as long


@dataclass(slots=True, kw_only=True)
class Estimator:
    """Keeps the observations of the runs of one result folder."""

    folder: Path
    plan: Plan
    _known: dict[int, tuple[Observation, ...]] = field(default_factory=dict, init=False)  # by the run's id

    def estimate(self) -> EstimateUpdated | None:
        """None before three complete blocks. StoreError where the folder cannot be read.

        Meant for the pause after a block: it takes a tenth of a second or so, and reads the runs of that block only.
        """
        evidence = read_evidence(self.folder, self.plan)
        control, arm = evidence.control, evidence.hypothesis_arm
        if control is None or len(evidence.pairs(arm)) < FEWEST_BLOCKS:
            return None
        compared = tuple(run for run in evidence.valid if run.slot.arm in {arm, control.name})
        new = replace(evidence, valid=tuple(run for run in compared if run.id not in self._known))
        for run in new.valid:
            self._known[run.id] = ()
        for observation in observe_runs(new, reduce_runs(new)):
            self._known[observation.run] += (observation,)
        values = index_values(tuple(one for run in compared for one in self._known[run.id]))
        primary = estimate_primary(replace(evidence, valid=compared), values)
        if primary is None:
            return None
        effect = primary.effect
        return EstimateUpdated(
            arm=effect.arm,
            control=control.name,
            metric=effect.metric,
            ratio=effect.ratio,
            low=effect.low,
            high=effect.high,
            confidence=effect.confidence,
            margin=effect.margin,
            blocks=effect.blocks,
        )
