"""The margin as the report draws it: between which ratios an effect does not matter."""

from pgtrial.findings.findings import Findings
from pgtrial.model.rules import RULES


def margin_bounds(findings: Findings) -> tuple[float, float]:
    """Of the claim, by the rules of its verdict."""
    return RULES[findings.experiment.rules].bounds(findings.hypothesis.margin)
