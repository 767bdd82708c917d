"""The method in plain words, from the figures of this experiment."""

from pgtrial.analysis.findings import Findings
from pgtrial.report.sections.base import Section
from pgtrial.report.words import metric_label, placebo_arm, plural, tested_text
from pgtrial.units import format_share

RESTORE_TEXTS = {
    "each-run": "Before every run the data were put back to the same snapshot, so no run inherits the work of another.",
    "each-block": "The data were put back to the same snapshot before every block; within a block, "
    "a run inherits the work of the runs before it.",
    "never": "The data were not put back between runs; each run inherits the work of those before it.",
}


def _build(findings: Findings) -> dict[str, object]:
    experiment, asked = findings.experiment, findings.hypothesis
    candidates = [arm.name for arm in experiment.arms if arm.role == "candidate"]
    return {
        "arms": len(experiment.arms),
        "planned": plural(experiment.blocks_planned, "block"),
        "complete": experiment.blocks_complete,
        "method": experiment.method,
        "seed": experiment.seed,
        "restore": RESTORE_TEXTS.get(experiment.restore, ""),
        "placebo": placebo_arm(findings),
        "confidence": format_share(asked.confidence),
        "compared": len(candidates),
        "margin": format_share(asked.margin),
        "expect": tested_text(findings),
        "metric": metric_label(asked.metric),
        "lost": sum(arm.runs_invalid for arm in experiment.arms),
        "workload": experiment.workload,
        "version": findings.pgtrial_version,
        "levels": [level.label for level in experiment.levels],
    }


METHOD = Section(name="method", title="Method", build=_build)
