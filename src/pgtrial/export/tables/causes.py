"""Tables of causes: latency budget, limits, stability, associations, failed checks (docs/causes.md)."""

from collections.abc import Iterable, Iterator

from pgtrial.export.tables import over_time
from pgtrial.export.tables.base import (
    ARM,
    LEVEL,
    SCENARIO,
    Table,
    Value,
    integer,
    level_row,
    number,
    table,
    text,
    truth,
)
from pgtrial.findings.causes import Causes, limits_by_chance
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.findings.record import parts_of
from pgtrial.report.words import control_of

_INTERVAL = (
    number("seconds", "mean over the blocks", "s"),
    number("low", "lower end of its interval", "s"),
    number("high", "upper end of its interval", "s"),
)
_PART = (text("kind", 'CPU, a wait type of the server, or "outside the server"'), text("event", "wait event"))


def cause_tables(findings: Findings) -> tuple[Table, ...]:
    """All of them; none where the findings have no causes."""
    causes = findings.causes
    if causes is None:
        return ()
    return tuple(
        make(findings, causes)
        for make in (
            _budget,
            _differences,
            _paretos,
            _wait_types,
            _background,
            _limits,
            _elasticities,
            _curve_models,
            over_time.stability,
            over_time.dips,
            over_time.dip_waits,
            over_time.dip_signs,
            _associations,
            _checks,
            _scorecard,
            _disks,
            _files,
            over_time.log,
            over_time.timelines,
            over_time.courses,
        )
    )


def _wait_types(findings: Findings, causes: Causes) -> Table:
    columns = (
        ARM,
        text("kind", "CPU, or a wait type of the server"),
        text("of", "events or statements of that type"),
        text("name", "wait event, or text of the statement"),
        number("sessions", "average sessions", "sessions"),
        number("share", "of the sessions of the type", "share"),
    )
    rows = (
        (one.arm, one.kind, of, item.name, item.sessions, item.share)
        for one in causes.wait_types
        for of, items in (("events", one.events), ("statements", one.statements))
        for item in items
    )
    return table("wait_types", "Events and statements inside each wait type", columns, rows)


def _background(findings: Findings, causes: Causes) -> Table:
    columns = (
        ARM,
        text("process", "kind of background process"),
        text("kind", "CPU, or a wait type of the server"),
        text("event", "wait event"),
        number("processes", "average number in that wait", "sessions"),
        number("low", "lower end of its interval", "sessions"),
        number("high", "upper end of its interval", "sessions"),
    )
    rows = ((one.arm, one.process, one.kind, one.event or None, *parts_of(one.sessions)) for one in causes.background)
    return table("background", "What background processes wait for", columns, rows)


def _budget(findings: Findings, causes: Causes) -> Table:
    rows = (
        (
            *(one.arm, *level_row(findings, one.load_level), one.scenario, part.kind, part.event or None),
            *parts_of(part.seconds),
        )
        for one in causes.budgets
        for part in one.parts
    )
    columns = (ARM, *LEVEL, SCENARIO, *_PART, *_INTERVAL)
    return table("latency_budget", "Where the mean latency of a transaction goes", columns, rows)


def _differences(findings: Findings, causes: Causes) -> Table:
    rows = (
        (
            *(one.arm, one.control, *level_row(findings, one.load_level), part.kind, part.event or None),
            *parts_of(part.seconds),
        )
        for one in causes.differences
        for part in one.parts
    )
    columns = (ARM, text("control", "arm that it is compared with"), *LEVEL, *_PART, *_INTERVAL)
    return table("latency_differences", "Where the difference of the mean latency comes from", columns, rows)


def _paretos(findings: Findings, causes: Causes) -> Table:
    columns = (
        ARM,
        *LEVEL,
        text("of", "events or statements"),
        text("name", "wait event, or text of the statement"),
        number("sessions", "average sessions", "sessions"),
        number("share", "of the time of all sessions", "share"),
        number("cumulative", "of this and all above", "share"),
        text("detail", "largest events of a statement"),
    )
    rows = (
        (
            *(one.arm, *level_row(findings, one.load_level), one.of, item.name),
            *(item.sessions, item.share, item.cumulative, say(item.detail) or None),
        )
        for one in causes.paretos
        for item in one.items
    )
    return table("pareto", "Wait events and statements by the time of all sessions", columns, rows)


def _limits(findings: Findings, causes: Causes) -> Table:
    columns = (
        ARM,
        *LEVEL,
        text("limit", "what limits the arm there"),
        truth("may_be_chance", "the control has another limit, and the runs do not tell the two arms apart"),
        text("by_rules", "what the rules named where an experiment has proved another limit"),
        text("text", "the same in a sentence"),
        text("suspect", "resource that is suspected, the strongest first"),
        text("detail", "which lock, device, …"),
        number("strength", "0: not at all, 1: beyond doubt"),
        text("evidence", "numbers that speak for it"),
    )
    by_chance = limits_by_chance(causes.limits, control_of(findings))
    rows = (
        (
            *(one.arm, *level_row(findings, one.load_level), one.resource),
            *((one.arm, one.load_level) in by_chance, one.by_rules, say(one.text)),
            *(suspect.resource, say(suspect.detail) or None, suspect.strength),
            "; ".join(say(evidence.text) for evidence in suspect.evidence),
        )
        for one in causes.limits
        for suspect in one.suspects
    )
    return table("limits", "What limits the load", columns, rows)


def _elasticities(findings: Findings, _: Causes) -> Table:
    columns = (
        ARM,
        text("resource", "time that was made longer, or memory that was made smaller"),
        number("step", "by what factor"),
        number("elasticity", "per cent of throughput for 1 % less of that time, or more of that memory"),
        number("low", "lower end of its interval"),
        number("high", "upper end of its interval"),
    )
    own = () if findings.ledger is None else (findings.ledger,)
    rows = (
        (ledger.of, entry.resource, entry.step, entry.elasticity.value, entry.elasticity.low, entry.elasticity.high)
        for ledger in (*own, *findings.proofs)
        for entry in (*ledger.entries, *ledger.memory)
    )
    return table("elasticities", "What limits arms, by experiment", columns, rows)


def _curve_models(_: Findings, causes: Causes) -> Table:
    columns = (
        ARM,
        number("throughput_of_one", "λ: throughput of one client", "1/s"),
        number("contention", "σ"),
        number("coherency", "κ"),
        number("peak", "clients of the largest throughput"),
        number("knee", "clients from which more of them add latency rather than throughput"),
        number("error", "largest relative distance of a level from the curve", "share"),
        text("reason", "why it does not fit"),
    )
    rows = (
        (
            one.arm,
            *(parts_of(each)[0] for each in (one.throughput_of_one, one.contention, one.coherency, one.peak)),
            *(one.knee, one.error, say(one.reason) or None),
        )
        for one in causes.curve_models
    )
    return table("curve_models", "Universal Scalability Law of each arm", columns, rows)


def _associations(_: Findings, causes: Causes) -> Table:
    columns = (
        text("first", "metric"),
        text("second", "metric"),
        text("family", "kind of pair"),
        text("expected", "sign that is expected"),
        number("spearman", "rank correlation inside the load levels of all arms"),
        number("low", "lower end of its interval (block bootstrap)"),
        number("high", "upper end of its interval"),
        number("p_value", "of no association", "probability"),
        number("q_value", "the same over all pairs (Benjamini-Hochberg)", "probability"),
        truth("is_real", "q is below the false-discovery rate; an association, not a cause"),
        truth("part_of", "one is a part of the other by definition"),
        integer("count", "seconds that count"),
    )
    rows = (
        (
            *(one.first, one.second, one.family, one.expected or None, one.spearman, one.low, one.high),
            *(one.p_value, one.q_value, one.is_real, one.part_of, one.count),
        )
        for one in causes.associations
    )
    return table("associations", "Metrics that go together", columns, rows)


def _checks(findings: Findings, causes: Causes) -> Table:
    columns = (
        text("check", "its name"),
        ARM,
        *LEVEL,
        text("object", "device, …"),
        number("value", "median over the time"),
        text("unit", "unit of value and threshold"),
        number("threshold", "beyond which it counts"),
        number("share", "of the time beyond the threshold", "share"),
        text("level", "ok, info, warning or alarm"),
        text("advice", "what to do"),
    )
    rows = (
        (
            *(one.name, one.arm, *level_row(findings, one.load_level), one.object or None),
            *(one.value, one.unit or None, one.threshold, one.share, one.level, say(one.advice) or None),
        )
        for one in causes.checks
    )
    return table("checks", "Checks of the samples", columns, rows)


def _scorecard(_: Findings, causes: Causes) -> Table:
    columns = (
        ARM,
        text("criterion", 'metric, or "score": the weighted mean of all'),
        text("better", "which direction is good"),
        number("weight", "its weight"),
        number("ratio", "arm / control; of the score its logarithm, better is positive"),
        number("low", "lower end of its interval"),
        number("high", "upper end of its interval"),
        number("best_share", "share of resampled blocks in which the arm is the best", "share"),
    )
    return table("scorecard", "Scorecard of the arms", columns, _scores(causes))


def _scores(causes: Causes) -> Iterator[Iterable[Value]]:
    for one in () if causes.scorecard is None else causes.scorecard.arms:
        for value in one.values:
            yield (one.arm, value.criterion, value.better, value.weight, *parts_of(value.ratio), value.rank_share)
        yield (one.arm, "score", "higher", None, one.score, None, None, one.best_share)


def _disks(findings: Findings, causes: Causes) -> Table:
    columns = (
        ARM,
        text("device", "block device"),
        text("disk", "disk class that the file names"),
        truth("is_emulated", "a loop device with limits"),
        *LEVEL,
        text("standing", "what the disk is to the load"),
        number("throughput", "of the load", "1/s"),
        number("reads", "requests that read", "1/s"),
        number("writes", "requests that write", "1/s"),
        number("read_bytes", "bytes read", "B/s"),
        number("write_bytes", "bytes written", "B/s"),
        number("read_latency", "of a read, with the queue of the device", "s"),
        number("write_latency", "of a write", "s"),
        number("queue", "requests under way"),
        text("text", "the same in a sentence"),
    )
    rows = (
        (
            *(one.arm, one.device, one.disk or None, one.is_emulated),
            *(*level_row(findings, load.load_level), load.standing),
            *(
                parts_of(each)[0]
                for each in (load.throughput, load.reads, load.writes, load.read_bytes, load.write_bytes)
            ),
            *(parts_of(each)[0] for each in (load.read_latency, load.write_latency, load.queue)),
            say(load.text),
        )
        for one in causes.disks
        for load in one.levels
    )
    return table("disks", "The disk of each arm", columns, rows)


def _files(findings: Findings, causes: Causes) -> Table:
    columns = (
        ARM,
        *LEVEL,
        text("limit", "where the speed ends"),
        number("bandwidth", "of the load", "B/s"),
        number("requests", "to files", "1/s"),
        number("latency", "of a request", "s"),
        number("size", "of the arm's files", "B"),
        number("dirty", "dirty pages, median", "B"),
        text("text", "the same in a sentence"),
    )
    rows = (
        (
            *(one.arm, *level_row(findings, one.load_level), one.limit),
            *(parts_of(each)[0] for each in (one.bandwidth, one.requests, one.latency)),
            *(one.size, one.dirty, say(one.text)),
        )
        for one in causes.files
    )
    return table("files", "Loads on files", columns, rows)
