"""The noise: every block, what one run per arm would have said, and what the slices tell."""

from pgtrial.findings.findings import ArmSlices, Findings
from pgtrial.findings.message import say
from pgtrial.language import N_, ntr, tr
from pgtrial.report.charts.blocks import blocks_chart
from pgtrial.report.sections.base import Section
from pgtrial.report.trust_words import single_runs_text
from pgtrial.report.words import (
    arm_label,
    change_text,
    detectable_text,
    interval_text,
    is_sliced,
)
from pgtrial.units import format_decimal, format_percent, format_share


def _build(findings: Findings) -> dict[str, object]:
    noise, blocks = findings.noise, findings.experiment.blocks_complete
    return {
        "chart": blocks_chart(findings),
        "sd": _percent(noise.sd_log_ratio),
        "sd_placebo": _percent(noise.sd_log_ratio_placebo),
        "detectable": detectable_text(findings) if noise.detectable is not None else "",
        "blocks": ntr("{count} complete block", "{count} complete blocks", blocks),
        "calibration": _calibration(findings),
        "covariate": say(findings.adjusted.text) if findings.adjusted else "",
        "single": single_runs_text(findings),
        "singles": [
            {
                "arm": arm_label(findings, found.arm),
                "blocks": found.blocks,
                "above": found.above,
                "below": found.below,
                "within": found.blocks - found.above - found.below,
                "range": interval_text(found.lowest, found.highest),
            }
            for found in findings.single_runs
        ],
        "slices": [_slices_row(findings, arm) for arm in findings.slices.arms] if findings.slices else [],
        "doubled": any(arm.longer is not None for arm in findings.slices.arms) if findings.slices else False,
        "takes_turns": is_sliced(findings),
        "margin": format_share(findings.hypothesis.margin),
    }


def _calibration(findings: Findings) -> str:
    """What the calibration had promised, in a sentence; "" without one."""
    found = findings.noise.calibration
    if found is None:
        return ""
    values = {"method": found.method, "expected": format_percent(found.sd_log_ratio), "folder": found.folder}
    if found.detectable is None:
        return tr("A calibration of {method} on this machine had expected {expected} ({folder}).", **values)
    return tr(
        "A calibration of {method} on this machine had expected {expected}, with which these blocks find a change of "
        "{change} ({folder}).",
        **values,
        change=format_percent(found.detectable),
    )


def _slices_row(findings: Findings, arm: ArmSlices) -> dict[str, object]:
    return {
        "arm": arm_label(findings, arm.arm),
        "growth": change_text(arm.growth),
        "interval": interval_text(arm.growth_low, arm.growth_high),
        "longer": "" if arm.longer is None else change_text(arm.longer),
        "longer_interval": interval_text(arm.longer_low, arm.longer_high),
        "autocorrelation": "–" if arm.autocorrelation is None else format_decimal(arm.autocorrelation, 2),
        "sd_blocks": _percent(arm.sd_blocks) or "–",
        "sd_expected": _percent(arm.sd_expected) or "–",
    }


def _percent(sd: float | None) -> str:
    return "" if sd is None else format_percent(sd)


NOISE = Section(name="noise", title=N_("Noise"), build=_build)
