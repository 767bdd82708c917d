"""What the hypothesis says, metric by metric, with the directions filled in."""

from dataclasses import dataclass, replace

from pgtrial.analysis.evidence import Evidence
from pgtrial.experiment_file.hypothesis_table import DIRECTIONS, Expect, judged_as
from pgtrial.model.metric import Better, Metric
from pgtrial.model.observable import find_observable


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One metric of the hypothesis. ``scenario`` is None where it is about the only one.

    A metric without a good direction has the one that is claimed.
    """

    metric: Metric
    scenario: str | None
    expect: Expect
    margin: float

    @property
    def judged(self) -> tuple[str, Better]:
        """What is expected in the words of the statistics, and which direction is good for that."""
        return judged_as(self.expect, self.metric.better)


def claims_of(evidence: Evidence) -> tuple[Claim, ...]:
    """The first metric of the hypothesis, by which the experiment is planned, and those that are to hold as well."""
    found = []
    for each in evidence.experiment.hypothesis.claims:
        known = find_observable(each.metric)
        if known is None:
            continue  # the file is of a newer version
        metric, direction = known.metric, DIRECTIONS.get(each.expect)
        if metric.better is Better.NEITHER and direction is not None:
            metric = replace(metric, better=direction)
        # The only scenario is all scenarios together, which is how it was observed.
        scenario = None if evidence.scenarios == (each.scenario,) else each.scenario
        found.append(Claim(metric=metric, scenario=scenario, expect=each.expect, margin=each.margin))
    return tuple(found)
