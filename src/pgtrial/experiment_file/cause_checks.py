"""Checks of [[criteria]], [[acceptance]], [checks], [limits] and [associations]: names that exist, units that fit."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path as FilePath

from pgtrial.experiment_file.arms import all_names, arm_values
from pgtrial.experiment_file.cause_tables import AcceptanceTable
from pgtrial.experiment_file.check_rules import LIMITS, CheckKind, CheckRule, change_rule, check_rules
from pgtrial.experiment_file.command_checks import replays
from pgtrial.experiment_file.criteria import CRITERIA
from pgtrial.experiment_file.experiment import Experiment, LimitsTable
from pgtrial.experiment_file.position import Found, Path
from pgtrial.model.observable import find_observable, observable_names
from pgtrial.nearest import hint_name, nearest_name

_UNIT_FORMS = {"share": '"90%"', "s": '"5ms"', "B": '"64MB"'}


def check_criteria(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    seen: set[str] = set()
    for index, criterion in enumerate(experiment.criteria):
        path: Path = ("criteria", index, "metric")
        if criterion.metric not in CRITERIA:
            near = nearest_name(criterion.metric, CRITERIA)
            hint = f'Perhaps you meant "{near}".' if near else f"Criteria are: {', '.join(CRITERIA)}."
            yield path, f'unrecognized metric "{criterion.metric}"', hint
        elif criterion.metric in seen:
            yield path, f'criterion "{criterion.metric}" appears twice', "Give it once, with the weight of both."
        seen.add(criterion.metric)


def check_acceptance(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """Names that exist, and limits in the metric's unit."""
    kind, arms = experiment.workload.kind, all_names(experiment)
    for index, wanted in enumerate(experiment.acceptance):
        path: Path = ("acceptance", index)
        known = find_observable(wanted.metric)
        if known is None or not known.is_of(kind):
            hint = hint_name(wanted.metric, observable_names(kind)) or "docs/metrics.md lists all of them."
            yield (*path, "metric"), f'unrecognized metric "{wanted.metric}"', hint
        elif known.metric.unit == "ratio":
            hint = "It is zero in most blocks, of which there is no ratio to a limit; failures are always told."
            yield (*path, "metric"), f'metric "{wanted.metric}" has no limit', hint
        else:
            yield from _check_limit(wanted, known.metric.unit, path)
            if known.is_sampled and wanted.scenario is not None:
                yield (*path, "scenario"), f'metric "{wanted.metric}" is of all scenarios together here', "Remove it."
        names = experiment.workload.scenario_names
        if wanted.scenario is not None and wanted.scenario not in names:
            hint = hint_name(wanted.scenario, names, what="Scenarios are")
            yield (*path, "scenario"), f'scenario "{wanted.scenario}" does not exist', hint
        if wanted.arm is not None and arms and wanted.arm not in arms:
            yield (*path, "arm"), f'arm "{wanted.arm}" does not exist', hint_name(wanted.arm, arms, what="Arms are")


def _check_limit(wanted: AcceptanceTable, unit: str, path: Path) -> Iterator[Found]:
    base = unit.partition("/")[0]
    if wanted.limit.unit not in ("", base):
        form = _UNIT_FORMS.get(base)
        hint = f"Write {form}, or a number in the base unit." if form else "Write a number without a unit."
        yield (*path, wanted.key), f'"{wanted.key}" of "{wanted.metric}" has the wrong unit', hint
    elif not wanted.limit.value > 0:
        hint = "Means of blocks are compared with it as ratios, of which there is none to zero."
        yield (*path, wanted.key), f'"{wanted.key}" has to be above 0', hint


def check_limits(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    rules = check_rules()
    for name, table in experiment.checks.items():
        if name not in rules:
            near = nearest_name(name, rules)
            hint = f'Perhaps you meant "{near}".' if near else f"Checks are: {', '.join(rules)}."
            yield ("checks", name), f'check "{name}" does not exist', hint
            continue
        rule, wrong = rules[name], False
        for key, amount in table.limits().items():
            for message, hint in _judge_amount(rule, key, amount.unit):
                wrong = True
                yield ("checks", name, key), message, hint
        if not wrong:
            changed = change_rule(rule, {key: amount.value for key, amount in table.limits().items()})
            yield from _check_order(changed)


def _judge_amount(rule: CheckRule, key: str, unit: str) -> Iterator[tuple[str, str]]:
    if key == "threshold" and rule.kind is not CheckKind.TIME:
        yield f'check "{rule.id}" has no threshold of its own', f"Give {', '.join(LIMITS)}, in the unit of the value."
        return
    wanted = rule.unit_of(key)
    base = wanted.partition("/")[0]  # B/s is written as bytes
    if unit not in ("", base):
        form = _UNIT_FORMS.get(base)
        hint = f"Write {form}, or a number without a unit." if form else "Write a number without a unit."
        yield f'"{key}" of check "{rule.id}" has the wrong unit', hint


def _check_order(rule: CheckRule) -> Iterator[Found]:
    for (mild, low), (severe, high) in pairwise(rule.limits()):
        if (low > high) if rule.is_higher_worse else (low < high):
            message = f'check "{rule.id}" gives {severe} ({high:g}) before {mild} ({low:g})'
            yield ("checks", rule.id), message, f"{severe.capitalize()} has to be the worse of the two."


def check_resources(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """What [limits] asks for: a proof, or the values in which the arms of a file differ that is one."""
    limits = experiment.limits
    if limits is None:
        return
    if limits.prove:
        yield from _check_proof(experiment, limits)
        return
    for key, value in (("of", limits.of), ("resources", limits.resources)):
        if not value:
            yield ("limits", key), f'required key "{key}" is missing', "Or write prove = true."
    for key in ("arm", "budget"):
        if getattr(limits, key) is not None:
            yield ("limits", key), f'"{key}" is of no use without prove = true', ""
    arms = arm_values(experiment)
    for index, name in enumerate(limits.resources):
        path: Path = ("limits", "resources", index)
        knob, _dot, key = name.partition(".")
        missing = [arm for arm, values in arms.items() if (knob, key) not in values]
        if missing:
            yield path, f'arm "{missing[0]}" has no value of "{name}"', "Every arm needs one."
        elif len({values[knob, key].value for values in arms.values()}) < 2:
            yield path, f'all arms have the same value of "{name}"', "Slow it in some of them, or remove it."


def _check_proof(experiment: Experiment, limits: LimitsTable) -> Iterator[Found]:
    if limits.of is not None:
        yield ("limits", "of"), '"of" and prove = true exclude each other', 'Name an arm with "arm".'
    if experiment.target.kind != "throwaway":
        message = "what limits an arm is proved on a server that pgtrial starts: times of one that is there stay"
        hint = 'Write kind = "throwaway" in [target], with a copy of the data ("pgtrial copy --dump").'
        yield ("limits", "prove"), message, hint
    elif experiment.workload.rate is not None:
        message = "what limits throughput cannot be asked of a load whose transactions arrive at a rate"
        yield ("limits", "prove"), message, "Remove rate from [workload], or prove from [limits]."
    elif replays(experiment):
        message = "what limits throughput cannot be asked of a replay, whose statements arrive at the times of its log"
        yield ("limits", "prove"), message, "Remove prove from [limits]."
    elif experiment.design.soak is not None:
        yield ("limits", "prove"), "a soak compares nothing, and proves no limit", ""
    names = all_names(experiment)
    if limits.arm is not None and names and limits.arm not in names:
        message = f'arm "{limits.arm}" does not exist'
        yield ("limits", "arm"), message, hint_name(limits.arm, names, what="Arms are")


def check_pairs(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    seen: set[frozenset[str]] = set()
    for index, pair in enumerate(experiment.associations.pairs):
        if frozenset(pair) in seen:
            yield ("associations", "pairs", index), f"the pair {pair[0]}, {pair[1]} appears twice", ""
        seen.add(frozenset(pair))
