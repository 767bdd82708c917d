"""The quality checks: each examines the whole experiment and yields caveats.

What a check says travels with the findings into every report. Severity "invalid" takes the verdict away.
"""

from collections.abc import Callable, Iterator, Mapping

from pgtrial.analysis.validity import blocks, machine, registration, runs, slices, world
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.experiment_file.cause_tables import WAIVABLE
from pgtrial.findings.caveat import CaveatFinding, caveat, merge_runs
from pgtrial.model.caveat import Severity

Check = Callable[[Assessment], Iterator[CaveatFinding]]

CHECKS: tuple[Check, ...] = (
    registration.check_registration,
    world.check_settings,
    world.check_fingerprint,
    world.check_settings_read,
    world.check_servers,
    world.check_assertions,
    blocks.check_blocks,
    blocks.check_soak,
    blocks.check_placebo,
    blocks.check_primary_effect,
    world.check_hosts,
    blocks.check_carry_over,
    blocks.check_completeness,
    blocks.check_unequal_failures,
    blocks.check_invalid_runs,
    blocks.check_torn_blocks,
    blocks.check_level_drift,
    blocks.check_restore,
    blocks.check_counts,
    blocks.check_device,
    blocks.check_engagement,
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
    runs.check_told,
    runs.check_said,
    runs.check_units,
    runs.check_own_lag,
    runs.check_clients,
    runs.check_standard,
    slices.check_shared_counters,
    slices.check_slice_lengths,
    slices.check_slow_slices,
    slices.check_one_sided,
    slices.check_cpu_sets,
    slices.check_shared_device,
    slices.check_left_behind,
    slices.check_inside_slices,
    slices.check_gone_on,
    slices.check_late,
    slices.check_longer_slices,
    slices.check_block_spread,
    machine.check_others,
    machine.check_unseen,
    machine.check_swapping,
    machine.check_throttling,
    machine.check_quota,
    machine.check_oom,
    machine.check_space,
    machine.check_flushes,
    machine.check_emulation,
    runs.check_latencies,
    world.check_recorded,
)

# What they say is of arms that are compared, or of blocks. A soak looks at each arm alone, and its windows are none.
_OF_COMPARISONS: frozenset[Check] = frozenset(
    {
        world.check_settings,
        world.check_servers,
        blocks.check_torn_blocks,
        blocks.check_engagement,
        runs.check_checkpoints,
    }
)


def check_quality(assessment: Assessment) -> tuple[CaveatFinding, ...]:
    """Caveats of all checks, in the order of the checks; those that only differ in their runs are merged."""
    left_out = _OF_COMPARISONS if assessment.evidence.is_soak else ()
    found = merge_runs(one for check in CHECKS if check not in left_out for one in check(assessment))
    reasons: dict[str, str] = {one.caveat: one.reason for one in assessment.evidence.experiment.waive}
    return tuple(_waive(one, reasons[one.code]) if _may_be_waived(one, reasons) else one for one in found)


def _may_be_waived(found: CaveatFinding, reasons: Mapping[str, str]) -> bool:
    """Facts of the machine are outside; a setting that differs between arms is never."""
    return found.code in reasons and found.code in WAIVABLE and found.variant != "setting"


def _waive(found: CaveatFinding, reason: str) -> CaveatFinding:
    """What is waived stays to be read: a grade lower, with the reason of whoever waived it."""
    severity = Severity.WARNING if found.severity is Severity.INVALID else Severity.INFO
    return caveat("waived", about=found.runs, severity=severity, what=found.message, reason=reason)
