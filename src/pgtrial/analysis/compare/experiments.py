"""Result folders -> comparison of experiments: differences, effects side by side, combined where the rule allows it.

What differs between the experiments' worlds (design, settings, machine) is told first, as it may explain the rest.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pgtrial import __version__
from pgtrial.analysis.compare.contrasts import describe_contrasts
from pgtrial.analysis.compare.groups import Group, group_arms
from pgtrial.analysis.compare.indirect import compare_indirectly
from pgtrial.analysis.compare.subjects import RULE, Subject, describe_subject, differing, read_subjects
from pgtrial.analysis.world.fingerprint import collect_facts, is_same, rule_of
from pgtrial.analysis.world.settings import ABSENT, VOLATILE
from pgtrial.findings.caveat import CaveatFinding, caveat_in_words
from pgtrial.findings.comparison import (
    ClaimUnderLoads,
    Contrast,
    ExperimentComparison,
    Indirect,
    NotCombined,
    WorldDifference,
)
from pgtrial.findings.message import say
from pgtrial.findings.record import ALL
from pgtrial.model.caveat import NO_ALL_SETTINGS, Severity
from pgtrial.model.verdict import Decision
from pgtrial.safe_text import shell_word
from pgtrial.units import format_duration, format_share

# Of every boot another one, and so of every machine and nearly every day.
_NATURAL = ("kernel/boot id",)
_GROUPS = ("design", "PostgreSQL", "setting", "machine", "storage", "limits", "kernel", "system", "pgtrial")
_SETTING = "A setting of the control that nobody compares; it may explain a difference between the experiments."
_MOST_REASONS = 6


def compare_experiments(folders: Sequence[Path]) -> ExperimentComparison:
    """Compare two or more result folders; they are only read.

    StoreError: a folder is missing, no result folder, of a newer format, without a finished run, or given twice.
    """
    return compare_subjects(read_subjects(folders))


def compare_subjects(subjects: Sequence[Subject]) -> ExperimentComparison:
    """Compare experiments that have been read; each has a key of its own."""
    groups = group_arms(subjects)
    places = [(group, contrast) for group in groups for contrast in describe_contrasts(group)]
    contrasts = sorted((contrast for _, contrast in places), key=_place)
    indirect = compare_indirectly(places)
    return ExperimentComparison(
        pgtrial_version=__version__,
        rule=RULE,
        experiments=tuple(describe_subject(subject) for subject in subjects),
        differences=compare_worlds(subjects),
        contrasts=tuple(contrasts),
        not_combined=explain_not_comparable(subjects, groups),
        under_loads=compare_loads(groups),
        indirect=indirect,
        caveats=tuple(_caveats(subjects, contrasts, indirect)),
    )


def _place(contrast: Contrast) -> tuple[bool, bool, bool]:
    """What is combined first, then what a claim is about, over all load levels before single ones."""
    return (contrast.pooled is None, not contrast.is_claimed, not contrast.is_overall)


def _caveats(
    subjects: Sequence[Subject], contrasts: Sequence[Contrast], indirect: Sequence[Indirect]
) -> Iterator[CaveatFinding]:
    for subject in subjects:
        if subject.excluded:
            yield caveat_in_words(
                "experiment-left-out",
                Severity.WARNING,
                f"{subject.key} is shown and in no combined effect: {subject.excluded}.",
                f'Look at its report: "pgtrial report {shell_word(subject.folder)}".',
            )
        if _is_alarmed(subject):
            yield caveat_in_words(
                "placebo-differs",
                Severity.WARNING,
                f"In {subject.key} the placebo is not like the control: a difference was found where there is none.",
                "Find out why before its effects count for anything.",
            )
    unfinished = [one.key for one in subjects if not one.is_finished]
    if unfinished:
        yield caveat_in_words(
            "unfinished",
            Severity.WARNING,
            f"Not all runs of the schedule are done: {', '.join(unfinished)}. Whoever may stop when it suits chooses "
            "what is combined, so nothing that they are part of is decided.",
            "Finish them first, or name a rule for stopping in the experiment's file.",
        )
    if len(subjects) > 1 and not any(contrast.pooled for contrast in contrasts):
        yield caveat_in_words(
            "nothing-combined",
            Severity.INFO,
            "No effect is combined: no two experiments measured the same arms by the same metric under the same "
            "workload, with two blocks or more.",
            "To repeat an experiment, run its own experiment.toml again.",
        )
    if indirect:
        yield caveat_in_words(
            "indirect",
            Severity.WARNING,
            "An indirect comparison takes for granted that each arm would have had the same effect under the other "
            "experiment's conditions. No block held both arms, so nothing here can check that.",
            "An experiment with both arms answers it directly, and with fewer blocks.",
        )


def _is_alarmed(subject: Subject) -> bool:
    asked = subject.findings.hypothesis
    return any(
        effect.decision in (Decision.BETTER, Decision.WORSE)
        for effect in subject.findings.placebo
        if (effect.metric, effect.scenario, effect.load_level) == (asked.metric, subject.scenario, ALL)
    )


def compare_worlds(subjects: Sequence[Subject]) -> tuple[WorldDifference, ...]:
    """Everything that is known of two experiments or more and not the same in all of them.

    Design first, then the server, its settings and the machine. Severity as the rule for facts inside an experiment has
    it, but at most a warning: no experiment loses its verdict by what another one was run on.
    """
    found = [*_designs(subjects), *_facts(subjects), *_settings(subjects)]
    order = {group: place for place, group in enumerate(_GROUPS)}
    return tuple(sorted(found, key=lambda one: (order.get(one.group, len(order)), one.name)))


def _designs(subjects: Sequence[Subject]) -> Iterator[WorldDifference]:
    experiments = {subject.key: subject.evidence.experiment for subject in subjects}
    findings = {subject.key: subject.findings for subject in subjects}
    facts: dict[str, tuple[dict[str, str], Severity, str]] = {
        "duration": (
            {key: f"{format_duration(one.workload.duration)} per load level" for key, one in experiments.items()},
            Severity.WARNING,
            "What builds up slowly shows in long runs only.",
        ),
        "warm-up": (
            {key: say(found.experiment.workload.get("warm-up")) for key, found in findings.items()},
            Severity.INFO,
            "Caches may be fuller after a longer one.",
        ),
        "method": (
            {key: found.experiment.method for key, found in findings.items()},
            Severity.WARNING,
            "Arms that share a block's time share the machine's state too.",
        ),
        "restore": (
            {key: found.experiment.restore for key, found in findings.items()},
            Severity.WARNING,
            "Data that grow from run to run change what is measured.",
        ),
        "blocks": (
            {key: str(found.experiment.blocks_complete) for key, found in findings.items()},
            Severity.INFO,
            "More blocks, a narrower interval.",
        ),
        "margin": (
            {key: format_share(found.hypothesis.margin) for key, found in findings.items()},
            Severity.INFO,
            "Decisions are against each experiment's own margin.",
        ),
    }
    for name, (values, severity, why) in facts.items():
        known = {key: value for key, value in values.items() if value}
        if len(set(known.values())) > 1:
            yield WorldDifference(group="design", name=name, values=known, severity=severity, why=why)


def _facts(subjects: Sequence[Subject]) -> Iterator[WorldDifference]:
    for name, values in _by_name({subject.key: collect_facts(subject.evidence) for subject in subjects}).items():
        rule = rule_of(name)
        if name in _NATURAL or rule.arms is None or is_same(values.values(), rule.tolerance):
            continue
        group, _, label = name.partition("/")
        severity = Severity.INFO if rule.arms is Severity.INFO else Severity.WARNING
        yield WorldDifference(group=group, name=label, values=values, severity=severity, why=rule.why)


def _settings(subjects: Sequence[Subject]) -> Iterator[WorldDifference]:
    """Settings of the control as its server reported them, but for those that are paths and names of its cluster."""
    read = {subject.key: found for subject in subjects if (found := _control_settings(subject))}
    names = sorted({name for found in read.values() for name in found} - VOLATILE.keys())
    partial = {subject.key for subject in subjects if _sees_not_all_settings(subject)}
    for name in names:
        values = {key: found.get(name, ABSENT) for key, found in read.items() if name in found or key not in partial}
        if len(set(values.values())) > 1:
            yield WorldDifference(group="setting", name=name, values=values, severity=Severity.WARNING, why=_SETTING)


def _control_settings(subject: Subject) -> dict[str, str]:
    evidence = subject.evidence
    runs = evidence.runs_of(evidence.control.name) if evidence.control else ()
    found: dict[str, set[str]] = {}
    for run in runs:
        for name, (value, _) in evidence.settings.get(run.id, {}).items():
            found.setdefault(name, set()).add(value)
    return {name: " / ".join(sorted(values)) for name, values in found.items()}


def _sees_not_all_settings(subject: Subject) -> bool:
    """Whether its role might not see all settings of an existing server: one that is missing is not known then."""
    return any(found.code == NO_ALL_SETTINGS for _, found in subject.evidence.caveats)


def _by_name(tables: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Name to key to value, of those that two tables or more have."""
    found: dict[str, dict[str, str]] = {}
    for key, table in tables.items():
        for name, value in table.items():
            found.setdefault(name, {})[key] = value
    return {name: values for name, values in sorted(found.items()) if len(values) > 1}


def explain_not_comparable(subjects: Sequence[Subject], groups: Sequence[Group]) -> tuple[NotCombined, ...]:
    """The first experiment against the first of each other kind: in what their claims are not about the same."""
    claims: dict[int, tuple[Subject, Group]] = {}
    for subject in subjects:
        asked = subject.findings.hypothesis
        for number, group in enumerate(groups):
            if any(member is subject and arm == asked.arm for member, arm in group.members):
                claims.setdefault(number, (subject, group))
    found = list(claims.values())
    return tuple(
        NotCombined(first=found[0][0].key, second=subject.key, reasons=_reasons(found[0][1], group))
        for subject, group in found[1:]
    )


def _reasons(one: Group, other: Group) -> tuple[str, ...]:
    control, arm = differing(one.control, other.control), differing(one.arm, other.arm)
    reasons = [
        *differing(one.workload, other.workload),
        *(f"both arms: {text}" for text in control if text in arm),
        *(f"control: {text}" for text in control if text not in arm),
        *(f"arm: {text}" for text in arm if text not in control),
    ]
    rest = len(reasons) - _MOST_REASONS
    return (*reasons[:_MOST_REASONS], f"and {rest} more") if rest > 1 else tuple(reasons)


# One claim under several loads: whether it holds in each of them, as a claim about a server has to.
#
# That it holds in all is concluded where it is supported in each, at the confidence of each: "false in one at least" is
# rejected when each of its cases is (Berger, Technometrics 24 (1982) 295–300), so nothing has to be corrected.


def compare_loads(groups: Sequence[Group]) -> tuple[ClaimUnderLoads, ...]:
    """Claims of the same arms, metric, direction and margin that experiments with different loads have tried."""
    asked: dict[tuple[Any, ...], list[tuple[Group, Subject]]] = {}
    for group in groups:
        for subject, arm in group.members:
            if subject.findings.hypothesis.arm == arm:
                asked.setdefault(_question(group, subject), []).append((group, subject))
    return tuple(_describe_loads(members) for members in asked.values() if len({id(group) for group, _ in members}) > 1)


def _question(group: Group, subject: Subject) -> tuple[Any, ...]:
    claim = subject.findings.hypothesis
    parts = claim.parts or (claim,)
    return (
        frozenset(group.control.items()),
        frozenset(group.arm.items()),
        *((part.metric, part.scenario, part.expect, part.margin) for part in parts),
    )


def _describe_loads(members: Sequence[tuple[Group, Subject]]) -> ClaimUnderLoads:
    group, first = members[0]
    found = [(subject.key, subject.findings.hypothesis) for _, subject in members]
    return ClaimUnderLoads(
        title=group.title,
        claim=first.findings.hypothesis.claim,
        loads=len({id(group) for group, _ in members}),
        verdicts={key: claim.verdict for key, claim in found},
        provisional=any(claim.provisional for _, claim in found),
    )
