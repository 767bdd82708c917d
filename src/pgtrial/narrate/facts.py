"""The facts that a model is told: what was asked, done and found, how certain it is, and why, worded as in the reports.

Values and the descriptions of facts are in the language in use; ids are not, as far as they are no names.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from pgtrial.findings.causes import Level, limits_by_chance
from pgtrial.findings.findings import Effect, Findings
from pgtrial.findings.message import say
from pgtrial.findings.record import ALL
from pgtrial.language import N_, ntr, tr
from pgtrial.model.caveat import Severity
from pgtrial.model.verdict import Decision
from pgtrial.report.cause_words import causes_of, difference_text, estimate_text, lead_arms
from pgtrial.report.charts.tornado import elasticity_text, interval_of, ledger_rows
from pgtrial.report.narrative.parts import find_primary, key_path
from pgtrial.report.sections.over_time import RARE
from pgtrial.report.summary_words import placebo_text, single_runs_text
from pgtrial.report.terms import goal_word, hypothesis_word, level_word, resource_word, severity_word
from pgtrial.report.values import format_value
from pgtrial.report.words import (
    LATENCY_METRICS,
    METRIC_LABELS,
    RATES,
    change_text,
    control_of,
    detectable_text,
    effect_text,
    format_metric,
    format_p,
    interval_text,
    level_label,
    metric_label,
    needed_text,
    p_of,
    part_name,
    tested_text,
)
from pgtrial.units import format_duration, format_percent, format_share, format_times

# Facts of the machine that explain a result; names of hosts and paths are not among them.
_MACHINE = ("CPU", "memory", "release", "scheduler", "file system", "huge pages", "swap", "version")
_NAMES = {
    "control": N_("name of the control"),
    "candidate": N_("name of the candidate"),
    "placebo": N_("name of the placebo"),
}
# How many of each kind are told, so that a model can read all of it.
_MOST_PARTS = 5
_MOST_EVIDENCE = 3
_MOST_STATEMENTS = 3
_MOST_DIPS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldFact:
    """``text`` says what it is, ``value`` what was found; ``path`` is its place in the findings.

    ``key`` are the parts of its id. They may be names, which are hidden before the id is put together.
    """

    key: tuple[str, ...]
    text: str
    value: str
    path: str
    id: str = ""


def tell_facts(findings: Findings, *, with_texts: bool) -> Iterator[ToldFact]:
    """In the order of a report. Free texts of the user and of queries, which may name anything, only ``with_texts``."""
    yield from _experiment(findings, with_texts=with_texts)
    yield from _arms(findings)
    yield from _machine(findings)
    yield from _effects(findings)
    yield from _curve(findings)
    yield from _caveats(findings)
    yield from _differences(findings)
    yield from _budgets(findings)
    yield from _limits(findings)
    yield from _proofs(findings)
    yield from _stability(findings)
    yield from _statements(findings, with_texts=with_texts)
    yield from _advice(findings)


def _fact(key: str, text: str, value: str, path: str, *names: str) -> ToldFact:
    """``names`` follow the parts of the id in ``key``, which have dots between them."""
    return ToldFact(key=(*key.split("."), *names), text=text, value=value, path=path)


def _quote(name: str) -> str:
    """Names that are everyday words are hidden in quotes only."""
    return tr("“{text}”", text=name)


def _experiment(findings: Findings, *, with_texts: bool) -> Iterator[ToldFact]:
    """What was asked and done, and how sure the answer is, as far as it is one fact each."""
    asked, experiment, arms = findings.hypothesis, findings.experiment, findings.experiment.arms
    quoted = asked.model_copy(update={"arm": _quote(asked.arm), "control": _quote(asked.control)})
    tested = tested_text(findings.model_copy(update={"hypothesis": quoted}))
    real_arms = sum(arm.role != "placebo" for arm in arms)
    done, invalid = sum(arm.runs_done for arm in arms), sum(arm.runs_invalid for arm in arms)
    version = experiment.target.get("postgres version")
    overhead, detectable = findings.overhead.share, findings.noise.detectable
    started, ended = experiment.started, experiment.ended
    total = "" if started is None or ended is None else format_duration(ended - started)
    for key, text, value, path in (
        ("experiment", N_("its name"), _quote(experiment.name), "experiment.name"),
        ("claim.words", N_("the claim in its author's words"), with_texts and asked.claim, "hypothesis.claim"),
        ("experiment.words", N_("its author's words"), with_texts and experiment.description, "experiment.description"),
        ("claim", N_("what was tested"), tested, "hypothesis.expect"),
        ("claim.metric", N_("metric of the claim"), metric_label(asked.metric), "hypothesis.metric"),
        ("claim.scenario", N_("scenario"), asked.scenario and _quote(asked.scenario), "hypothesis.scenario"),
        ("claim.margin", N_("smallest change that matters"), format_share(asked.margin), "hypothesis.margin"),
        ("claim.confidence", N_("of the intervals"), format_share(asked.confidence), "hypothesis.confidence"),
        (
            "claim.verdict",
            N_("verdict on the claim"),
            hypothesis_word(asked),
            "hypothesis.verdict",
        ),
        ("claim.needed", N_("still needed to decide"), needed_text(findings), "needed.text"),
        ("arms", N_("without the placebo"), ntr("{count} arm", "{count} arms", real_arms), "experiment.arms"),
        ("method", N_("method"), experiment.method, "experiment.method"),
        ("blocks.planned", N_("blocks planned"), _blocks(experiment.blocks_planned), "experiment.blocks_planned"),
        ("blocks.complete", N_("blocks complete"), _blocks(experiment.blocks_complete), "experiment.blocks_complete"),
        ("runs.begun", N_("runs begun, also those that do not count"), _runs(len(findings.runs)), "runs"),
        ("runs.done", N_("runs that count"), _runs(done), "experiment.arms[].runs_done"),
        ("runs.invalid", N_("invalid runs"), _runs(invalid), "experiment.arms[].runs_invalid"),
        ("server", N_("server"), version and f"PostgreSQL {version}", 'experiment.target["postgres version"]'),
        ("time.started", N_("begun"), _moment(started), "experiment.started"),
        ("time.total", N_("took"), total, "experiment.ended"),
        ("time.overhead", N_("not measured load"), overhead is not None and format_percent(overhead), "overhead.share"),
        (
            *("noise.detectable", N_("smallest change that these blocks find with 80 % probability")),
            *(detectable is not None and detectable_text(findings), "noise.detectable"),
        ),
        ("placebo", N_("what the placebo says"), placebo_text(findings), "placebo"),
        ("single_runs", N_("what one run of each arm would have said"), single_runs_text(findings), "single_runs"),
        (
            "adjusted",
            N_("for a covariate"),
            say(findings.adjusted.text) if findings.adjusted else "",
            "adjusted.text.text",
        ),
        (
            "stopping",
            N_("rule for stopping"),
            say(findings.stopping.text) if findings.stopping else "",
            "stopping.text.text",
        ),
        ("why", N_("why, in short"), say(causes_of(findings).text), "causes.text.text"),
    ):
        if value:
            yield _fact(key, tr(text), value, path)
    for name, part in experiment.workload.items():
        yield _fact("load", tr("load: {name}", name=name), say(part), key_path("experiment.workload", name), name)
    for number, level in enumerate(experiment.levels):
        path = f"experiment.levels[{number}].label"
        yield _fact("level", tr("name of a load level"), say(level.label), path, str(level.index))


def _blocks(count: int) -> str:
    return ntr("{count} block", "{count} blocks", count)


def _runs(count: int) -> str:
    return ntr("{count} run", "{count} runs", count)


def _moment(seconds: float | None) -> str:
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _arms(findings: Findings) -> Iterator[ToldFact]:
    for number, arm in enumerate(findings.experiment.arms):
        path, who = f"experiment.arms[{number}]", tr("arm “{arm}”", arm=arm.name)
        yield _fact("arm", tr(_NAMES[arm.role]), _quote(arm.name), f"{path}.name", arm.name)
        for name, value in arm.settings.items():
            yield _fact(
                "arm",
                tr("{who} sets {name}", who=who, name=name),
                value,
                key_path(f"{path}.settings", name),
                arm.name,
                name,
            )
        for table, values in arm.knobs.items():
            for name, value in values.items():
                place = key_path(key_path(f"{path}.knobs", table), name)
                yield _fact(
                    "arm", tr("{who} sets {name}", who=who, name=f"{table} {name}"), value, place, arm.name, table, name
                )
        if arm.version:
            version = f"PostgreSQL {arm.version}"
            yield _fact("arm", tr("server of {who}", who=who), version, f"{path}.version", arm.name, "version")
        yield _fact(
            "arm", tr("runs of {who} that count", who=who), _runs(arm.runs_done), f"{path}.runs_done", arm.name, "runs"
        )
        if arm.runs_invalid:
            invalid = _runs(arm.runs_invalid)
            yield _fact(
                "arm", tr("invalid runs of {who}", who=who), invalid, f"{path}.runs_invalid", arm.name, "invalid"
            )


def _machine(findings: Findings) -> Iterator[ToldFact]:
    for number, fact in enumerate(findings.fingerprint.facts):
        if any(word in fact.name for word in _MACHINE):
            path = f"fingerprint.facts[{number}].value"
            yield _fact("machine", f"{fact.group}: {fact.name}", fact.value, path, fact.group, fact.name)


def _effects(findings: Findings) -> Iterator[ToldFact]:
    """The effect of the claim first."""
    primary = find_primary(findings)
    first = "" if primary is None else primary.path
    if primary is not None:
        yield from _tell_effect(findings, primary.effect, primary.path, N_("the claim: {text}"))
    metrics: dict[str, str] = {} if primary is None else {primary.effect.metric: primary.path}
    for field, what, effects in (
        ("effects", "{text}", findings.effects),
        ("placebo", N_("placebo, true change zero: {text}"), findings.placebo),
    ):
        for number, effect in enumerate(effects):
            path = f"{field}[{number}]"
            if effect.ratio is not None and _is_told(findings, effect) and path != first:
                metrics.setdefault(effect.metric, path)
                yield from _tell_effect(findings, effect, path, what)
    for metric, path in metrics.items():
        yield _fact("metric", tr("name of a metric"), metric_label(metric), f"{path}.metric", _short(metric))


def _is_told(findings: Findings, effect: Effect) -> bool:
    """All metrics over everything, and the claim's metric in each scenario and at each of several levels."""
    if effect.load_level != ALL and len(findings.experiment.levels) == 1:
        return False
    if effect.metric == findings.hypothesis.metric:
        return effect.scenario is None or effect.load_level == ALL
    return effect.metric in METRIC_LABELS and effect.scenario is None and effect.load_level == ALL


def _short(metric: str) -> str:
    """ "pgbench.latency_p95" is "latency_p95"."""
    return metric.rpartition(".")[2]


def _tell_effect(findings: Findings, effect: Effect, path: str, what: str) -> Iterator[ToldFact]:
    """The change of a metric with its interval, and each part of that by itself."""
    control = findings.hypothesis.control
    where = level_label(findings, effect.load_level)
    names = [effect.arm, _short(effect.metric)]
    if effect.scenario:
        where = tr("scenario “{scenario}”, {where}", scenario=effect.scenario, where=where)
        names.append(effect.scenario)
    if effect.load_level != ALL:
        names.append(str(effect.load_level))
    text = tr(
        "change of {metric} of “{arm}” against “{control}”, {where}",
        metric=metric_label(effect.metric),
        arm=effect.arm,
        control=control,
        where=where,
    )
    yield _fact("effect", tr(what, text=text), effect_text(effect), path, *names)
    if effect.ratio is None:
        return
    yield _fact(
        "effect",
        tr("this change alone"),
        change_text(effect.ratio, effect.low, effect.high),
        f"{path}.ratio",
        *names,
        "change",
    )
    if effect.low is not None and effect.high is not None:
        interval = interval_text(effect.low, effect.high, effect.ratio)
        yield _fact("effect", tr("its interval alone"), interval, f"{path}.low", *names, "interval")
    times = format_times(effect.ratio)
    yield _fact("effect", tr("the arm's value by the control's"), times, f"{path}.ratio", *names, "times")
    direction = _direction(effect, control)
    yield _fact("effect", tr("direction of this change"), direction, f"{path}.decision", *names, "direction")
    p_value = p_of(effect)
    if p_value is not None:
        # Of a small one only a bound is said: "p <0.0001".
        sign = "" if format_p(p_value).startswith("<") else "= "
        yield _fact("effect", tr("p-value"), f"p {sign}{format_p(p_value)}", f"{path}.p_value", *names, "p")


def _direction(effect: Effect, control: str) -> str:
    """The direction names what it is compared with, so that a sentence cannot turn it round."""
    name = _quote(control)
    is_speed = effect.metric in RATES or effect.metric in LATENCY_METRICS
    match effect.decision:
        case Decision.BETTER:
            return tr("faster than {control}", control=name) if is_speed else tr("better than {control}", control=name)
        case Decision.WORSE:
            return tr("slower than {control}", control=name) if is_speed else tr("worse than {control}", control=name)
        case Decision.EQUIVALENT:
            return tr("equivalent to {control}", control=name)
        case Decision.INCONCLUSIVE:
            return tr("not clearly different from {control}", control=name)


def _curve(findings: Findings) -> Iterator[ToldFact]:
    """Throughput and latency themselves, by arm and load level."""
    for number, point in enumerate(findings.curve):
        if point.metric in METRIC_LABELS and point.value is not None:
            value, low, high = (format_metric(point.metric, each) for each in (point.value, point.low, point.high))
            if point.low is not None and point.high is not None:
                value += f" ({tr('{low} to {high}', low=low, high=high)})"
            where = level_label(findings, point.load_level)
            text = tr("{metric} of “{arm}”, {where}", metric=metric_label(point.metric), arm=point.arm, where=where)
            names = (point.arm, _short(point.metric), str(point.load_level))
            yield _fact("measured", text, value, f"curve[{number}]", *names)


def _caveats(findings: Findings) -> Iterator[ToldFact]:
    for number, caveat in enumerate(findings.caveats):
        if caveat.severity is not Severity.INFO:
            path, name = f"caveats[{number}]", str(number)
            yield _fact(
                "caveat",
                tr("caveat ({severity})", severity=severity_word(caveat.severity)),
                caveat.text,
                f"{path}.text",
                name,
            )
            if caveat.hint:
                yield _fact("caveat", tr("what it advises"), caveat.hint, f"{path}.hint", name, "advice")


def _differences(findings: Findings) -> Iterator[ToldFact]:
    """Where the difference between the arms comes from."""
    for number, pair in enumerate(causes_of(findings).differences):
        if pair.load_level != ALL:
            continue
        path = f"causes.differences[{number}]"
        text = tr("mean latency of “{arm}” less that of “{control}”", arm=pair.arm, control=pair.control)
        yield _fact("difference", text, difference_text(pair.difference, "s"), f"{path}.difference", pair.arm)
        for place, part in enumerate(pair.parts[:_MOST_PARTS]):
            name, where = part_name(part.kind, part.event), f"{path}.parts[{place}].seconds"
            value = difference_text(part.seconds, "s")
            yield _fact("difference", tr("part of that: {name}", name=name), value, where, pair.arm, name)


def _budgets(findings: Findings) -> Iterator[ToldFact]:
    """Where the time of a transaction goes."""
    for number, budget in enumerate(causes_of(findings).budgets):
        if budget.load_level != ALL or budget.scenario is not None:
            continue
        path, latency = f"causes.budgets[{number}]", budget.latency
        text = tr("mean latency of “{arm}”, all load levels", arm=budget.arm)
        yield _fact("time_of", text, estimate_text(latency, "s"), f"{path}.latency", budget.arm)
        for place, part in enumerate(budget.parts[:_MOST_PARTS]):
            name, where = part_name(part.kind, part.event), f"{path}.parts[{place}].seconds"
            value = estimate_text(part.seconds, "s")
            yield _fact("time_of", tr("part of it in {name}", name=name), value, where, budget.arm, name)
            if latency.value:
                share = format_percent(part.seconds.value / latency.value)
                yield _fact("time_of", tr("share of it in {name}", name=name), share, where, budget.arm, name, "share")


def _limits(findings: Findings) -> Iterator[ToldFact]:
    limits = causes_of(findings).limits
    told = lead_arms(findings, (limit.arm for limit in limits))
    by_chance = limits_by_chance(limits, control_of(findings))
    for number, limit in enumerate(limits):
        if limit.arm not in told:
            continue
        path, names = f"causes.limits[{number}]", (limit.arm, str(limit.load_level))
        where = level_label(findings, limit.load_level)
        text = tr("what limits “{arm}”, {where}", arm=limit.arm, where=where)
        detail = f" ({say(limit.detail)})" if limit.detail else ""
        value = f"{resource_word(limit.resource)}{detail}: {say(limit.text)}"
        if (limit.arm, limit.load_level) in by_chance:
            value += " " + tr("The runs do not tell the arms apart.")
        yield _fact("limit", text, value, path, *names)
        for place, item in enumerate(limit.suspects[0].evidence[:_MOST_EVIDENCE] if limit.suspects else ()):
            text = tr("evidence for {resource}", resource=resource_word(limit.suspects[0].resource))
            place_of = f"{path}.suspects[0].evidence[{place}].text.text"
            yield _fact("limit", text, say(item.text), place_of, *names, "evidence")


def _proofs(findings: Findings) -> Iterator[ToldFact]:
    """What experiments found about what limits an arm."""
    ledgers = [(f"proofs[{number}]", ledger) for number, ledger in enumerate(findings.proofs)]
    if findings.ledger is not None:
        ledgers.append(("ledger", findings.ledger))
    for path, ledger in ledgers:
        text = tr("what limits “{arm}”, by experiment", arm=ledger.of)
        yield _fact("proof", text, say(ledger.text), f"{path}.text.text", ledger.of)
        places = [
            *(f"entries[{place}].elasticity" for place in range(len(ledger.entries))),
            "rest",
            *(f"memory[{place}].elasticity" for place in range(len(ledger.memory))),
        ]
        for place, (name, value) in zip(places, ledger_rows(ledger), strict=True):
            where = f"{path}.{place}"
            text = tr("elasticity of the throughput of “{arm}” to {name}", arm=ledger.of, name=name)
            told = f"{elasticity_text(value)} ({interval_of(value)})"
            yield _fact("proof", text, told, where, ledger.of, name)


def _stability(findings: Findings) -> Iterator[ToldFact]:
    stability = causes_of(findings).stability
    told = lead_arms(findings, (each.arm for each in stability))
    for number, evenness in enumerate(stability):
        if evenness.arm not in told:
            continue
        path, names = f"causes.stability[{number}]", (evenness.arm, str(evenness.load_level))
        who = tr("“{arm}”, {where}", arm=evenness.arm, where=level_label(findings, evenness.load_level))
        variation = evenness.coefficient_of_variation
        for text, estimate, unit, field in (
            (N_("variation of throughput inside a run, {who}"), variation, "share", "coefficient_of_variation"),
            (N_("share of time in dips of throughput, {who}"), evenness.dip_share, "share", "dip_share"),
            (N_("lowest throughput (1st percentile of seconds), {who}"), evenness.lowest, "1/s", "lowest"),
        ):
            if estimate is not None:
                value = estimate_text(estimate, unit)
                yield _fact("stability", tr(text, who=who), value, f"{path}.{field}", *names, field)
        for place, dip in enumerate(evenness.dips[:_MOST_DIPS]):
            where, text = f"{path}.dips[{place}]", tr("depth and length of a dip of throughput")
            if dip.near:
                text = tr("{what}, near {events}", what=text, events=", ".join(map(say, dip.near)))
            depth = f"{format_percent(dip.depth)} ({format_duration(dip.length)})"
            yield _fact("stability", text, depth, where, *names, "dip")
        for place, wait in enumerate(evenness.waits[:_MOST_DIPS]):
            if wait.chance <= RARE:
                name = part_name(wait.kind, wait.event)
                text = tr("sessions in {name} inside dips, and otherwise, {who}", name=name, who=who)
                value = f"{format_value(wait.inside, '')} ({format_value(wait.outside, '')})"
                yield _fact("stability", text, value, f"{path}.waits[{place}]", *names, "dip waits", wait.event)
        for place, sign in enumerate(evenness.signs[:_MOST_DIPS]):
            text = tr("{metric} before dips, and otherwise, {who}", metric=metric_label(sign.metric), who=who)
            value = f"{format_value(sign.before, sign.unit)} ({format_value(sign.usual, sign.unit)})"
            yield _fact("stability", text, value, f"{path}.signs[{place}]", *names, "dip signs", sign.metric)
        if evenness.aligned:
            yield _fact(
                "stability",
                tr("dips and events, {who}", who=who),
                say(evenness.aligned),
                f"{path}.aligned.text",
                *names,
                "events",
            )


def _statements(findings: Findings, *, with_texts: bool) -> Iterator[ToldFact]:
    """Statements by the time of all sessions; without their texts only what they wait for."""
    for number, pareto in enumerate(causes_of(findings).paretos):
        if pareto.of != "statements" or pareto.load_level != ALL or pareto.scenario is not None:
            continue
        for place, item in enumerate(pareto.items[:_MOST_STATEMENTS]):
            letter = "ABCDEFGHIJ"[place]
            name = _quote(item.name) if with_texts else tr("statement {letter}", letter=letter)
            where, names = f"causes.paretos[{number}].items[{place}]", (pareto.arm, letter)
            text = tr("share of {name} in the time of all sessions, arm “{arm}”", name=name, arm=pareto.arm)
            detail = f" ({say(item.detail)})" if item.detail else ""
            yield _fact("statement", text, f"{format_percent(item.share)}{detail}", where, *names)


def _advice(findings: Findings) -> Iterator[ToldFact]:
    """What checks and the scorecard advise."""
    causes = causes_of(findings)
    told = lead_arms(findings, (check.arm for check in causes.checks))
    for number, check in enumerate(causes.checks):
        if check.arm in told and check.level in {Level.WARNING, Level.ALARM} and check.advice:
            text = tr(
                "check “{check}” ({level}), “{arm}”, {where}",
                check=tr(check.name),
                level=level_word(check.level),
                arm=check.arm,
                where=level_label(findings, check.load_level),
            )
            yield _fact("check", text, say(check.advice), f"causes.checks[{number}].advice", str(number))
    if causes.scorecard is not None:
        for number, choice in enumerate(causes.scorecard.recommendations):
            where = f"causes.scorecard.recommendations[{number}].text.text"
            yield _fact(
                "recommended",
                tr("recommended for {goal}", goal=goal_word(choice.goal)),
                say(choice.text),
                where,
                str(number),
            )
        if causes.scorecard.trade_off:
            yield _fact(
                "trade_off", tr("trade-off"), say(causes.scorecard.trade_off), "causes.scorecard.trade_off.text"
            )
