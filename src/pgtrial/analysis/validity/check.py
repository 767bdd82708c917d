"""The quality checks: each examines the whole experiment and yields caveats.

What a check says travels with the findings into every report. Severity "invalid" takes the verdict away.
"""

from collections.abc import Callable, Iterator

from pgtrial.analysis.validity import blocks, machine, runs, slices, world
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.findings.caveat import CaveatFinding, merge_runs

Check = Callable[[Assessment], Iterator[CaveatFinding]]

CHECKS: tuple[Check, ...] = (
    world.check_registration,
    world.check_settings,
    world.check_fingerprint,
    world.check_settings_read,
    world.check_servers,
    world.check_assertions,
    blocks.check_blocks,
    blocks.check_placebo,
    blocks.check_primary_effect,
    blocks.check_completeness,
    blocks.check_unequal_failures,
    blocks.check_invalid_runs,
    blocks.check_torn_blocks,
    blocks.check_level_drift,
    blocks.check_restore,
    blocks.check_counts,
    runs.check_warmup,
    runs.check_steadiness,
    runs.check_stalls,
    runs.check_checkpoints,
    runs.check_failures,
    runs.check_open_loop,
    runs.check_samples,
    runs.check_gaps,
    runs.check_steal,
    runs.check_generator,
    slices.check_shared_counters,
    slices.check_slice_lengths,
    slices.check_slow_slices,
    slices.check_one_sided,
    slices.check_cpu_sets,
    slices.check_shared_device,
    slices.check_left_behind,
    slices.check_inside_slices,
    slices.check_longer_slices,
    slices.check_block_spread,
    machine.check_others,
    machine.check_unseen,
    machine.check_swapping,
    machine.check_throttling,
    machine.check_quota,
    machine.check_oom,
    machine.check_space,
    machine.check_emulation,
    runs.check_latencies,
    world.check_recorded,
)


def check_quality(assessment: Assessment) -> tuple[CaveatFinding, ...]:
    """Caveats of all checks, in the order of the checks; those that only differ in their runs are merged."""
    return merge_runs(caveat for check in CHECKS for caveat in check(assessment))
