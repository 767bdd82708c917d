"""Result folders -> comparison of experiments: differences, effects side by side, combined where the rule allows it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pgtrial import __version__
from pgtrial.analysis.compare.apart import explain_apart
from pgtrial.analysis.compare.contrasts import describe_contrasts, group_arms
from pgtrial.analysis.compare.definitions import RULE
from pgtrial.analysis.compare.differences import compare_worlds
from pgtrial.analysis.compare.indirect import compare_indirectly
from pgtrial.analysis.compare.pooling import make_caveat
from pgtrial.analysis.compare.subjects import Subject, describe_subject, read_subjects
from pgtrial.analysis.observations import ALL
from pgtrial.findings.caveat import CaveatFinding
from pgtrial.findings.comparison import Contrast, ExperimentComparison, Indirect
from pgtrial.model.caveat import Severity
from pgtrial.model.verdict import Decision


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
        not_combined=explain_apart(subjects, groups),
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
            yield make_caveat(
                "experiment-left-out",
                Severity.WARNING,
                f"{subject.key} is shown and in no combined effect: {subject.excluded}.",
                f'Look at its report: "pgtrial report {subject.folder}".',
            )
        if _is_alarmed(subject):
            yield make_caveat(
                "placebo-differs",
                Severity.WARNING,
                f"In {subject.key} the placebo is not like the control: a difference was found where there is none.",
                "Find out why before its effects count for anything.",
            )
    unfinished = [one.key for one in map(describe_subject, subjects) if not one.is_finished]
    if unfinished:
        yield make_caveat(
            "unfinished",
            Severity.WARNING,
            f"Not all runs of the schedule are done: {', '.join(unfinished)}. Looking again when they are is not the "
            "same as one look at the end.",
            "Finish them first, or name a rule for stopping in the experiment's file.",
        )
    if len(subjects) > 1 and not any(contrast.pooled for contrast in contrasts):
        yield make_caveat(
            "nothing-combined",
            Severity.INFO,
            "No effect is combined: no two experiments measured the same arms by the same metric under the same "
            "workload, with two blocks or more.",
            "To repeat an experiment, run its own experiment.toml again.",
        )
    if indirect:
        yield make_caveat(
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
