"""Checks of what else the host did during the runs: other programs, swap, throttling, space; by thresholds."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from pgtrial.analysis.causes.words import join
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.findings import CaveatFinding
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.language import mark, ntr, tr
from pgtrial.model.caveat import Severity
from pgtrial.model.fingerprint import (
    CPU_ALL,
    CPU_KERNEL,
    CPU_OTHERS,
    CPU_OWN,
    CPU_STEAL,
    CPU_TASKS,
    FREE,
    OOM_KILLS,
    OTHERS,
    QUOTA,
    SIZE,
    SWAPPED,
    THERMAL,
    WAL_FREE,
    WAL_SIZE,
)
from pgtrial.model.run import RunRow
from pgtrial.units import format_bytes, format_duration, format_percent, format_share

OTHERS_SHARE = 0.03  # of the CPU time of the machine
UNSEEN_SHARE = 0.1
SWAPPED_BYTES = 16 * 1024**2
QUOTA_SECONDS = 0.1
SPACE_SHARE = 0.05
_MORE_MEMORY = mark("Leave more memory free: smaller shared_buffers or work_mem, fewer clients, fewer other programs.")


def stolen_share(evidence: Evidence, run: int) -> float | None:
    """Share of the CPU time between the two moments of a run that the hypervisor gave to others."""
    return _share(evidence, run, _increase(evidence, run, CPU_STEAL))


def check_others(assessment: Assessment) -> Iterator[CaveatFinding]:
    evidence = assessment.evidence

    def share(run: RunRow) -> float | None:
        return _share(evidence, run.id, _after(evidence, run.id, CPU_OTHERS))

    found = _above(evidence, share, OTHERS_SHARE)
    if found:
        worst = max(found, key=lambda run: found[run])
        programs = evidence.fingerprints_after.get(worst, {}).get(OTHERS, "")
        told = {
            "in_runs": _in_runs(evidence, found),
            "limit": format_share(OTHERS_SHARE),
            "share": format_percent(found[worst]),
        }
        if programs:
            text = tr(
                "{in_runs} other programs used more than {limit} of the CPU time, up to {share} (run {run}: "
                "{programs}).",
                **told,
                run=worst,
                programs=programs,
            )
        else:
            text = tr("{in_runs} other programs used more than {limit} of the CPU time, up to {share}.", **told)
        yield CaveatFinding(
            code="other-programs",
            severity=Severity.WARNING,
            text=text,
            hint=tr("End them for the time of the experiment, or give it a machine of its own."),
            runs=tuple(found),
        )


def check_unseen(assessment: Assessment) -> Iterator[CaveatFinding]:
    """CPU time that no process accounts for: of other containers, whose processes cannot be seen from this one."""
    evidence = assessment.evidence

    def share(run: RunRow) -> float | None:
        used = _increase(evidence, run.id, CPU_TASKS)
        seen = [_after(evidence, run.id, name) for name in (CPU_OTHERS, CPU_OWN, CPU_KERNEL)]
        known = [seconds for seconds in seen if seconds is not None]
        return None if used is None or len(known) < len(seen) else _share(evidence, run.id, used - sum(known))

    found = _above(evidence, share, UNSEEN_SHARE)
    if found:
        yield CaveatFinding(
            code="unseen-load",
            severity=Severity.WARNING,
            text=tr(
                "{in_runs} up to {share} of the CPU time was used by processes that cannot be seen from here, such as "
                "those of other containers.",
                in_runs=_in_runs(evidence, found),
                share=format_percent(max(found.values())),
            ),
            hint=tr("Give the experiment a machine of its own, or CPUs of its own (cpuset)."),
            runs=tuple(found),
        )


def check_swapping(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Where an arm takes memory away or sets vm.swappiness, that is what is looked at, and no fault of the runs."""
    evidence = assessment.evidence
    found = _above(evidence, lambda run: _increase(evidence, run.id, SWAPPED), SWAPPED_BYTES)
    if found:
        knobs = [arm.knobs for arm in evidence.arms]
        is_meant = any("memory_pressure" in each or "vm.swappiness" in each.get("sysctl", {}) for each in knobs)
        yield CaveatFinding(
            code="swapping",
            severity=Severity.INFO if is_meant else Severity.WARNING,
            text=tr(
                "{in_runs} the machine swapped, up to {bytes} in and out.",
                in_runs=_in_runs(evidence, found),
                bytes=format_bytes(max(found.values())),
            ),
            hint=tr(_MORE_MEMORY),
            runs=tuple(found),
        )


def check_throttling(assessment: Assessment) -> Iterator[CaveatFinding]:
    evidence = assessment.evidence
    found = _above(evidence, lambda run: _increase(evidence, run.id, THERMAL), 0)
    if found:
        yield CaveatFinding(
            code="thermal-throttling",
            severity=Severity.WARNING,
            text=tr("{in_runs} CPUs were slowed down because they were hot.", in_runs=_in_runs(evidence, found)),
            hint=tr("Switch turbo off, so that the speed can be kept, or cool the machine better."),
            runs=tuple(found),
        )


def check_quota(assessment: Assessment) -> Iterator[CaveatFinding]:
    """A quota that an arm declares is meant; any other belongs to a container or a service."""
    evidence = assessment.evidence
    meant = {arm.name for arm in evidence.arms if "cpus" in arm.knobs.get("cgroup", {})}

    def throttled(run: RunRow) -> float | None:
        return None if run.slot.arm in meant else _increase(evidence, run.id, QUOTA)

    found = _above(evidence, throttled, QUOTA_SECONDS)
    if found:
        yield CaveatFinding(
            code="cpu-quota",
            severity=Severity.WARNING,
            text=tr(
                "{in_runs} a CPU quota of a control group stopped the server, for up to {seconds}.",
                in_runs=_in_runs(evidence, found),
                seconds=format_duration(max(found.values())),
            ),
            hint=tr("Raise the quota of the container or the service, or remove it."),
            runs=tuple(found),
        )


def check_oom(assessment: Assessment) -> Iterator[CaveatFinding]:
    evidence = assessment.evidence
    found = _above(evidence, lambda run: _increase(evidence, run.id, OOM_KILLS), 0)
    if found:
        yield CaveatFinding(
            code="out-of-memory",
            severity=Severity.WARNING,
            text=tr(
                "{in_runs} the kernel ended processes because memory was short.", in_runs=_in_runs(evidence, found)
            ),
            hint=tr(_MORE_MEMORY),
            runs=tuple(found),
        )


def check_space(assessment: Assessment) -> Iterator[CaveatFinding]:
    evidence = assessment.evidence
    found: dict[int, float] = {}
    for run in evidence.valid:
        shares = [
            free / size
            for free, size in (
                (_after(evidence, run.id, free), _after(evidence, run.id, size))
                for free, size in ((FREE, SIZE), (WAL_FREE, WAL_SIZE))
            )
            if free is not None and size
        ]
        if shares and min(shares) < SPACE_SHARE:
            found[run.id] = min(shares)
    if found:
        yield CaveatFinding(
            code="little-space",
            severity=Severity.WARNING,
            text=tr(
                "{in_runs} less than {limit} of the file system was free, down to {share}: a file system that is "
                "nearly full is slower.",
                in_runs=_in_runs(evidence, found),
                limit=format_share(SPACE_SHARE),
                share=format_percent(min(found.values())),
            ),
            hint=tr("Free space, or put the data elsewhere."),
            runs=tuple(found),
        )


def _in_runs(evidence: Evidence, found: Mapping[int, float]) -> str:
    return in_runs(len(found), len(evidence.valid))


def in_runs(found: int, of: int) -> str:
    """How a sentence begins that is about some of the runs: "In 3 of 8 runs"."""
    return ntr("In {found} of {count} runs", "In {found} of {count} runs", of, found=found)


def _above(evidence: Evidence, value: Callable[[RunRow], float | None], limit: float) -> dict[int, float]:
    """Valid runs whose value is above the limit."""
    return {run.id: found for run in evidence.valid if (found := value(run)) is not None and found > limit}


def _share(evidence: Evidence, run: int, seconds: float | None) -> float | None:
    passed = _increase(evidence, run, CPU_ALL)
    return seconds / passed if seconds is not None and passed else None


def _increase(evidence: Evidence, run: int, name: str) -> float | None:
    """From before the load to after it; None where it was not read, or was reset."""
    before, after = _number(evidence.fingerprints, run, name), _after(evidence, run, name)
    return after - before if before is not None and after is not None and after >= before else None


def _after(evidence: Evidence, run: int, name: str) -> float | None:
    return _number(evidence.fingerprints_after, run, name)


def _number(fingerprints: Mapping[int | None, Mapping[str, str]], run: int, name: str) -> float | None:
    try:
        number = float(fingerprints[run][name])
    except (KeyError, ValueError):
        return None
    return number if math.isfinite(number) else None


# Checks of disks that are not what they stand for.


def check_emulation(assessment: Assessment) -> Iterator[CaveatFinding]:
    """An emulated disk has the limits of its class, and the latency of the disk below it."""
    evidence = assessment.evidence
    emulated = {arm.name: arm.disk for arm in evidence.arms if arm.is_emulated}
    if emulated:
        classes = ", ".join(dict.fromkeys(name for name in emulated.values() if name))
        yield CaveatFinding(
            code="emulated-disk",
            severity=Severity.INFO,
            text=_tell(list(emulated), classes, is_all=len(emulated) == len(evidence.arms)),
            hint=tr(
                "Rates at the limit are those of the class. Latencies below the limit, bursts and flushes are those of "
                "the disk that holds the image file; measure the real disk before deciding on them."
            ),
        )


def _tell(arms: Sequence[str], classes: str, *, is_all: bool) -> str:
    if is_all:
        return tr(
            "All arms are on an emulated disk ({classes}): a loop device whose requests pgtrial limits.",
            classes=classes,
        )
    return ntr(
        "{arms} is on an emulated disk ({classes}): a loop device whose requests pgtrial limits.",
        "{arms} are on an emulated disk ({classes}): a loop device whose requests pgtrial limits.",
        len(arms),
        arms=join(arms),
        classes=classes,
    )
