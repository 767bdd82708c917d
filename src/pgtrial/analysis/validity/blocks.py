"""Checks of the design: are there enough blocks, are they alike, and does the placebo do nothing."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from pgtrial.analysis.findings import CaveatFinding
from pgtrial.analysis.observations import ALL
from pgtrial.analysis.slices import counted_seconds
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.language import mark, ntr, tr
from pgtrial.model.caveat import Severity
from pgtrial.model.run import LoadLevel, RunState
from pgtrial.model.verdict import Decision
from pgtrial.stats.dependence import ORDER_ALPHA, drift
from pgtrial.units import format_change, format_duration, format_percent, format_share

MIN_BLOCKS = 2  # below, there is no interval at all
MIN_BLOCKS_FOR_DRIFT = 5
LONG_PAUSE = 600.0  # s between two runs of a block, and …
PAUSE_IN_RUNS = 3.0  # … in lengths of a run, beyond what repeating an invalid one takes


def check_blocks(assessment: Assessment) -> Iterator[CaveatFinding]:
    evidence = assessment.evidence
    if not evidence.valid:
        yield CaveatFinding(
            code="no-runs",
            severity=Severity.INVALID,
            text=ntr(
                "None of the {count} runs finished with valid data.",
                "None of the {count} runs finished with valid data.",
                len(evidence.runs),
            )
            if evidence.runs
            else tr("The experiment has no runs yet."),
            hint=tr('See why in the table of runs; "pgtrial resume" goes on with the schedule.'),
        )
        return
    if _lacks_blocks(assessment):
        blocks, planned = len(evidence.pairs(evidence.hypothesis_arm)), _planned(assessment)
        yield CaveatFinding(
            code="too-few-blocks",
            severity=Severity.INVALID,
            text=tr(
                "Fewer than {fewest} blocks have a valid run of both arms ({blocks} of {planned}).",
                fewest=MIN_BLOCKS,
                blocks=blocks,
                planned=planned,
            ),
            hint=tr("Plan more blocks.") if planned < MIN_BLOCKS else tr('Finish the schedule with "pgtrial resume".'),
        )


def _lacks_blocks(assessment: Assessment) -> bool:
    return len(assessment.evidence.pairs(assessment.evidence.hypothesis_arm)) < MIN_BLOCKS


def _planned(assessment: Assessment) -> int:
    return len({slot.block for slot in assessment.evidence.slots})


def check_placebo(assessment: Assessment) -> Iterator[CaveatFinding]:
    """The placebo's true effect is zero, so what is found of it is error.

    An interval that excludes 1 happens by chance with probability 1 - confidence: a warning. An interval wholly
    beyond the margin means that these runs show effects that matter where there are none, so none of their effects
    can be believed. Without a margin the two cannot be told apart, and it stays a warning.
    """
    if assessment.placebo is None:
        return
    effect = assessment.placebo.effect
    if effect.low is None or effect.high is None or effect.ratio is None or effect.low <= 1 <= effect.high:
        return
    is_biased = effect.margin > 0 and effect.decision in (Decision.BETTER, Decision.WORSE)
    found = {
        "change": format_change(effect.ratio),
        "low": format_change(effect.low),
        "high": format_change(effect.high),
    }
    if is_biased:
        text = tr(
            "The placebo, a second copy of the control, differs from it by {change} (between {low} and {high}), "
            "beyond the margin of {margin}.",
            **found,
            margin=format_share(effect.margin),
        )
    else:
        text = tr(
            "The placebo, a second copy of the control, differs from it by {change} (between {low} and {high}).",
            **found,
        )
    yield CaveatFinding(
        code="placebo-effect",
        severity=Severity.INVALID if is_biased else Severity.WARNING,
        text=text,
        hint=tr("Look for what differs between the runs besides the settings, and run more blocks."),
    )


def check_primary_effect(assessment: Assessment) -> Iterator[CaveatFinding]:
    """What the comparison itself says of the effect that the claim is about, unless ``check_blocks`` has said it."""
    if assessment.primary is not None:
        lacks_blocks = _lacks_blocks(assessment)
        for caveat in assessment.primary.effect.caveats:
            if caveat.code != "no-interval" or not lacks_blocks:
                yield caveat


def check_completeness(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Runs of the schedule that are missing; but none is, once the rule for stopping has ended the experiment."""
    evidence = assessment.evidence
    if assessment.stopping is not None and assessment.stopping.ended is not None:
        return
    done = {run.slot.number for run in evidence.valid}
    missing = [slot for slot in evidence.slots if slot.number not in done]
    if missing and evidence.valid:
        yield CaveatFinding(
            code="incomplete",
            severity=Severity.WARNING,
            text=tr(
                "{missing} of {slots} planned runs have no valid data; {complete} of {blocks} blocks are complete.",
                missing=len(missing),
                slots=len(evidence.slots),
                complete=len(evidence.complete_blocks()),
                blocks=_planned(assessment),
            ),
            hint=tr('Finish the schedule with "pgtrial resume".'),
        )


def check_invalid_runs(assessment: Assessment) -> Iterator[CaveatFinding]:
    evidence = assessment.evidence
    invalid = [run for run in evidence.runs if run.state in (RunState.INVALID, RunState.INTERRUPTED)]
    if invalid:
        by_arm = ", ".join(f"{arm} {n}" for arm, n in Counter(run.slot.arm for run in invalid).items())
        yield CaveatFinding(
            code="invalid-runs",
            severity=Severity.WARNING if any(run.state is RunState.INVALID for run in invalid) else Severity.INFO,
            text=tr(
                "{invalid} of {runs} runs were invalid or interrupted and do not count ({by_arm}).",
                invalid=len(invalid),
                runs=len(evidence.runs),
                by_arm=by_arm,
            ),
            hint=tr(
                "Runs that share the time of a block are left out together, so these numbers do not tell which arm "
                "failed: see the reasons in the table of runs. If it is always the same arm, what is left of it may "
                "not represent it."
            )
            if any(run.slices for run in evidence.valid)
            else tr("If one arm fails more often than the others, what is left of it may not represent it."),
            runs=tuple(run.id for run in invalid),
        )


def check_torn_blocks(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Blocks that were interrupted and gone on with much later: what a block has in common no longer cancels in it."""
    times: dict[int, list[tuple[float, float]]] = {}
    for run in assessment.evidence.valid:
        if not run.slices and run.started is not None and run.ended is not None:
            times.setdefault(run.slot.block, []).append((run.started, run.ended))
    lengths = [end - start for block in times.values() for start, end in block]
    limit = max(LONG_PAUSE, PAUSE_IN_RUNS * float(np.median(lengths))) if lengths else 0.0
    found = {}
    for block, runs in times.items():
        in_order = sorted(runs)
        pause = max((later[0] - earlier[1] for earlier, later in pairwise(in_order)), default=0.0)
        if pause > limit:
            found[block] = pause
    if found:
        yield CaveatFinding(
            code="torn-blocks",
            severity=Severity.INFO,
            text=ntr(
                "{count} block was interrupted between its runs and gone on with {pause} later ({blocks}): what the "
                "machine changed by meanwhile is in its ratios.",
                "{count} blocks were interrupted between their runs and gone on with up to {pause} later ({blocks}): "
                "what the machine changed by meanwhile is in their ratios.",
                len(found),
                pause=format_duration(max(found.values())),
                blocks=", ".join(map(str, sorted(found))),
            ),
            hint=tr("The random order lets it favour no arm, but it widens the interval: look at these blocks."),
        )


def check_level_drift(assessment: Assessment) -> Iterator[CaveatFinding]:
    """A trend of the control itself. Comparing inside blocks removes it, but it says that the world was changing."""
    level = _log_control(assessment)
    if len(level) < MIN_BLOCKS_FOR_DRIFT:
        return
    trend = drift(level)
    if trend.slope_per_block is not None and trend.p_value is not None and trend.p_value <= ORDER_ALPHA:
        yield CaveatFinding(
            code="level-drift",
            severity=Severity.INFO,
            text=tr(
                "The control's own results move in one direction from block to block, by {change} per block.",
                change=format_change(float(np.exp(trend.slope_per_block))),
            ),
            hint=tr("Comparing within blocks removes the trend; the load curve and the latencies still contain it."),
        )


def check_restore(assessment: Assessment) -> Iterator[CaveatFinding]:
    restore = assessment.evidence.experiment.restore
    # Where the arms of a block share its time, each has data of its own, and a block is one run of each.
    is_each_run = restore == "each-run" or (
        restore == "each-block"
        and bool(assessment.evidence.valid)
        and all(run.slices for run in assessment.evidence.valid)
    )
    if not is_each_run:
        if restore == "each-block":
            text = tr(
                "The data were put back to the snapshot only once per block, so a run starts with what the runs before "
                "left behind."
            )
        else:
            text = tr(
                "The data were put back to the snapshot never, so a run starts with what the runs before left behind."
            )
        yield CaveatFinding(
            code="data-not-restored",
            severity=Severity.WARNING,
            text=text,
            hint=tr("Leave database in [target] out, for one of pgtrial's own, unless the load only reads.")
            if assessment.evidence.experiment.target.database is not None
            else tr('Use restore = "each-run" unless the load only reads.'),
        )


def _log_control(assessment: Assessment) -> list[float]:
    """Logarithms of the control's primary metric over all load levels, by block."""
    evidence = assessment.evidence
    if assessment.primary is None or evidence.control is None:
        return []
    effect = assessment.primary.effect
    found = [
        assessment.values.get((run.id, effect.metric, effect.scenario, ALL), 0.0)
        for run in evidence.runs_of(evidence.control.name)
    ]
    return [float(np.log(value)) for value in found if value > 0]


# Check of how much there was to count: a throughput of a handful of transactions moves in steps.


FEWEST = 20  # transactions of a run at a load level, of which one more or less is 5 %
_HINT = mark("Measure longer at each load level, with fewer clients, or with data that make a transaction shorter.")


def check_counts(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Transactions that ended in the measured time, of the scenario and the two arms that the claim is about."""
    evidence = assessment.evidence
    scenario = evidence.experiment.hypothesis.scenario
    for level in evidence.levels:
        counts = _counts(assessment, level)
        empty = tuple(sorted(run for run, count in counts.items() if count == 0))
        if empty:
            yield CaveatFinding(
                code="no-transactions",
                severity=Severity.INVALID,
                text=_none_text(level.label, scenario, len(empty), len(counts)),
                hint=tr(_HINT),
                runs=empty,
            )
        elif counts and min(counts.values()) < FEWEST:
            fewest = min(counts.values())
            yield CaveatFinding(
                code="few-transactions",
                severity=Severity.WARNING,
                text=_few_text(level.label, scenario, fewest),
                hint=tr(_HINT),
            )


def _counts(assessment: Assessment, level: LoadLevel) -> dict[int, int]:
    """By the id of a run; none of runs whose number of transactions at the level is not known."""
    evidence = assessment.evidence
    control = evidence.control.name if evidence.control else ""
    name, scenario = evidence.load.throughput.name, evidence.experiment.hypothesis.scenario
    return {
        run.id: round(rate * counted_seconds(run, level.index))
        for run in evidence.valid
        if run.slot.arm in {control, evidence.hypothesis_arm}
        and (rate := assessment.values.get((run.id, name, scenario, level.index))) is not None
    }


def _none_text(level: str, scenario: str | None, runs: int, of: int) -> str:
    if scenario:
        return tr(
            "At {level} no transaction of {scenario} ended within the measured time in {runs} of {of} runs.",
            level=level,
            scenario=scenario,
            runs=runs,
            of=of,
        )
    return tr(
        "At {level} no transaction ended within the measured time in {runs} of {of} runs.",
        level=level,
        runs=runs,
        of=of,
    )


def _few_text(level: str, scenario: str | None, count: int) -> str:
    step = format_percent(1 / count)
    if scenario:
        return tr(
            "At {level} as few as {count} transactions of {scenario} ended within the measured time of a run: one "
            "more or less is {step}.",
            level=level,
            scenario=scenario,
            count=count,
            step=step,
        )
    return tr(
        "At {level} as few as {count} transactions ended within the measured time of a run: one more or less is "
        "{step}.",
        level=level,
        count=count,
        step=step,
    )
