"""Checks that need two places of the file, or the file system; each returns every problem it finds."""

from collections.abc import Callable, Iterator
from pathlib import Path as FilePath

from pgtrial.experiment_file.arm_checks import (
    check_arm_names,
    check_arms_or_factors,
    check_factor_knobs,
    check_factors,
    check_settings,
)
from pgtrial.experiment_file.arms import MOST_COMBINATIONS, check_inheritance, combination_names, count_combinations
from pgtrial.experiment_file.cause_checks import check_criteria, check_limits, check_pairs, check_resources
from pgtrial.experiment_file.design_checks import check_blocks, check_covariate, check_slices, check_stop
from pgtrial.experiment_file.experiment import METRICS, PLACEBO, Expect, Experiment
from pgtrial.experiment_file.file_checks import check_file_jobs, check_file_load, check_only_files
from pgtrial.experiment_file.knob_checks import (
    check_arms_on_disks,
    check_completeness,
    check_conflicts,
    check_directories,
    check_disks,
    check_names,
    check_scales,
    check_undo,
)
from pgtrial.experiment_file.position import Found
from pgtrial.experiment_file.target_checks import check_database, check_knobs_of_server, check_target, check_writes
from pgtrial.experiment_file.workload_checks import (
    check_dataset,
    check_levels,
    check_scenarios,
    check_shares,
    check_times,
    scenario_names,
)
from pgtrial.nearest import hint_name

Check = Callable[[Experiment, FilePath | None], Iterator[Found]]


def crosscheck(experiment: Experiment, folder: FilePath | None) -> Iterator[Found]:
    """All problems of a file whose single values are right; ``folder`` is where its relative paths begin, None
    where the file system is left out.
    """
    for check in _CHECKS:
        yield from check(experiment, folder)


def _check_hypothesis(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    hypothesis = experiment.hypothesis
    metrics = [metric for metric in METRICS if metric.startswith(f"{experiment.workload.kind}.")]
    if hypothesis.metric not in metrics:
        other = hypothesis.metric in METRICS
        yield (
            ("hypothesis", "metric"),
            f'metric "{hypothesis.metric}" is not of kind "{experiment.workload.kind}", the load\'s'
            if other
            else f'unrecognized metric "{hypothesis.metric}"',
            hint_name(hypothesis.metric, metrics),
        )
    if hypothesis.margin == 0 and hypothesis.expect is Expect.EQUIVALENT:
        message = 'expect = "equivalent" needs a margin above 0'
        yield ("hypothesis", "margin"), message, "No experiment can show that an effect is exactly zero."
    yield from _check_claimed_arm(experiment)
    names = scenario_names(experiment)
    if hypothesis.scenario is not None and names and hypothesis.scenario not in names:
        message = f'scenario "{hypothesis.scenario}" does not exist'
        yield ("hypothesis", "scenario"), message, hint_name(hypothesis.scenario, names, what="Scenarios are")


def _check_claimed_arm(experiment: Experiment) -> Iterator[Found]:
    claimed = experiment.hypothesis.arm
    if claimed is None or (not experiment.arms and not experiment.factors):
        return
    names = list(experiment.arms)
    if experiment.factors and count_combinations(experiment.factors) <= MOST_COMBINATIONS:
        names = combination_names(experiment.factors)
    candidates = [*names[1:], *([PLACEBO] if experiment.design.placebo else [])]
    if names and claimed == names[0]:
        message = f'arm "{claimed}" is the control, with which the others are compared'
        hint = f"The first arm is the control. Name another one: {', '.join(candidates)}." if candidates else ""
        yield ("hypothesis", "arm"), message, hint
    elif claimed not in candidates:
        hint = hint_name(claimed, candidates, what="Arms beside the control are")
        yield ("hypothesis", "arm"), f'arm "{claimed}" does not exist', hint


_CHECKS: tuple[Check, ...] = (
    check_arms_or_factors,
    check_arm_names,
    check_inheritance,
    check_factors,
    check_factor_knobs,
    check_settings,
    check_names,
    check_completeness,
    check_conflicts,
    check_undo,
    check_disks,
    check_arms_on_disks,
    check_scales,
    _check_hypothesis,
    check_scenarios,
    check_shares,
    check_levels,
    check_times,
    check_dataset,
    check_target,
    check_directories,
    check_knobs_of_server,
    check_database,
    check_writes,
    check_file_load,
    check_file_jobs,
    check_only_files,
    check_blocks,
    check_slices,
    check_covariate,
    check_stop,
    check_criteria,
    check_limits,
    check_pairs,
    check_resources,
)
