"""Facts of what was asked and done: claim, arms, load, runs, time, machine."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from pgtrial.analysis.findings import Findings
from pgtrial.experiment_file.experiment import RELATIONS
from pgtrial.narrate.facts import Fact, count_fact, numbers_in, share_fact, text_fact
from pgtrial.narrate.quantity import Number, Quantity
from pgtrial.report.narrative.base import key_path
from pgtrial.report.words import metric_label, needed_text
from pgtrial.units import format_duration, format_percent

# Facts of the machine that explain a result; names of hosts and paths are not among them.
_MACHINE = ("CPU", "memory", "release", "scheduler", "file system", "huge pages", "swap", "version")


def tell_design(findings: Findings, *, with_texts: bool) -> Iterator[Fact]:
    """In the order of a report. Free texts of the user, which may name anything, only ``with_texts``."""
    yield from _asked(findings, with_texts=with_texts)
    yield from _arms(findings)
    yield from _done(findings)
    yield from _runs(findings)
    yield from _machine(findings)


def _asked(findings: Findings, *, with_texts: bool) -> Iterator[Fact]:
    asked = findings.hypothesis
    yield text_fact("experiment", f"“{findings.experiment.name}”", "experiment.name")
    if with_texts and asked.claim:
        yield text_fact("the claim in its author's words", asked.claim, "hypothesis.claim")
    if with_texts and findings.experiment.description:
        yield text_fact("description by its author", findings.experiment.description, "experiment.description")
    relation = RELATIONS.get(asked.expect, asked.expect)
    tested = f"“{asked.arm}” is {relation} “{asked.control}”, in {metric_label(asked.metric)}"
    yield Fact(text="what was tested", value=tested, path="hypothesis.expect", numbers=())
    if asked.scenario is not None:
        yield text_fact("scenario that the claim is about", f"“{asked.scenario}”", "hypothesis.scenario")
    yield share_fact("margin: smallest change that matters", asked.margin, "hypothesis.margin", is_bound=True)
    yield share_fact("confidence of the intervals", asked.confidence, "hypothesis.confidence")
    yield Fact(text="verdict on the claim", value=asked.verdict, path="hypothesis.verdict", numbers=())
    if needed_text(findings):
        yield text_fact("still needed to decide", needed_text(findings), "needed.text")


def _arms(findings: Findings) -> Iterator[Fact]:
    arms = findings.experiment.arms
    yield count_fact("arms, the placebo among them", len(arms), "arm", "experiment.arms")
    without = sum(arm.role != "placebo" for arm in arms)
    if without != len(arms):
        yield count_fact("arms without the placebo", without, "arm", "experiment.arms")
    for number, arm in enumerate(arms):
        path = f"experiment.arms[{number}]"
        yield Fact(text=f"role of arm “{arm.name}”", value=arm.role, path=f"{path}.role", numbers=())
        declared = [(key_path(f"{path}.settings", name), name, value) for name, value in arm.settings.items()]
        for table, values in arm.knobs.items():
            where = key_path(f"{path}.knobs", table)
            declared += [(key_path(where, name), f"{table} {name}", value) for name, value in values.items()]
        for place, name, value in declared:
            yield text_fact(f"arm “{arm.name}” sets {name}", value, place)
        if arm.version:
            yield text_fact(
                f"version of the server of arm “{arm.name}”", f"PostgreSQL {arm.version}", f"{path}.version"
            )


def _done(findings: Findings) -> Iterator[Fact]:
    experiment = findings.experiment
    yield Fact(text="method", value=experiment.method, path="experiment.method", numbers=())
    yield count_fact("blocks planned", experiment.blocks_planned, "block", "experiment.blocks_planned")
    yield count_fact("blocks complete", experiment.blocks_complete, "block", "experiment.blocks_complete")
    for name, value in experiment.workload.items():
        yield text_fact(f"load: {name}", value, key_path("experiment.workload", name))
    yield count_fact("load levels", len(experiment.levels), "level", "experiment.levels")
    for number, level in enumerate(experiment.levels):
        path = f"experiment.levels[{number}]"
        yield count_fact(f"load level “{level.label}”", level.clients, "client", f"{path}.clients")
        if level.rate is not None:
            yield text_fact(f"arrival rate of load level “{level.label}”", f"{level.rate:g} tps", f"{path}.rate")
    version = experiment.target.get("postgres version")
    if version:
        yield text_fact("server", f"PostgreSQL {version}", 'experiment.target["postgres version"]')
    for what, moment, path in (
        ("started", experiment.started, "experiment.started"),
        ("ended", experiment.ended, "experiment.ended"),
    ):
        if moment is not None:
            yield _moment(what, moment, path)
    if experiment.started is not None and experiment.ended is not None:
        yield text_fact("took", format_duration(experiment.ended - experiment.started), "experiment.ended")
    if findings.overhead.share is not None:
        share = format_percent(findings.overhead.share)
        yield text_fact("share of the runs' time that is not measured load", share, "overhead.share")
    for name, seconds in findings.overhead.by_phase.items():
        yield text_fact(f"time in phase {name}", format_duration(seconds), key_path("overhead.by_phase", name))


def _moment(what: str, seconds: float, path: str) -> Fact:
    shown = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
    day, _, clock = shown.partition(" ")
    year = Number(value=float(shown[:4]), quantity=Quantity.PLAIN, shown=shown[:4])
    return Fact(
        text=what,
        value=f"{shown} UTC",
        path=path,
        numbers=(
            year,
            *(Number(value=0.0, quantity=Quantity.DATE, shown=shown, written=written) for written in (day, clock)),
        ),
    )


def _runs(findings: Findings) -> Iterator[Fact]:
    arms = findings.experiment.arms
    yield count_fact("runs begun, repeats and invalid ones among them", len(findings.runs), "run", "runs")
    yield count_fact("runs that count", sum(arm.runs_done for arm in arms), "run", "experiment.arms[].runs_done")
    yield count_fact("invalid runs", sum(arm.runs_invalid for arm in arms), "run", "experiment.arms[].runs_invalid")
    for number, arm in enumerate(arms):
        path = f"experiment.arms[{number}]"
        yield count_fact(f"runs of arm “{arm.name}” that count", arm.runs_done, "run", f"{path}.runs_done")
        if arm.runs_invalid:
            yield count_fact(f"invalid runs of arm “{arm.name}”", arm.runs_invalid, "run", f"{path}.runs_invalid")


def _machine(findings: Findings) -> Iterator[Fact]:
    for number, fact in enumerate(findings.fingerprint.facts):
        if not any(word in fact.name for word in _MACHINE):
            continue
        told = text_fact(f"{fact.group}: {fact.name}", fact.value, f"fingerprint.facts[{number}].value")
        told = replace(told, numbers=(*told.numbers, *numbers_in(fact.name)))  # "huge pages of 2048kB"
        count = fact.value.split(" ", 1)[0]
        if fact.name == "CPUs" and count.isascii() and count.isdigit():
            cpus = count_fact("", int(count), "CPU", "").numbers
            told = replace(told, numbers=(*told.numbers, *cpus))
        yield told
    for number, setting in enumerate(findings.settings):
        if setting.differs:
            for arm, value in setting.values.items():
                place = key_path(f"settings[{number}].values", arm)
                yield text_fact(f"setting {setting.name} in arm “{arm}”", value, place)
