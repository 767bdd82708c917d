"""What was seen beside the effects: checks against thresholds, associations, and the log of the server."""

from collections.abc import Mapping, Sequence

from pgtrial.experiment_file.check_rules import CheckKind, CheckRule, check_rules
from pgtrial.findings.causes import Association, Check, LegacyMetrics, Level, LoadKind
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.findings.naming import name_event_kind
from pgtrial.findings.over_time import LogSummary
from pgtrial.language import N_, ptr, tr
from pgtrial.report.cause_words import (
    LEVEL_SYMBOLS,
    by_arm,
    by_level,
    causes_of,
    file_of,
    metric_words,
    order_arms,
    order_levels,
)
from pgtrial.report.charts.associations import association_chart, correlation_text
from pgtrial.report.sections.base import Section
from pgtrial.report.terms import level_word
from pgtrial.report.values import format_signed, format_value
from pgtrial.report.words import arm_label, format_p, level_label

_GRAVITY = (Level.ALARM, Level.WARNING, Level.INFO, Level.OK)
# The kind of load is concluded from these.
_FEATURES = (
    (N_("Hit ratio"), "hit_ratio", "share"),
    (N_("Blocks read per block dirtied"), "read_per_dirtied", ""),
    (N_("Bytes per read"), "bytes_per_read", "B"),
    (N_("Rows per transaction"), "rows_per_transaction", ""),
    (N_("Blocks per transaction"), "blocks_per_transaction", ""),
    (N_("Time of a transaction"), "transaction_seconds", "s"),
)


def _build_checks(findings: Findings) -> dict[str, object]:
    causes = causes_of(findings)
    groups: dict[tuple[str, str], list[Check]] = {}
    for check in by_arm(findings, by_level(findings, causes.checks)):
        groups.setdefault((check.id, check.object), []).append(check)
    ordered = sorted(groups.values(), key=lambda checks: _GRAVITY.index(_worst(checks).level))
    levels = order_levels(findings, (check.load_level for check in causes.checks))
    found = [check for checks in ordered for check in checks if check.level is not Level.OK]
    # A feature that no load has is no column.
    features = [each for each in _FEATURES if any(getattr(kind, each[1]) is not None for kind in causes.kinds)]
    return {
        "heads": [level_label(findings, level) for level in levels],
        "raised": [_group(findings, each, levels) for each in ordered if _worst(each).level is not Level.OK],
        "quiet": [_group(findings, each, levels) for each in ordered if _worst(each).level is Level.OK],
        "counts": [
            {**_level(level), "count": number}
            for level in _GRAVITY
            if (number := sum(check.level is level for check in causes.checks))
        ],
        "advice": [_advice(findings, check) for check in sorted(found, key=lambda c: _GRAVITY.index(c.level))],
        "features": [tr(name) for name, _, _ in features],
        "kinds": [_kind(findings, kind, features) for kind in by_arm(findings, by_level(findings, causes.kinds))],
        "legacy": [_legacy(findings, each) for each in by_arm(findings, by_level(findings, causes.legacy))],
    }


def _worst(checks: Sequence[Check]) -> Check:
    """The gravest; of several the one that was so for the longest share of the time."""
    return min(checks, key=lambda check: (_GRAVITY.index(check.level), -(check.share or 0.0)))


def _group(findings: Findings, checks: Sequence[Check], levels: Sequence[int]) -> dict[str, object]:
    """One check, of one device where there are several: a line for each arm, a cell for each load level."""
    worst, rule = _worst(checks), check_rules().get(checks[0].id)
    arms = order_arms(findings, (check.arm for check in checks))
    cells = {(check.arm, check.load_level): check for check in checks}
    return {
        "name": _name(worst),
        **_level(worst.level),
        "threshold": _threshold(worst, rule),
        "source": _source(rule),
        "advice": say(worst.advice),
        "about": f"{arm_label(findings, worst.arm)}, {level_label(findings, worst.load_level)}",
        "arms": [
            {
                "name": arm_label(findings, arm),
                "cells": [_checks_cell(cells.get((arm, level)), rule) for level in levels],
            }
            for arm in arms
        ],
    }


def _name(check: Check) -> str:
    """With its device where there are several."""
    name = tr(check.name)
    return f"{name}, {check.object}" if check.object else name


def _threshold(check: Check, rule: CheckRule | None) -> str:
    """ "more than 80.0 %", "less than 5.0 %", "from 10.0 % on"."""
    text = format_value(check.threshold, check.unit)
    if rule is None:
        return text
    if rule.kind is CheckKind.TIME:
        return (
            tr("more than {threshold}", threshold=text)
            if rule.is_higher_worse
            else tr("less than {threshold}", threshold=text)
        )
    return (
        tr("from {threshold} on", threshold=text)
        if rule.is_higher_worse
        else tr("less than {threshold}", threshold=text)
    )


def _source(rule: CheckRule | None) -> str:
    """The metrics and their file; "" of a check that this pgtrial does not know."""
    if rule is None:
        return ""
    if rule.kind is CheckKind.LOG:
        return file_of("log")
    above, below = " + ".join(rule.metric), " + ".join(rule.per)
    return tr("{metric} of {file}", metric=f"{above} / ({below})" if below else above, file=file_of(rule.metric[0]))


def _level(level: Level) -> dict[str, object]:
    """Its name, for the style, and how it is shown."""
    return {"level": str(level), "word": level_word(level), "symbol": LEVEL_SYMBOLS[level]}


def _checks_cell(check: Check | None, rule: CheckRule | None) -> dict[str, object]:
    if check is None:
        return {"level": "", "word": "", "symbol": "", "value": "–", "share": ""}
    write = format_signed if rule is not None and rule.kind is CheckKind.TREND else format_value
    return {
        **_level(check.level),
        "value": write(check.value, check.unit),
        "share": "" if check.share is None else format_value(check.share, "share"),
    }


def _advice(findings: Findings, check: Check) -> dict[str, object]:
    return {
        **_level(check.level),
        "name": _name(check),
        "arm": arm_label(findings, check.arm),
        "load": level_label(findings, check.load_level),
        "text": say(check.advice),
    }


def _kind(findings: Findings, kind: LoadKind, features: Sequence[tuple[str, str, str]]) -> dict[str, object]:
    return {
        "arm": arm_label(findings, kind.arm),
        "load": level_label(findings, kind.load_level),
        "kind": _kind_word(kind.kind),
        "values": [format_value(getattr(kind, name), unit) for _, name, unit in features],
        "text": say(kind.text),
    }


def _kind_word(kind: str) -> str:
    words = {"mixed": ptr("kind of load", "mixed"), "undetermined": ptr("kind of load", "undetermined")}
    return words.get(kind, kind)  # OLTP and OLAP are called so everywhere


def _legacy(findings: Findings, each: LegacyMetrics) -> dict[str, object]:
    return {
        "arm": arm_label(findings, each.arm),
        "load": level_label(findings, each.load_level),
        "speed": format_value(each.speed, ""),
        "waitings": format_value(each.waitings, ""),
    }


CHECKS = Section(
    name="checks",
    title=N_("Checks"),
    build=_build_checks,
    is_shown=lambda findings: bool(
        causes_of(findings).checks or causes_of(findings).kinds or causes_of(findings).legacy
    ),
)


_FAMILIES = frozenset(
    (
        N_("waits and system"),
        N_("system"),
        N_("throughput and blocks"),
        N_("blocks and system"),
        N_("dirty pages and system"),
        N_("memory and device"),
        N_("throughput and device"),
        N_("chosen"),
    )
)


def _build_associations(findings: Findings) -> dict[str, object]:
    found = sorted(
        causes_of(findings).associations,
        key=lambda each: (not each.is_real, each.part_of, -abs(each.spearman or 0.0)),
    )
    real = [each for each in found if each.is_real]
    return {
        "chart": association_chart(found),
        "real": [_row(each) for each in real],
        "others": [_row(each) for each in found if not each.is_real],
        "tested": sum(each.p_value is not None for each in found),
    }


def _row(each: Association) -> dict[str, object]:
    interval = (
        "–"
        if each.low is None or each.high is None
        else tr("{low} to {high}", low=correlation_text(each.low), high=correlation_text(each.high))
    )
    return {
        "pair": [{"name": name, "words": metric_words(name)} for name in (each.first, each.second)],
        "family": tr(each.family) if each.family in _FAMILIES else each.family,
        "spearman": correlation_text(each.spearman),
        "interval": interval,
        "pearson": correlation_text(each.pearson),
        "p": format_p(each.p_value),
        "q": format_p(each.q_value),
        "count": each.count,
        "remark": _remark(each),
    }


def _remark(each: Association) -> str:
    if each.part_of:
        return tr("part of the whole: they must go together")
    if each.spearman is None or not each.expected or not each.is_real:
        return ""
    is_as_expected = (each.spearman > 0) == (each.expected == "+")
    if is_as_expected:
        return ""
    return tr("the other way round than usual ({sign})", sign=each.expected.replace("-", "−"))


ASSOCIATIONS = Section(
    name="associations",
    title=N_("Associations"),
    build=_build_associations,
    is_shown=lambda findings: any(each.p_value is not None for each in causes_of(findings).associations),
)


FIRST = ("checkpoint", "autovacuum")
# The last word of a number's name is its unit, where it has one.
_UNITS = {"seconds": "s", "bytes": "B"}
# Names of numbers, without their units.
_NAMES = frozenset(
    (
        N_("buffers"),
        N_("SLRU buffers"),
        N_("WAL files added"),
        N_("WAL files removed"),
        N_("WAL files recycled"),
        N_("write"),
        N_("sync"),
        N_("total"),
        N_("sync files"),
        N_("distance"),
        N_("timed"),
        N_("requested"),
        N_("pages removed"),
        N_("tuples removed"),
        N_("tuples not removable"),
        N_("index scans"),
        N_("blocks hit"),
        N_("blocks read"),
        N_("blocks dirtied"),
        N_("WAL records"),
        N_("WAL full page images"),
        N_("WAL"),
        N_("CPU"),
        N_("seconds"),
        N_("bytes"),
    )
)


def _build_server_log(findings: Findings) -> dict[str, object]:
    log = causes_of(findings).log
    arms = order_arms(findings, (each.arm for each in log))
    cells = {(each.kind, each.arm): each for each in log}
    totals: dict[str, int] = {}
    for each in log:
        totals[each.kind] = totals.get(each.kind, 0) + each.count
    kinds = sorted(totals, key=lambda kind: (FIRST.index(kind) if kind in FIRST else len(FIRST), -totals[kind], kind))
    return {
        "arms": [arm_label(findings, arm) for arm in arms],
        "rows": [
            {"kind": name_event_kind(kind).say(), "cells": [_server_log_cell(cells.get((kind, arm))) for arm in arms]}
            for kind in kinds
        ],
    }


def _server_log_cell(found: LogSummary | None) -> dict[str, object]:
    if found is None:
        return {"count": ptr("count", "none"), "numbers": [], "text": ""}
    return {"count": str(found.count), "numbers": describe_numbers(found.numbers), "text": say(found.text)}


def describe_numbers(numbers: Mapping[str, float]) -> list[str]:
    """ "write 12.3 s", "distance 1.2 GB", "buffers 4711"; what is zero is left out."""
    found = []
    for name, value in numbers.items():
        if value == 0:
            continue
        what, _, last = name.rpartition(" ")
        unit = _UNITS.get(last, "")
        shown = what if unit and what else name
        found.append(f"{tr(shown) if shown in _NAMES else shown} {format_value(value, unit)}")
    return found


SERVER_LOG = Section(
    name="server_log",
    title=N_("Server log"),
    build=_build_server_log,
    is_shown=lambda findings: bool(causes_of(findings).log),
)
