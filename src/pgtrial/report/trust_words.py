"""What speaks for and against trusting the numbers: the placebo, and what one run alone would have said."""

from pgtrial.findings.findings import Findings, SingleRuns
from pgtrial.language import ntr, tr
from pgtrial.model.verdict import Decision
from pgtrial.report.words import RATES, change_text, placebo_arm, placebo_effect


def find_single_runs(findings: Findings, arm: str | None) -> SingleRuns | None:
    return next((found for found in findings.single_runs if found.arm == arm), None)


def single_runs_text(findings: Findings) -> str:
    """What one run per arm would have said, in one or two sentences; "" where it could not have said anything else."""
    asked = findings.hypothesis
    found = find_single_runs(findings, asked.arm)
    if found is None or found.blocks < 2:
        return ""
    numbers = {
        "above": found.above,
        "below": found.below,
        "within": found.blocks - found.above - found.below,
        "lowest": change_text(found.lowest),
        "highest": change_text(found.highest),
    }
    if asked.metric in RATES:
        text = ntr(
            "Of {count} block, each taken alone, {above} would have said faster by more than the margin, {below} "
            "slower, {within} neither; their ratios lie between {lowest} and {highest}.",
            "Of {count} blocks, each taken alone, {above} would have said faster by more than the margin, {below} "
            "slower, {within} neither; their ratios lie between {lowest} and {highest}.",
            found.blocks,
            **numbers,
        )
    else:
        text = ntr(
            "Of {count} block, each taken alone, {above} would have said higher by more than the margin, {below} "
            "lower, {within} neither; their ratios lie between {lowest} and {highest}.",
            "Of {count} blocks, each taken alone, {above} would have said higher by more than the margin, {below} "
            "lower, {within} neither; their ratios lie between {lowest} and {highest}.",
            found.blocks,
            **numbers,
        )
    placebo = find_single_runs(findings, placebo_arm(findings))
    if placebo is None or asked.arm == placebo.arm:
        return text
    alarms = ntr(
        "Of the placebo's, {count} would have been a false alarm (between {lowest} and {highest}).",
        "Of the placebo's, {count} would have been a false alarm (between {lowest} and {highest}).",
        placebo.above + placebo.below,
        lowest=change_text(placebo.lowest),
        highest=change_text(placebo.highest),
    )
    return f"{text} {alarms}"


def placebo_text(findings: Findings) -> str:
    """What the placebo says about the experiment itself, in one sentence."""
    arm = placebo_arm(findings)
    if arm is None:
        return tr("This experiment has no placebo, so false alarms of the set-up would go unnoticed.")
    effect = placebo_effect(findings)
    if effect is None or effect.ratio is None:
        return tr("The placebo was not measured.")
    if effect.low is None or effect.high is None:
        return tr("The placebo has too few blocks for an interval.")
    if effect.decision in {Decision.BETTER, Decision.WORSE}:
        return tr(
            "A difference was found where there is none: do not trust the other effects before this is explained."
        )
    if effect.low <= 1 <= effect.high and effect.decision is Decision.EQUIVALENT:
        return tr("No difference was found where there is none, as it should be.")
    if effect.low <= 1 <= effect.high:
        return tr("No difference was found where there is none, but the interval reaches beyond the margin.")
    if effect.decision is Decision.EQUIVALENT:
        return tr("A small difference was found where there is none; it is not beyond the margin.")
    return tr(
        "A difference was found where there is none, and it may be beyond the margin: other effects may be off by it."
    )
