"""Arms of several experiments that are one by definition, and what is missing from them: attempts that nobody shows,
and experiments that are in no effect for what their arms did.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from pgtrial.analysis.compare.subjects import Definition, Subject, define_arm, define_workload
from pgtrial.analysis.effects.attempts import find_excess
from pgtrial.findings.caveat import CaveatFinding, caveat_in_words
from pgtrial.model.caveat import Severity
from pgtrial.model.rules import CURRENT
from pgtrial.stats.failures import Attempts, fails_more

# Caveats of a contrast with which nothing is decided by way of the control, as with UNEQUAL_LOSSES.
BY_RESULT, UNEQUAL_FAILURES = "left-out-by-result", "unequal-failures"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Arms of one definition against controls of one definition, under one workload; one member per experiment."""

    workload: Definition
    control: Definition
    arm: Definition
    members: tuple[tuple[Subject, str], ...]  # with the arm's name there

    @property
    def title(self) -> str:
        subject, arm = self.members[0]
        return f"{arm} against {subject.findings.hypothesis.control}"


def group_arms(subjects: Sequence[Subject]) -> tuple[Group, ...]:
    """Candidates of all experiments by what defines them, in the order in which they first appear."""
    found: dict[tuple[frozenset[tuple[str, str]], ...], list[tuple[Subject, str]]] = {}
    definitions: dict[tuple[frozenset[tuple[str, str]], ...], tuple[Definition, Definition, Definition]] = {}
    for subject in subjects:
        control = subject.evidence.control
        if control is None:
            continue
        workload, control_definition = define_workload(subject), define_arm(subject, control)
        for arm in subject.evidence.candidates:
            parts = (workload, control_definition, define_arm(subject, arm))
            key = tuple(frozenset(part.items()) for part in parts)
            members = found.setdefault(key, [])
            definitions[key] = parts
            if all(member is not subject for member, _ in members):
                members.append((subject, arm.name))
    return tuple(
        Group(
            workload=definitions[key][0],
            control=definitions[key][1],
            arm=definitions[key][2],
            members=tuple(members),
        )
        for key, members in found.items()
    )


def find_absent_attempts(group: Group) -> Iterator[CaveatFinding]:
    """Attempts at the claim that were made before one of the experiments and are not among them.

    Each list of attempts, as a machine has one, numbers its own: all that come before the last one have to be there.
    Where several have one number, in folders that do not name their list or of a list that went on in two places,
    first attempts alone are known to be complete: of three numbered 1, 1 and 2 one may be chosen on each of three
    machines.
    """
    lists: dict[float | None, list[int]] = {}
    named = {subject.evidence.attempts_since for subject, _ in group.members}
    for subject, _ in group.members:
        evidence = subject.evidence
        if evidence.rules.counts_attempts and evidence.attempts_before is not None:
            since = evidence.attempts_since
            if since is None and evidence.created in named:
                since = evidence.created  # a folder from before lists had names, which is the first in one of them
            lists.setdefault(since, []).append(evidence.attempts_before + 1)
    made = sum(max(numbers) for numbers in lists.values())
    absent = made - sum(len(set(numbers)) for numbers in lists.values())
    is_told = lists.keys() == {None} or None not in lists
    if absent > 0 and is_told:
        what = f"Of {made} attempts at the claim {absent} {'is' if absent == 1 else 'are'} not among these experiments"
    elif absent > 0 or any(1 < max(numbers) < len(numbers) for numbers in lists.values()):
        what = (
            "Some of these experiments are later attempts at the claim, and which attempts belong together is not told"
        )
    else:
        return
    yield caveat_in_words(
        "absent-attempts",
        Severity.WARNING,
        f"{what}: whoever leaves attempts out chooses what the others say, so nothing is decided.",
        "Compare all attempts, those that were interrupted as well.",
    )


def find_unequal_failures(group: Group) -> Iterator[CaveatFinding]:
    """Attempts of all experiments together that failed as those of one may not, or runs of one that were interrupted so
    often that nothing is known of it: by the rules of today.

    What failed beside that is in the interval of each effect; of single transactions ``find_unequal_losses`` tells.
    """
    counted: list[tuple[Attempts, Attempts]] = []
    unknown: list[str] = []
    for subject, arm in group.members:
        if subject.is_void:
            continue
        evidence = replace(subject.evidence, rules=CURRENT)
        excess = find_excess(evidence, arm)
        if excess is None:
            counted.append((Attempts(made=len(evidence.pairs(arm)), failed=0),) * 2)
            continue
        counted.append((excess.control, excess.treated))
        if excess.share == 1:
            unknown.append(subject.key)
    control, treated = (
        Attempts(made=sum(each.made for each in side), failed=sum(each.failed for each in side))
        for side in (zip(*counted, strict=True) if counted else ((), ()))
    )
    if fails_more(control, treated, weighs_lone=CURRENT.weighs_lone_failures):
        what = (
            f"Of all attempts of these experiments {treated.failed} of {treated.made} of the arm failed and "
            f"{control.failed} of {control.made} of the control"
        )
    elif unknown:
        what = f"So much failed or was interrupted that nothing is known of {', '.join(unknown)}"
    else:
        return
    yield caveat_in_words(
        UNEQUAL_FAILURES,
        Severity.WARNING,
        f"{what}: what died may be worse than all that lived, so nothing is decided.",
        "Find out why the attempts fail.",
    )


def find_left_out(group: Group, metric: str, settled: Collection[str]) -> Iterator[CaveatFinding]:
    """Experiments that are in no combined effect for what their arms did: an effect without them is one of those that
    went well. Of those ``settled`` it is known that they are in it, or why they are not.
    """
    left_out = [
        subject.key
        for subject, _ in group.members
        if subject.key not in settled and not subject.is_void and subject.has_observed(metric)
    ]
    if left_out:
        yield caveat_in_words(
            BY_RESULT,
            Severity.WARNING,
            f"{', '.join(left_out)}: not in it for what the arms did, as runs that have no value. What is left is "
            "chosen by its result, so nothing is decided.",
            "Find out what happened there, and run it again.",
        )
