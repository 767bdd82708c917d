"""Checks of [design]: what excludes each other, what needs each other, what the time does not allow."""

import math
from collections.abc import Iterator
from pathlib import Path as FilePath

from pgtrial.experiment_file.arms import MOST_COMBINATIONS, count_combinations
from pgtrial.experiment_file.experiment import DEFAULT_BLOCKS, Experiment, count_windows
from pgtrial.experiment_file.guardrails_table import FEWEST, LIMITS, WINDOW, GuardrailsTable
from pgtrial.experiment_file.position import Found
from pgtrial.units import format_duration

# Blocks before which no stopping rule looks. Random order alone puts the same arm first in all of n blocks with
# probability 2 / 2^n, and a machine that drifts then shows a difference without noise; from six on this is rarer than
# an error of 5 %.
FIRST_LOOK = 6
LEAST_STRETCH = 0.2  # s of counted time on each set of CPUs
LEAST_WINDOW = 20.0  # s: sizes are read every ten
_OF_BLOCKS = ("blocks", "budget", "stop", "looks", "precision", "covariate", "slice", "placebo", "restore", "disturbed")


def check_blocks(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    design = experiment.design
    if design.blocks is not None and design.budget is not None:
        message = "a number of blocks and a budget exclude each other"
        yield ("design", "budget"), message, "Remove one; a budget is turned into blocks."


def check_slices(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    design, duration = experiment.design, experiment.workload.duration
    if design.slice is not None:
        if design.method == "blocks":
            message = 'a slice has no meaning with method = "blocks"'
            yield ("design", "slice"), message, 'Use method = "interleaved", "duet", "switchback", or "auto".'
        elif design.slice > (duration if design.method == "switchback" else duration / 2):
            message = f"a slice of {format_duration(design.slice)} does not fit twice into the duration"
            hint = f"In every block each arm has two slices or more. The duration is {format_duration(duration)}."
            yield ("design", "slice"), message, hint
    arms = _count_arms(experiment)
    if design.method == "duet" and duration < LEAST_STRETCH * arms:
        message = f"a duration of {format_duration(duration)} is too short for a duet of {arms} arms"
        hint = f"Each arm runs on {arms} sets of CPUs in turn, at least {format_duration(LEAST_STRETCH)} on each."
        yield ("workload", "duration"), message, hint


def check_soak(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """A soak has no blocks, so it has nothing that is of blocks, and no claim."""
    design = experiment.design
    if design.soak is None:
        if design.windows is not None:
            yield ("design", "windows"), "windows need a soak", 'Write for how long: soak = "24h".'
        return
    for key in _OF_BLOCKS:
        if key in design.model_fields_set:
            yield ("design", key), f"a soak has no {key}", "It is one load from beginning to end. Remove one of both."
    if design.method not in ("blocks", "auto"):
        yield ("design", "method"), f'a soak has no method "{design.method}"', "Its arms run one after the other."
    if design.cache == "cold":
        yield ("design", "cache"), "a soak has no cold cache", "It would be cold in its first second only."
    if "hypothesis" in experiment.model_fields_set:
        hint = "Windows of one run depend on each other. Test the claim in blocks, in a file of its own."
        yield ("hypothesis",), "a soak decides no claim", hint
    if "duration" in experiment.workload.model_fields_set:
        hint = 'Give soak and windows in [design], and remove this: soak = "24h" and windows = 24 are 1 h each.'
        yield ("workload", "duration"), "the duration is that of a window in a soak", hint
    if experiment.target.kind == "host":
        yield ("design", "soak"), "a soak is of a server", "A load on files has none. Give it a long duration instead."
    if design.soak / count_windows(design) < LEAST_WINDOW:
        window = format_duration(design.soak / count_windows(design))
        hint = f"It has {count_windows(design)} windows; each needs {format_duration(LEAST_WINDOW)}."
        yield ("design", "soak"), f"windows of {window} are too short", hint


def check_guardrails(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    if experiment.guardrails is None:
        return
    target, method = experiment.target, experiment.design.method
    if target.kind != "server":
        message = f'guardrails have no meaning with kind = "{target.kind}"'
        yield ("guardrails",), message, "They are for a server that others use. Remove the table."
    elif method != "switchback":
        message = f'guardrails have no meaning with method = "{method}"'
        yield ("guardrails",), message, 'Nothing is switched under a load but with method = "switchback".'
    elif not experiment.guardrails.has_limit:
        hint = f"Give one or more: {', '.join(LIMITS)}. They end it at once; harm needs many minutes."
        yield ("guardrails",), "guardrails have no limit", hint
    else:
        yield from _check_probe(experiment, experiment.guardrails)


def _check_probe(experiment: Experiment, guardrails: GuardrailsTable) -> Iterator[Found]:
    workload = experiment.workload
    if workload.threads is not None:
        hint = "Remove it: pgbench has one thread then, as each would keep back the last hundred lines of its log."
        yield ("workload", "threads"), "threads have no meaning with guardrails", hint
    rates = [rate for rate in workload.rate_levels if rate is not None]
    if guardrails.p99 is not None and min(rates, default=math.inf) * WINDOW < FEWEST:
        message = f"of {min(rates):g} transactions a second no 99th percentile is known in time"
        hint = f"Give rate {math.ceil(FEWEST / WINDOW)} or more: it is taken over {WINDOW:g} s, of {FEWEST}."
        yield ("workload", "rate"), message, hint


def check_covariate(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    design = experiment.design
    if design.covariate is not None and design.method in ("interleaved", "duet", "switchback"):
        message = f'a covariate has no meaning with method = "{design.method}"'
        hint = 'Arms that share the time of a block share the covariate too, and it cancels. Use method = "blocks".'
        yield ("design", "covariate"), message, hint


def check_stop(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    design = experiment.design
    blocks = DEFAULT_BLOCKS if design.blocks is None else design.blocks
    if design.precision is not None and design.stop != "precision":
        message = 'a precision needs stop = "precision"'
        yield ("design", "precision"), message, "Without it nothing is done with the precision."
    elif design.precision == 0:
        yield ("design", "precision"), "precision has to be above 0 %", "No interval is that narrow."
    if design.stop == "precision" and design.precision is None:
        message = 'stop = "precision" needs a precision'
        yield ("design", "stop"), message, 'Give the wished half-width of the interval: precision = "2%".'
    if design.stop == "each-arm" and experiment.factors:
        message = 'stop = "each-arm" has no meaning with factors'
        yield ("design", "stop"), message, "Their effects are found in blocks that have every combination."
    if design.stop == "never":
        if design.looks is not None:
            message = "a number of looks needs a rule for stopping"
            yield ("design", "looks"), message, 'Give stop = "decision", "each-arm" or "precision".'
    elif design.budget is None and blocks < FIRST_LOOK:
        message = f"{blocks} blocks are too few to stop early"
        yield ("design", "blocks"), message, f"No look is before block {FIRST_LOOK}; blocks is the most there will be."
    elif design.budget is None and design.looks is not None and design.looks > blocks:
        message = f"{design.looks} looks are more than {blocks} blocks"
        yield ("design", "looks"), message, "Left out, there is a look after every block."


def _count_arms(experiment: Experiment) -> int:
    arms = len(experiment.arms)
    if experiment.factors:
        arms = min(count_combinations(experiment.factors), MOST_COMBINATIONS)
    return arms + experiment.design.placebo
