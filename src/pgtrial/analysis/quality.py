"""The checks of quality: each looks at the whole experiment and yields the caveats that it finds.

What a check says travels with the findings into every report. Severity "invalid" takes the verdict away.
"""

from collections.abc import Callable, Iterator

from pgtrial.analysis import (
    quality_blocks,
    quality_counts,
    quality_disks,
    quality_duet,
    quality_files,
    quality_host,
    quality_runs,
    quality_slices,
    quality_world,
)
from pgtrial.analysis.assessment import Assessment
from pgtrial.findings.caveat import CaveatFinding, merge_runs

Check = Callable[[Assessment], Iterator[CaveatFinding]]

CHECKS: tuple[Check, ...] = (
    quality_world.check_settings,
    quality_world.check_fingerprint,
    quality_world.check_settings_read,
    quality_world.check_servers,
    quality_world.check_assertions,
    quality_blocks.check_blocks,
    quality_blocks.check_placebo,
    quality_blocks.check_primary_effect,
    quality_blocks.check_completeness,
    quality_blocks.check_invalid_runs,
    quality_blocks.check_torn_blocks,
    quality_blocks.check_level_drift,
    quality_blocks.check_restore,
    quality_counts.check_counts,
    quality_runs.check_warmup,
    quality_runs.check_steadiness,
    quality_runs.check_checkpoints,
    quality_runs.check_failures,
    quality_runs.check_open_loop,
    quality_runs.check_samples,
    quality_runs.check_gaps,
    quality_runs.check_steal,
    quality_runs.check_generator,
    quality_slices.check_shared_counters,
    quality_slices.check_slice_lengths,
    quality_slices.check_slow_slices,
    quality_slices.check_one_sided,
    quality_duet.check_cpu_sets,
    quality_duet.check_shared_device,
    quality_slices.check_inside_slices,
    quality_slices.check_longer_slices,
    quality_slices.check_block_spread,
    quality_host.check_others,
    quality_host.check_unseen,
    quality_host.check_swapping,
    quality_host.check_throttling,
    quality_host.check_quota,
    quality_host.check_oom,
    quality_host.check_space,
    quality_disks.check_emulation,
    quality_files.check_latencies,
    quality_world.check_recorded,
)


def check_quality(assessment: Assessment) -> tuple[CaveatFinding, ...]:
    """Caveats of all checks, in the order of the checks; those that only differ in their runs are merged."""
    return merge_runs(caveat for check in CHECKS for caveat in check(assessment))
