"""What was done: blocks and runs, the load, the data, the server, the time it took."""

from collections.abc import Iterator

from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say as say_message
from pgtrial.language import N_, ntr, tr
from pgtrial.report.narrative.base import Cited, Sentence, Teller, cite, enumerate_parts, keep, say, source
from pgtrial.report.narrative.phrases import cite_arm
from pgtrial.report.words import is_finished, placebo_arm, workload_facts
from pgtrial.units import format_duration

VERSION_PATH = 'experiment.target["postgres version"]'

_METHODS = {
    "blocks": N_("In a block every arm has one run, one after the other in random order"),
    "interleaved": N_("In a block the arms take turns, in short slices of random order"),
    "duet": N_("In a block the arms run at the same time, each on CPUs of its own, which they change half-way"),
}
_RESTORED = {
    "each-run": N_("before each run the data were put back to what they were"),
    "each-block": N_("before each block the data were put back to what they were"),
    "never": N_("the data were never put back, so later runs started from what earlier ones had left"),
}


def _tell(findings: Findings) -> Iterator[Sentence]:
    experiment = findings.experiment
    yield _blocks(findings)
    method = tr(_METHODS[experiment.method]) if experiment.method in _METHODS else experiment.method
    how = cite(method, "experiment.method")
    if experiment.restore in _RESTORED:
        restored = cite(tr(_RESTORED[experiment.restore]), "experiment.restore")
        yield say(tr("{how}; {restored}."), how=how, restored=restored)
    else:
        yield say("{how}.", how=how)
    placebo = placebo_arm(findings)
    if placebo is not None:
        yield say(
            tr("The arm {arm} is a second copy of the control, whose true effect is zero."),
            arm=cite_arm(findings, placebo),
        )
    yield _runs(findings)
    yield from _load(findings)
    version = experiment.target.get("postgres version")
    if version:
        yield say(tr("The server was PostgreSQL {version}."), version=cite(version, VERSION_PATH))
    if experiment.started is not None and experiment.ended is not None:
        took = format_duration(experiment.ended - experiment.started)
        yield say(tr("It took {took}."), took=cite(took, "experiment.started", "experiment.ended"))


def _blocks(findings: Findings) -> Sentence:
    experiment, kept = findings.experiment, keep("complete")
    if is_finished(findings):
        told = ntr(
            "{complete} of <planned>{count} block</planned> are complete.",
            "{complete} of <planned>{count} blocks</planned> are complete.",
            experiment.blocks_planned,
            **kept,
        )
    else:
        told = ntr(
            "{complete} of <planned>{count} block</planned> are complete, so the experiment is not finished.",
            "{complete} of <planned>{count} blocks</planned> are complete, so the experiment is not finished.",
            experiment.blocks_planned,
            **kept,
        )
    return say(
        told,
        complete=cite(str(experiment.blocks_complete), "experiment.blocks_complete"),
        planned=source("experiment.blocks_planned"),
    )


def _runs(findings: Findings) -> Sentence:
    arms = range(len(findings.experiment.arms))
    done = sum(arm.runs_done for arm in findings.experiment.arms)
    invalid = sum(arm.runs_invalid for arm in findings.experiment.arms)
    counted = source(*(f"experiment.arms[{number}].runs_done" for number in arms))
    if not invalid:
        return say(
            ntr("<counted>{count} run</counted> counts.", "<counted>{count} runs</counted> count.", done),
            counted=counted,
        )
    return say(
        ntr(
            "<counted>{count} run</counted> counts; {invalid} did not, for a recorded reason.",
            "<counted>{count} runs</counted> count; {invalid} did not, for a recorded reason.",
            done,
            **keep("invalid"),
        ),
        counted=counted,
        invalid=cite(
            ntr("{count} run", "{count} runs", invalid),
            *(f"experiment.arms[{number}].runs_invalid" for number in arms),
        ),
    )


def _load(findings: Findings) -> Iterator[Sentence]:
    experiment = findings.experiment
    facts = workload_facts(findings)
    levels: list[Sentence] = [
        (cite(level.label.say(), f"experiment.levels[{number}].label.text"),)
        for number, level in enumerate(experiment.levels)
    ]
    if "scenarios" in facts:
        load: Sentence = (cite(facts["scenarios"], "experiment.workload.scenarios"),)
        if levels:
            load = say(tr("{load} with {levels}"), load=load, levels=enumerate_parts(levels))
        if "duration" in facts:
            load = (*load, ", ", _cite_fact(findings, "duration"))
        if "data" in facts:
            load = say(tr("{load} (data: {data})"), load=load, data=_cite_fact(findings, "data"))
        yield say(tr("The load was {load}."), load=load)


def _cite_fact(findings: Findings, name: str) -> Cited:
    """A fact of the load, which is a message or, in findings of version 1, a text."""
    fact = findings.experiment.workload[name]
    path = f"experiment.workload.{name}"
    return cite(say_message(fact), path if isinstance(fact, str) else f"{path}.text")


DONE = Teller(name="done", title=N_("What was done"), tell=_tell)
