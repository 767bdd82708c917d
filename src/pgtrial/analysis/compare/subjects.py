"""The experiments to compare, each analysed separately, and what must be the same in them.

An effect is of an arm against a control, under a load, by a metric. All four are compared by what defines them, never
by their names. How often and in which order runs were made, how long each measured, and on which machine, is how well
and where the effect was measured: it may differ, and is shown.
"""

import hashlib
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.errors import StoreError
from pgtrial.findings.comparison import ComparedExperiment, Value
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.findings.record import ALL
from pgtrial.model.arm import Arm
from pgtrial.model.caveat import Severity
from pgtrial.model.verdict import Verdict
from pgtrial.safe_files import is_plain
from pgtrial.safe_text import shell_word
from pgtrial.stats.interval import mean_log_interval
from pgtrial.store import layout

RULE = (
    (
        "Effects are combined if, and only if, these are the same in all experiments: what defines both arms (settings "
        "as the server reported them, everything else the arms set, the server's major version), the metric with its "
        "scenario and load levels, and the workload (scenarios with their scripts and shares, clients or rates, "
        "protocol, data, state of the cache). Names do not matter."
    ),
    "May differ, and is shown: machine, kernel, minor version, day, other settings, method, duration, blocks.",
    (
        "Never combined: an experiment whose verdict is invalid, but for transactions that were lost, an effect of "
        "fewer than two blocks, single runs or seconds of different experiments, absolute values."
    ),
    (
        "Nothing is decided where an experiment is left out for what its arms did, or where attempts of all of them "
        "together failed unequally."
    ),
    "Each experiment counts as one; its blocks have said how sure it is.",
)
# Of the workload, what is how long it was measured, and what the load levels say already.
_HOW = {"duration", "warmup", "threads", "clients", "rate"}
_DIGITS = 12  # of a script's digest
_FEWEST_BLOCKS = 2  # of which an effect has an error
# Caveats with which a verdict is invalid for its record, or for its world, and not for what the arms did.
_VOID = {"post-hoc", "foreign-data", "undeclared-difference", "placebo-effect"}
_LOST = {"failed-transactions", "skipped-transactions"}
Definition = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One result folder; ``key`` is its letter."""

    key: str
    folder: Path
    evidence: Evidence
    findings: Findings

    @property
    def is_finished(self) -> bool:
        """Whether the schedule is done, or its rule for stopping ended it."""
        stopping = self.findings.stopping
        return self.findings.experiment.complete or (stopping is not None and stopping.ended is not None)

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
        if self.findings.hypothesis.verdict is Verdict.INVALID and not self._is_invalid_for_lost:
            return "its verdict is invalid"
        return ""

    @property
    def _is_invalid_for_lost(self) -> bool:
        """Whether its verdict is invalid for transactions that were lost and for nothing else: its effects bear them,
        and of all experiments together is told whether they are more than chance. By rules 14 effects did not.
        """
        return self.evidence.rules.bears_alike and bool(self._invalid_for) and self._invalid_for <= _LOST

    @property
    def _invalid_for(self) -> set[str]:
        return {each.code for each in self.findings.caveats if each.severity is Severity.INVALID}

    @property
    def is_void(self) -> bool:
        """Whether it would count in none whatever its arms had done: others may be combined without it."""
        return bool(self._invalid_for & _VOID) or len({slot.block for slot in self.evidence.slots}) < _FEWEST_BLOCKS

    def has_observed(self, metric: str) -> bool:
        """Whether a run of any arm has a value of it: else it was not looked at there."""
        return any(one.metric == metric for one in self.findings.observations)


def read_subjects(folders: Sequence[Path]) -> tuple[Subject, ...]:
    """Analyse every folder, in the order in which they were given.

    StoreError: a folder is missing, no result folder, of a newer format, has no finished run, or two hold the same
    runs.
    """
    for folder in folders:
        if not folder.is_dir():
            raise StoreError(f'folder "{folder}" does not exist', hint='Name result folders that "pgtrial run" made.')
    records = [read_evidence(folder) for folder in folders]  # whatever is unreadable is told before the long part
    for folder, evidence in zip(folders, records, strict=True):
        if not evidence.valid:
            raise StoreError(
                f'result folder "{folder}" has no finished run, so there is nothing to compare',
                hint=f'Continue it: "pgtrial resume {shell_word(folder)}".',
            )
    subjects = tuple(
        Subject(key=letter(number), folder=folder, evidence=evidence, findings=analyze(folder))
        for number, (folder, evidence) in enumerate(zip(folders, records, strict=True))
    )
    _check_different(subjects)
    return subjects


def letter(number: int) -> str:
    """ "A", "B", …, "Z", "A2", "B2", …"""
    round_, place = divmod(number, len(string.ascii_uppercase))
    return string.ascii_uppercase[place] + (str(round_ + 1) if round_ else "")


def _check_different(subjects: Sequence[Subject]) -> None:
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
    return ComparedExperiment(
        key=subject.key,
        folder=str(subject.folder),
        name=experiment.name,
        started=experiment.started,
        ended=experiment.ended,
        is_finished=subject.is_finished,
        method=experiment.method,
        blocks=experiment.blocks_complete,
        control=asked.control,
        arms=experiment.arms,
        metric=asked.metric,
        margin=asked.margin,
        confidence=asked.confidence,
        verdict=asked.verdict,
        provisional=asked.provisional,
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


def define_workload(subject: Subject) -> Definition:
    """The load: what the file says of it, its scripts as used, the data, the state of the cache."""
    evidence = subject.evidence
    experiment = evidence.experiment
    found = {"load levels": "; ".join(level.label for level in evidence.levels)}
    found |= _flat("workload", experiment.workload.model_dump(mode="json", exclude=_HOW))
    found |= _flat("data", experiment.dataset.model_dump(mode="json", exclude={"setup", "load"}))
    found["cache"] = experiment.design.cache
    return found | _scripts(evidence)


def define_arm(subject: Subject, arm: Arm) -> Definition:
    """What an arm sets, common settings included, and its server's major version.

    Of a setting that all runs of the arm read back as one value it is that, so that "1GB" and "1024MB" are the same.
    """
    evidence = subject.evidence
    runs = [run.id for run in evidence.runs_of(arm.name)]
    found: Definition = {}
    for name, declared in arm.settings.items():
        shown = {_read_back(evidence, run, name) for run in runs}
        value = shown.pop() if len(shown) == 1 else None
        found[name.lower()] = declared if value is None else value
    for knob, table in arm.knobs.items():
        found |= {f"{knob}.{name}": value for name, value in table.items()}
    version = next((one.version for one in subject.findings.experiment.arms if one.name == arm.name), "")
    if version:
        found["PostgreSQL"] = version.split(".")[0]
    return found


def differing(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """ "work_mem 4MB / 64MB" for everything that is not the same, by name; "not set" where it is in one only."""
    names = sorted({*first, *second})
    return [
        f"{name} {first.get(name, 'not set')} / {second.get(name, 'not set')}"
        for name in names
        if first.get(name) != second.get(name)
    ]


def _read_back(evidence: Evidence, run: int, name: str) -> str | None:
    settings = evidence.settings.get(run, {})
    for known in (name, name.lower()):
        if known in settings:
            return settings[known][0]
    return next((value for known, (value, _) in settings.items() if known.lower() == name.lower()), None)


def _flat(prefix: str, value: object) -> Definition:
    """A table of the file as dotted names and texts; what is not given is left out."""
    if isinstance(value, dict):
        parts = [_flat(f"{prefix}.{key}", item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        parts = [_flat(f"{prefix}.{number}", item) for number, item in enumerate(value, start=1)]
    elif value is None:
        parts = []
    else:
        return {prefix: f"{value:g}" if isinstance(value, float) else str(value)}
    return {name: text for part in parts for name, text in part.items()}


def _scripts(evidence: Evidence) -> Definition:
    """Digests of scripts and set-up SQL as they were used."""
    folder = evidence.folder / layout.FILES
    if not folder.is_dir():
        return {}
    try:
        return {
            f"script {path.name}": hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGITS]
            for path in sorted(folder.iterdir())
            if is_plain(path)
        }
    except OSError as err:
        raise StoreError(f'cannot read "{folder}": {err.strerror}') from err
