"""The method in plain words, and what settings and machine the arms had."""

from datetime import UTC, datetime
from functools import reduce
from itertools import groupby

from pgtrial.findings.findings import ArmFinding, Difference, Findings, SettingFinding, Stopping
from pgtrial.findings.message import say
from pgtrial.language import N_, ntr, tr
from pgtrial.report.sections.base import Section
from pgtrial.report.words import arm_label, level_label, metric_label, placebo_arm, tested_text, workload_facts
from pgtrial.units import format_duration, format_share, with_decimal_sign

RESTORE_TEXTS = {
    "each-run": N_(
        "Before every run the data were put back to the same snapshot, so no run inherits the work of another."
    ),
    "each-block": N_(
        "The data were put back to the same snapshot before every block; within a block, "
        "a run inherits the work of the runs before it."
    ),
    "never": N_("The data were not put back between runs; each run inherits the work of those before it."),
}

MANY = 2  # arms; of more it can be said which follows which
SPENDING_NAMES = {"obrien-fleming": N_("by O’Brien and Fleming")}


def _build_method(findings: Findings) -> dict[str, object]:
    experiment, asked = findings.experiment, findings.hypothesis
    candidates = [arm.name for arm in experiment.arms if arm.role == "candidate"]
    return {
        "arms": ntr("{count} arm", "{count} arms", len(experiment.arms)),
        "is_many": len(experiment.arms) > MANY,
        "planned": ntr("{count} block", "{count} blocks", experiment.blocks_planned),
        "complete": experiment.blocks_complete,
        "method": experiment.method,
        "reason": say(experiment.method_reason),
        "slices": _describe_slices(findings),
        "stopping": _describe_stopping(findings),
        "seed": experiment.seed,
        "is_placed": any(effect.position is not None for effect in findings.effects),
        "digest": experiment.digest,
        "registered": ""
        if experiment.registered is None
        else datetime.fromtimestamp(experiment.registered, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "declared": "" if asked.declared_confidence is None else format_share(asked.declared_confidence),
        "revision": experiment.revision,
        "attempt": "" if experiment.attempts_before is None else str(experiment.attempts_before + 1),
        "restore": tr(RESTORE_TEXTS[experiment.restore]) if experiment.restore in RESTORE_TEXTS else "",
        "placebo": placebo_arm(findings),
        "confidence": format_share(asked.confidence),
        "compared": len(candidates),
        "margin": format_share(asked.margin),
        "expect": tested_text(findings),
        "metric": metric_label(asked.metric),
        "lost": sum(arm.runs_invalid for arm in experiment.arms),
        "workload": workload_facts(findings),
        "version": findings.pgtrial_version,
        "load": _describe_load(findings),
    }


def _describe_stopping(findings: Findings) -> dict[str, str | bool]:
    """The rule in figures; empty without one."""
    found = findings.stopping
    if found is None:
        return {}
    return {
        "rule": found.rule,
        "precision": "" if found.precision is None else format_share(found.precision),
        "cost": _describe_spending(found),
        "level": "" if found.level is None or len(found.looks) == 1 else with_decimal_sign(f"{found.level:.2g}"),
        "looks": ", ".join(map(str, found.looks)),
        "has_looks": len(found.looks) > 1,
        "text": say(found.text),
    }


def _describe_spending(found: Stopping) -> str:
    """What looking several times costs."""
    spending, level = found.spending or "", "" if found.level is None else with_decimal_sign(f"{found.level:.2g}")
    values = {"spending": tr(SPENDING_NAMES[spending]) if spending in SPENDING_NAMES else spending, "level": level}
    if spending and level:
        return tr(
            "Looking often makes false alarms likely, so the error probability is spent over the looks ({spending}), "
            "and intervals are as wide as the last look asks, with an error probability of {level} each.",
            **values,
        )
    if spending:
        return tr(
            "Looking often makes false alarms likely, so the error probability is spent over the looks ({spending}), "
            "and intervals are as wide as the last look asks.",
            **values,
        )
    if level:
        return tr(
            "Looking often makes false alarms likely, so the error probability is spent over the looks, "
            "and intervals are as wide as the last look asks, with an error probability of {level} each.",
            **values,
        )
    return tr(
        "Looking often makes false alarms likely, so the error probability is spent over the looks, "
        "and intervals are as wide as the last look asks."
    )


def _describe_load(findings: Findings) -> str:
    """The load levels in their order: "4 clients, then 16 clients"."""
    labels = [level_label(findings, level.index) for level in findings.experiment.levels]
    if not labels:
        return tr("the same load")
    return reduce(lambda before, after: tr("{before}, then {after}", before=before, after=after), labels)


def _describe_slices(findings: Findings) -> dict[str, str]:
    """Figures of the slices; empty where there are none, because each run had its time to itself or none has ended."""
    found = findings.slices
    if found is None:
        return {}
    return {
        "length": format_duration(found.length),
        "guard": format_duration(found.guard),
        "number": with_decimal_sign(f"{found.number:g}"),
        "counted": format_duration(found.counted),
    }


METHOD = Section(name="method", title=N_("Method"), build=_build_method)


def _build_settings(findings: Findings) -> dict[str, object]:
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
        "engagements": [{"state": each.state, "text": say(each.text)} for each in findings.engagements],
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


SETTINGS = Section(name="settings", title=N_("Settings and machine"), build=_build_settings)
