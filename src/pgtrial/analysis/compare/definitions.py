"""What has to be the same for two effects to be of one kind, and the rule in words.

An effect is of an arm against a control, under a load, by a metric. All four are compared by what defines them, never
by their names. How often and in which order runs were made, how long each measured, and on which machine, is how well
and where the effect was measured: it may differ, and is shown.
"""

import hashlib
from collections.abc import Mapping

from pgtrial.analysis.compare.subjects import Subject
from pgtrial.analysis.evidence import Evidence
from pgtrial.errors import StoreError
from pgtrial.model.arm import Arm
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
        "Never combined: an experiment whose verdict is invalid, an effect of fewer than two blocks, single runs or "
        "seconds of different experiments, absolute values."
    ),
    "Each experiment counts as one; its blocks have said how sure it is.",
)

# Of the workload, what is how long it was measured, and what the load levels say already.
_HOW = {"duration", "warmup", "threads", "clients", "rate"}
_DIGITS = 12  # of a script's digest

Definition = dict[str, str]


def define_workload(subject: Subject) -> Definition:
    """The load: what the file says of it, its scripts as used, the data, the state of the cache."""
    evidence = subject.evidence
    experiment = evidence.experiment
    found = {"load levels": "; ".join(level.label for level in evidence.levels)}
    found |= _flat("workload", experiment.workload.model_dump(mode="json", exclude=_HOW))
    found |= _flat("data", experiment.dataset.model_dump(mode="json", exclude={"setup"}))
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
            if path.is_file()
        }
    except OSError as err:
        raise StoreError(f'cannot read "{folder}": {err.strerror}') from err
