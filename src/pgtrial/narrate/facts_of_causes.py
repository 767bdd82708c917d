"""Facts of why: where the time of a transaction goes, what limits the arms, how even they are, what checks say."""

from collections.abc import Iterator

from pgtrial.analysis.causes.words import part_name
from pgtrial.findings.causes import Level
from pgtrial.findings.findings import Findings
from pgtrial.narrate.facts import Fact, text_fact, value_fact
from pgtrial.narrate.facts_of_results import clients_of
from pgtrial.report.cause_words import causes_of, lead_arms
from pgtrial.report.words import ALL, level_label
from pgtrial.units import format_percent

_MOST_PARTS = 5
_MOST_EVIDENCE = 3
_MOST_STATEMENTS = 3
_MOST_DIPS = 2


def tell_causes(findings: Findings, *, with_queries: bool) -> Iterator[Fact]:
    """The difference between the arms first. Texts of queries only ``with_queries``.

    Limits, stability and checks are those of the control and the claim's arm, so that a model can read all of it.
    """
    causes = causes_of(findings)
    if causes.text:
        yield text_fact("why, in short", causes.text, "causes.text")
    yield from _differences(findings)
    yield from _budgets(findings)
    yield from _limits(findings)
    yield from _stability(findings)
    yield from _statements(findings, with_queries=with_queries)
    yield from _checks(findings)
    yield from _recommendations(findings)


def _differences(findings: Findings) -> Iterator[Fact]:
    for number, found in enumerate(causes_of(findings).differences):
        if found.load_level != ALL:
            continue
        path, pair = f"causes.differences[{number}]", f"“{found.arm}” less that of “{found.control}”"
        yield value_fact(
            f"mean latency of {pair}", found.difference, "s", f"{path}.difference", arm=found.arm, is_signed=True
        )
        for place, part in enumerate(found.parts[:_MOST_PARTS]):
            name = part_name(part.kind, part.event)
            yield value_fact(
                f"part of that difference: {name}",
                part.seconds,
                "s",
                f"{path}.parts[{place}].seconds",
                arm=found.arm,
                is_signed=True,
            )


def _budgets(findings: Findings) -> Iterator[Fact]:
    for number, budget in enumerate(causes_of(findings).budgets):
        if budget.load_level != ALL or budget.scenario is not None:
            continue
        path = f"causes.budgets[{number}]"
        yield value_fact(
            f"mean latency of “{budget.arm}”, all load levels",
            budget.latency,
            "s",
            f"{path}.latency",
            arm=budget.arm,
            metric="latency mean",
        )
        for place, part in enumerate(budget.parts[:_MOST_PARTS]):
            name, latency = part_name(part.kind, part.event), budget.latency.value
            where = f"{path}.parts[{place}].seconds"
            yield value_fact(f"part of it in {name} of “{budget.arm}”", part.seconds, "s", where, arm=budget.arm)
            if latency:
                share = format_percent(part.seconds.value / latency)
                yield text_fact(f"share of the latency of “{budget.arm}” in {name}", share, where, arm=budget.arm)


def _limits(findings: Findings) -> Iterator[Fact]:
    limits = causes_of(findings).limits
    told = lead_arms(findings, (limit.arm for limit in limits))
    for number, limit in enumerate(limits):
        if limit.arm not in told:
            continue
        path = f"causes.limits[{number}]"
        who = f"“{limit.arm}” with {level_label(findings, limit.load_level)}"
        detail = f" ({limit.detail})" if limit.detail else ""
        yield text_fact(f"what limits {who}", f"{limit.resource}{detail}: {limit.text}", path, arm=limit.arm)
        for place, item in enumerate(limit.suspects[0].evidence[:_MOST_EVIDENCE] if limit.suspects else ()):
            where = f"{path}.suspects[0].evidence[{place}].text"
            yield text_fact(f"evidence for {limit.suspects[0].resource}, {who}", item.text, where, arm=limit.arm)


def _stability(findings: Findings) -> Iterator[Fact]:
    stability = causes_of(findings).stability
    told = lead_arms(findings, (found.arm for found in stability))
    for number, found in enumerate(stability):
        if found.arm not in told:
            continue
        path = f"causes.stability[{number}]"
        who = f"“{found.arm}”, {level_label(findings, found.load_level)}"
        for text, estimate, unit, field in (
            (
                "variation of throughput inside a run",
                found.coefficient_of_variation,
                "share",
                "coefficient_of_variation",
            ),
            ("share of time in dips of throughput", found.dip_share, "share", "dip_share"),
            ("lowest throughput (1st percentile of seconds)", found.lowest, "1/s", "lowest"),
        ):
            if estimate is not None:
                clients = clients_of(findings, found.load_level)
                where = f"{path}.{field}"
                yield value_fact(f"{text}, {who}", estimate, unit, where, arm=found.arm, clients=clients)
        for place, dip in enumerate(found.dips[:_MOST_DIPS]):
            near = f", near {', '.join(dip.near)}" if dip.near else ""
            value = f"{format_percent(dip.depth)} deep, {dip.length:g} s long{near}"
            yield text_fact(f"dip of throughput, {who}", value, f"{path}.dips[{place}]", arm=found.arm)
        if found.aligned:
            yield text_fact(f"dips and events, {who}", found.aligned, f"{path}.aligned", arm=found.arm)


def _statements(findings: Findings, *, with_queries: bool) -> Iterator[Fact]:
    """Statements by the time of all sessions; without their texts only what they wait for."""
    for number, pareto in enumerate(causes_of(findings).paretos):
        if pareto.of != "statements" or pareto.load_level != ALL or pareto.scenario is not None:
            continue
        for place, item in enumerate(pareto.items[:_MOST_STATEMENTS]):
            name = item.name if with_queries else f"statement {'ABCDEFGHIJ'[place]}"
            detail = f": {item.detail}" if item.detail else ""
            where = f"causes.paretos[{number}].items[{place}]"
            value = f"{format_percent(item.share)} of the time of all sessions{detail}"
            yield text_fact(f"“{name}” in arm “{pareto.arm}”", value, where, arm=pareto.arm)


def _checks(findings: Findings) -> Iterator[Fact]:
    checks = causes_of(findings).checks
    told = lead_arms(findings, (check.arm for check in checks))
    for number, check in enumerate(checks):
        if check.arm in told and check.level in {Level.WARNING, Level.ALARM} and check.advice:
            who = f"“{check.arm}”, {level_label(findings, check.load_level)}"
            where = f"causes.checks[{number}].advice"
            yield text_fact(f"check “{check.name}” ({check.level}), {who}", check.advice, where, arm=check.arm)


def _recommendations(findings: Findings) -> Iterator[Fact]:
    scorecard = causes_of(findings).scorecard
    if scorecard is None:
        return
    for number, found in enumerate(scorecard.recommendations):
        where = f"causes.scorecard.recommendations[{number}].text"
        yield text_fact(f"recommended for {found.goal}", found.text, where)
    if scorecard.trade_off:
        yield text_fact("trade-off", scorecard.trade_off, "causes.scorecard.trade_off")
