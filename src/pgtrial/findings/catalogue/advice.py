"""Advice for checks that are not ok: what was seen beside them, then what follows from that.

A check alone says that something is large, not that it limits the load; so each text names the evidence that would.
"""

from pgtrial.findings.catalogue.base import Entry
from pgtrial.language import N_

# --- What was seen beside a check -----------------------------------------------------------------------------------

SEEN = {
    "seen.cpu-time": Entry(
        text=N_("On average {user:percent} of the CPUs' time is user time and {kernel:percent} the kernel's.")
    ),
    "seen.load-generator": Entry(
        text=N_(
            "The load generator itself uses {cpus:count} CPUs; on a machine of its own it would leave them to the "
            "server."
        )
    ),
    "seen.beside": Entry(text=N_("Beside it are {seen:and}.")),
    "seen.context-switches": Entry(text=N_("{number:per_second} context switches per second")),
    "seen.page-faults": Entry(text=N_("{number:per_second} page faults from disk per second")),
    "seen.waits-for": Entry(text=N_("Sessions wait mostly for {events:and}.")),
    "seen.blocked-tasks": Entry(
        text=N_("On average {tasks:count} tasks cannot run before something is done for them, mostly by a device.")
    ),
    "seen.blocked-by-device": Entry(text=N_("Mostly they wait for a device.")),
    "seen.write-takes": Entry(text=N_("A write to {device} takes {time:duration}.")),
    "seen.available-memory": Entry(text=N_("On average {bytes:bytes} can be had without swapping.")),
    "seen.in-swap": Entry(text=N_("{bytes:bytes} lie in swap on average.")),
    "seen.memory-pressure": Entry(text=N_("Tasks waited for memory in {share:percent} of the time.")),
    "seen.refaults": Entry(text=N_("{pages:per_second} pages per second came back that had just been thrown out.")),
    "seen.scanned-pages": Entry(
        text=N_("Tasks that wanted memory looked through {pages:per_second} pages per second for it.")
    ),
    "seen.dirty-pages": Entry(text=N_("On average {bytes:bytes} of dirty pages are in memory.")),
    "seen.dirty-limit": Entry(
        text=N_("On average {dirty:bytes} wait to be written, of {limit:bytes} at which writers stop.")
    ),
    "seen.device": Entry(
        text=N_("{device} does {requests:per_second} requests and {bytes:bytes_per_second} per second.")
    ),
    "seen.device-times": Entry(
        text=N_(
            "{device} does {requests:per_second} requests and {bytes:bytes_per_second} per second, with {times:and}."
        )
    ),
    "seen.read-time": Entry(text=N_("{time:duration} for a read")),
    "seen.write-time": Entry(text=N_("{time:duration} for a write")),
    "seen.readers": Entry(text=N_("On average {sessions:count} sessions wait for a read.")),
    "seen.blocks-read": Entry(text=N_("{blocks:per_second} blocks per second are read into shared_buffers.")),
    "seen.wal": Entry(
        text=N_("{bytes:bytes_per_second} of WAL per second fill max_wal_size before checkpoint_timeout.")
    ),
    "seen.temporary-files": Entry(text=N_("On average {sessions:count} sessions wait for them.")),
    "seen.first-entry": Entry(text=N_("The first: {entry}")),
    "seen.waiting": Entry(text=N_("{sessions:count} sessions wait for it on average.")),
    "seen.waiting-for-event": Entry(
        text=N_("{sessions:count} sessions wait for it on average, {share:percent} of them for {event}.")
    ),
}

# --- What follows ---------------------------------------------------------------------------------------------------

ADVICE = {
    "advice.cpu-busy": Entry(
        text=N_("Throughput grows with less work per transaction (see the statements with the most time) or more CPUs.")
    ),
    "advice.cpu-busy.kernel": Entry(text=N_("Most of it is spent in the kernel: see the check of that.")),
    "advice.run-queue": Entry(
        text=N_(
            "On average {tasks:count} tasks run or want to, on {cpus:count} CPUs. What is beyond the number of CPUs "
            "waits: more clients then add latency, not throughput. A connection pool limits them."
        )
    ),
    "advice.kernel-time": Entry(
        text=N_(
            "Many switches speak for sessions that wake each other (locks, LWLocks, a client that answers at once), "
            "much reading through the page cache for a larger shared_buffers, large shared_buffers for huge pages."
        )
    ),
    "advice.io-wait": Entry(
        text=N_(
            "This is idle time: CPUs that had nothing else to do. It shrinks as soon as the CPUs are busy, so it "
            "measures no disk; the devices' response times do."
        )
    ),
    "advice.blocked": Entry(
        text=N_("See the devices' response times, and whether the kernel slows down writers (dirty pages).")
    ),
    "advice.trend": Entry(
        text=N_(
            "It keeps changing while the load stays the same, so the time measured is no steady state: the tables "
            "grow, dirty pages or bloat build up, a cache fills. A longer warm-up or duration shows where it ends."
        )
    ),
    "advice.available-memory": Entry(
        text=N_(
            "The page cache is counted as available, so this is memory that programs hold. Less shared_buffers, "
            "work_mem or sessions, or huge pages, which save page tables when there are many sessions."
        )
    ),
    "advice.swap-in": Entry(text=N_("Somebody waits for each page that comes back from there.")),
    "advice.swap-out": Entry(
        text=N_("The kernel makes room by it for programs or for the page cache; which, vm.swappiness decides.")
    ),
    "advice.swapping": Entry(
        text=N_("It is harmless where it stays rare; if not, something needs less memory, or there has to be more.")
    ),
    "advice.memory-pressure": Entry(
        text=N_(
            "What is worked on does not fit into memory: smaller shared_buffers or work_mem, fewer sessions, more of "
            "it."
        )
    ),
    "advice.direct-reclaim": Entry(
        text=N_(
            "The kernel's own thread frees too little ahead of time; a larger vm.min_free_kbytes or "
            "vm.watermark_scale_factor lets it begin earlier, and memory that nobody has to free helps most."
        )
    ),
    "advice.reclaim-writing": Entry(
        text=N_(
            "Memory is short, and what could be freed has to be written first: tasks that want memory sleep until the "
            "device has done that. A lower vm.dirty_background_bytes has pages written before; less memory in use, or "
            "more of it, ends it."
        )
    ),
    "advice.dirty-pages": Entry(
        text=N_(
            "Data come faster than the device takes them. checkpoint_flush_after, backend_flush_after and a lower "
            "vm.dirty_background_bytes make the kernel begin earlier; a faster device or fewer writes end it."
        )
    ),
    "advice.background-writing": Entry(
        text=N_(
            "The kernel writes in the background, as it should. That alone is no problem: it is one when writers are "
            "slowed down or the device's response time rises."
        )
    ),
    "advice.device-busy": Entry(
        text=N_(
            "Busy means that at least one request was at work. A single disk is full at 100 %; an NVMe device, an "
            "array or a network volume, which serves many at once, may be far from it: look for a plateau of requests "
            "or bytes."
        )
    ),
    "advice.read-response": Entry(
        text=N_(
            "Fewer reads (shared_buffers, page cache, indexes) or a faster device; read-ahead makes single reads "
            "longer."
        )
    ),
    "advice.write-response.commits": Entry(
        text=N_(
            "On average {sessions:count} sessions wait for the WAL to be safe there. Put the WAL on a device of its "
            "own, or look at what else writes at these times (checkpoints)."
        )
    ),
    "advice.write-response.background": Entry(
        text=N_(
            "Nobody waits for a commit there, so the writes are in the background; they matter if they slow down reads."
        )
    ),
    "advice.device-queue": Entry(
        text=N_(
            "More than one at a time is normal where several sessions or a checkpoint use the device; it is too much "
            "when the response time grows with it and the number of requests per second does not."
        )
    ),
    "advice.hit-ratio": Entry(
        text=N_(
            "A larger shared_buffers helps if what is used often would fit; reading large tables once in a while makes "
            "a low ratio that no cache mends."
        )
    ),
    "advice.hit-ratio.page-cache": Entry(
        text=N_(
            "The devices see only {reads:per_second} reads per second, so the page cache has them: a larger "
            "shared_buffers saves CPU time, not disk reads."
        )
    ),
    "advice.backend-writes": Entry(
        text=N_(
            "Sessions write out buffers themselves before they can use them. Bulk loads, VACUUM and growing tables do "
            "that by design; for others a larger shared_buffers or a background writer that does more "
            "(bgwriter_lru_maxpages, bgwriter_delay) takes it from them."
        )
    ),
    "advice.requested-checkpoints": Entry(
        text=N_(
            "Each checkpoint makes the next change of every page write it in full, so more checkpoints make more WAL. "
            "A larger max_wal_size spaces them out; recovery after a crash then takes longer."
        )
    ),
    "advice.autovacuum-workers": Entry(
        text=N_(
            "All workers are busy, so tables wait for their turn. More speed for each (autovacuum_vacuum_cost_limit, "
            "which all workers share, or a lower cost_delay) usually does more than more workers."
        )
    ),
    "advice.temporary-files": Entry(
        text=N_(
            "Sorts, hashes or CTEs do not fit into work_mem (times hash_mem_multiplier). The statements that write "
            "them are in the log (log_temp_files); a larger work_mem for those alone costs less memory than one for "
            "all."
        )
    ),
    "advice.deadlocks": Entry(
        text=N_(
            "Each ends a transaction after deadlock_timeout of waiting. Take locks in the same order everywhere; the "
            "log names both statements."
        )
    ),
    "advice.log-errors": Entry(text=N_("A transaction that fails has done other work than one that counts.")),
}

# --- What a wait event means, and what to do about it ---------------------------------------------------------------

_NEW_WAL_FILES = N_("New WAL files are being filled. A larger min_wal_size keeps old ones for use again.")
_SUBTRANSACTIONS = N_("Subtransactions beyond 64 in a transaction. Fewer SAVEPOINTs and PL/pgSQL EXCEPTION blocks.")
_SHARED_ROW_LOCKS = N_("Rows that several transactions lock at once (foreign keys, FOR SHARE).")
_MANY_ENDS = N_("Very many transactions end at once; fewer sessions do them with less effort.")

# By type and event; the names are those of PostgreSQL 15 to 18, without case, "-" and "_", because these changed with
# the versions ("WALSync", "WalSync"). That of a type alone is for events that are not here.
WAIT_EVENTS = {
    "wait-event.io": Entry(text=N_("Sessions wait for reads or writes.")),
    "wait-event.io.datafileread": Entry(
        text=N_(
            "Sessions wait for blocks that are not in shared_buffers. More shared_buffers or memory for the page "
            "cache, better indexes, or a device with a shorter response time help."
        )
    ),
    "wait-event.io.datafileextend": Entry(
        text=N_(
            "Tables are made longer. Bulk loads do that; else fillfactor and vacuum, which make room in the pages "
            "there are."
        )
    ),
    "wait-event.io.datafilewrite": Entry(
        text=N_(
            "Sessions write out dirty buffers themselves, because they find no clean one. A larger shared_buffers, or "
            "a background writer that does more (bgwriter_lru_maxpages), takes that from them."
        )
    ),
    "wait-event.io.datafileprefetch": Entry(
        text=N_("Sessions wait while they ask for blocks ahead of time; effective_io_concurrency says how many.")
    ),
    "wait-event.io.walsync": Entry(
        text=N_(
            "Commits wait until the device has the WAL safe. More sessions at once share a flush, commit_delay, a "
            "device with a fast flush, or synchronous_commit = off where the last moments may be lost, help."
        )
    ),
    "wait-event.io.walwrite": Entry(
        text=N_(
            "The WAL is being written. Less of it (fewer full-page writes, wal_compression) or a faster device for it "
            "helps."
        )
    ),
    "wait-event.io.walinitwrite": Entry(text=_NEW_WAL_FILES),
    "wait-event.io.walinitsync": Entry(text=_NEW_WAL_FILES),
    "wait-event.io.buffileread": Entry(
        text=N_("Sorts or hashes read back what they put into temporary files; see work_mem.")
    ),
    "wait-event.io.buffilewrite": Entry(text=N_("Sorts or hashes do not fit into work_mem and go to temporary files.")),
    "wait-event.io.slruread": Entry(text=N_("Status of old transactions is read from disk; see the SLRU counters.")),
    "wait-event.io.aioiocompletion": Entry(
        text=N_(
            "Sessions wait for reads that they have started. The device's response time and io_workers or io_method "
            "decide."
        )
    ),
    "wait-event.lock": Entry(
        text=N_(
            "Sessions wait for a lock that another one holds until its transaction ends; find the holder in "
            "pg_blocking_pids()."
        )
    ),
    "wait-event.lock.transactionid": Entry(
        text=N_(
            "Transactions change the same rows and wait for each other to end. Shorter transactions, the same order of "
            "changes everywhere, SKIP LOCKED for queues."
        )
    ),
    "wait-event.lock.tuple": Entry(
        text=N_(
            "Several transactions wait for the same row. Shorter transactions, or changes that are spread over more "
            "rows."
        )
    ),
    "wait-event.lock.relation": Entry(
        text=N_("Whole tables are locked: DDL, LOCK TABLE or TRUNCATE beside the load. lock_timeout for those.")
    ),
    "wait-event.lock.extend": Entry(
        text=N_(
            "Sessions wait to make the same table longer. Newer versions do it in larger steps; partitions spread it."
        )
    ),
    "wait-event.lock.advisory": Entry(text=N_("The application's own advisory locks.")),
    "wait-event.lock.virtualxid": Entry(
        text=N_("Something waits for older snapshots to go, as CREATE INDEX CONCURRENTLY does.")
    ),
    "wait-event.lwlock": Entry(
        text=N_(
            "Sessions wait for each other inside the server, for a structure in shared memory. Fewer active sessions "
            "often bring more throughput."
        )
    ),
    "wait-event.lwlock.walwrite": Entry(
        text=N_("Commits queue for writing the WAL: the flush of the device sets the pace. See the waits for WAL I/O.")
    ),
    "wait-event.lwlock.walinsert": Entry(
        text=N_("Many sessions write WAL at once. Less of it per transaction, or fewer sessions.")
    ),
    "wait-event.lwlock.buffermapping": Entry(
        text=N_("Blocks come and go in shared_buffers all the time. A larger shared_buffers calms it.")
    ),
    "wait-event.lwlock.buffercontent": Entry(
        text=N_("Many sessions use the same few pages: a hot row, a sequence-like index end. Spread them.")
    ),
    "wait-event.lwlock.lockmanager": Entry(
        text=N_(
            "Transactions lock more objects than the fast path holds (many partitions or indexes). Fewer of them per "
            "statement, prepared statements, fewer sessions."
        )
    ),
    "wait-event.lwlock.procarray": Entry(
        text=N_("Snapshots and ends of transactions of many sessions. A connection pool with fewer of them.")
    ),
    "wait-event.lwlock.subtransslru": Entry(text=_SUBTRANSACTIONS),
    "wait-event.lwlock.subtransbuffer": Entry(text=_SUBTRANSACTIONS),
    "wait-event.lwlock.multixactoffsetslru": Entry(text=_SHARED_ROW_LOCKS),
    "wait-event.lwlock.multixactmemberslru": Entry(text=_SHARED_ROW_LOCKS),
    "wait-event.lwlock.xactslru": Entry(text=N_("The status of many different transactions is looked up.")),
    "wait-event.ipc": Entry(text=N_("Sessions wait for another process of the server.")),
    "wait-event.ipc.syncrep": Entry(
        text=N_("Commits wait for a synchronous standby: its disk and the network to it, or synchronous_commit.")
    ),
    "wait-event.ipc.bgworkershutdown": Entry(
        text=N_("Parallel workers are started and ended for short queries; see parallel_setup_cost.")
    ),
    "wait-event.ipc.parallelfinish": Entry(
        text=N_("Leaders wait for their parallel workers; see max_parallel_workers_per_gather.")
    ),
    "wait-event.ipc.executegather": Entry(
        text=N_("Leaders wait for rows of their parallel workers; see max_parallel_workers_per_gather.")
    ),
    "wait-event.ipc.procarraygroupupdate": Entry(text=_MANY_ENDS),
    "wait-event.ipc.xactgroupupdate": Entry(text=_MANY_ENDS),
    "wait-event.timeout": Entry(
        text=N_(
            "Sessions sleep for a time of their own making. This has nothing to do with statement_timeout or "
            "lock_timeout."
        )
    ),
    "wait-event.timeout.pgsleep": Entry(text=N_("The statements call pg_sleep themselves.")),
    "wait-event.timeout.vacuumdelay": Entry(
        text=N_("Vacuum pauses as vacuum_cost_delay tells it to; for sessions of the load this is a VACUUM.")
    ),
    "wait-event.timeout.spindelay": Entry(
        text=N_("Sessions spin for a very short lock and give up for a moment: too many of them at one place.")
    ),
    "wait-event.timeout.vacuumtruncate": Entry(text=N_("Vacuum waits for a lock to cut off the end of a table.")),
    "wait-event.bufferpin": Entry(
        text=N_("Something needs a page for itself while others look at it, mostly VACUUM and an open cursor.")
    ),
    "wait-event.extension": Entry(text=N_("The wait is inside an extension, so its documentation says what it means.")),
}
