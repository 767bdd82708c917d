"""Tables of results: effects, observations, curves, series, distributions, waits."""

from collections.abc import Iterable
from itertools import pairwise

from pgtrial.export.tables.base import ARM, LEVEL, RUN, SCENARIO, Table, integer, level_row, number, table, text, truth
from pgtrial.findings.findings import Effect, Findings
from pgtrial.findings.questions import HugePageFindings
from pgtrial.findings.record import parts_of
from pgtrial.model.observable import find_observable

_METRIC = text("metric", "what is compared")
_UNIT = text("unit", "unit of the value")


def unit_of(metric: str) -> str:
    """Base unit of a metric that runs are compared by; "" of others, and of counts."""
    known = find_observable(metric)
    return known.metric.unit if known else ""


def effects_table(findings: Findings) -> Table:
    columns = (
        ARM,
        text("role", "candidate or placebo; the true effect of a placebo is zero"),
        _METRIC,
        text("better", "which direction is good"),
        SCENARIO,
        *LEVEL,
        number("ratio", "arm / control", "ratio"),
        number("low", "lower end of its interval", "ratio"),
        number("high", "upper end of its interval", "ratio"),
        number("confidence", "of the interval, for all candidates together", "share"),
        number("margin", "smallest effect that matters", "share"),
        text("decision", "better, worse, equivalent or inconclusive, against the margin"),
        number("p_value", "paired t test on the blocks", "probability"),
        number("p_adjusted", "the same adjusted for the number of arms (Holm)", "probability"),
        number("p_sign_flip", "exact sign-flip test", "probability"),
        number("hodges_lehmann", "Hodges-Lehmann estimate of arm / control", "ratio"),
        integer("blocks", "blocks with a valid run of both"),
        integer("needed", "further blocks until it will be decided; unknown: decided, or out of reach"),
        truth("fails_more", "so much of it or the control failed, was interrupted or lost that nothing is decided"),
    )
    rows = (
        (
            *(one.arm, role, one.metric, one.better, one.scenario, *level_row(findings, one.load_level)),
            *(one.ratio, one.low, one.high, one.confidence, one.margin, one.decision),
            *(one.p_value, one.p_adjusted, one.p_sign_flip, one.hodges_lehmann, one.blocks, one.needed),
            one.fails_more,
        )
        for role, effects in _by_role(findings)
        for one in effects
    )
    return table("effects", "Effects of the arms against the control", columns, rows)


def block_ratios_table(findings: Findings) -> Table:
    columns = (
        ARM,
        text("role", "candidate or placebo"),
        _METRIC,
        SCENARIO,
        *LEVEL,
        integer("number", "number of the block among those with a valid run of both"),
        number("ratio", "arm / control in that block", "ratio"),
    )
    rows = (
        (one.arm, role, one.metric, one.scenario, *level_row(findings, one.load_level), number_, ratio)
        for role, effects in _by_role(findings)
        for one in effects
        for number_, ratio in enumerate(one.block_ratios, start=1)
    )
    return table("block_ratios", "Effects in each block", columns, rows)


def _by_role(findings: Findings) -> Iterable[tuple[str, tuple[Effect, ...]]]:
    return (("candidate", findings.effects), ("placebo", findings.placebo))


def observations_table(findings: Findings) -> Table:
    columns = (*RUN, _METRIC, SCENARIO, *LEVEL, number("value", "one number per run, in base units"), _UNIT)
    rows = (
        (one.run, one.arm, one.block, one.metric, one.scenario, *level_row(findings, one.load_level), one.value, unit)
        for one in findings.observations
        for unit in (unit_of(one.metric),)
    )
    return table("observations", "Observations: one number per run, metric, scenario and load level", columns, rows)


def metrics_table(findings: Findings) -> Table:
    columns = (
        _METRIC,
        SCENARIO,
        _UNIT,
        text("better", "which direction is good"),
        ARM,
        number("mean", "of the runs, over all load levels, in base units"),
        number("median", "of all seconds"),
        number("lowest", "second"),
        number("highest", "second"),
        number("change", "mean in the second half of the measured time less that in the first"),
        number("change_low", "lower end of its interval"),
        number("change_high", "upper end of its interval"),
        number("ratio", "arm / control", "ratio"),
        number("low", "lower end of its interval, for all arms together, not for all metrics", "ratio"),
        number("high", "upper end of its interval", "ratio"),
    )
    rows = (
        (
            *(one.metric, one.scenario, one.unit, one.better),
            *(arm.arm, arm.mean, arm.median, arm.lowest, arm.highest),
            *(*parts_of(arm.change), *parts_of(arm.ratio)),
        )
        for one in findings.metrics
        for arm in one.arms
    )
    return table("metrics", "Every metric in every arm", columns, rows)


def metric_values_table(findings: Findings) -> Table:
    columns = (
        _METRIC,
        SCENARIO,
        _UNIT,
        ARM,
        integer("block", "block"),
        number("value", "of the run over all load levels"),
    )
    rows = (
        (one.metric, one.scenario, one.unit, arm.arm, block, value)
        for one in findings.metrics
        for arm in one.arms
        for block, value in enumerate(arm.values, start=1)
        if value is not None
    )
    return table("metric_values", "Every metric in every run", columns, rows)


def curve_table(findings: Findings) -> Table:
    columns = (
        ARM,
        _METRIC,
        *LEVEL,
        number("value", "geometric mean over the blocks, in base units"),
        number("low", "lower end of its interval"),
        number("high", "upper end of its interval"),
        _UNIT,
        integer("blocks", "blocks that count"),
    )
    rows = (
        (
            *(one.arm, one.metric, *level_row(findings, one.load_level), one.value, one.low, one.high),
            *(unit_of(one.metric), one.blocks),
        )
        for one in findings.curve
    )
    return table("curve", "Load curve: throughput and latency by load level", columns, rows)


def series_table(findings: Findings) -> Table:
    columns = (
        *RUN,
        _METRIC,
        number("seconds", "since the first measured second of the run", "s"),
        number("value", "in base units; unknown: a gap"),
        _UNIT,
    )
    rows = (
        (one.run, one.arm, one.block, one.metric, t, value, one.unit)
        for one in findings.series
        for t, value in zip(one.t, one.value, strict=True)
    )
    return table("series", "Time series of the runs", columns, rows)


def distributions_table(findings: Findings) -> Table:
    columns = (
        ARM,
        SCENARIO,
        *LEVEL,
        number("latency", "of a transaction", "s"),
        number("share", "share of the transactions that took so long or less", "share"),
    )
    rows = (
        (one.arm, one.scenario, *level_row(findings, one.load_level), latency, share)
        for one in findings.distributions
        for latency, share in zip(one.latency, one.share, strict=True)
    )
    return table("distributions", "Distribution of the latency, all blocks together", columns, rows)


def latency_maps_table(findings: Findings) -> Table:
    columns = (
        ARM,
        integer("runs", "runs that count, all together"),
        number("start", "of a stretch of time, since the first measured second", "s"),
        number("end", "of that stretch", "s"),
        number("low", "lower end of a range of latency", "s"),
        number("high", "upper end of that range", "s"),
        integer("count", "transactions that ended in that time and took so long; none: no row"),
    )
    rows = (
        (one.arm, one.runs, start, end, low, high, count)
        for one in findings.latency_maps
        for start, end, counts in zip(one.start, one.end, one.counts, strict=True)
        for (low, high), count in zip(pairwise(one.latency), counts, strict=True)
        if count
    )
    return table("latency_maps", "Latency over time, all blocks together", columns, rows)


def waits_table(findings: Findings) -> Table:
    columns = (
        ARM,
        *LEVEL,
        text("wait_type", '"CPU" is an active session that does not wait'),
        text("wait_event", "wait event"),
        number("sessions", "average active sessions of the load", "sessions"),
        number("seconds_per_transaction", "the same per transaction (Little's law)", "s"),
    )
    rows = (
        (
            *(one.arm, *level_row(findings, one.load_level), one.wait_type, one.wait_event or None),
            *(one.sessions, one.seconds_per_transaction),
        )
        for one in findings.waits
    )
    return table("waits", "What active sessions of the load wait for", columns, rows)


# Tables of huge pages: their gain, whether the runs had them, and TLB misses (docs/huge-pages.md).


_PAGE = text("page", 'page size that the file declares, "none" for ordinary pages')


def page_tables(findings: Findings) -> tuple[Table, ...]:
    """All of them; none where no two arms differ in the page size algain."""
    pages = findings.pages
    return () if pages is None else (_gains(findings, pages), _checks(pages), _translations(findings, pages))


def _gains(findings: Findings, pages: HugePageFindings) -> Table:
    columns = (
        ARM,
        text("baseline", "arm that differs in the page size alone"),
        _PAGE,
        text("baseline_page", "page size of that arm"),
        integer("scale", "of pgbench's tables"),
        *LEVEL,
        number("ratio", "throughput of the arm / that of the baseline", "ratio"),
        number("low", "lower end of its interval, for all arms together", "ratio"),
        number("high", "upper end of its interval", "ratio"),
        number("confidence", "of the interval", "share"),
        text("decision", "better, worse, equivalent or inconclusive, against the margin"),
        integer("blocks", "blocks with a valid run of both"),
    )
    rows = (
        (
            *(gain.arm, gain.baseline, gain.page, gain.baseline_page, gain.scale),
            *level_row(findings, gain.load_level),
            *(gain.ratio, gain.low, gain.high, gain.confidence, gain.decision, gain.blocks),
        )
        for gain in pages.gains
    )
    return table("page_gains", "What huge pages gain", columns, rows)


def _checks(pages: HugePageFindings) -> Table:
    columns = (
        ARM,
        _PAGE,
        integer("runs", "valid runs"),
        integer("seen", "of them, with a page size that was read under load"),
        integer("confirmed", "of them, with the size that was asked for"),
        number("transparent", "most of the shared memory that the kernel mapped by huge pages of its own", "B"),
        number("pool", "most of all pools under load", "B"),
        number("used", "most of it that was in use", "B"),
        integer("given_back", "runs after which all pools were as large as before"),
        integer("not_given_back", "runs after which they were not"),
    )
    rows = (
        (
            *(check.arm, check.page, check.runs, check.seen, check.confirmed),
            *(check.transparent, check.pool, check.used, check.given_back, check.not_given_back),
        )
        for check in pages.checks
    )
    return table("page_checks", "The pages that runs had", columns, rows)


def _translations(findings: Findings, pages: HugePageFindings) -> Table:
    columns = (
        ARM,
        *LEVEL,
        number("misses", "of data per transaction, mean over the blocks"),
        number("miss_share", "of the loads", "share"),
        number("code_misses", "of instructions per transaction"),
        number("instructions", "per transaction"),
    )
    rows = (
        (
            cost.arm,
            *level_row(findings, cost.load_level),
            *(
                None if estimate is None else estimate.value
                for estimate in (cost.misses, cost.miss_share, cost.code_misses, cost.instructions)
            ),
        )
        for cost in pages.translations
    )
    return table("page_translations", "Misses of the translation caches", columns, rows)
