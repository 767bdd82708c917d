"""Whether the runs had the requested pages, and what translating addresses cost, as noted by the engine."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pgtrial.analysis.causes.sessions import estimate_mean
from pgtrial.analysis.evidence import Event, Evidence
from pgtrial.analysis.observations import Values
from pgtrial.findings.message import Message, message, verbatim
from pgtrial.findings.questions import PageCheck, TranslationCost
from pgtrial.findings.record import Estimate
from pgtrial.model.metrics import TPS
from pgtrial.model.run import AFTER, BEFORE, PAGES, TRANSLATIONS, UNDER_LOAD
from pgtrial.units import parse_bytes

_ORDINARY = 64 << 10  # B; no pool has smaller pages, and no ordinary page is larger


def check_pages(evidence: Evidence, pages: Mapping[str, str]) -> Iterator[PageCheck]:
    """``pages`` are the arms and the page size that each declares. Arms of which nothing was noted are left out."""
    for arm, page in pages.items():
        runs = evidence.runs_of(arm)
        noted = [_notes(evidence, run.id) for run in runs]
        if any(noted):
            yield _check(arm, page, noted)


def _notes(evidence: Evidence, run: int) -> Mapping[str, Mapping[str, Any]]:
    """Moment to what was noted then."""
    return {str(event.data["moment"]): event.data for event in _events(evidence, run, PAGES) if "moment" in event.data}


def _events(evidence: Evidence, run: int, kind: str) -> Sequence[Event]:
    return [event for event in evidence.events if event.run == run and event.kind == kind]


def _check(arm: str, page: str, noted: Sequence[Mapping[str, Mapping[str, Any]]]) -> PageCheck:
    under_load = [notes[UNDER_LOAD] for notes in noted if UNDER_LOAD in notes]
    shared = [note["shared"] for note in under_load if "shared" in note]
    sizes = [float(pages["page"]) for pages in shared]
    pools = [_pool_bytes(note["pools"]) for note in under_load]
    both = [(notes[BEFORE]["pools"], notes[AFTER]["pools"]) for notes in noted if {BEFORE, AFTER} <= notes.keys()]
    back = sum(_sizes(before) == _sizes(after) for before, after in both)
    return PageCheck(
        arm=arm,
        page=page,
        runs=len(noted),
        seen=len(sizes),
        confirmed=sum(_is_as_asked(page, size) for size in sizes),
        found=tuple(sorted(set(sizes))),
        transparent=max((float(pages["transparent"]) for pages in shared), default=None),
        pool=max((total for total, _ in pools), default=None),
        used=max((used for _, used in pools), default=None),
        given_back=back,
        not_given_back=len(both) - back,
    )


def _is_as_asked(page: str, size: float) -> bool:
    if page in ("", "none"):
        return size <= _ORDINARY
    return size == parse_bytes(page)


def _pool_bytes(pools: Mapping[str, Mapping[str, int]]) -> tuple[float, float]:
    """Bytes of all pools, and of what is in use of them: also what is promised to a server that has not touched it.

    The kernel reserves a server's pages as soon as it maps them, and takes them off the free ones at the first touch.
    """
    total = used = 0.0
    for size, pool in pools.items():
        total += parse_bytes(size) * pool["nr"]
        used += parse_bytes(size) * (pool["nr"] - pool["free"] + pool.get("resv", 0))
    return total, used


def _sizes(pools: Mapping[str, Mapping[str, int]]) -> Mapping[str, int]:
    return {size: pool["nr"] for size, pool in pools.items()}


def describe_translations(evidence: Evidence, values: Values) -> tuple[tuple[TranslationCost, ...], Message | None]:
    """Misses per arm and load level, and why there are none (None where there are)."""
    costs: list[TranslationCost] = []
    reasons: list[str] = []
    for arm in evidence.arms:
        for level in evidence.levels:
            counted: list[tuple[Mapping[str, float], float]] = []  # counts per second, and throughput
            for run in evidence.runs_of(arm.name):
                rate = values.get((run.id, TPS.name, None, level.index))
                for event in _events(evidence, run.id, TRANSLATIONS):
                    data: Mapping[str, Any] = event.data
                    if data.get("level") != level.index:
                        continue
                    if data.get("reason"):
                        reasons.append(str(data["reason"]))
                    elif rate and data.get("seconds"):
                        per_second = {name: float(n) / float(data["seconds"]) for name, n in data["counts"].items()}
                        counted.append((per_second, rate))
            if counted:
                costs.append(_cost(evidence, arm.name, level.index, counted))
    if costs:
        return tuple(costs), None
    return (), verbatim(reasons[0]) if reasons else message("translations.not-counted")


def _cost(
    evidence: Evidence, arm: str, level: int, counted: Sequence[tuple[Mapping[str, float], float]]
) -> TranslationCost:
    def per_transaction(*events: str) -> Estimate | None:
        rates = [math.fsum(counts[event] for event in events) / tps for counts, tps in counted if _has(counts, events)]
        return estimate_mean(rates, confidence=evidence.confidence)

    shares = [
        counts["dTLB-load-misses"] / counts["dTLB-loads"]
        for counts, _ in counted
        if _has(counts, ("dTLB-load-misses", "dTLB-loads")) and counts["dTLB-loads"] > 0
    ]
    both = per_transaction("dTLB-load-misses", "dTLB-store-misses")
    return TranslationCost(
        arm=arm,
        load_level=level,
        misses=both or per_transaction("dTLB-load-misses"),
        miss_share=estimate_mean(shares, confidence=evidence.confidence),
        code_misses=per_transaction("iTLB-load-misses"),
        instructions=per_transaction("instructions"),
    )


def _has(counts: Mapping[str, float], events: Sequence[str]) -> bool:
    return all(event in counts for event in events)
