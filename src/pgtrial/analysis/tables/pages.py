"""Tables of huge pages: their gain, whether the runs had them, and TLB misses (docs/huge-pages.md)."""

from pgtrial.analysis.tables.base import ARM, LEVEL, Table, integer, level_row, number, table, text
from pgtrial.findings.findings import Findings
from pgtrial.findings.pages import HugePages

_PAGE = text("page", 'page size that the file declares, "none" for ordinary pages')


def page_tables(findings: Findings) -> tuple[Table, ...]:
    """All of them; none where no two arms differ in the page size algain."""
    pages = findings.pages
    return () if pages is None else (_gains(findings, pages), _checks(pages), _translations(findings, pages))


def _gains(findings: Findings, pages: HugePages) -> Table:
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


def _checks(pages: HugePages) -> Table:
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


def _translations(findings: Findings, pages: HugePages) -> Table:
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
