"""What a wait event means and what to do about it, in a sentence or two; the names are those of PostgreSQL 15 to 18."""

from collections.abc import Mapping

from pgtrial.language import mark, tr

# Event names without case, "-" and "_", because they changed with the versions ("WALSync", "WalSync").
_EVENTS: Mapping[str, Mapping[str, str]] = {
    "IO": {
        "datafileread": mark(
            "Sessions wait for blocks that are not in shared_buffers. More shared_buffers or memory for "
            "the page cache, better indexes, or a device with a shorter response time help."
        ),
        "datafileextend": mark(
            "Tables are made longer. Bulk loads do that; else fillfactor and vacuum, which make room in "
            "the pages there are."
        ),
        "datafilewrite": mark(
            "Sessions write out dirty buffers themselves, because they find no clean one. A larger "
            "shared_buffers, or a background writer that does more (bgwriter_lru_maxpages), takes that from them."
        ),
        "datafileprefetch": mark(
            "Sessions wait while they ask for blocks ahead of time; effective_io_concurrency says how many."
        ),
        "walsync": mark(
            "Commits wait until the device has the WAL safe. More sessions at once share a flush, commit_delay, "
            "a device with a fast flush, or synchronous_commit = off where the last moments may be lost, help."
        ),
        "walwrite": mark(
            "The WAL is being written. Less of it (fewer full-page writes, wal_compression) or a faster device "
            "for it helps."
        ),
        "walinitwrite": mark("New WAL files are being filled. A larger min_wal_size keeps old ones for use again."),
        "walinitsync": mark("New WAL files are being filled. A larger min_wal_size keeps old ones for use again."),
        "buffileread": mark("Sorts or hashes read back what they put into temporary files; see work_mem."),
        "buffilewrite": mark("Sorts or hashes do not fit into work_mem and go to temporary files."),
        "slruread": mark("Status of old transactions is read from disk; see the SLRU counters."),
        "aioiocompletion": mark(
            "Sessions wait for reads that they have started. The device's response time and "
            "io_workers or io_method decide."
        ),
    },
    "Lock": {
        "transactionid": mark(
            "Transactions change the same rows and wait for each other to end. Shorter transactions, the "
            "same order of changes everywhere, SKIP LOCKED for queues."
        ),
        "tuple": mark(
            "Several transactions wait for the same row. Shorter transactions, or changes that are spread over "
            "more rows."
        ),
        "relation": mark(
            "Whole tables are locked: DDL, LOCK TABLE or TRUNCATE beside the load. lock_timeout for those."
        ),
        "extend": mark(
            "Sessions wait to make the same table longer. Newer versions do it in larger steps; partitions spread it."
        ),
        "advisory": mark("The application's own advisory locks."),
        "virtualxid": mark("Something waits for older snapshots to go, as CREATE INDEX CONCURRENTLY does."),
    },
    "LWLock": {
        "walwrite": mark(
            "Commits queue for writing the WAL: the flush of the device sets the pace. See the waits for WAL I/O."
        ),
        "walinsert": mark("Many sessions write WAL at once. Less of it per transaction, or fewer sessions."),
        "buffermapping": mark("Blocks come and go in shared_buffers all the time. A larger shared_buffers calms it."),
        "buffercontent": mark(
            "Many sessions use the same few pages: a hot row, a sequence-like index end. Spread them."
        ),
        "lockmanager": mark(
            "Transactions lock more objects than the fast path holds (many partitions or indexes). Fewer "
            "of them per statement, prepared statements, fewer sessions."
        ),
        "procarray": mark("Snapshots and ends of transactions of many sessions. A connection pool with fewer of them."),
        "subtransslru": mark(
            "Subtransactions beyond 64 in a transaction. Fewer SAVEPOINTs and PL/pgSQL EXCEPTION blocks."
        ),
        "subtransbuffer": mark(
            "Subtransactions beyond 64 in a transaction. Fewer SAVEPOINTs and PL/pgSQL EXCEPTION blocks."
        ),
        "multixactoffsetslru": mark("Rows that several transactions lock at once (foreign keys, FOR SHARE)."),
        "multixactmemberslru": mark("Rows that several transactions lock at once (foreign keys, FOR SHARE)."),
        "xactslru": mark("The status of many different transactions is looked up."),
    },
    "IPC": {
        "syncrep": mark(
            "Commits wait for a synchronous standby: its disk and the network to it, or synchronous_commit."
        ),
        "bgworkershutdown": mark("Parallel workers are started and ended for short queries; see parallel_setup_cost."),
        "parallelfinish": mark("Leaders wait for their parallel workers; see max_parallel_workers_per_gather."),
        "executegather": mark("Leaders wait for rows of their parallel workers; see max_parallel_workers_per_gather."),
        "procarraygroupupdate": mark("Very many transactions end at once; fewer sessions do them with less effort."),
        "xactgroupupdate": mark("Very many transactions end at once; fewer sessions do them with less effort."),
    },
    "Timeout": {
        "pgsleep": mark("The statements call pg_sleep themselves."),
        "vacuumdelay": mark(
            "Vacuum pauses as vacuum_cost_delay tells it to; for sessions of the load this is a VACUUM."
        ),
        "spindelay": mark(
            "Sessions spin for a very short lock and give up for a moment: too many of them at one place."
        ),
        "vacuumtruncate": mark("Vacuum waits for a lock to cut off the end of a table."),
    },
    "BufferPin": {},
    "Extension": {},
}

_TYPES: Mapping[str, str] = {
    "IO": mark("Sessions wait for reads or writes."),
    "Lock": mark(
        "Sessions wait for a lock that another one holds until its transaction ends; find the holder in "
        "pg_blocking_pids()."
    ),
    "LWLock": mark(
        "Sessions wait for each other inside the server, for a structure in shared memory. Fewer active sessions "
        "often bring more throughput."
    ),
    "IPC": mark("Sessions wait for another process of the server."),
    "Timeout": mark(
        "Sessions sleep for a time of their own making. This has nothing to do with statement_timeout or lock_timeout."
    ),
    "BufferPin": mark("Something needs a page for itself while others look at it, mostly VACUUM and an open cursor."),
    "Extension": mark("The wait is inside an extension, so its documentation says what it means."),
}


def explain_event(wait_type: str, event: str) -> str:
    """What is known of an event, or else of its type; "" of an unknown type."""
    known = _EVENTS.get(wait_type, {})
    text = known.get(event.lower().replace("-", "").replace("_", ""), _TYPES.get(wait_type, ""))
    return tr(text) if text else ""
