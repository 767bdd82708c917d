"""Checks of other activity on the host during the runs: programs, swap, throttling, disk space; by thresholds."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.findings.message import Message, message
from pgtrial.knobs import intends
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
    Lost,
    LostFlushes,
    read_flushes,
)
from pgtrial.model.run import RunRow

OTHERS_SHARE = 0.03  # of the CPU time of the machine
UNSEEN_SHARE = 0.1
SWAPPED_BYTES = 16 * 1024**2
QUOTA_SECONDS = 0.1
SPACE_SHARE = 0.05
_LOST = {
    Lost.MEMORY: "flushes-lost",
    Lost.LEFT_OUT: "flushes-lost.left-out",
    Lost.CACHE: "flushes-lost.cache",
}


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
        yield caveat(
            "other-programs.named" if programs else "other-programs",
            about=found,
            in_runs=_in_runs(evidence, found),
            limit=OTHERS_SHARE,
            share=found[worst],
            run=worst,
            programs=programs,
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
        yield caveat("unseen-load", about=found, in_runs=_in_runs(evidence, found), share=max(found.values()))


def check_swapping(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Where an arm takes memory away or sets vm.swappiness, that is what is looked at, and no fault of the runs."""
    evidence = assessment.evidence
    found = _above(evidence, lambda run: _increase(evidence, run.id, SWAPPED), SWAPPED_BYTES)
    if found:
        is_meant = any(intends(arm.knobs, "swapping") for arm in evidence.arms)
        yield caveat(
            "swapping.intended" if is_meant else "swapping",
            about=found,
            in_runs=_in_runs(evidence, found),
            bytes=max(found.values()),
        )


def check_throttling(assessment: Assessment) -> Iterator[CaveatFinding]:
    evidence = assessment.evidence
    found = _above(evidence, lambda run: _increase(evidence, run.id, THERMAL), 0)
    if found:
        yield caveat("thermal-throttling", about=found, in_runs=_in_runs(evidence, found))


def check_quota(assessment: Assessment) -> Iterator[CaveatFinding]:
    """A quota that an arm declares is meant; any other belongs to a container or a service."""
    evidence = assessment.evidence
    meant = {arm.name for arm in evidence.arms if intends(arm.knobs, "cpu-quota")}

    def throttled(run: RunRow) -> float | None:
        return None if run.slot.arm in meant else _increase(evidence, run.id, QUOTA)

    found = _above(evidence, throttled, QUOTA_SECONDS)
    if found:
        yield caveat("cpu-quota", about=found, in_runs=_in_runs(evidence, found), seconds=max(found.values()))


def check_oom(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Of the whole machine: of a server in a control group with a limit of memory its own kills are known, and such a
    run is not valid. A run whose server or load lost a process has failed, so whoever was ended was somebody else's.
    """
    evidence = assessment.evidence
    limited = {arm.name for arm in evidence.arms if intends(arm.knobs, "out-of-memory")}
    kills = _above(evidence, lambda run: _increase(evidence, run.id, OOM_KILLS), 0)
    found = {run.id: kills[run.id] for run in evidence.valid if run.id in kills and run.slot.arm not in limited}
    if found:
        yield caveat("out-of-memory", about=found, in_runs=_in_runs(evidence, found))


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
        yield caveat(
            "little-space", about=found, in_runs=_in_runs(evidence, found), limit=SPACE_SHARE, share=min(found.values())
        )


def check_flushes(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Where they reach a disk in some arms, the others were asked for, or are a difference that nobody declared."""
    evidence = assessment.evidence
    found: dict[str, dict[LostFlushes, list[RunRow]]] = {"data": {}, "WAL": {}}
    for run in evidence.valid:
        for role, by_loss in found.items():
            lost = read_flushes(evidence.fingerprints.get(run.id, {}), role)
            if lost is not None:
                by_loss.setdefault(lost, []).append(run)
    measured = {run.slot.arm for run in evidence.valid}
    for role, by_loss in found.items():
        without = {run.slot.arm for runs in by_loss.values() for run in runs}
        for lost, runs in by_loss.items():
            arms = tuple(dict.fromkeys(run.slot.arm for run in runs))
            yield caveat(
                _LOST[lost.lost] if without == measured else "flushes-lost.some-arms",
                about=[run.id for run in runs],
                what=message(_flushed(evidence, role, runs)),
                arms=arms,
                by=lost.by,
            )


def _flushed(evidence: Evidence, role: str, runs: Sequence[RunRow]) -> str:
    """What is flushed to the storage of this role: the WAL lies with the data, unless it has a place of its own."""
    if role == "WAL":
        return "flushed.wal"
    has_own = any("storage/WAL directory" in evidence.fingerprints[run.id] for run in runs)
    return "flushed.data" if has_own else "flushed.both"


def _in_runs(evidence: Evidence, found: Mapping[int, float]) -> Message:
    return in_runs(len(found), len(evidence.valid))


def in_runs(found: int, of: int) -> Message:
    """How a sentence begins that is about some of the runs: "In 3 of 8 runs"."""
    return message("in-runs", found=found, count=of)


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
        classes = tuple(dict.fromkeys(name for name in emulated.values() if name))
        yield caveat(
            "emulated-disk.all-arms" if len(emulated) == len(evidence.arms) else "emulated-disk",
            count=len(emulated),
            arms=tuple(emulated),
            classes=classes,
        )
