"""Settings, the machine, and whatever differed although nobody asked for it."""

from itertools import groupby

from pgtrial.findings.findings import ArmFinding, Difference, Findings, SettingFinding
from pgtrial.findings.message import say
from pgtrial.language import N_
from pgtrial.report.sections.base import Section
from pgtrial.report.words import arm_label


def _build(findings: Findings) -> dict[str, object]:
    arms = [arm.name for arm in findings.experiment.arms]
    notable = [setting for setting in findings.settings if setting.declared or setting.differs]
    differences = findings.fingerprint.differences
    facts = sorted(findings.fingerprint.facts, key=lambda fact: fact.group)
    return {
        "arms": [arm_label(findings, arm) for arm in arms],
        "around": [_around(findings, arm) for arm in findings.experiment.arms if arm.knobs],
        "notable": [_row(setting, arms) for setting in sorted(notable, key=_place)],
        "others": [_row(setting, arms) for setting in findings.settings if not (setting.declared or setting.differs)],
        "groups": [(name, list(group)) for name, group in groupby(facts, key=lambda fact: fact.group)],
        "unasked": [_differing(difference) for difference in differences if not difference.declared],
        "asked": [_differing(difference) for difference in differences if difference.declared],
        "target": findings.experiment.target,
    }


def _around(findings: Findings, arm: ArmFinding) -> dict[str, object]:
    """What an arm sets beside the server's settings."""
    return {
        "arm": arm_label(findings, arm.name),
        "values": [(f"{knob}.{name}", value) for knob, table in arm.knobs.items() for name, value in table.items()],
    }


def _place(setting: SettingFinding) -> tuple[bool, bool, str]:
    """Those that differ first, then those that were declared."""
    return (not setting.differs, not setting.declared, setting.name)


def _row(setting: SettingFinding, arms: list[str]) -> dict[str, object]:
    return {
        "name": setting.name,
        "values": [setting.values.get(arm, "–") for arm in arms],
        "source": setting.source,
        "differs": setting.differs,
        "declared": setting.declared,
    }


def _differing(difference: Difference) -> dict[str, object]:
    return {
        "name": difference.name,
        "values": [(say(placed.where), say(placed.value)) for placed in difference.values],
    }


SETTINGS = Section(name="settings", title=N_("Settings and machine"), build=_build)
