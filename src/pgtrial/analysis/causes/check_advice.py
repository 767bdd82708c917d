"""Advice for a check that is not ok: what was seen beside it, then what follows from that.

A check alone says that something is large, not that it limits the load; so each text names the evidence that would.
"""

from collections.abc import Callable, Mapping

from pgtrial.analysis.causes.machine_advice import MACHINE_ADVICE, Facts, say
from pgtrial.language import N_, tr
from pgtrial.units import format_bytes, format_count, format_percent

# What a wait event means and what to do about it, in a sentence or two; the names are those of PostgreSQL 15 to 18.


# Event names without case, "-" and "_", because they changed with the versions ("WALSync", "WalSync").
_EVENTS: Mapping[str, Mapping[str, str]] = {
    "IO": {
        "datafileread": N_(
            "Sessions wait for blocks that are not in shared_buffers. More shared_buffers or memory for "
            "the page cache, better indexes, or a device with a shorter response time help."
        ),
        "datafileextend": N_(
            "Tables are made longer. Bulk loads do that; else fillfactor and vacuum, which make room in "
            "the pages there are."
        ),
        "datafilewrite": N_(
            "Sessions write out dirty buffers themselves, because they find no clean one. A larger "
            "shared_buffers, or a background writer that does more (bgwriter_lru_maxpages), takes that from them."
        ),
        "datafileprefetch": N_(
            "Sessions wait while they ask for blocks ahead of time; effective_io_concurrency says how many."
        ),
        "walsync": N_(
            "Commits wait until the device has the WAL safe. More sessions at once share a flush, commit_delay, "
            "a device with a fast flush, or synchronous_commit = off where the last moments may be lost, help."
        ),
        "walwrite": N_(
            "The WAL is being written. Less of it (fewer full-page writes, wal_compression) or a faster device "
            "for it helps."
        ),
        "walinitwrite": N_("New WAL files are being filled. A larger min_wal_size keeps old ones for use again."),
        "walinitsync": N_("New WAL files are being filled. A larger min_wal_size keeps old ones for use again."),
        "buffileread": N_("Sorts or hashes read back what they put into temporary files; see work_mem."),
        "buffilewrite": N_("Sorts or hashes do not fit into work_mem and go to temporary files."),
        "slruread": N_("Status of old transactions is read from disk; see the SLRU counters."),
        "aioiocompletion": N_(
            "Sessions wait for reads that they have started. The device's response time and "
            "io_workers or io_method decide."
        ),
    },
    "Lock": {
        "transactionid": N_(
            "Transactions change the same rows and wait for each other to end. Shorter transactions, the "
            "same order of changes everywhere, SKIP LOCKED for queues."
        ),
        "tuple": N_(
            "Several transactions wait for the same row. Shorter transactions, or changes that are spread over "
            "more rows."
        ),
        "relation": N_("Whole tables are locked: DDL, LOCK TABLE or TRUNCATE beside the load. lock_timeout for those."),
        "extend": N_(
            "Sessions wait to make the same table longer. Newer versions do it in larger steps; partitions spread it."
        ),
        "advisory": N_("The application's own advisory locks."),
        "virtualxid": N_("Something waits for older snapshots to go, as CREATE INDEX CONCURRENTLY does."),
    },
    "LWLock": {
        "walwrite": N_(
            "Commits queue for writing the WAL: the flush of the device sets the pace. See the waits for WAL I/O."
        ),
        "walinsert": N_("Many sessions write WAL at once. Less of it per transaction, or fewer sessions."),
        "buffermapping": N_("Blocks come and go in shared_buffers all the time. A larger shared_buffers calms it."),
        "buffercontent": N_("Many sessions use the same few pages: a hot row, a sequence-like index end. Spread them."),
        "lockmanager": N_(
            "Transactions lock more objects than the fast path holds (many partitions or indexes). Fewer "
            "of them per statement, prepared statements, fewer sessions."
        ),
        "procarray": N_("Snapshots and ends of transactions of many sessions. A connection pool with fewer of them."),
        "subtransslru": N_(
            "Subtransactions beyond 64 in a transaction. Fewer SAVEPOINTs and PL/pgSQL EXCEPTION blocks."
        ),
        "subtransbuffer": N_(
            "Subtransactions beyond 64 in a transaction. Fewer SAVEPOINTs and PL/pgSQL EXCEPTION blocks."
        ),
        "multixactoffsetslru": N_("Rows that several transactions lock at once (foreign keys, FOR SHARE)."),
        "multixactmemberslru": N_("Rows that several transactions lock at once (foreign keys, FOR SHARE)."),
        "xactslru": N_("The status of many different transactions is looked up."),
    },
    "IPC": {
        "syncrep": N_("Commits wait for a synchronous standby: its disk and the network to it, or synchronous_commit."),
        "bgworkershutdown": N_("Parallel workers are started and ended for short queries; see parallel_setup_cost."),
        "parallelfinish": N_("Leaders wait for their parallel workers; see max_parallel_workers_per_gather."),
        "executegather": N_("Leaders wait for rows of their parallel workers; see max_parallel_workers_per_gather."),
        "procarraygroupupdate": N_("Very many transactions end at once; fewer sessions do them with less effort."),
        "xactgroupupdate": N_("Very many transactions end at once; fewer sessions do them with less effort."),
    },
    "Timeout": {
        "pgsleep": N_("The statements call pg_sleep themselves."),
        "vacuumdelay": N_("Vacuum pauses as vacuum_cost_delay tells it to; for sessions of the load this is a VACUUM."),
        "spindelay": N_("Sessions spin for a very short lock and give up for a moment: too many of them at one place."),
        "vacuumtruncate": N_("Vacuum waits for a lock to cut off the end of a table."),
    },
    "BufferPin": {},
    "Extension": {},
}

_TYPES: Mapping[str, str] = {
    "IO": N_("Sessions wait for reads or writes."),
    "Lock": N_(
        "Sessions wait for a lock that another one holds until its transaction ends; find the holder in "
        "pg_blocking_pids()."
    ),
    "LWLock": N_(
        "Sessions wait for each other inside the server, for a structure in shared memory. Fewer active sessions "
        "often bring more throughput."
    ),
    "IPC": N_("Sessions wait for another process of the server."),
    "Timeout": N_(
        "Sessions sleep for a time of their own making. This has nothing to do with statement_timeout or lock_timeout."
    ),
    "BufferPin": N_("Something needs a page for itself while others look at it, mostly VACUUM and an open cursor."),
    "Extension": N_("The wait is inside an extension, so its documentation says what it means."),
}


def explain_event(wait_type: str, event: str) -> str:
    """What is known of an event, or else of its type; "" of an unknown type."""
    known = _EVENTS.get(wait_type, {})
    text = known.get(event.lower().replace("-", "").replace("_", ""), _TYPES.get(wait_type, ""))
    return tr(text) if text else ""


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
