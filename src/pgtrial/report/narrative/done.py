"""What was done: blocks and runs, the load, the data, the server, the time it took."""

from collections.abc import Iterator

from pgtrial.analysis.findings import Findings
from pgtrial.report.narrative.base import Sentence, Teller, cite, enumerate_parts, say
from pgtrial.report.narrative.phrases import cite_arm
from pgtrial.report.words import is_finished, placebo_arm, plural
from pgtrial.units import format_duration

VERSION_PATH = 'experiment.target["postgres version"]'

_METHODS = {
    "blocks": "In a block every arm has one run, one after the other in random order",
    "interleaved": "In a block the arms take turns, in short slices of random order",
    "duet": "In a block the arms run at the same time, each on CPUs of its own, which they change half-way",
}
_RESTORED = {
    "each-run": "before each run the data were put back to what they were",
    "each-block": "before each block the data were put back to what they were",
    "never": "the data were never put back, so later runs started from what earlier ones had left",
}


def _tell(findings: Findings) -> Iterator[Sentence]:
    experiment = findings.experiment
    yield say(
        "{complete} of {planned} are complete{rest}.",
        complete=cite(str(experiment.blocks_complete), "experiment.blocks_complete"),
        planned=cite(plural(experiment.blocks_planned, "block"), "experiment.blocks_planned"),
        rest="" if is_finished(findings) else ", so the experiment is not finished",
    )
    restored = _RESTORED.get(experiment.restore, "")
    yield say(
        "{how}{restored}.",
        how=cite(_METHODS.get(experiment.method, experiment.method), "experiment.method"),
        restored=("; ", cite(restored, "experiment.restore")) if restored else (),
    )
    placebo = placebo_arm(findings)
    if placebo is not None:
        yield say(
            "The arm {arm} is a second copy of the control, whose true effect is zero.",
            arm=cite_arm(findings, placebo),
        )
    yield _runs(findings)
    yield from _load(findings)
    version = experiment.target.get("postgres version")
    if version:
        yield say("The server was PostgreSQL {version}.", version=cite(version, VERSION_PATH))
    if experiment.started is not None and experiment.ended is not None:
        took = format_duration(experiment.ended - experiment.started)
        yield say("It took {took}.", took=cite(took, "experiment.started", "experiment.ended"))


def _runs(findings: Findings) -> Sentence:
    arms = range(len(findings.experiment.arms))
    done = sum(arm.runs_done for arm in findings.experiment.arms)
    invalid = sum(arm.runs_invalid for arm in findings.experiment.arms)
    counted = cite(plural(done, "run"), *(f"experiment.arms[{number}].runs_done" for number in arms))
    if not invalid:
        return say("{counted} {verb}.", counted=counted, verb="counts" if done == 1 else "count")
    return say(
        "{counted} {verb}; {invalid} did not, for a recorded reason.",
        counted=counted,
        verb="counts" if done == 1 else "count",
        invalid=cite(plural(invalid, "run"), *(f"experiment.arms[{number}].runs_invalid" for number in arms)),
    )


def _load(findings: Findings) -> Iterator[Sentence]:
    experiment = findings.experiment
    facts = experiment.workload
    levels: list[Sentence] = [
        (cite(level.label, f"experiment.levels[{number}].label"),) for number, level in enumerate(experiment.levels)
    ]
    if "scenarios" in facts:
        yield say(
            "The load was {scenarios}{levels}{duration}{data}.",
            scenarios=cite(facts["scenarios"], "experiment.workload.scenarios"),
            levels=say(" with {levels}", levels=enumerate_parts(levels)) if levels else (),
            duration=(", ", cite(facts["duration"], "experiment.workload.duration")) if "duration" in facts else (),
            data=(" (data: ", cite(facts["data"], "experiment.workload.data"), ")") if "data" in facts else (),
        )


DONE = Teller(name="done", title="What was done", tell=_tell)
