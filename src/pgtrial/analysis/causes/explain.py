"""Everything that samples and log say about causes, put together in the order in which it is worked out."""

from collections.abc import Mapping, Sequence

from pgtrial.analysis.causes.associations import find_associations
from pgtrial.analysis.causes.budget import compare_budgets, describe_budgets, describe_runs
from pgtrial.analysis.causes.checks import check_samples
from pgtrial.analysis.causes.disks import describe_disks
from pgtrial.analysis.causes.files import describe_files, tell_files
from pgtrial.analysis.causes.limit_rules.base import Statements, statement_of
from pgtrial.analysis.causes.limits import find_limits, gather_facts, what_changed
from pgtrial.analysis.causes.load import describe_load_kinds, find_crossings, model_curves
from pgtrial.analysis.causes.pareto import rank_events, rank_statements, score_arms
from pgtrial.analysis.causes.plans import compare_plans
from pgtrial.analysis.causes.proofs import apply_proofs, tell_proofs
from pgtrial.analysis.causes.sessions import WaitEvent, group_cells, pooled_mean, tier
from pgtrial.analysis.causes.stability import describe_stability
from pgtrial.analysis.causes.statements import compare_statements, describe_statements, tell_statements
from pgtrial.analysis.causes.waits import describe_background, describe_types
from pgtrial.analysis.courses import draw_courses
from pgtrial.analysis.effects.estimate import Estimated
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.log_events import mark_events, read_log_events, summarize_log
from pgtrial.analysis.observations import Values
from pgtrial.analysis.reduction import Reduction
from pgtrial.analysis.timelines.panels import make_panels
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.findings.causes import Causes, LegacyMetrics, Limit, LoadKind
from pgtrial.findings.message import Message, message
from pgtrial.findings.naming import name_level, name_part
from pgtrial.findings.questions import Ledger
from pgtrial.findings.record import ALL, Estimate
from pgtrial.findings.session_time import BudgetDifference, BudgetPart, PlanChange
from pgtrial.units import read_count

# pg_expecto's two numbers, SPEED and WAITINGS, so that its users can find their way.
#
# SPEED is calls plus rows of all statements per minute, which mixes units: a statement that returns a million rows
# counts more than a million that return one. WAITINGS is the number of samples per minute, at its extension's 100 per
# second, in which a session waited: average waiting sessions times 6000. pg_expecto shows 60-minute medians of both;
# these are means over the measured time itself, with zeros kept.


TYPES = ("BufferPin", "Extension", "IO", "IPC", "Lock", "LWLock", "Timeout")
SAMPLES_PER_MINUTE = 6000  # of one session, with a profile period of 10 ms


def describe_legacy(timelines: Sequence[Timeline]) -> tuple[LegacyMetrics, ...]:
    """Per arm and load level. SPEED is null without pg_stat_statements, WAITINGS where no session was looked at."""
    return tuple(
        LegacyMetrics(arm=arm, load_level=level, speed=_speed(cell), waitings=_waitings(cell))
        for (arm, level), cell in group_cells(timelines).items()
    )


def _speed(cell: tuple[Timeline, ...]) -> float | None:
    calls, rows = (pooled_mean(cell, f"statements.{name}") for name in ("calls", "rows"))
    return None if calls is None or rows is None else 60 * (calls + rows)


def _waitings(cell: tuple[Timeline, ...]) -> float | None:
    """A type that no timeline has was never waited for, where any sessions were looked at."""
    if pooled_mean(cell, "sessions.active") is None:
        return None
    return SAMPLES_PER_MINUTE * sum(pooled_mean(cell, f"waits.{name}") or 0.0 for name in TYPES)


NAMED_PLANS = 1  # that the text names
NAMED_PARTS = 2  # parts of a difference that the text names
_NAMED_SHARE = 0.2  # of the difference, below which a part is not worth a word


def explain(
    evidence: Evidence,
    reduction: Reduction,
    timelines: tuple[Timeline, ...],
    values: Values,
    estimated: Sequence[Estimated],
    *,
    proofs: Sequence[Ledger] = (),
) -> Causes:
    """All of it; ``proofs`` are the ledgers of its arms. StoreError when a file of a run is damaged."""
    events = read_log_events(evidence)
    budgets = describe_budgets(evidence, reduction, values)
    differences = compare_budgets(evidence, reduction, values)
    plans = compare_plans(evidence, reduction, values)
    files = describe_files(evidence, timelines, values)
    limits: tuple[Limit, ...] = ()
    kinds: tuple[LoadKind, ...] = ()
    statements: Statements = {}
    times: Mapping[str, Estimate] = {}
    if not evidence.is_on_files:  # whose limit is told without sessions and transactions
        facts = gather_facts(
            evidence,
            events or (),
            cpus=_cpus(evidence),
            reduction=reduction,
            budgets=budgets,
            differences=differences,
        )
        statements = facts.statements
        if evidence.control is not None:
            times = compare_statements(evidence, reduction, values)
        of_runs = describe_runs(evidence, reduction, values)
        limits = find_limits(evidence, timelines, budgets, facts, of_runs=of_runs)
        limits = apply_proofs(evidence, limits, proofs)
        kinds = describe_load_kinds(evidence, timelines, values)
    return Causes(
        tier=tier(evidence, reduction),
        budgets=budgets,
        differences=differences,
        plans=plans,
        statements=describe_statements(evidence, reduction),
        wait_types=describe_types(evidence, reduction),
        background=describe_background(evidence, reduction),
        paretos=(*rank_events(evidence, reduction), *rank_statements(evidence, reduction)),
        limits=limits,
        curve_models=model_curves(evidence, values),
        crossings=find_crossings(evidence, values, tuple(estimated)),
        stability=describe_stability(evidence, timelines, events or ()),
        associations=find_associations(evidence, timelines),
        checks=check_samples(evidence, timelines, events),
        kinds=kinds,
        legacy=describe_legacy(timelines),
        scorecard=score_arms(evidence, values),
        disks=describe_disks(evidence, timelines, limits),
        files=files,
        panels=make_panels(evidence, timelines),
        courses=draw_courses(evidence, timelines),
        marks=mark_events(evidence, events or ()),
        log=summarize_log(evidence, events or ()),
        text=tell_why(evidence, differences, limits, statements=statements, plans=plans, times=times, proofs=proofs)
        or tell_files(files, arms=_lead_arms(evidence)),
    )


def _lead_arms(evidence: Evidence) -> tuple[str, ...]:
    """The control and the claim's arm."""
    control = (evidence.control.name,) if evidence.control is not None else ()
    return (*control, evidence.hypothesis_arm)


def _cpus(evidence: Evidence) -> int | None:
    """Of the server's machine, where pgbench runs too unless it is another one's; None where runs had not the same."""
    found = {read_count(evidence.fact("machine/CPUs", run.id)) for run in evidence.valid}
    return found.pop() if len(found) == 1 else None


def tell_why(
    evidence: Evidence,
    differences: Sequence[BudgetDifference],
    limits: Sequence[Limit],
    *,
    statements: Statements | None = None,
    plans: Sequence[PlanChange] = (),
    times: Mapping[str, Estimate] | None = None,
    proofs: Sequence[Ledger] = (),
) -> Message | None:
    """The claim's arm against the control in a few sentences: what a transaction gains or loses, and where; which
    statement takes more of it; which plan changed most of its time; then what limits each of them, and what ``proofs``
    say about that. None where nothing is known.
    """
    arm = evidence.hypothesis_arm
    sentences = [
        _tell_difference(split, statements or {})
        for split in differences
        if split.arm == arm and split.load_level == ALL
    ]
    risen = tell_statements(times or {})
    sentences += [risen] if risen is not None else []
    mine = [change for change in plans if change.arm == arm]
    sentences += [change.text for change in sorted(mine, key=lambda change: change.size, reverse=True)[:NAMED_PLANS]]
    if evidence.control is not None:
        labels = {level.index: name_level(level) for level in evidence.levels}
        chosen = [limit for limit in limits if limit.arm in (arm, evidence.control.name)]
        sentences += what_changed(chosen, evidence.control.name, labels=labels)
    sentences += tell_proofs(limits, proofs)
    return message("sentences", parts=tuple(sentences)) if sentences else None


def _tell_difference(split: BudgetDifference, statements: Statements) -> Message:
    difference, arms = split.difference, {"arm": split.arm, "control": split.control}
    side = split.side()
    if side == 0:
        return message("latency.unclear", **arms)
    less = side < 0
    if difference.side() != side:  # its seconds scatter too much to be split
        return message("latency.less-somehow" if less else "latency.more-somehow", **arms)
    parts = [
        part
        for part in split.parts
        if part.seconds.side() == side and part.seconds.value / difference.value >= _NAMED_SHARE
    ]
    slower = _of_arm(split.control if less else split.arm, statements)
    named = tuple(_name(part, difference.value, slower) for part in parts[:NAMED_PARTS])
    time = abs(difference.value)
    if not named:
        return message("latency.less-unexplained" if less else "latency.more-unexplained", time=time, **arms)
    return message("latency.less" if less else "latency.more", time=time, parts=named, **arms)


def _of_arm(arm: str, statements: Statements) -> Mapping[WaitEvent, Mapping[str, float]]:
    """All load levels together."""
    found: dict[WaitEvent, dict[str, float]] = {}
    for (name, _), kinds in statements.items():
        for kind, by_text in kinds.items() if name == arm else ():
            into = found.setdefault(kind, {})
            for text, sessions in by_text.items():
                into[text] = into.get(text, 0.0) + sessions
    return found


def _name(part: BudgetPart, whole: float, statements: Mapping[WaitEvent, Mapping[str, float]]) -> Message:
    """A part, and where it is spent. One that is larger than the whole is no share of it: others make up for it."""
    name: Message | str = name_part(part.kind, part.event)
    mostly = statement_of(statements, lambda kind, event: (kind, event) == (part.kind, part.event))
    if mostly is not None:
        name = message("latency.part-in", part=name, statement=mostly.text)
    share = part.seconds.value / whole
    if share > 1:
        return message("latency.part-alone", time=abs(part.seconds.value), part=name)
    return message("latency.part", share=share, part=name)
