"""In what the experiments' worlds differ: design, settings, machine. What is told first, as it may explain the rest."""

from collections.abc import Iterator, Mapping, Sequence

from pgtrial.analysis.compare.subjects import Subject
from pgtrial.analysis.world.fingerprint import collect_facts, is_same, rule_of
from pgtrial.analysis.world.settings import ABSENT, VOLATILE
from pgtrial.findings.comparison import WorldDifference
from pgtrial.findings.message import say
from pgtrial.model.caveat import Severity
from pgtrial.units import format_duration, format_share

# Of every boot another one, and so of every machine and nearly every day.
_NATURAL = ("kernel/boot id",)
_GROUPS = ("design", "PostgreSQL", "setting", "machine", "storage", "limits", "kernel", "system", "pgtrial")
_SETTING = "A setting of the control that nobody compares; it may explain a difference between the experiments."


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
    for name in names:
        values = {key: found.get(name, ABSENT) for key, found in read.items()}
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


def _by_name(tables: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Name to key to value, of those that two tables or more have."""
    found: dict[str, dict[str, str]] = {}
    for key, table in tables.items():
        for name, value in table.items():
            found.setdefault(name, {})[key] = value
    return {name: values for name, values in sorted(found.items()) if len(values) > 1}
