"""The experiments that are compared, each read and analysed by itself."""

import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.observations import ALL
from pgtrial.errors import StoreError
from pgtrial.findings.comparison import ComparedExperiment, Value
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.model.verdict import Verdict
from pgtrial.stats.interval import mean_log_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One result folder; ``key`` is its letter."""

    key: str
    folder: Path
    evidence: Evidence
    findings: Findings

    @property
    def scenario(self) -> str | None:
        """The claim's scenario as effects name it: None where there is only one."""
        asked = self.findings.hypothesis.scenario
        return None if self.findings.experiment.scenarios == (asked,) else asked

    @property
    def excluded(self) -> str:
        """Why none of its effects counts in a combined one; "" where they do."""
        if not self.evidence.valid:
            return "it has no finished runs"
        if self.findings.hypothesis.verdict is Verdict.INVALID:
            return "its verdict is invalid"
        return ""


def read_subjects(folders: Sequence[Path]) -> tuple[Subject, ...]:
    """Analyse every folder, in the order in which they were given.

    StoreError: a folder is missing, no result folder, of a newer format, has no finished run, or two hold the same
    runs.
    """
    for folder in folders:
        if not folder.is_dir():
            raise StoreError(f'there is no folder "{folder}"', hint='Name result folders that "pgtrial run" made.')
    records = [read_evidence(folder) for folder in folders]  # whatever is unreadable is told before the long part
    for folder, evidence in zip(folders, records, strict=True):
        if not evidence.valid:
            raise StoreError(
                f'result folder "{folder}" has no finished run, so there is nothing to compare',
                hint=f'Go on with it: "pgtrial resume {folder}".',
            )
    subjects = tuple(
        Subject(key=letter(number), folder=folder, evidence=evidence, findings=analyze(folder))
        for number, (folder, evidence) in enumerate(zip(folders, records, strict=True))
    )
    _check_apart(subjects)
    return subjects


def letter(number: int) -> str:
    """ "A", "B", …, "Z", "A2", "B2", …"""
    round_, place = divmod(number, len(string.ascii_uppercase))
    return string.ascii_uppercase[place] + (str(round_ + 1) if round_ else "")


def _check_apart(subjects: Sequence[Subject]) -> None:
    """The same runs, counted twice, would look like two experiments that agree."""
    seen: dict[tuple[object, ...], Subject] = {}
    for subject in subjects:
        observed: dict[int, list[object]] = {}
        for one in subject.findings.observations:
            observed.setdefault(one.run, []).append((one.metric, one.scenario, one.load_level, one.value))
        for run in subject.findings.runs:
            if run.id not in observed:
                continue
            other = seen.setdefault((run.started, run.arm, frozenset(observed[run.id])), subject)
            if other is not subject:
                raise StoreError(
                    f'folders "{other.folder}" and "{subject.folder}" hold the same runs',
                    detail=f'Run {run.id} of arm "{run.arm}" is in both: one is a copy of the other.',
                    hint="Name each experiment once.",
                )


def describe_subject(subject: Subject) -> ComparedExperiment:
    experiment, asked = subject.findings.experiment, subject.findings.hypothesis
    stopping = subject.findings.stopping
    return ComparedExperiment(
        key=subject.key,
        folder=str(subject.folder),
        name=experiment.name,
        started=experiment.started,
        ended=experiment.ended,
        is_finished=experiment.complete or (stopping is not None and stopping.ended is not None),
        method=experiment.method,
        blocks=experiment.blocks_complete,
        control=asked.control,
        arms=experiment.arms,
        metric=asked.metric,
        margin=asked.margin,
        confidence=asked.confidence,
        verdict=asked.verdict,
        reason=say(asked.reason),
        sd_log_ratio=subject.findings.noise.sd_log_ratio,
        control_values=tuple(_control_values(subject)),
        excluded=subject.excluded,
    )


def _control_values(subject: Subject) -> list[Value]:
    """Of the control over all load levels and scenarios: geometric mean over the blocks with a t interval."""
    asked = subject.findings.hypothesis
    observed: dict[str, list[float]] = {}
    for one in subject.findings.observations:
        if (one.arm, one.scenario, one.load_level) == (asked.control, None, ALL):
            observed.setdefault(one.metric, []).append(one.value)
    load = subject.evidence.load
    names = dict.fromkeys((asked.metric, *(metric.name for metric in (*load.shown, load.quantiles[2][0]))))
    found = []
    for name in names:
        if name in observed:
            value, low, high = mean_log_interval(observed[name], confidence=asked.confidence)
            found.append(Value(metric=name, value=value, low=low, high=high))
    return found
