"""What would have been concluded from one run per arm: the blocks of the experiment, each taken alone."""

from pgtrial.analysis.effects import Estimated, find_primary
from pgtrial.analysis.evidence import Evidence
from pgtrial.findings.findings import SingleRuns


def take_single_runs(evidence: Evidence, estimated: tuple[Estimated, ...]) -> tuple[SingleRuns, ...]:
    """Every arm beside the control whose primary metric has a ratio in at least one block, in the arms' order.

    A single ratio has no interval, so whoever has only that can but compare the ratio itself with the margin.
    """
    found = []
    for arm in evidence.arms:
        primary = find_primary(evidence, estimated, arm=arm.name)
        ratios = [ratio for ratio in primary.effect.block_ratios if ratio is not None] if primary else []
        if ratios:
            found.append(
                SingleRuns(
                    arm=arm.name,
                    blocks=len(ratios),
                    above=sum(ratio > 1 + evidence.margin for ratio in ratios),
                    below=sum(ratio < 1 - evidence.margin for ratio in ratios),
                    lowest=min(ratios),
                    highest=max(ratios),
                )
            )
    return tuple(found)
