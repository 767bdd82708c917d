"""Everything that samples and log say about causes, put together in the order in which it is worked out."""

from collections.abc import Sequence

from pgtrial.analysis.cause_findings import BudgetDifference, BudgetPart, Causes, Limit, LoadKind
from pgtrial.analysis.causes.associations import find_associations
from pgtrial.analysis.causes.budget import compare_budgets, describe_budgets
from pgtrial.analysis.causes.checks import check_samples
from pgtrial.analysis.causes.disks import describe_disks
from pgtrial.analysis.causes.files import describe_files, tell_files
from pgtrial.analysis.causes.legacy import describe_legacy
from pgtrial.analysis.causes.limits import find_limits, gather_facts, what_changed
from pgtrial.analysis.causes.load_curve import find_crossings, model_curves
from pgtrial.analysis.causes.load_kind import describe_load_kinds
from pgtrial.analysis.causes.pareto import rank_events, rank_statements
from pgtrial.analysis.causes.scorecard import score_arms
from pgtrial.analysis.causes.sessions import tier
from pgtrial.analysis.causes.stability import describe_stability
from pgtrial.analysis.causes.words import join, part_name, percent
from pgtrial.analysis.effects import Estimated
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.log_events import mark_events, read_log_events, summarize_log
from pgtrial.analysis.observations import ALL, Values
from pgtrial.analysis.reduction import Reduction
from pgtrial.analysis.timelines.panels import make_panels
from pgtrial.analysis.timelines.read import read_timelines
from pgtrial.language import mark, tr
from pgtrial.units import format_duration

NAMED_PARTS = 2  # parts of a difference that the text names
_NAMED_SHARE = 0.2  # of the difference, below which a part is not worth a word
# By whether there are parts that are worth a word.
_LESS = {
    True: mark("A transaction of {arm} takes {time} less than one of {control}: {parts}."),
    False: mark("A transaction of {arm} takes {time} less than one of {control}, in many small parts."),
}
_MORE = {
    True: mark("A transaction of {arm} takes {time} more than one of {control}: {parts}."),
    False: mark("A transaction of {arm} takes {time} more than one of {control}, in many small parts."),
}


def explain(evidence: Evidence, reduction: Reduction, values: Values, estimated: Sequence[Estimated]) -> Causes:
    """All of it. StoreError when a file of a run is damaged."""
    timelines = read_timelines(evidence, reduction)
    events = read_log_events(evidence)
    budgets = describe_budgets(evidence, reduction, values)
    differences = compare_budgets(evidence, reduction, values)
    files = describe_files(evidence, timelines, values)
    limits: tuple[Limit, ...] = ()
    kinds: tuple[LoadKind, ...] = ()
    if not evidence.is_on_files:  # whose limit is told without sessions and transactions
        facts = gather_facts(evidence, events or (), cpus=_cpus(evidence), reduction=reduction)
        limits = find_limits(evidence, timelines, budgets, facts)
        kinds = describe_load_kinds(evidence, timelines, values)
    return Causes(
        tier=tier(evidence, reduction),
        budgets=budgets,
        differences=differences,
        paretos=(*rank_events(evidence, reduction), *rank_statements(evidence, reduction)),
        limits=limits,
        curve_models=model_curves(evidence, values),
        crossings=find_crossings(evidence, tuple(estimated)),
        stability=describe_stability(evidence, timelines, events or ()),
        associations=find_associations(evidence, timelines),
        checks=check_samples(evidence, timelines, events),
        kinds=kinds,
        legacy=describe_legacy(timelines),
        scorecard=score_arms(evidence, values, timelines),
        disks=describe_disks(evidence, timelines, limits),
        files=files,
        panels=make_panels(evidence, timelines),
        marks=mark_events(evidence, events or ()),
        log=summarize_log(evidence, events or ()),
        text=tell_why(evidence, differences, limits) or tell_files(files, arms=_lead_arms(evidence)),
    )


def _lead_arms(evidence: Evidence) -> tuple[str, ...]:
    """The control and the claim's arm."""
    control = (evidence.control.name,) if evidence.control is not None else ()
    return (*control, evidence.hypothesis_arm)


def _cpus(evidence: Evidence) -> int | None:
    """Of the server's machine, where pgbench runs too unless it is another one's."""
    text = evidence.fingerprints.get(None, {}).get("machine/CPUs", "")
    return int(text) if text.isdecimal() else None


def tell_why(evidence: Evidence, differences: Sequence[BudgetDifference], limits: Sequence[Limit]) -> str:
    """The claim's arm against the control in two or three sentences: what a transaction gains or loses, and where; then
    what limits each of them.
    """
    arm = evidence.hypothesis_arm
    sentences = [_tell_difference(each) for each in differences if each.arm == arm and each.load_level == ALL]
    if evidence.control is not None:
        labels = {level.index: level.label for level in evidence.levels}
        chosen = [limit for limit in limits if limit.arm in (arm, evidence.control.name)]
        sentences += what_changed(chosen, evidence.control.name, labels=labels)
    return " ".join(sentences)


def _tell_difference(found: BudgetDifference) -> str:
    difference = found.difference
    if difference.low is None or difference.high is None or difference.low <= 0 <= difference.high:
        return tr(
            "The mean latency of {arm} does not differ clearly from that of {control}.",
            arm=found.arm,
            control=found.control,
        )
    less = difference.value < 0
    parts = [
        part
        for part in found.parts
        if (part.seconds.value < 0) == less and part.seconds.value / difference.value >= _NAMED_SHARE
    ]
    named = join([_name(part, difference.value) for part in parts[:NAMED_PARTS]])
    texts = _LESS if less else _MORE
    return tr(
        texts[bool(named)],
        arm=found.arm,
        time=format_duration(abs(difference.value)),
        control=found.control,
        parts=named,
    )


def _name(part: BudgetPart, whole: float) -> str:
    return tr("{share} of it {part}", share=percent(part.seconds.value / whole), part=part_name(part.kind, part.event))
