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
from pgtrial.experiment_file.arms import all_names, check_inheritance
from pgtrial.experiment_file.cause_checks import (
    check_acceptance,
    check_criteria,
    check_limits,
    check_pairs,
    check_resources,
)
from pgtrial.experiment_file.command_checks import check_command
from pgtrial.experiment_file.design_checks import (
    check_blocks,
    check_covariate,
    check_guardrails,
    check_slices,
    check_soak,
    check_stop,
)
from pgtrial.experiment_file.experiment import PLACEBO, Experiment
from pgtrial.experiment_file.file_checks import check_file_jobs, check_file_load, check_only_files
from pgtrial.experiment_file.hypothesis_table import AndTable, Expect, HypothesisTable
from pgtrial.experiment_file.knob_checks import (
    check_arms_on_disks,
    check_completeness,
    check_conflicts,
    check_directories,
    check_disks,
    check_names,
    check_scales,
    check_sql,
    check_storage,
    check_undo,
    check_undo_of_database,
)
from pgtrial.experiment_file.load_checks import check_arm_loads, check_load_hosts, check_poolers, check_units
from pgtrial.experiment_file.position import Found, Path
from pgtrial.experiment_file.target_checks import check_database, check_knobs_of_server, check_target, check_writes
from pgtrial.experiment_file.workload_checks import (
    check_dataset,
    check_levels,
    check_scenarios,
    check_shares,
    check_times,
    scenario_names,
)
from pgtrial.model.metric import Better
from pgtrial.model.observable import find_observable, observable_names
from pgtrial.nearest import hint_name

Check = Callable[[Experiment, FilePath | None], Iterator[Found]]


def crosscheck(experiment: Experiment, folder: FilePath | None, *, is_here: bool = True) -> Iterator[Found]:
    """All problems of a file whose single values are right; ``folder`` is where its relative paths begin, None
    where the file system is left out. Unless it ``is_here`` that it runs, places for data are not looked for here.
    """
    for check in _CHECKS:
        yield from dict.fromkeys(check(experiment, folder))  # a value that several arms inherit is one problem
    if folder is not None and is_here and experiment.target.host is None:
        yield from check_directories(experiment)


def _check_hypothesis(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    seen: set[tuple[str, str | None]] = set()
    for index, claim in enumerate(experiment.hypothesis.claims):
        path: Path = ("hypothesis",) if index == 0 else ("hypothesis", "and", index - 1)
        for key, message, hint in _check_claim(experiment, claim):
            yield (*path, key), message, hint
        if (claim.metric, claim.scenario) in seen:
            yield (*path, "metric"), f'metric "{claim.metric}" is claimed twice', ""
        seen.add((claim.metric, claim.scenario))
    yield from _check_claimed_arm(experiment)


def _check_claim(experiment: Experiment, claim: HypothesisTable | AndTable) -> Iterator[tuple[str, str, str]]:
    """Key, message and hint of what is wrong with one metric of the claim."""
    kind = experiment.workload.kind
    known, names = find_observable(claim.metric), scenario_names(experiment)
    if known is None or not known.is_of(kind):
        yield (
            "metric",
            f'unrecognized metric "{claim.metric}"'
            if known is None
            else f'metric "{claim.metric}" is not of kind "{kind}", the load\'s',
            hint_name(claim.metric, observable_names(kind)) or "docs/metrics.md lists all of them.",
        )
    elif known.metric.better is Better.NEITHER and claim.expect in (Expect.BETTER, Expect.WORSE, Expect.NOT_WORSE):
        message = f'of metric "{claim.metric}" neither direction is the better one'
        yield "expect", message, 'Write expect = "lower" or "higher".'
    elif known.is_sampled and claim.scenario is not None:
        if not known.is_of_sessions:
            yield "scenario", f'metric "{claim.metric}" is of all scenarios together', ""
        elif not experiment.workload.has_own_sessions:
            message = f'metric "{claim.metric}" is of all scenarios together where these share their sessions'
            yield "scenario", message, 'Give each scenario sessions of its own, share = "sessions", or remove it.'
    if claim.margin == 0 and claim.expect is Expect.EQUIVALENT:
        message = 'expect = "equivalent" needs a margin above 0'
        yield "margin", message, "No experiment can show that an effect is exactly zero."
    if claim.scenario is not None and names and claim.scenario not in names:
        message = f'scenario "{claim.scenario}" does not exist'
        yield "scenario", message, hint_name(claim.scenario, names, what="Scenarios are")


def _check_claimed_arm(experiment: Experiment) -> Iterator[Found]:
    claimed = experiment.hypothesis.arm
    if claimed is None or (not experiment.arms and not experiment.factors):
        return
    names = all_names(experiment)
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
    check_sql,
    check_undo,
    check_undo_of_database,
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
    check_storage,
    check_knobs_of_server,
    check_database,
    check_writes,
    check_command,
    check_arm_loads,
    check_units,
    check_poolers,
    check_load_hosts,
    check_file_load,
    check_file_jobs,
    check_only_files,
    check_blocks,
    check_soak,
    check_slices,
    check_guardrails,
    check_covariate,
    check_stop,
    check_criteria,
    check_acceptance,
    check_limits,
    check_pairs,
    check_resources,
)
