"""Advice for a check that is not ok: what was seen beside it, then what follows from that.

A check alone says that something is large, not that it limits the load; so each text names the evidence that would.
"""

from collections.abc import Callable, Mapping

from pgtrial.analysis.causes.check_facts import Facts, say
from pgtrial.analysis.causes.machine_advice import MACHINE_ADVICE
from pgtrial.analysis.causes.wait_advice import explain_event
from pgtrial.language import tr
from pgtrial.units import format_bytes, format_count, format_percent

__all__ = ["Facts", "advise"]


def advise(check: str, facts: Facts) -> str:
    """Text for a check by its id; one that has no text of its own gets none."""
    write = _ADVICE.get(check)
    return write(facts) if write is not None else ""


def _hit_ratio(facts: Facts) -> str:
    reads, from_disk = facts.mean("db.read"), [rate for _, rate in facts.top("iostat.r")]
    seen = ""
    if reads is not None:
        seen = tr("{blocks} blocks per second are read into shared_buffers.", blocks=format_count(reads))
    if reads and from_disk and sum(from_disk) < reads / 10:
        meaning = tr(
            "The devices see only {reads} reads per second, so the page cache has them: a larger shared_buffers saves "
            "CPU time, not disk reads.",
            reads=format_count(sum(from_disk)),
        )
    else:
        meaning = tr(
            "A larger shared_buffers helps if what is used often would fit; reading large tables once in a while makes "
            "a low ratio that no cache mends."
        )
    return say(seen, meaning)


def _backend_writes(_: Facts) -> str:
    return tr(
        "Sessions write out buffers themselves before they can use them. Bulk loads, VACUUM and growing tables do that "
        "by design; for others a larger shared_buffers or a background writer that does more (bgwriter_lru_maxpages, "
        "bgwriter_delay) takes it from them."
    )


def _requested_checkpoints(facts: Facts) -> str:
    wal = facts.mean("wal.bytes")
    seen = ""
    if wal:
        seen = tr(
            "{bytes} of WAL per second fill max_wal_size before checkpoint_timeout.",
            bytes=format_bytes(wal),
        )
    return say(
        seen,
        tr(
            "Each checkpoint makes the next change of every page write it in full, so more checkpoints make more WAL. "
            "A larger max_wal_size spaces them out; recovery after a crash then takes longer."
        ),
    )


def _autovacuum_workers(_: Facts) -> str:
    return tr(
        "All workers are busy, so tables wait for their turn. More speed for each (autovacuum_vacuum_cost_limit, which "
        "all workers share, or a lower cost_delay) usually does more than more workers."
    )


def _temporary_files(facts: Facts) -> str:
    waiting = sum(facts.mean("wait.IO", name) or 0.0 for name in ("BufFileRead", "BufFileWrite", "BufferFileRead"))
    return say(
        tr("On average {sessions} sessions wait for them.", sessions=format_count(waiting)) if waiting else "",
        tr(
            "Sorts, hashes or CTEs do not fit into work_mem (times hash_mem_multiplier). The statements that write "
            "them are in the log (log_temp_files); a larger work_mem for those alone costs less memory than one for "
            "all."
        ),
    )


def _deadlocks(_: Facts) -> str:
    return tr(
        "Each ends a transaction after deadlock_timeout of waiting. Take locks in the same order everywhere; the log "
        "names both statements."
    )


def _log_errors(facts: Facts) -> str:
    return say(
        tr("A transaction that fails has done other work than one that counts."),
        tr("The first: {entry}", entry=facts.entries[0]) if facts.entries else "",
    ).strip()


def _wait(facts: Facts) -> str:
    wait_type = facts.metric.partition(".")[2]
    events, whole = facts.top(f"wait.{wait_type}"), facts.mean(facts.metric) or 0.0
    sessions = format_count(whole)
    if not events or not whole:
        return f"{tr('{sessions} sessions wait for it on average.', sessions=sessions)} {explain_event(wait_type, '')}"
    event, waiting = events[0]
    seen = tr(
        "{sessions} sessions wait for it on average, {share} of them for {event}.",
        sessions=sessions,
        share=format_percent(min(1.0, waiting / whole)),
        event=event,
    )
    return f"{seen} {explain_event(wait_type, event)}"


_ADVICE: Mapping[str, Callable[[Facts], str]] = {
    **MACHINE_ADVICE,
    "hit-ratio": _hit_ratio,
    "backend-writes": _backend_writes,
    "requested-checkpoints": _requested_checkpoints,
    "autovacuum-workers": _autovacuum_workers,
    "temporary-files": _temporary_files,
    "deadlocks": _deadlocks,
    "log-errors": _log_errors,
    "wait-bufferpin": _wait,
    "wait-extension": _wait,
    "wait-io": _wait,
    "wait-ipc": _wait,
    "wait-lock": _wait,
    "wait-lwlock": _wait,
    "wait-timeout": _wait,
}
